//! What a person reads at the terminal: per scenario a grid of limiters against checks and the
//! evidence below it, most urgent first; then what the figures stand on and how the run ended.

mod claims;
mod gate;
pub(super) mod grid;
mod matrix;
pub(super) mod page;
pub(super) mod paint;

use super::findings::{self, Entry, Kind};
use super::words;
use crate::model::report::{CellReport, Report, ScenarioSummary};
use crate::model::verdict::Verdict;
use crate::ports::format::{Format, Look};
use grid::Text;
use page::Page;
use paint::Tone;

pub struct Table;

impl Format for Table {
    fn name(&self) -> &'static str {
        "table"
    }

    fn file(&self) -> &'static str {
        "table.txt"
    }

    fn on_stdout(&self) -> bool {
        true
    }

    fn render(&self, report: &Report, look: Look) -> Result<String, String> {
        let mut page = Page { text: String::new(), look };
        if let Some(matrix) = &report.matrix {
            matrix::write(&mut page, matrix);
        }
        if let Some(claims) = &report.claims {
            claims::write(&mut page, claims);
        }
        if let Some(gate) = &report.gate {
            gate::write(&mut page, gate);
        }
        let summed = report.matrix.is_some() || report.claims.is_some() || report.gate.is_some();
        let sections = if summed { &[][..] } else { &report.scenarios };
        for scenario in sections {
            let cells: Vec<&CellReport> =
                report.cells.iter().filter(|c| c.scenario == scenario.name).collect();
            section(&mut page, scenario, &cells);
        }
        foot(&mut page, report);
        Ok(page.text)
    }
}

fn section(page: &mut Page, scenario: &ScenarioSummary, cells: &[&CellReport]) {
    if !page.text.is_empty() {
        page.push("");
    }
    page.line("", &scenario.title, Tone::Strong);
    page.line("  ", &scenario.shows, Tone::Dim);
    page.line("  plan: ", &scenario.plan, Tone::Plain);
    if let Some(requires) = &scenario.requires {
        page.line("  requires: ", requires, Tone::Plain);
    }
    page.line("  ", &words::terms(scenario), Tone::Plain);
    page.push("");
    if cells.is_empty() {
        return page.line("  ", "no limiter was run", Tone::Unsure);
    }
    let labels = words::labels(cells);
    let grid = grid::render(&rows(scenario, cells, &labels), page.look);
    page.text.push_str(&grid);
    let crashes = words::crashes(cells, &labels);
    if !crashes.is_empty() {
        let head = words::CRASH_HEADS.map(|h| Text::new(h, Tone::Strong)).to_vec();
        let tone = |row: &[String; 5]| if row[4] == "yes" { Tone::Plain } else { Tone::Bad };
        let rows = crashes.iter().map(|row| row.iter().map(|t| Text::new(t, tone(row))).collect());
        page.push("");
        page.text.push_str(&grid::render(&[head].into_iter().chain(rows).collect::<Vec<_>>(), page.look));
    }
    let phases = words::phases(cells, &labels);
    if !phases.is_empty() {
        let head = words::PHASE_HEADS.map(|h| Text::new(h, Tone::Strong)).to_vec();
        let rows = phases.iter().map(|row| row.iter().map(|t| Text::new(t, Tone::Plain)).collect());
        page.push("");
        page.text.push_str(&grid::render(&[head].into_iter().chain(rows).collect::<Vec<_>>(), page.look));
    }
    told(page, cells, &labels);
    evidence(page, cells, &labels);
}

fn rows(scenario: &ScenarioSummary, cells: &[&CellReport], labels: &[String]) -> Vec<Vec<Text>> {
    let checks = words::checks(cells);
    let figures = scenario.figures.iter().map(|f| f.head());
    let counted = words::counts_calls(cells);
    let admitted = counted.then(|| words::admitted_head(cells));
    let heads = ["limiter"].into_iter().chain(admitted).chain(figures);
    let heads = heads.chain(counted.then_some("limit")).chain(checks.iter().copied());
    let mut rows = vec![heads.map(|h| Text::new(h, Tone::Strong)).collect()];
    for (cell, label) in cells.iter().zip(labels) {
        let limit = format!("{}{} {}", words::room(cell), words::at_once(cell), words::scope(cell));
        let measured = scenario.figures.iter().map(|f| words::figure(cell, *f));
        let admitted = counted.then(|| words::admitted(&cell.rounds));
        let figures = [label.clone()].into_iter().chain(admitted).chain(measured);
        let figures = figures.chain(counted.then(|| limit.trim().to_owned()));
        let mut row: Vec<Text> = figures.map(|text| Text::new(text, Tone::Plain)).collect();
        row.extend(checks.iter().map(|name| match words::check(cell, name) {
            Some(check) => Text::new(check.label(), Tone::of(Kind::of(check))),
            None => Text::new("", Tone::Plain),
        }));
        rows.push(row);
    }
    rows
}

fn evidence(page: &mut Page, cells: &[&CellReport], labels: &[String]) {
    for kind in Kind::ALL {
        if kind == Kind::Passed {
            trouble(page, cells, labels);
        }
        let entries = findings::of_kind(kind, cells, labels);
        if !entries.is_empty() {
            page.head(kind.title(), Tone::of(kind));
        }
        for entry in entries {
            if kind == Kind::Failed { in_full(page, &entry) } else { in_brief(page, &entry) }
        }
    }
}

/// Line by line, with the command that shows it again.
fn in_full(page: &mut Page, entry: &Entry<'_>) {
    let (limiters, checks) = (entry.limiters.join(", "), entry.checks.join(", "));
    page.line("  ", &format!("{limiters} · {checks}: {}", entry.check.label()), Tone::Strong);
    for line in words::because(entry.check).lines() {
        page.line("    ", line, Tone::Plain);
    }
    if let Some(replay) = &entry.check.replay {
        page.command("    replay: ", replay);
    }
}

/// The first line of the text.
fn in_brief(page: &mut Page, entry: &Entry<'_>) {
    let text = words::because(entry.check).lines().next().unwrap_or_default();
    let (limiters, checks) = (entry.limiters.join(", "), entry.checks.join(", "));
    page.hanging(&match entry.check.verdict {
        // The reason of a pass is what one reads; that it holds for many limiters is usual.
        Verdict::Pass => format!("{checks}: {text} — {limiters}"),
        _ => format!("{limiters} · {checks}: {text}"),
    });
}

/// What was broken and done: of cells that went through the same, once.
fn told(page: &mut Page, cells: &[&CellReport], labels: &[String]) {
    let told = words::told(cells, labels);
    if told.is_empty() {
        return;
    }
    page.head("What was broken and done", Tone::Plain);
    for line in told {
        page.hanging(&line);
    }
}

fn trouble(page: &mut Page, cells: &[&CellReport], labels: &[String]) {
    let all: Vec<(&String, String)> =
        labels.iter().zip(cells).filter_map(|(l, c)| Some((l, words::trouble(c)?))).collect();
    if all.is_empty() {
        return;
    }
    page.head("Calls without a decision", Tone::Unsure);
    for (label, text) in all {
        page.hanging(&format!("{label}: {text}"));
    }
}

fn foot(page: &mut Page, report: &Report) {
    if report.scenarios.is_empty() && report.gate.is_none() {
        page.line("", "no scenario was run", Tone::Unsure);
    }
    page.push("");
    for (name, text) in words::ground(report) {
        page.line(&format!("{name:<8} "), &text, Tone::Dim);
    }
    page.command("again    ", &words::shell(&report.command));
    if let Some(out) = &report.out {
        page.line("results  ", out, Tone::Plain);
    }
    if let Some(error) = &report.error {
        page.head(words::error_head(report), Tone::Bad);
        for line in error.lines() {
            page.line("  ", line, Tone::Bad);
        }
        page.push("");
    }
    let tone = match report.exit {
        0 => Tone::Good,
        4 => Tone::Unsure,
        _ => Tone::Bad,
    };
    page.line("verdict: ", &words::ending(report), tone);
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::model::figures::Figure;

    fn plain(text: &str) -> String {
        let mut out = String::new();
        for (i, part) in text.split('\u{1b}').enumerate() {
            out.push_str(if i == 0 { part } else { part.split_once('m').unwrap().1 });
        }
        out
    }

    fn many() -> Report {
        let mut report = sample::race();
        for (i, name) in ["denial-changes-nothing", "retry-after-honest", "recovers"].iter().enumerate() {
            for cell in &mut report.cells {
                let verdict = [Verdict::Unknown, Verdict::NotApplicable, Verdict::Fail][i];
                cell.checks.push(sample::check(name, verdict, None, "a reason of some length, with detail"));
            }
        }
        report.error = Some("the engine went away: /a/very/long/path/".to_owned() + &"x".repeat(150));
        report
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in [60, 80, 120] {
            for report in [sample::race(), sample::incident(), sample::stillborn(), many()] {
                for color in [false, true] {
                    let text = plain(&Table.render(&report, Look { color, width: Some(width) }).unwrap());
                    let widest = text.lines().max_by_key(|l| words::chars(l)).unwrap();
                    assert!(words::chars(widest) <= width, "wider than {width}: {widest}");
                }
            }
        }
    }

    #[test]
    fn without_colour_there_is_no_escape_and_with_it_the_same_text() {
        for report in [sample::race(), sample::incident(), sample::stillborn(), many()] {
            let look = |color| Look { color, width: Some(100) };
            let without = Table.render(&report, look(false)).unwrap();
            let with = Table.render(&report, look(true)).unwrap();
            assert!(!without.contains('\u{1b}'));
            assert!(with.contains('\u{1b}'));
            let trimmed = |t: &str| t.lines().map(|l| l.trim_end().to_owned()).collect::<Vec<_>>();
            assert_eq!(trimmed(&plain(&with)), trimmed(&without));
        }
    }

    #[test]
    fn an_expected_fail_is_brief_and_a_judged_one_names_its_replay() {
        let expected = Table.render(&sample::race(), Look::PLAIN).unwrap();
        assert!(expected.contains("FAIL (expected)") && !expected.contains("replay:"), "{expected}");
        assert!(expected.contains("as written") && expected.ends_with("verdict: PASS · exit 0\n"));
        let judged = Table.render(&sample::incident(), Look::PLAIN).unwrap();
        assert!(judged.contains("replay: rl-lab race --seed 42"), "{judged}");
        assert!(judged.contains("parameters changed"), "{judged}");
        assert!(judged.contains("1000 − 998 used"), "{judged}");
    }

    #[test]
    fn an_expectation_that_did_not_show_is_listed_as_failed() {
        let cell = sample::judged(sample::cell("get-then-incr", &[10]), Some(Verdict::Fail));
        let text = Table.render(&sample::report(vec![cell]), Look::PLAIN).unwrap();
        assert!(
            text.contains("get-then-incr · never-over-limit, meets-requirement: PASS (expected FAIL)"),
            "{text}"
        );
    }

    #[test]
    fn figures_stand_after_what_was_admitted_here_and_in_markdown() {
        let mut report = sample::race();
        report.scenarios[0].figures = vec![Figure::BytesPerIdentity];
        report.cells[0].figures.insert(Figure::BytesPerIdentity, 1_029_400.0);
        let text = Table.render(&report, Look::PLAIN).unwrap();
        let (head, row) = (text.lines().nth(6).unwrap(), text.lines().nth(8).unwrap());
        for (line, parts) in [
            (head, ["admitted per round", "bytes per identity", "  limit  "]),
            (row, ["get-then-incr", "1,029,400", "  10  "]),
        ] {
            let places: Vec<_> = parts.iter().map(|p| line.find(p)).collect();
            assert!(places.is_sorted() && places[0].is_some(), "{line}");
        }
        let text = super::super::markdown::Markdown.render(&report, Look::PLAIN).unwrap();
        assert!(text.contains("| limiter | admitted per round | bytes per identity | limit |"), "{text}");
        assert!(text.contains("| 200 200 198 200 200 | 1,029,400 | 10 |"), "{text}");
        assert!(text.contains("| 20 50 50 48 50 | – | 10 |"), "what is not told is not zero: {text}");
    }

    #[test]
    fn failed_and_unknown_calls_are_counted_with_their_errors() {
        let mut report = sample::race();
        report.cells[0].rounds[0].unknown = 7;
        report.cells[0].errors.insert("no answer: timed out".to_owned(), 7);
        let text = Table.render(&report, Look::PLAIN).unwrap();
        assert!(text.contains("get-then-incr: 7 unknown, 7 × no answer: timed out"), "{text}");
    }
}
