//! The findings of a scenario, sorted by what they ask of the reader and put together where one
//! text holds for several checks or limiters.

use super::words;
use crate::model::report::{CellReport, CheckReport};
use crate::model::verdict::{self, Verdict, Weight};

/// What a finding asks of the reader. In the order in which they are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Makes the run fail: somebody has to look.
    Failed,
    /// A fail that the scenario is there to show.
    Shown,
    Unknown,
    NotApplicable,
    Passed,
}

impl Kind {
    pub const ALL: [Self; 5] = [Self::Failed, Self::Shown, Self::Unknown, Self::NotApplicable, Self::Passed];

    pub fn of(check: &CheckReport) -> Self {
        match check.verdict {
            // Not only a fail: a PASS where a FAIL was expected counts as well.
            _ if verdict::weight(check.verdict, check.outcome) == Weight::Failed => Self::Failed,
            Verdict::Fail => Self::Shown,
            Verdict::Unknown => Self::Unknown,
            Verdict::NotApplicable => Self::NotApplicable,
            Verdict::Pass => Self::Passed,
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Self::Failed => "Failed",
            Self::Shown => "Shown as expected",
            Self::Unknown => "Unknown: not enough evidence",
            Self::NotApplicable => "Not applicable",
            Self::Passed => "What each PASS rests on",
        }
    }
}

/// One finding, with every check and limiter that shares it.
pub struct Entry<'a> {
    pub check: &'a CheckReport,
    pub checks: Vec<&'a str>,
    pub limiters: Vec<&'a str>,
}

/// All findings of that kind, in the order of the cells.
pub fn of_kind<'a>(kind: Kind, cells: &[&'a CellReport], labels: &'a [String]) -> Vec<Entry<'a>> {
    let mut entries: Vec<Entry<'a>> = Vec::new();
    for (cell, label) in cells.iter().zip(labels) {
        for check in cell.checks.iter().filter(|c| Kind::of(c) == kind) {
            match entries.iter_mut().find(|e| e.check == check) {
                Some(entry) => entry.limiters.push(label),
                None => entries.push(Entry { check, checks: vec![&check.check], limiters: vec![label] }),
            }
        }
    }
    merge(entries)
}

/// Two checks that say the same of the same limiters are one entry.
fn merge(entries: Vec<Entry<'_>>) -> Vec<Entry<'_>> {
    let mut merged: Vec<Entry<'_>> = Vec::new();
    for entry in entries {
        match merged.iter_mut().find(|e| e.limiters == entry.limiters && same(e.check, entry.check)) {
            Some(known) => known.checks.extend(entry.checks),
            None => merged.push(entry),
        }
    }
    merged
}

fn same(a: &CheckReport, b: &CheckReport) -> bool {
    words::because(a) == words::because(b) && a.label() == b.label() && a.replay == b.replay
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn an_expectation_that_did_not_show_is_a_failure_and_unknown_never_a_pass() {
        let kind = |verdict, expected| Kind::of(&sample::check("c", verdict, expected, "text"));
        assert_eq!(kind(Verdict::Fail, Some(Verdict::Fail)), Kind::Shown);
        assert_eq!(kind(Verdict::Fail, None), Kind::Failed);
        assert_eq!(kind(Verdict::Pass, Some(Verdict::Fail)), Kind::Failed);
        assert_eq!(kind(Verdict::NotApplicable, Some(Verdict::Pass)), Kind::Failed);
        assert_eq!(kind(Verdict::Unknown, Some(Verdict::Unknown)), Kind::Unknown);
        assert_eq!(kind(Verdict::Unknown, Some(Verdict::Pass)), Kind::Unknown);
    }

    #[test]
    fn no_finding_is_lost_by_putting_them_together() {
        let report = sample::race();
        let cells: Vec<&CellReport> = report.cells.iter().collect();
        let labels = words::labels(&cells);
        let entries = Kind::ALL.iter().flat_map(|k| of_kind(*k, &cells, &labels));
        let told: usize = entries.map(|e| e.checks.len() * e.limiters.len()).sum();
        assert_eq!(told, cells.iter().map(|c| c.checks.len()).sum::<usize>());
    }
}
