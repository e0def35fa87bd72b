//! Exit codes, and which one wins.

use crate::model::claims::Claims;
use crate::model::gate::{Counts, Gate};
use crate::model::report::{CellReport, Honesty};
use crate::model::verdict::{Verdict, Weight, weight};

/// How a run ended. Listed from the one that wins to the one that yields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// SIGINT (130), SIGTERM (143), SIGHUP (129).
    Interrupted(u8),
    /// The lab itself broke.
    Broken,
    /// Usage or bad input.
    Usage,
    /// No engine, no image, no redis-server, an output folder that cannot be written.
    Environment,
    /// A check failed, or an expectation did not show.
    Failed,
    /// Something was left behind; `rl-lab gc` removes it.
    Cleanup,
    /// Unknown or inconclusive.
    Unknown,
    Ok,
}

impl Exit {
    pub fn code(self) -> u8 {
        match self {
            Self::Interrupted(code) => code,
            Self::Broken => 70,
            Self::Usage => 2,
            Self::Environment => 3,
            Self::Failed => 1,
            Self::Cleanup => 5,
            Self::Unknown => 4,
            Self::Ok => 0,
        }
    }

    /// The exit that a code stands for.
    pub fn of_code(code: u8) -> Self {
        let known = [
            Self::Ok,
            Self::Failed,
            Self::Usage,
            Self::Environment,
            Self::Unknown,
            Self::Cleanup,
            Self::Broken,
        ];
        known.into_iter().find(|e| e.code() == code).unwrap_or(Self::Interrupted(code))
    }

    /// The one of two that wins.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        self.min(other)
    }
}

/// What the verdicts alone come to, with the verdict of the whole.
pub fn of_cells(cells: &[CellReport]) -> (Exit, Verdict) {
    let checks = || cells.iter().flat_map(|c| &c.checks);
    let worst = checks().map(|c| weight(c.verdict, c.outcome)).max();
    // Nothing that applied was judged: that is no pass.
    let told = checks().any(|c| c.verdict != Verdict::NotApplicable);
    match worst {
        Some(Weight::Fine) if !told => (Exit::Unknown, Verdict::Unknown),
        Some(Weight::Fine) => (Exit::Ok, Verdict::Pass),
        Some(Weight::Failed) => (Exit::Failed, Verdict::Fail),
        Some(Weight::Inconclusive) | None => (Exit::Unknown, Verdict::Unknown),
    }
}

/// What a gate comes to: known failures do not count.
pub fn of_gate(gate: &Gate) -> (Exit, Verdict) {
    match gate.worst() {
        // There are more shards than there is work.
        _ if gate.results.is_empty() && gate.plan.shard.is_some() => (Exit::Ok, Verdict::Pass),
        (Counts::Failed, _) => (Exit::Failed, Verdict::Fail),
        (Counts::Unknown, _) | (_, false) => (Exit::Unknown, Verdict::Unknown),
        (Counts::Fine | Counts::Known, true) => (Exit::Ok, Verdict::Pass),
    }
}

/// The same with the claims that the cells were run for, or with the gate that they were.
pub fn of_all(
    cells: &[CellReport],
    claims: Option<&Claims>,
    gate: Option<&Gate>,
    ground: &Honesty,
) -> (Exit, Verdict) {
    let (exit, verdict) = of_what_ran(cells, claims, gate);
    // What was to be tried on every server was not.
    if ground.missing.is_empty() {
        (exit, verdict)
    } else {
        (exit.and(Exit::Unknown), verdict.max(Verdict::Unknown))
    }
}

fn of_what_ran(cells: &[CellReport], claims: Option<&Claims>, gate: Option<&Gate>) -> (Exit, Verdict) {
    // What claims speak of is all that was judged, and they say what it means.
    match claims.map(Claims::as_known) {
        None => gate.map_or_else(|| of_cells(cells), of_gate),
        Some(Some(true)) => (Exit::Ok, Verdict::Pass),
        Some(Some(false)) => (Exit::Failed, Verdict::Fail),
        Some(None) => (Exit::Unknown, Verdict::Unknown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_precedence_of_exit_codes_is_the_documented_one() {
        let order = [
            Exit::Interrupted(130),
            Exit::Broken,
            Exit::Usage,
            Exit::Environment,
            Exit::Failed,
            Exit::Cleanup,
            Exit::Unknown,
            Exit::Ok,
        ];
        for pair in order.windows(2) {
            assert_eq!(pair[0].and(pair[1]), pair[0]);
            assert_eq!(pair[1].and(pair[0]), pair[0]);
        }
        assert_eq!(order.map(Exit::code), [130, 70, 2, 3, 1, 5, 4, 0]);
    }

    #[test]
    fn a_run_that_measured_nothing_is_not_a_pass() {
        assert_eq!(of_cells(&[]), (Exit::Unknown, Verdict::Unknown));
    }

    #[test]
    fn a_run_in_which_nothing_applied_is_not_a_pass() {
        let check = |verdict| crate::model::report::CheckReport {
            check: "never-over-limit".to_owned(),
            verdict,
            expected: None,
            outcome: crate::model::verdict::Standing::Judged,
            witness: None,
            why: None,
            replay: None,
            scene: None,
        };
        let json = r#"{"scenario":"","limiter":"","params":{},"policy":null,"client":"","backend":"","server":"",
            "server_flavour":"","limit":1,"rounds":[],"checks":[],
            "contract":{"bound":{"kind":"none"},"scope":"global","clock":"app","clock_resolution_ms":1,
                        "denials":"free","on_outage":"error","key_ttl_at_most":null},
            "honesty":{"generator_cpu":0.0,"overlap":0,"commands":0,"round_trips":0,"busy_ms":0.0}}"#;
        let mut cell: CellReport = serde_json::from_str(json).unwrap();
        cell.checks = vec![check(Verdict::NotApplicable)];
        assert_eq!(of_cells(std::slice::from_ref(&cell)).0, Exit::Unknown);
        cell.checks.push(check(Verdict::Pass));
        assert_eq!(of_cells(&[cell.clone()]).0, Exit::Ok);
        let with = |missing: &[&str]| {
            let missing = missing.iter().map(|m| (*m).to_owned()).collect();
            of_all(&[cell.clone()], None, None, &Honesty { missing, ..Honesty::default() })
        };
        assert_eq!(with(&[]), (Exit::Ok, Verdict::Pass));
        assert_eq!(with(&["server 6.2: it was not fetched"]), (Exit::Unknown, Verdict::Unknown));
    }
}
