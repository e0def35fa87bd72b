//! `no-false-denial`: nobody is refused for whom there was room.
//!
//! Proves, when it fails, that a call was refused although it fits beside the most that can have been
//! in use at any moment of it, by the limiter's own contract: admitted calls, calls without an answer,
//! refused ones too where the contract charges them, and what was used before the round. How that is
//! bounded from above for each kind of bound is derived in [`crate::model::room`].
//!
//! It cannot see a wrong refusal among calls that overlap enough of others to have come after all of
//! them, nor one that a late answer excuses. A refusal that a policy gave because the store did not
//! answer is not judged here. A pass needs a refusal, and an admitted call that would have convicted
//! had it been refused. O(n log n), O(n) for calls recorded in order.

use super::rooms;
use crate::model::history::Cell;
use crate::model::indexed::IndexedCell;
use crate::model::verdict::Finding;
use crate::ports::checker::Checker;

pub struct NoFalseDenial;

impl Checker for NoFalseDenial {
    fn name(&self) -> &'static str {
        "no-false-denial"
    }

    fn proves(&self) -> &'static str {
        "no call is refused that fits beside everything that can have been in use"
    }

    fn judge(&self, cell: &Cell) -> Finding {
        self.judge_indexed(&IndexedCell::of(cell))
    }

    fn judge_indexed(&self, cell: &IndexedCell) -> Finding {
        rooms::judge(cell, cell.header.contract.denials)
    }
}
