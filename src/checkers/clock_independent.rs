//! `clock-independent`: however wrong the clocks of the app servers are, by the true time nobody gets more than
//! the bound, and nobody is refused for whom there was room.
//!
//! The true time is the lab's own, one for all nodes. Both halves are those of `never-over-limit` and
//! `no-false-denial`, and so is what they can prove; here they are asked of a round in which the clock of a node
//! was offset, drifted or was set. A pass needs both to pass, and calls that were decided by a node while its clock was
//! wrong by more than the limiter's clock can tell apart.

use super::never_over_limit::NeverOverLimit;
use super::no_false_denial::NoFalseDenial;
use crate::model::history::{Cell, Round};
use crate::model::scenario::PlannedClock;
use crate::model::units::Nanos;
use crate::model::verdict::{Finding, Verdict};
use crate::ports::checker::Checker;

pub struct ClockIndependent;

impl Checker for ClockIndependent {
    fn name(&self) -> &'static str {
        "clock-independent"
    }

    fn proves(&self) -> &'static str {
        "by the true time the bound is kept and nobody is refused in vain, however wrong a node's clock is"
    }

    fn judge(&self, cell: &Cell) -> Finding {
        let wrong: Vec<String> = cell.header.clocks.iter().map(PlannedClock::in_words).collect();
        if wrong.is_empty() {
            return Finding::unknown("every clock was right, so nothing was tried");
        }
        let wrong = wrong.join(", ");
        if !cell.rounds.iter().any(|round| wrong_for_a_call(cell, round)) {
            return Finding::unknown(format!(
                "with {wrong}: no call was decided while a clock was wrong by more than it can tell, so nothing was tried"
            ));
        }
        let findings = [NeverOverLimit.judge(cell), NoFalseDenial.judge(cell)];
        if let Some(failed) = findings.iter().find(|f| f.verdict == Verdict::Fail) {
            return Finding::fail(format!("with {wrong}: {}", failed.because));
        }
        if let Some(unclear) = findings.iter().find(|f| f.verdict != Verdict::Pass) {
            return Finding::unknown(unclear.because.clone());
        }
        let [kept, served] = findings;
        Finding::pass(format!("with {wrong}: {}; {}", kept.because, served.because))
    }
}

/// Whether some call was decided on a node whose clock was wrong by then, by more than a reading of it can tell.
fn wrong_for_a_call(cell: &Cell, round: &Round) -> bool {
    let told_us = i64::try_from(cell.header.contract.clock_resolution_ms.max(1))
        .unwrap_or(i64::MAX)
        .saturating_mul(1000);
    round.ops.iter().filter(|op| op.outcome.is_decided()).any(|op| {
        let passed = Nanos(op.invoke.0.saturating_sub(round.began.0));
        let of_node = cell.header.clocks.iter().filter(|c| c.node == op.node.0);
        of_node.map(|c| c.ahead_us(passed).saturating_abs()).any(|us| us >= told_us)
    })
}
