//! `recovers`: nobody stays blocked. After a silence as long as the limiter may take to give back what
//! it gave out ([`recovers_within_ns`]), or as long as its lockout, a call it can ever admit is
//! admitted.
//!
//! Proves, when it fails, that a call was refused although nothing on its key (and, where the contract
//! bounds all keys together, on any key) was open or ended within that time before it, or while it was
//! open itself: whatever had been used before was back. A key that was never touched before is
//! silent as well.
//!
//! It cannot see who is blocked while others keep calling; `steady-client-served` looks there. A call
//! without an answer may be applied at any later time and ends all silence. A pass needs a call that
//! was admitted after such a silence on a key that had seen a refusal. O(n log n), O(n) for calls
//! recorded in order.

use std::collections::BTreeMap;

use super::common::{self, Part, Parts};
use crate::model::contract::Bound;
use crate::model::history::{Cell, Round};
use crate::model::op::{Op, Outcome};
use crate::model::room::{Usage, Use, recovers_within_ns};
use crate::model::units::Nanos;
use crate::model::verdict::Finding;
use crate::ports::checker::Checker;

pub struct Recovers;

impl Checker for Recovers {
    fn name(&self) -> &'static str {
        "recovers"
    }

    fn proves(&self) -> &'static str {
        "after a silence as long as the bound may hold back, a call is admitted"
    }

    fn judge(&self, cell: &Cell) -> Finding {
        let contract = &cell.header.contract;
        if contract.bound == Bound::None {
            return Finding::unknown("the limiter promises no bound, so nothing says when it must let go");
        }
        let mut released = 0u64;
        for round in &cell.rounds {
            let mut all = BTreeMap::new();
            if contract.across_keys.is_some() {
                let together = Parts::together(round, contract.scope);
                all.extend(together.iter().map(|part| (part.node, activity(&part))));
            }
            for part in Parts::by_key(round, contract.scope).iter() {
                let mut own = activity(&part);
                let refused = part.ops().filter(|op| common::denied(op)).map(|op| op.complete).min();
                for op in part.ops().filter(|op| common::decided(op)) {
                    let Some(silence) = silence(cell, round, &mut own, all.get_mut(&part.node), op) else {
                        continue;
                    };
                    if op.outcome == Outcome::Denied {
                        return Finding::fail(witness(round, &part, op, &contract.bound, silence));
                    }
                    released += u64::from(refused.is_some_and(|at| at <= op.invoke));
                }
            }
        }
        if let Some(cut) = common::cut_short(cell) {
            return cut;
        }
        if released == 0 {
            return Finding::unknown(
                "nobody who had been refused came back after a silence, so nothing was tried",
            );
        }
        Finding::pass(format!(
            "{released} calls on keys that had seen refusals were admitted after a silence"
        ))
    }
}

/// Everything that was done on a part, each call counted once.
fn activity(part: &Part) -> Usage {
    let before = part.presets().map(|p| Use { invoke: p.invoke, complete: p.complete, cost: 1 });
    let calls = part.ops().map(|op| Use {
        invoke: op.invoke,
        complete: if common::open_ended(op) { Op::NEVER } else { op.complete },
        cost: 1,
    });
    Usage::new(before.chain(calls))
}

/// The silence that was enough for this call, if it was kept.
fn silence(cell: &Cell, round: &Round, own: &mut Usage, all: Option<&mut Usage>, op: &Op) -> Option<Nanos> {
    let contract = &cell.header.contract;
    let time = common::time_of(cell, round);
    let kept = |bound: &Bound, usage: &mut Usage| {
        let within = recovers_within_ns(bound, op.cost.get().into())?.max(time.lockout_ns);
        let from = Nanos(op.invoke.0.saturating_sub(within.saturating_add(time.slack_ns)));
        // The call itself is one.
        (usage.between(from, op.complete) == 1).then_some(Nanos(within))
    };
    let of_key = kept(&contract.bound, own)?;
    match (all, &contract.across_keys) {
        (Some(all), Some(across)) => Some(kept(across, all)?.max(of_key)),
        _ => Some(of_key),
    }
}

fn witness(round: &Round, part: &Part, op: &Op, bound: &Bound, silence: Nanos) -> String {
    let last = part.ops().take_while(|o| o.id != op.id).map(|o| o.complete).max();
    let since = match last {
        Some(last) => format!("{} after the call before it", Nanos(op.invoke.0.saturating_sub(last.0))),
        None => "the first call there".to_owned(),
    };
    format!(
        "{}: {} was refused, {since}, with nothing open beside it; by its promise ({}) everything is back after {silence}",
        part.in_words(),
        common::op_in_words(round, op),
        bound.in_words()
    )
}
