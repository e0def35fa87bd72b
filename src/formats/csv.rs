//! Long and tidy, for spreadsheets and pandas: one row per round, the cell repeated in each, one
//! column per figure that is shown and one per check with the bare verdict (each empty where the
//! cell does not have it).
//!
//! A cell that never ran keeps one row with empty counts, so that its verdicts are not lost.
//! pandas reads the verdict `n/a` as missing unless told `keep_default_na=False`.

use super::words;
use crate::model::figures::Figure;
use crate::model::report::{CellReport, Report, RoundCounts};
use crate::ports::format::{Format, Look};

const COLUMNS: [&str; 15] = [
    "scenario",
    "limiter",
    "variation",
    "policy",
    "client",
    "backend",
    "server",
    "limit",
    "round",
    "offered",
    "admitted",
    "denied",
    "failed",
    "unknown",
    "preset",
];

/// Of a round that is about a crash; at the end, where there is any.
const CRASH_COLUMNS: [&str; 3] = ["died", "left", "released"];

pub struct Csv;

impl Format for Csv {
    fn name(&self) -> &'static str {
        "csv"
    }

    fn file(&self) -> &'static str {
        "rounds.csv"
    }

    fn on_stdout(&self) -> bool {
        true
    }

    fn render(&self, report: &Report, _: Look) -> Result<String, String> {
        let cells: Vec<&CellReport> = report.cells.iter().collect();
        let checks = words::checks(&cells);
        let figures = figures(report);
        let crashes = cells.iter().flat_map(|c| &c.rounds).any(|r| r.crash.is_some());
        let heads = COLUMNS.into_iter().chain(figures.iter().map(|f| f.name())).chain(checks.iter().copied());
        let heads = heads.chain(CRASH_COLUMNS.into_iter().filter(|_| crashes));
        let mut text = line(heads.map(str::to_owned));
        for cell in cells {
            let verdicts: Vec<String> = checks.iter().map(|name| verdict(cell, name)).collect();
            let measured: Vec<String> = figures.iter().map(|f| figure(report, cell, *f)).collect();
            for (counts, crash) in rounds(cell) {
                let figures = measured.iter().cloned();
                text.push_str(&line(
                    identity(cell)
                        .into_iter()
                        .chain(counts)
                        .chain(figures)
                        .chain(verdicts.clone())
                        .chain(crash.into_iter().filter(|_| crashes)),
                ));
            }
        }
        Ok(text)
    }
}

/// The figures that some scenario shows, in order of first appearance.
fn figures(report: &Report) -> Vec<Figure> {
    let mut shown: Vec<Figure> = Vec::new();
    for figure in report.scenarios.iter().flat_map(|s| &s.figures) {
        if !shown.contains(figure) {
            shown.push(*figure);
        }
    }
    shown
}

/// The bare number, where the cell's own scenario shows it.
fn figure(report: &Report, cell: &CellReport, figure: Figure) -> String {
    let shown = report.scenarios.iter().any(|s| s.name == cell.scenario && s.figures.contains(&figure));
    cell.figures.get(&figure).filter(|_| shown).map(ToString::to_string).unwrap_or_default()
}

fn identity(cell: &CellReport) -> [String; 8] {
    [
        cell.scenario.clone(),
        cell.limiter.clone(),
        cell.variation.clone().unwrap_or_default(),
        cell.policy.clone().unwrap_or_default(),
        cell.client.clone(),
        cell.backend.clone(),
        words::server_of(cell),
        cell.limit.to_string(),
    ]
}

/// Rounds count from 1, as people do.
fn rounds(cell: &CellReport) -> Vec<([String; 7], [String; 3])> {
    if cell.rounds.is_empty() {
        return vec![Default::default()];
    }
    (1..).zip(&cell.rounds).map(|(n, round)| counts(n, round)).collect()
}

fn counts(number: u64, r: &RoundCounts) -> ([String; 7], [String; 3]) {
    let counts = [number, r.offered, r.admitted, r.denied, r.failed, r.unknown, r.preset];
    let crash = r.crash.as_ref();
    let died = crash.map(|c| c.died.clone()).unwrap_or_default();
    let left = crash.map(|c| c.left.clone()).unwrap_or_default();
    let released = crash.map(|c| c.released.to_string()).unwrap_or_default();
    (counts.map(|n| n.to_string()), [died, left, released])
}

fn verdict(cell: &CellReport, check: &str) -> String {
    words::check(cell, check).map(|c| c.verdict.name().to_owned()).unwrap_or_default()
}

/// RFC 4180 quoting, but lines end in LF: every reader takes that, and `cut` and `awk` take only
/// that.
fn line(fields: impl Iterator<Item = String>) -> String {
    let mut line = fields.map(|f| quoted(&f)).collect::<Vec<_>>().join(",");
    line.push('\n');
    line
}

fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    /// A reader by the grammar of RFC 4180, so that the writer is not tested with itself.
    fn read(text: &str) -> Vec<Vec<String>> {
        let (mut rows, mut row, mut field) = (Vec::new(), Vec::new(), String::new());
        let (mut inside, mut chars) = (false, text.chars().peekable());
        while let Some(c) = chars.next() {
            match (inside, c) {
                (true, '"') if chars.peek() == Some(&'"') => field.extend(chars.next()),
                (_, '"') => inside = !inside,
                (false, ',') => row.push(std::mem::take(&mut field)),
                (false, '\n') => {
                    row.push(std::mem::take(&mut field));
                    rows.push(std::mem::take(&mut row));
                }
                _ => field.push(c),
            }
        }
        rows
    }

    #[test]
    fn quotes_commas_and_line_breaks_survive_a_round_trip() {
        let mut report = sample::race();
        let nasty = "a,\"b\"\r\nc";
        report.cells[0].limiter = nasty.to_owned();
        let rows = read(&Csv.render(&report, Look::PLAIN).unwrap());
        assert_eq!(rows[1][1], nasty);
        assert!(rows.iter().all(|r| r.len() == rows[0].len()), "ragged rows");
    }

    #[test]
    fn a_variation_and_a_figure_that_is_shown_have_columns_of_their_own() {
        let mut report = sample::race();
        report.scenarios[0].figures = vec![Figure::BytesPerIdentity, Figure::P50Ms];
        report.cells[1].variation = Some("far away".to_owned());
        report.cells[1].figures.insert(Figure::BytesPerIdentity, 1_029_400.0);
        report.cells[1].figures.insert(Figure::MaxMs, 7.0);
        let rows = read(&Csv.render(&report, Look::PLAIN).unwrap());
        assert_eq!(rows[0][15..18], ["bytes-per-identity", "p50-ms", "never-over-limit"]);
        let row = rows.iter().find(|r| r[2] == "far away").unwrap();
        assert_eq!(row[15..18], ["1029400", "", "fail"]);
    }

    #[test]
    fn every_round_has_a_row_and_a_cell_without_the_check_an_empty_field() {
        let mut report = sample::race();
        report.cells.push(sample::cell("in-memory", &[]));
        report.cells[0].checks.truncate(1);
        let rows = read(&Csv.render(&report, Look::PLAIN).unwrap());
        let expected: usize = report.cells.iter().map(|c| c.rounds.len().max(1)).sum();
        assert_eq!(rows.len(), 1 + expected);
        assert_eq!(rows[0][15..], ["never-over-limit", "meets-requirement", "every-key-expires"]);
        assert_eq!(rows[1][8..18], ["1", "200", "200", "0", "0", "0", "0", "fail", "", ""]);
    }
}
