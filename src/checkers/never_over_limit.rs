//! `never-over-limit`: the limiter never admitted more than its own contract allows.
//!
//! Proves, when it fails, that some span holds more admitted calls than the contract's bound,
//! all of them wholly inside the span: no reading of the timestamps excuses it. A pass says that
//! no recorded round shows this, and with what power; it does not exclude a rarer leak.
//! O(n) for fixed windows, O(n log n) for sliding windows and buckets.

use super::bound;
use crate::model::contract::Bound;
use crate::model::history::Cell;
use crate::model::verdict::Finding;
use crate::ports::checker::Checker;

pub struct NeverOverLimit;

impl Checker for NeverOverLimit {
    fn name(&self) -> &'static str {
        "never-over-limit"
    }

    fn proves(&self) -> &'static str {
        "no span holds more admitted calls than the limiter's contract allows"
    }

    fn judge(&self, cell: &Cell) -> Finding {
        let contract = &cell.header.contract;
        if contract.bound == Bound::None {
            return Finding::unknown("the limiter promises no bound, so nothing can be kept or broken");
        }
        bound::judge(cell, &contract.bound, contract.scope)
    }
}
