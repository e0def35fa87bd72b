//! What one pastes into a decision record or a pull request: GitHub's Markdown, still readable as
//! plain text.
//!
//! Names go into code spans, prose is escaped. `#12` and `@name` get an empty comment in between:
//! on GitHub they would become links to issue 12 and to somebody, and no backslash prevents it.

use super::findings::{self, Entry, Kind};
use super::words;
use crate::model::claims::Claims;
use crate::model::gate::{Counts, Gate, GateResult};
use crate::model::matrix::Matrix;
use crate::model::report::{CellReport, Report, ScenarioSummary};
use crate::model::verdict::Verdict;
use crate::ports::format::{Format, Look};

pub struct Markdown;

impl Format for Markdown {
    fn name(&self) -> &'static str {
        "markdown"
    }

    fn file(&self) -> &'static str {
        "report.md"
    }

    fn on_stdout(&self) -> bool {
        true
    }

    fn render(&self, report: &Report, _: Look) -> Result<String, String> {
        let mut blocks: Vec<String> = Vec::new();
        if let Some(matrix) = &report.matrix {
            blocks.extend(of_matrix(matrix));
        }
        if let Some(claims) = &report.claims {
            blocks.extend(of_claims(claims));
        }
        if let Some(gate) = &report.gate {
            blocks.extend(of_gate(gate));
        }
        for scenario in &report.scenarios {
            let cells: Vec<&CellReport> =
                report.cells.iter().filter(|c| c.scenario == scenario.name).collect();
            blocks.extend(section(scenario, &cells));
        }
        if let Some(error) = &report.error {
            blocks.push(format!("> **{}:** {}", words::error_head(report), prose(error)));
        }
        blocks.push(format!("**Verdict: {}**", words::ending(report)));
        blocks.push("### What the figures stand on".to_owned());
        blocks
            .push(list(words::ground(report).iter().map(|(name, text)| format!("{name}: {}", prose(text)))));
        blocks.push("Reproduce it:".to_owned());
        blocks.push(format!("```sh\n{}\n```", words::printable(&words::shell(&report.command))));
        Ok(blocks.join("\n\n") + "\n")
    }
}

/// The matrix itself; the witnesses stand with their scenarios below.
fn of_matrix(matrix: &Matrix) -> Vec<String> {
    let mut lines = vec![
        format!(
            "| limiter | {} |",
            matrix.columns.iter().map(|c| prose(&c.head)).collect::<Vec<_>>().join(" | ")
        ),
        format!("|---|{}", "---|".repeat(matrix.columns.len())),
    ];
    for row in &matrix.rows {
        let words = row.verdicts.iter().map(|cell| match cell {
            None => "",
            Some(cell) => match cell.verdict {
                Verdict::Pass => "pass",
                Verdict::Fail => "**FAIL**",
                Verdict::Unknown => "unknown",
                Verdict::NotApplicable => "n/a",
            },
        });
        lines.push(format!("| {} | {} |", code(&row.limiter), words.collect::<Vec<_>>().join(" | ")));
    }
    let columns = matrix.columns.iter().map(|c| {
        let variation = c.variation.as_ref().map(|v| format!(" ({})", prose(v))).unwrap_or_default();
        format!("{}: {}, tried by {}{variation}", prose(&c.head), code(&c.check), code(&c.scenario))
    });
    vec!["# Verdicts: limiters against properties".to_owned(), lines.join("\n"), list(columns)]
}

/// A gate: its matrix, and what counts. The witnesses stand with their scenarios below.
pub(super) fn of_gate(gate: &Gate) -> Vec<String> {
    let limiters = gate.limiters();
    let share = gate.plan.shard.map(|s| format!(", share {s}")).unwrap_or_default();
    let mut blocks = vec![format!("# Gate: profile {}{share}", code(&gate.plan.profile))];
    if gate.results.is_empty() {
        blocks.push("Nothing of it is to be run here.".to_owned());
        return blocks;
    }
    let heads = std::iter::once("property".to_owned()).chain(limiters.iter().map(|l| code(l)));
    let mut lines = vec![row(heads), row(std::iter::repeat_n("---", limiters.len() + 1))];
    for property in gate.properties() {
        let verdicts = limiters.iter().map(|l| match gate.result(l, property) {
            Some(result) if result.counts == Counts::Failed => format!("**{}**", result.label()),
            Some(result) => result.label(),
            None => String::new(),
        });
        lines.push(row(std::iter::once(prose(property)).chain(verdicts)));
    }
    blocks.push(lines.join("\n"));
    let named = |r: &&GateResult| {
        format!("{}: {}", prose(&r.name()), prose(r.because.lines().next().unwrap_or_default()))
    };
    for (title, counts) in [
        ("Failed", Counts::Failed),
        ("Known to fail, and not held against it", Counts::Known),
        ("Unknown: not enough evidence", Counts::Unknown),
    ] {
        blocks.extend(titled(title, gate.counting(counts).iter().map(named).collect()));
    }
    let fixed = gate.fixed.iter().map(|f| prose(&format!("{} · {}", f.limiter, f.property)));
    blocks.extend(titled("Fixed: remove it from the baseline with --save-baseline", fixed.collect()));
    blocks
}

/// The claims; the evidence stands with the scenarios below.
fn of_claims(claims: &Claims) -> Vec<String> {
    let mut lines = vec![
        "| | claim | tried with | scenario | property or figure | came out | claim |".to_owned(),
        "|---|---|---|---|---|---|---|".to_owned(),
    ];
    for (number, row) in (1..).zip(&claims.rows) {
        for (n, tried) in row.trials.iter().enumerate() {
            let (label, scenario) = (code(&tried.label), code(&tried.scenario));
            let (property, came_out) = (prose(&words::property(tried)), prose(&words::came_out(tried)));
            let (number, claim, found) = if n == 0 {
                (number.to_string(), prose(&row.claim), format!("**{}**", row.found.name()))
            } else {
                Default::default()
            };
            lines.push(format!(
                "| {number} | {claim} | {label} | {scenario} | {property} | {came_out} | {found} |"
            ));
        }
    }
    let says = claims.rows.iter().map(|r| format!("{}: {}", prose(&r.claim), prose(&r.says)));
    vec![format!("# {}", prose(&claims.title)), prose(&claims.shows), lines.join("\n"), list(says)]
}

fn section(scenario: &ScenarioSummary, cells: &[&CellReport]) -> Vec<String> {
    let mut facts = vec![format!("Plan: {}", prose(&scenario.plan))];
    facts.extend(scenario.requires.as_ref().map(|r| format!("Requires: {}", prose(r))));
    facts.push(format!("Run: {}", words::terms(scenario)));
    let mut blocks =
        vec![format!("## {}", prose(&scenario.title)), prose(&scenario.shows), list(facts.into_iter())];
    if cells.is_empty() {
        blocks.push("No limiter was run.".to_owned());
        return blocks;
    }
    let labels = words::labels(cells);
    blocks.push(table(scenario, cells, &labels));
    blocks.extend(further(words::CRASH_HEADS, &words::crashes(cells, &labels)));
    blocks.extend(further(words::PHASE_HEADS, &words::phases(cells, &labels)));
    let told = words::told(cells, &labels);
    blocks.extend(titled("What was broken and done", told.iter().map(|line| prose(line)).collect()));
    for kind in Kind::ALL {
        let entries = findings::of_kind(kind, cells, &labels);
        blocks.extend(titled(kind.title(), entries.iter().map(item).collect()));
    }
    blocks.extend(titled("Calls without a decision", trouble(cells, &labels)));
    blocks
}

/// A table of its own whose rows begin with a limiter; nothing at all if it is empty.
fn further<const N: usize>(heads: [&str; N], of: &[[String; N]]) -> Option<String> {
    let mut rows = vec![row(heads.iter()), row(heads.map(|_| "---").iter())];
    rows.extend(of.iter().filter_map(|told| {
        let (limiter, rest) = told.split_first()?;
        Some(row([code(limiter)].into_iter().chain(rest.iter().map(|t| prose(t)))))
    }));
    (!of.is_empty()).then(|| rows.join("\n"))
}

/// A list below its title; nothing at all if it is empty.
fn titled(title: &str, items: Vec<String>) -> Vec<String> {
    if items.is_empty() {
        return Vec::new();
    }
    vec![format!("**{title}**"), list(items.into_iter())]
}

/// Each line of the text on a line of its own; the dot keeps it from reading as a list or a heading.
fn item(entry: &Entry<'_>) -> String {
    let codes = |names: &[&str]| names.iter().map(|n| code(n)).collect::<Vec<_>>().join(", ");
    let text: Vec<String> =
        words::because(entry.check).lines().filter(|l| !l.trim().is_empty()).map(prose).collect();
    let mut lines = vec![format!(
        "{} · {}, {}: {}",
        codes(&entry.limiters),
        codes(&entry.checks),
        entry.check.label(),
        text.join("  \n  · ")
    )];
    let replay = entry.check.replay.as_ref().filter(|_| Kind::of(entry.check) == Kind::Failed);
    lines.extend(replay.map(|command| format!("replay: {}", code(command))));
    lines.join("  \n  ")
}

fn table(scenario: &ScenarioSummary, cells: &[&CellReport], labels: &[String]) -> String {
    let checks = words::checks(cells);
    let figures = scenario.figures.iter().map(|f| f.head());
    let counted = words::counts_calls(cells);
    let admitted = counted.then(|| words::admitted_head(cells));
    let heads = ["limiter"].into_iter().chain(admitted).chain(figures);
    let heads = heads.chain(["limit", "promise"].into_iter().filter(|_| counted)).map(str::to_owned);
    let mut rows = vec![row(heads.chain(checks.iter().map(|c| code(c))))];
    let rules = ["---"].into_iter().chain(counted.then_some("---"));
    let rules = rules.chain(scenario.figures.iter().map(|_| "---:"));
    let limit = ["---:", "---"].into_iter().filter(|_| counted);
    rows.push(row(rules.chain(limit).chain(checks.iter().map(|_| "---"))));
    for (cell, label) in cells.iter().zip(labels) {
        let scope = if words::scope(cell).is_empty() { "global" } else { words::scope(cell) };
        let measured = scenario.figures.iter().map(|f| words::figure(cell, *f));
        let admitted = counted.then(|| words::admitted(&cell.rounds));
        let figures = [code(label)].into_iter().chain(admitted).chain(measured);
        let limit = [words::room(cell) + &words::at_once(cell), scope.to_owned()];
        let figures = figures.chain(limit.into_iter().filter(|_| counted));
        let verdicts =
            checks.iter().map(|name| words::check(cell, name).map(|c| c.label()).unwrap_or_default());
        rows.push(row(figures.chain(verdicts)));
    }
    rows.join("\n")
}

/// A bar ends a table's field even inside a code span, so it is escaped last and everywhere.
fn row(fields: impl Iterator<Item = impl AsRef<str>>) -> String {
    let fields: Vec<String> = fields.map(|f| f.as_ref().replace('|', "\\|")).collect();
    format!("| {} |", fields.join(" | "))
}

fn trouble(cells: &[&CellReport], labels: &[String]) -> Vec<String> {
    let each = labels.iter().zip(cells);
    each.filter_map(|(l, c)| Some(format!("{}: {}", code(l), prose(&words::trouble(c)?)))).collect()
}

fn list(items: impl Iterator<Item = String>) -> String {
    items.map(|item| format!("- {item}")).collect::<Vec<_>>().join("\n")
}

/// Text that means nothing to Markdown.
pub(super) fn prose(text: &str) -> String {
    let mut out = String::new();
    for c in words::clean(text).chars() {
        match c {
            '#' | '@' => out.extend([c.to_string().as_str(), "<!-- -->"]),
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '~' | '$' | '&' => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    out
}

/// A code span whose fence is longer than any run of backticks inside.
pub(super) fn code(text: &str) -> String {
    let text = words::printable(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn a_bar_or_a_backtick_in_a_name_does_not_break_the_table() {
        let mut report = sample::race();
        report.cells[0].limiter = "a|b`c".to_owned();
        report.scenarios[0].plan = "x|y `z` *w* _v_".to_owned();
        let text = Markdown.render(&report, Look::PLAIN).unwrap();
        assert!(text.contains("| ``a\\|b`c`` |"), "{text}");
        assert!(text.contains(r"x\|y \`z\` \*w\* \_v\_"), "{text}");
        let bars = |l: &str| l.replace("\\|", "").matches('|').count();
        let table: Vec<usize> = text.lines().filter(|l| l.starts_with('|')).map(bars).collect();
        assert_eq!(table.len(), 2 + report.cells.len());
        assert!(table.iter().all(|n| *n == table[0]), "ragged table: {table:?}");
    }

    #[test]
    fn an_op_number_does_not_become_a_link_to_an_issue() {
        assert_eq!(prose("op #12 by @b"), "op #<!-- -->12 by @<!-- -->b");
    }

    #[test]
    fn a_line_break_in_a_witness_stays_inside_its_list_item() {
        let mut report = sample::incident();
        report.cells[0].checks[0].witness = Some("first\n\n# second".to_owned());
        let text = Markdown.render(&report, Look::PLAIN).unwrap();
        assert!(text.contains("FAIL: first  \n  · #<!-- --> second  \n  replay: `"), "{text}");
    }

    #[test]
    fn it_carries_plan_witness_ground_and_the_command() {
        let text = Markdown.render(&sample::incident(), Look::PLAIN).unwrap();
        for part in [
            "Plan: burst of 200",
            "50 more admitted",
            "redis 7.0.15",
            "```sh\nrl-lab race --seed 42\n```",
            "replay: `rl-lab",
            "**Verdict: FAIL · exit 1**",
        ] {
            assert!(text.contains(part), "{part} is missing in:\n{text}");
        }
    }
}
