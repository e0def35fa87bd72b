//! What a person reads at the terminal: per scenario a grid of limiters against checks and the
//! evidence below it, most urgent first; then what the figures stand on and how the run ended.

use super::findings::{self, Entry, Kind};
use super::grid::{self, Text};
use super::paint::Tone;
use super::words::{self, fold};
use crate::model::report::{CellReport, Report, ScenarioSummary};
use crate::model::verdict::Verdict;
use crate::ports::format::{Format, Look};

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
        for scenario in &report.scenarios {
            let cells: Vec<&CellReport> =
                report.cells.iter().filter(|c| c.scenario == scenario.name).collect();
            section(&mut page, scenario, &cells);
        }
        foot(&mut page, report);
        Ok(page.text)
    }
}

/// A text that grows by lines, none wider than the look allows.
struct Page {
    text: String,
    look: Look,
}

impl Page {
    /// Folds `text` after `lead`; the lines after the first are indented as deep as `lead` is long.
    fn line(&mut self, lead: &str, text: &str, tone: Tone) {
        let indent = words::chars(lead);
        for (i, part) in self.fold(text, indent).iter().enumerate() {
            let lead = if i == 0 { lead.to_owned() } else { " ".repeat(indent) };
            self.push(&format!("{}{}", lead, tone.paint(part, self.look.color)));
        }
    }

    /// An item of a list: indented by two, its further lines by four.
    fn hanging(&mut self, text: &str) {
        for (i, part) in self.fold(text, 4).iter().enumerate() {
            self.push(&format!("{}{part}", if i == 0 { "  " } else { "    " }));
        }
    }

    /// A command, folded so that it can still be pasted: a backslash ends each line but the last.
    fn command(&mut self, lead: &str, command: &str) {
        let indent = words::chars(lead);
        let room = self.look.width.map_or(usize::MAX, |w| w.saturating_sub(indent + 2).max(8));
        let lines = pasteable(command, room);
        for (i, part) in lines.iter().enumerate() {
            let lead = if i == 0 { lead.to_owned() } else { " ".repeat(indent) };
            let more = if i + 1 < lines.len() { " \\" } else { "" };
            self.push(&format!("{lead}{part}{more}"));
        }
    }

    fn head(&mut self, text: &str, tone: Tone) {
        self.push("");
        self.line("", text, tone);
    }

    fn fold(&self, text: &str, indent: usize) -> Vec<String> {
        let room = self.look.width.map_or(usize::MAX, |w| w.saturating_sub(indent).max(8));
        fold(&words::clean(text), room, &[' '])
    }

    fn push(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }
}

/// Folds a shell command at the spaces outside quotes. A single word is never cut: a line too
/// long is better than a command that is another one.
fn pasteable(command: &str, width: usize) -> Vec<String> {
    let (mut quote, mut words) = (None, vec![String::new()]);
    for c in words::printable(command).chars() {
        quote = match quote {
            None if c == '\'' || c == '"' => Some(c),
            Some(open) if open == c => None,
            other => other,
        };
        let last = words.len() - 1;
        if c == ' ' && quote.is_none() { words.push(String::new()) } else { words[last].push(c) }
    }
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if words::chars(line) + 1 + words::chars(&word) <= width => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
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
    page.line("  ", words::terms(scenario), Tone::Plain);
    page.push("");
    if cells.is_empty() {
        return page.line("  ", "no limiter was run", Tone::Unsure);
    }
    let labels = words::labels(cells);
    let grid = grid::render(&rows(cells, &labels), page.look);
    page.text.push_str(&grid);
    evidence(page, cells, &labels);
}

fn rows(cells: &[&CellReport], labels: &[String]) -> Vec<Vec<Text>> {
    let checks = words::checks(cells);
    let heads = ["limiter", words::admitted_head(cells), "limit"];
    let heads = heads.iter().chain(&checks);
    let mut rows = vec![heads.map(|h| Text::new(*h, Tone::Strong)).collect()];
    for (cell, label) in cells.iter().zip(labels) {
        let limit = format!("{} {}", words::room(cell), words::scope(cell));
        let figures = [label.clone(), words::admitted(&cell.rounds), limit.trim().to_owned()];
        let mut row: Vec<Text> = figures.map(|text| Text::new(text, Tone::Plain)).into();
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
    if report.scenarios.is_empty() {
        page.line("", "no scenario was run", Tone::Unsure);
    }
    page.push("");
    for (name, text) in words::ground(report) {
        page.line(&format!("{name:<8} "), &text, Tone::Dim);
    }
    if let Some(out) = &report.out {
        page.line("results  ", out, Tone::Plain);
    }
    if let Some(error) = &report.error {
        page.head("The run ended before its end", Tone::Bad);
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
    fn failed_and_unknown_calls_are_counted_with_their_errors() {
        let mut report = sample::race();
        report.cells[0].rounds[0].unknown = 7;
        report.cells[0].errors.insert("no answer: timed out".to_owned(), 7);
        let text = Table.render(&report, Look::PLAIN).unwrap();
        assert!(text.contains("get-then-incr: 7 unknown, 7 × no answer: timed out"), "{text}");
    }

    #[test]
    fn a_folded_command_never_breaks_inside_quotes() {
        let lines = pasteable("rl-lab race --limiters 'a b  c' --rounds 5", 12);
        assert_eq!(lines, ["rl-lab race", "--limiters", "'a b  c'", "--rounds 5"]);
    }
}
