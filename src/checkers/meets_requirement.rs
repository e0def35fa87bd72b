//! `meets-requirement`: what was admitted is within what the scenario or the user needs, whatever
//! the limiter promises.
//!
//! The same soundness, power and cost as `never-over-limit`. A limiter can keep its contract and
//! fail here: a counter per process keeps the limit on each node and not over all of them.
//!
//! A round is mostly shorter than the window that is required. Then a pass rests on the contract as
//! well: it must imply the requirement. Where it does not (a bucket refills while a window is
//! open), short rounds cannot tell, and the verdict is `unknown`.

use super::bound::{self, Whose};
use crate::model::contract::{Requirement, Scope};
use crate::model::history::{Cell, Round};
use crate::model::indexed::IndexedCell;
use crate::model::units::Nanos;
use crate::model::verdict::{Finding, Verdict};
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
        self.judge_indexed(&IndexedCell::of(cell))
    }

    fn judge_indexed(&self, cell: &IndexedCell) -> Finding {
        match &cell.header.requirement {
            None => Finding::not_applicable("the scenario states no requirement"),
            Some(required) => match bound::judge(cell, &required.bound, required.scope, Whose::Everybody) {
                Finding { verdict: Verdict::Pass, because, .. } => weigh(cell, required, because),
                other => other,
            },
        }
    }
}

/// No round is over. Is that enough for a pass?
fn weigh(cell: &Cell, required: &Requirement, because: String) -> Finding {
    let contract = &cell.header.contract;
    let in_scope = contract.scope == Scope::Global || required.scope == Scope::Node || cell.header.nodes == 1;
    // A local limiter that decides in an outage admits beside what the bound speaks of.
    let all_of_it = contract.fallback.is_none();
    if in_scope && all_of_it && contract.bound.implies(&required.bound) {
        return Finding::pass(format!("{because}; its contract promises as much"));
    }
    let longest = cell.rounds.iter().map(length).max().unwrap_or_default();
    let Some(window) = required.bound.window() else { return Finding::pass(because) };
    if longest.0 >= window.nanos() {
        return Finding::pass(format!("{because}; rounds lasted up to {longest} of the {window} window"));
    }
    let allows = match contract.bound.most_in(window) {
        Some(_) if !all_of_it => "allows more while the store is away".to_owned(),
        Some(most) => format!("allows up to {most} in {window}"),
        None => "names no bound".to_owned(),
    };
    Finding::unknown(format!(
        "no round is over, but rounds lasted {longest} at most and the limiter's own promise ({}) {allows}: too \
         short to tell",
        contract.bound.in_words()
    ))
}

/// From the first invocation to the last completion that was seen.
fn length(round: &Round) -> Nanos {
    let first = round.ops.iter().map(|o| o.invoke).min().unwrap_or_default();
    let last = round.ops.iter().map(|o| o.complete).filter(|c| *c != crate::model::op::Op::NEVER).max();
    Nanos(last.map_or(0, |last| last.0.saturating_sub(first.0)))
}
