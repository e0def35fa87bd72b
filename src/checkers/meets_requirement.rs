//! `meets-requirement`: what was admitted is within what the scenario or the user needs, whatever
//! the limiter promises.
//!
//! The same soundness, power and cost as `never-over-limit`. A limiter can keep its contract and
//! fail here: a counter per process keeps the limit on each node and not over all of them.

use super::bound;
use crate::model::history::Cell;
use crate::model::verdict::Finding;
use crate::ports::checker::Checker;

pub struct MeetsRequirement;

impl Checker for MeetsRequirement {
    fn name(&self) -> &'static str {
        "meets-requirement"
    }

    fn proves(&self) -> &'static str {
        "what was admitted is within what the scenario needs, whatever the limiter promises"
    }

    fn judge(&self, cell: &Cell) -> Finding {
        match &cell.header.requirement {
            None => Finding::not_applicable("the scenario states no requirement"),
            Some(required) => bound::judge(cell, &required.bound, required.scope),
        }
    }
}
