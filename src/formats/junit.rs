//! `junit.xml`, as CI systems read it: a suite for each scenario, a case for each property of each limiter.
//!
//! A verdict that is unknown or does not apply is a skipped case with its reason, and so is a failure that is known:
//! JUnit has no other word for what is neither passed nor failed. What keeps a run from its end is an error.

use std::fmt::Write as _;

use super::findings::Kind;
use super::words;
use crate::model::gate::Counts;
use crate::model::report::{CellReport, Report};
use crate::model::verdict::Verdict;
use crate::ports::format::{Format, Look};

/// The most bytes of a text: readers have their limits, and a witness says it all in its first lines.
const MOST: usize = 1_000_000;
/// The most bytes of a witness, before each is escaped by up to six: the command behind it is what a reader needs
/// most, and is not what is cut off.
const WITNESS: usize = 150_000;

pub struct Junit;

impl Format for Junit {
    fn name(&self) -> &'static str {
        "junit"
    }

    fn file(&self) -> &'static str {
        "junit.xml"
    }

    fn on_stdout(&self) -> bool {
        false
    }

    fn render(&self, report: &Report, _: Look) -> Result<String, String> {
        let suites = suites(report);
        let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        let all: Vec<&Case> = suites.iter().flat_map(|s| &s.cases).collect();
        let _ = writeln!(text, "<testsuites name=\"rl-lab\"{}>", counts(all.into_iter()));
        for suite in &suites {
            let stamp = attribute(report.started.trim_end_matches('Z'));
            let stamp = if stamp.is_empty() { stamp } else { format!(" timestamp=\"{stamp}\"") };
            let name = attribute(&suite.name);
            let _ = writeln!(text, "  <testsuite name=\"{name}\"{}{stamp}>", counts(suite.cases.iter()));
            for case in &suite.cases {
                write_case(&mut text, &name, case);
            }
            text.push_str("  </testsuite>\n");
        }
        text.push_str("</testsuites>\n");
        Ok(text)
    }
}

struct Suite {
    name: String,
    cases: Vec<Case>,
}

struct Case {
    name: String,
    outcome: Outcome,
    text: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Outcome {
    Passed,
    Failed,
    Skipped,
    Error,
}

fn suites(report: &Report) -> Vec<Suite> {
    let mut suites: Vec<Suite> = Vec::new();
    let mut add = |suite: &str, case: Case| match suites.iter_mut().find(|s| s.name == suite) {
        Some(known) => known.cases.push(case),
        None => suites.push(Suite { name: suite.to_owned(), cases: vec![case] }),
    };
    if let Some(error) = &report.error {
        add(
            "rl-lab",
            Case { name: words::error_head(report).to_owned(), outcome: Outcome::Error, text: error.clone() },
        );
    }
    match &report.gate {
        Some(gate) => {
            for result in &gate.results {
                let outcome = match (result.counts, result.verdict) {
                    (Counts::Failed, _) => Outcome::Failed,
                    (Counts::Fine, Verdict::Pass) => Outcome::Passed,
                    _ => Outcome::Skipped,
                };
                let label =
                    if outcome == Outcome::Skipped { format!("{}: ", result.label()) } else { String::new() };
                let name = format!("{} × {}", result.property, result.limiter);
                add(
                    &result.scenario,
                    Case { name, outcome, text: told(&label, &result.because, result.replay.as_deref()) },
                );
            }
        }
        None => {
            for scenario in &report.scenarios {
                let cells: Vec<&CellReport> =
                    report.cells.iter().filter(|c| c.scenario == scenario.name).collect();
                let labels = words::labels(&cells);
                for (cell, label) in cells.iter().zip(&labels) {
                    for check in &cell.checks {
                        let outcome = match Kind::of(check) {
                            Kind::Failed => Outcome::Failed,
                            // A fail that a scenario is there to show is as it should be.
                            Kind::Passed | Kind::Shown => Outcome::Passed,
                            Kind::Unknown | Kind::NotApplicable => Outcome::Skipped,
                        };
                        let text = told(
                            &format!("{}: ", check.label()),
                            words::because(check),
                            check.replay.as_deref(),
                        );
                        add(
                            &scenario.name,
                            Case { name: format!("{} × {label}", check.check), outcome, text },
                        );
                    }
                }
            }
        }
    }
    suites
}

fn told(label: &str, because: &str, replay: Option<&str>) -> String {
    let replay = replay.map(|command| format!("\nreplay: {command}")).unwrap_or_default();
    let end = because.floor_char_boundary(WITNESS.min(because.len()));
    let cut = if end < because.len() { " …" } else { "" };
    format!("{label}{}{cut}{replay}", &because[..end])
}

fn counts<'a>(cases: impl Iterator<Item = &'a Case> + Clone) -> String {
    let count = |outcome: Outcome| cases.clone().filter(|c| c.outcome == outcome).count();
    format!(
        " tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\"",
        cases.clone().count(),
        count(Outcome::Failed),
        count(Outcome::Error),
        count(Outcome::Skipped)
    )
}

fn write_case(text: &mut String, suite: &str, case: &Case) {
    let name = attribute(&case.name);
    let _ = write!(text, "    <testcase classname=\"{suite}\" name=\"{name}\"");
    let first = attribute(case.text.lines().next().unwrap_or_default());
    let body = body(&case.text);
    let _ = match case.outcome {
        Outcome::Passed => writeln!(text, "/>"),
        Outcome::Skipped => writeln!(text, "><skipped message=\"{first}\"/></testcase>"),
        Outcome::Failed => {
            writeln!(text, "><failure type=\"fail\" message=\"{first}\">{body}</failure></testcase>")
        }
        Outcome::Error => {
            writeln!(text, "><error type=\"error\" message=\"{first}\">{body}</error></testcase>")
        }
    };
}

/// One line, escaped for an attribute, of so many bytes at most.
fn attribute(of: &str) -> String {
    let line = words::clean(of);
    limited(line.chars(), 1_000)
}

/// Escaped for the inside of an element: lines stay lines.
fn body(of: &str) -> String {
    limited(of.chars(), MOST)
}

/// Escaped, less what XML cannot hold, however it is written, and control characters; ends before it is longer.
fn limited(chars: impl Iterator<Item = char>, most: usize) -> String {
    let mut out = String::new();
    for c in chars {
        let escaped = match c {
            '&' => "&amp;",
            '<' => "&lt;",
            '>' => "&gt;",
            '"' => "&quot;",
            '\'' => "&apos;",
            '\n' | '\t' => " ",
            _ => "",
        };
        if out.len() + escaped.len().max(c.len_utf8()) > most {
            break;
        }
        match c {
            '\n' | '\t' => out.push(c),
            '\u{fffe}' | '\u{ffff}' => {}
            c if c.is_control() => {}
            c if escaped.is_empty() => out.push(c),
            _ => out.push_str(escaped),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::super::xml::well_formed;
    use super::*;

    fn render(report: &Report) -> String {
        let text = Junit.render(report, Look::PLAIN).unwrap();
        well_formed(&text);
        text
    }

    #[test]
    fn a_case_for_each_property_of_each_limiter_and_one_for_what_ended_the_run() {
        let mut report = sample::gate(&[
            ("bad", Verdict::Fail),
            ("good", Verdict::Pass),
            ("dark", Verdict::Unknown),
            ("out", Verdict::NotApplicable),
        ]);
        let text = render(&report);
        assert!(
            text.contains("<testsuite name=\"race\" tests=\"4\" failures=\"1\" errors=\"0\" skipped=\"2\""),
            "{text}"
        );
        assert!(
            text.contains("<testcase classname=\"race\" name=\"race · never-over-limit × good\"/>"),
            "{text}"
        );
        assert!(
            text.contains("20 where 10 may be\nreplay: rl-lab race --strict --limiters bad</failure>"),
            "{text}"
        );
        assert!(text.contains("<skipped message=\"unknown: a reason\"/>"), "{text}");
        assert!(text.contains("<skipped message=\"n/a: a reason\"/>"), "{text}");
        report.error = Some("the engine went away".to_owned());
        let text = render(&report);
        assert!(text.contains("errors=\"1\"") && text.contains(">the engine went away</error>"), "{text}");
    }

    #[test]
    fn any_text_leaves_it_well_formed_and_within_its_size() {
        let mut report = sample::gate(&[("a\"<&>'\u{1b}[31m\u{0}", Verdict::Fail)]);
        let nasty = "]]> <!-- & \u{ffff}\u{fffe}\u{7}\u{1b}[0m é";
        let result = &mut report.gate.as_mut().unwrap().results[0];
        result.because = nasty.repeat(100_000);
        let text = render(&report);
        assert!(text.len() < MOST && !text.contains('\u{1b}') && !text.contains('\u{ffff}'));
        assert!(text.contains(" …\nreplay: rl-lab race"), "the command is cut off");
    }

    #[test]
    fn a_run_that_is_no_gate_has_its_cases_too() {
        let text = render(&sample::race());
        assert!(text.contains("tests=\"12\" failures=\"0\""), "{text}");
        assert!(render(&sample::incident()).contains("failures=\"1\""));
    }
}
