//! `clock-independent`: however wrong the clocks of the app servers are, by the true time nobody gets more than
//! the bound, and nobody is refused for whom there was room.
//!
//! The true time is the lab's own, one for all nodes. Both halves are those of `never-over-limit` and
//! `no-false-denial`, and so is what they can prove; here they are asked of a round in which the clock of a node
//! was offset, drifted or was set. A pass needs both to pass.

use super::never_over_limit::NeverOverLimit;
use super::no_false_denial::NoFalseDenial;
use crate::model::history::Cell;
use crate::model::scenario::PlannedClock;
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
