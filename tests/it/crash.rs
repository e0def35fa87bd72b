//! A node that dies in the middle of a call: what it leaves, who is locked out, who heals it.

use rl_lab::model::report::{CrashReport, Report};
use rl_lab::model::verdict::{Standing, Verdict};

use crate::support::{Lab, cell, check, on_both};

fn crashes<'a>(report: &'a Report, limiter: &str) -> Vec<&'a CrashReport> {
    let rounds = &cell(report, limiter).rounds;
    let all: Vec<_> = rounds.iter().filter_map(|r| r.crash.as_ref()).collect();
    assert_eq!(all.len(), rounds.len(), "{limiter}: each round is one crash");
    all
}

/// Calls of others that were admitted, of how many, before the silence.
fn got(crash: &CrashReport) -> (u64, u64) {
    let mut got = (0, 0);
    for (offered, admitted) in &crash.windows {
        if got.1 < 88 {
            got = (got.0 + admitted, got.1 + offered);
        }
    }
    got
}

on_both! { a_death_between_two_commands_locks_out_for_good_where_the_second_sets_the_expiry }

mod cases {
    use super::*;

    pub async fn a_death_between_two_commands_locks_out_for_good_where_the_second_sets_the_expiry(
        backend: &str,
    ) {
        let lab = Lab::new();
        let report = lab.run(&["crash", "--backend", backend, "--format", "json"]).exits(0).report();
        let all = report.cells.iter().flat_map(|c| &c.checks);
        assert!(all.clone().count() > 40 && all.clone().all(|c| c.outcome == Standing::AsExpected));

        // Two commands, each with a before and an after.
        let leak = crashes(&report, "incr-then-expire");
        let died: Vec<_> = leak.iter().map(|c| c.died.as_str()).collect();
        let steps = ["before INCRBY", "after INCRBY", "before PEXPIRE", "after PEXPIRE"];
        assert!(died.iter().zip(steps).all(|(d, s)| d.starts_with(s)), "{died:?}");
        for (crash, stuck) in leak.iter().zip([false, true, true, false]) {
            assert_eq!(crash.left.contains("no expiry"), stuck, "{crash:?}");
            assert_eq!(crash.released, !stuck, "{crash:?}");
            let (admitted, offered) = got(crash);
            assert_eq!(offered, 88);
            // Of three windows of ten; the dead call may have used one.
            assert!(if stuck { admitted < 10 } else { (28..=31).contains(&admitted) }, "{crash:?}");
        }
        // One command: there is nothing to be between.
        for crash in crashes(&report, "fixed-window-lua") {
            assert!(crash.died.ends_with("of 1") && crash.released && !crash.left.contains("no expiry"));
        }
        // Leaks memory, and blocks nobody: the next window has another key.
        let numbered = crashes(&report, "fixed-window-numbered");
        assert!(numbered.iter().any(|c| c.left.contains("no expiry")));
        assert!(numbered.iter().all(|c| c.released && got(c).0 >= 28), "{numbered:?}");
        let of = |limiter: &str, name: &str| check(cell(&report, limiter), name).verdict;
        assert_eq!(of("fixed-window-numbered", "recovers"), Verdict::Pass);
        assert_eq!(of("incr-then-expire", "recovers"), Verdict::Fail);

        let again = lab.run(&["analyze", "--format", "json"]).report();
        assert_eq!(again.cells, report.cells, "the history tells the same");
    }
}
