//! `lift-takes-effect`: once somebody lifted the limit, by removing what the store had counted, callers get all of
//! it again.
//!
//! Proves, when it fails, that a call that began after the lift was refused although it fits beside everything that
//! can have been counted since: calls that ended after the lift began, however they ended, refused ones too where the
//! contract charges them. What had been used before is gone with the counters, so whoever refuses goes by what he
//! remembers.
//!
//! It cannot see a memory that lasts no longer than until the first call after the lift, nor one that others' calls
//! excuse. A pass needs more admitted calls than the bound allows had nobody lifted the limit. O(n log n).

use super::bound;
use super::common::{self, Part, Parts, denied, use_of};
use crate::model::contract::Contract;
use crate::model::history::{Acted, Cell, Round};
use crate::model::indexed::IndexedCell;
use crate::model::scenario::Act;
use crate::model::units::Nanos;
use crate::model::verdict::{Finding, Verdict};
use crate::ports::checker::Checker;

pub struct LiftTakesEffect;

impl Checker for LiftTakesEffect {
    fn name(&self) -> &'static str {
        "lift-takes-effect"
    }

    fn proves(&self) -> &'static str {
        "once the limit is lifted in the store, all of it is there again"
    }

    fn judge(&self, cell: &Cell) -> Finding {
        self.judge_indexed(&IndexedCell::of(cell))
    }

    fn judge_indexed(&self, cell: &IndexedCell) -> Finding {
        let contract = &cell.header.contract;
        let lifted: usize = cell.rounds.iter().map(|r| lifts(r).count()).sum();
        if lifted == 0 {
            return Finding::not_applicable("nobody lifted the limit");
        }
        if contract.key_ttl_at_most.is_none() {
            return Finding::not_applicable("it keeps nothing in the store that could be removed");
        }
        let Some(burst) = contract.bound.burst() else {
            return Finding::unknown("the limiter promises no bound, so nothing says what a lift gives back");
        };
        for round in cell.rounds() {
            let across = contract.across_keys.and_then(|b| b.burst());
            let together = |lift: &Acted, at: Nanos| {
                let mut used = 0;
                Parts::together(round, contract.scope).each(|part| used += since(contract, &part, lift, at));
                used
            };
            let judged = Parts::by_key(round, contract.scope).try_each(|part| {
                let fits = |lift: &Acted, at: Nanos, used: u64| {
                    used <= burst && across.is_none_or(|most| together(lift, at) <= most)
                };
                lifts(part.round).try_for_each(|lift| after(contract, &part, lift, fits))
            });
            if let Err(witness) = judged {
                return Finding::fail(witness);
            }
        }
        if let Some(cut) = common::cut_short(cell) {
            return cut;
        }
        match bound::judge(cell, &contract.bound, contract.scope, bound::Whose::Everybody).verdict {
            Verdict::Fail => Finding::pass(format!(
                "lifted {lifted} times, and more was admitted than the limit would have allowed without"
            )),
            _ => Finding::unknown("no more was admitted than the limit allows without a lift"),
        }
    }
}

/// Whether somebody lifted the limit in some round: then calls before and after are not of one limit.
pub fn was_lifted(cell: &Cell) -> bool {
    cell.rounds.iter().any(|round| lifts(round).next().is_some())
}

fn lifts(round: &Round) -> impl Iterator<Item = &Acted> {
    round.acts.iter().filter(|acted| acted.act == Act::Lift)
}

/// The most that can have been counted since a lift by calls that began no later than `at`.
fn since(contract: &Contract, part: &Part, lift: &Acted, at: Nanos) -> u64 {
    let uses = part.ops.iter().filter_map(|op| use_of(op, contract.denials));
    uses.filter(|u| u.complete > lift.invoke && u.invoke <= at).map(|u| u.cost).fold(0, u64::saturating_add)
}

/// The first refusal after the lift for which there was room.
fn after(
    contract: &Contract,
    part: &Part,
    lift: &Acted,
    fits: impl Fn(&Acted, Nanos, u64) -> bool,
) -> Result<(), String> {
    // What counts since the lift, by the beginning of each call, and how much it comes to.
    let uses = part.ops.iter().filter_map(|op| use_of(op, contract.denials));
    let mut counted: Vec<(Nanos, u64)> =
        uses.filter(|u| u.complete > lift.invoke).map(|u| (u.invoke, u.cost)).collect();
    counted.sort_unstable();
    let mut sum = 0u64;
    for (_, cost) in &mut counted {
        sum = sum.saturating_add(*cost);
        *cost = sum;
    }
    for op in part.ops.iter().filter(|op| denied(op) && op.invoke > lift.complete) {
        let before = counted.partition_point(|(invoke, _)| *invoke <= op.complete);
        let all = before.checked_sub(1).map_or(0, |last| counted[last].1);
        // Where refusals are charged the call itself is among them.
        let own = u64::from(op.cost.get());
        let among = use_of(op, contract.denials).map_or(0, |u| u.cost);
        let used = all.saturating_sub(among).saturating_add(own);
        if fits(lift, op.complete, used) {
            let at = |t: Nanos| Nanos(t.0.saturating_sub(part.round.began.0));
            let (from, to) = (at(lift.invoke), at(lift.complete));
            return Err(format!(
                "{}: {} was refused although the limit was lifted from {} to {} and at most {} of {} can \
                 have been counted since",
                part.in_words(),
                common::op_in_words(part.round, op),
                from.beside(to),
                to.beside(from),
                used - own,
                contract.bound.burst().unwrap_or_default(),
            ));
        }
    }
    Ok(())
}
