//! A gate at the terminal: the matrix, then each failure in full with the command that shows it again, then what
//! was known, what is fixed, and what could not be told.

use super::super::words;
use super::grid::{self, Text};
use super::page::Page;
use super::paint::Tone;
use crate::model::gate::{Counts, Gate, GateResult};
use crate::model::verdict::Verdict;

pub fn write(page: &mut Page, gate: &Gate) {
    let share = gate.plan.shard.map(|s| format!(", share {s}")).unwrap_or_default();
    page.line("", &format!("Gate: profile {}{share}", gate.plan.profile), Tone::Strong);
    page.push("");
    if gate.results.is_empty() {
        return page.line("  ", "nothing of it is to be run here", Tone::Unsure);
    }
    let grid = grid::render(&rows(gate), page.look);
    page.text.push_str(&grid);
    in_full(page, "Failed", &gate.counting(Counts::Failed));
    in_brief(page, "Known to fail, and not held against it", Tone::Known, &gate.counting(Counts::Known));
    if !gate.fixed.is_empty() {
        page.head("Fixed: remove it from the baseline with --save-baseline", Tone::Good);
        for fixed in &gate.fixed {
            page.hanging(&format!("{} · {}", fixed.limiter, fixed.property));
        }
    }
    in_brief(page, "Unknown: not enough evidence", Tone::Unsure, &gate.counting(Counts::Unknown));
    let fine = gate.counting(Counts::Fine);
    let of = |verdict: Verdict| fine.iter().copied().filter(|r| r.verdict == verdict).collect::<Vec<_>>();
    in_brief(page, "Not applicable", Tone::Dim, &of(Verdict::NotApplicable));
    in_brief(page, "What each PASS rests on", Tone::Good, &of(Verdict::Pass));
}

/// Properties down the side: there are many of them, and few limiters.
fn rows(gate: &Gate) -> Vec<Vec<Text>> {
    let limiters = gate.limiters();
    let heads = std::iter::once("property").chain(limiters.iter().copied());
    let mut rows = vec![heads.map(|h| Text::new(words::clean(h), Tone::Strong)).collect::<Vec<_>>()];
    for property in gate.properties() {
        let mut row = vec![Text::new(words::clean(property), Tone::Plain)];
        row.extend(limiters.iter().map(|limiter| match gate.result(limiter, property) {
            Some(result) => Text::new(result.label(), tone(result)),
            None => Text::new("", Tone::Plain),
        }));
        rows.push(row);
    }
    rows
}

fn tone(result: &GateResult) -> Tone {
    match (result.counts, result.verdict) {
        (Counts::Failed, _) => Tone::Bad,
        (Counts::Known, _) => Tone::Known,
        (Counts::Unknown, _) => Tone::Unsure,
        (Counts::Fine, Verdict::Pass) => Tone::Good,
        (Counts::Fine, _) => Tone::Dim,
    }
}

fn in_full(page: &mut Page, title: &str, results: &[&GateResult]) {
    if results.is_empty() {
        return;
    }
    page.head(title, Tone::Bad);
    for result in results {
        page.line("  ", &format!("{}: {}", result.name(), result.label()), Tone::Strong);
        for line in result.because.lines() {
            page.line("    ", line, Tone::Plain);
        }
        if let Some(replay) = &result.replay {
            page.command("    replay: ", replay);
        }
    }
}

/// The first line of each; limiters of which the same is said share a line.
fn in_brief(page: &mut Page, title: &str, tone: Tone, results: &[&GateResult]) {
    if results.is_empty() {
        return;
    }
    page.head(title, tone);
    let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
    for result in results {
        let because = result.because.lines().next().unwrap_or_default();
        let text = format!("{}: {because}", result.property);
        match lines.iter_mut().find(|(known, _)| *known == text) {
            Some((_, of)) => of.push(&result.limiter),
            None => lines.push((text, vec![&result.limiter])),
        }
    }
    for (text, of) in lines {
        page.hanging(&format!("{text} — {}", of.join(", ")));
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::sample;
    use super::super::Table;
    use super::*;
    use crate::model::gate::{Baseline, Fixed};
    use crate::ports::format::{Format, Look};

    #[test]
    fn a_failure_is_told_in_full_a_known_one_in_brief_and_a_fixed_one_is_announced() {
        let mut report =
            sample::gate(&[("bad", Verdict::Fail), ("good", Verdict::Pass), ("old", Verdict::Fail)]);
        let mut plan = report.gate.as_ref().unwrap().plan.clone();
        let before = sample::gate(&[("old", Verdict::Fail), ("good", Verdict::Fail)]).gate.unwrap();
        plan.known = Some(Baseline::of(&before));
        report.gate = Some(Gate::of(&plan, &report.cells));
        let gate = report.gate.as_ref().unwrap();
        assert_eq!(
            gate.fixed,
            [Fixed { limiter: "good".to_owned(), property: "race · never-over-limit".to_owned() }]
        );
        let text = Table.render(&report, Look::PLAIN).unwrap();
        for part in [
            "property                 bad   good  old",
            "race · never-over-limit  FAIL  PASS  FAIL (known)",
            "bad · race · never-over-limit: FAIL\n    20 where 10 may be\n    replay: rl-lab race --strict --limiters bad",
            "race · never-over-limit: 20 where 10 may be — old",
            "Fixed: remove it from the baseline with --save-baseline\n  good · race · never-over-limit",
        ] {
            assert!(text.contains(part), "{part:?} is missing in\n{text}");
        }
    }
}
