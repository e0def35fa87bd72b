//! `recovers`: nobody stays blocked. After a silence as long as the limiter may take to give back what
//! it gave out ([`recovers_within_ns`]), or as long as its lockout, a call it can ever admit is
//! admitted.
//!
//! Proves, when it fails, that a call was refused although nothing on its key (and, where the contract
//! bounds all keys together, on any key) was open or ended within that time before it, or while it was
//! open itself: whatever had been used before was back. A key that was never touched before is
//! silent as well.
//!
//! Where the scenario breaks things and says within which time callers need the store again
//! (`[outage] recovers_within`), another recovery is meant: so long after the last fault was over, calls are
//! decided by the store. It fails if none of them was, and is unknown if some were not, of those that were
//! made while the machine did not stand still.
//!
//! It cannot see who is blocked while others keep calling; `steady-client-served` looks there. A call
//! without an answer may be applied at any later time and ends all silence. A pass needs a call that
//! was admitted after such a silence on a key that had seen a refusal. O(n).

use super::common::{self, Part, Parts};
use crate::model::contract::Bound;
use crate::model::history::Cell;
use crate::model::indexed::{IndexedCell, IndexedRound};
use crate::model::op::{Op, Outcome};
use crate::model::phases;
use crate::model::room::recovers_within_ns;
use crate::model::scenario::OutageNeeds;
use crate::model::units::{Cost, Nanos};
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
        self.judge_indexed(&IndexedCell::of(cell))
    }

    fn judge_indexed(&self, cell: &IndexedCell) -> Finding {
        if let Some(needs) = cell.header.outage {
            return after_faults(cell, needs);
        }
        let contract = &cell.header.contract;
        if contract.bound == Bound::None {
            return Finding::unknown("the limiter promises no bound, so nothing says when it must let go");
        }
        let mut released = 0u64;
        for round in cell.rounds() {
            match follow(cell, round) {
                Ok(more) => released += more,
                Err(witness) => return Finding::fail(witness),
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

/// Whether the store decides again after everything that broke was mended.
fn after_faults(cell: &Cell, needs: OutageNeeds) -> Finding {
    let (mut by_store, mut without) = (0_u64, 0_u64);
    for round in &cell.rounds {
        let Some(over) = round.faults.iter().filter_map(|f| f.over).max() else { continue };
        let from = over.0.saturating_add(needs.recovers_within.nanos());
        let still = |op: &Op| {
            let end = round.answered_at(op.id).unwrap_or(op.complete);
            round.stalls.iter().any(|(from, to)| *from <= end && *to >= op.invoke)
        };
        let mut example = None;
        let before = by_store;
        for op in round.ops.iter().filter(|op| op.invoke.0 >= from && !still(op)) {
            match phases::decider(op) {
                phases::Decider::Store => by_store += 1,
                _ => {
                    without += 1;
                    example.get_or_insert(op);
                }
            }
        }
        if let Some(op) = example
            && before == by_store
        {
            return Finding::fail(format!(
                "{without} calls that were made {} or more after the last fault was over all had to do without the \
                 store, {} for one",
                needs.recovers_within,
                common::op_in_words(round, op)
            ));
        }
    }
    if let Some(cut) = common::cut_short(cell) {
        return cut;
    }
    if by_store == 0 {
        return Finding::unknown(format!(
            "no call was made {} or more after a fault was over, so nothing was tried",
            needs.recovers_within
        ));
    }
    if without > 0 {
        return Finding::unknown(format!(
            "{without} of {} calls that were made {} or more after the last fault had to do without the store",
            by_store + without,
            needs.recovers_within
        ));
    }
    Finding::pass(format!(
        "all {by_store} calls that were made {} or more after the last fault were decided by the store",
        needs.recovers_within
    ))
}

/// How many calls on keys that had seen refusals were admitted after a silence, or the witness of one
/// that was not.
fn follow(cell: &Cell, round: &IndexedRound) -> Result<u64, String> {
    let contract = &cell.header.contract;
    let mut all_silent = None;
    if let Some(bound) = &contract.across_keys {
        let silent = all_silent.insert(vec![false; round.ops.len()]);
        Parts::together(round, contract.scope).try_each(|part| {
            after_silence(cell, bound, &part, |op, _| {
                silent[op.id.0 as usize] = true;
                Ok(())
            })
        })?;
    }
    let mut released = 0;
    Parts::by_key(round, contract.scope).try_each(|part| {
        let refused = part.ops.iter().filter(|op| common::denied(op)).map(|op| op.complete).min();
        after_silence(cell, &contract.bound, &part, |op, since| {
            if all_silent.as_ref().is_some_and(|silent| !silent[op.id.0 as usize]) {
                return Ok(());
            }
            if op.outcome == Outcome::Denied {
                return Err(witness(cell, &part, op, since));
            }
            released += u64::from(refused.is_some_and(|at| at <= op.invoke));
            Ok(())
        })
    })?;
    Ok(released)
}

/// Visits the decided calls of a part before which it was silent for long enough, and which nothing
/// overlapped, with the end of what came before them.
fn after_silence(
    cell: &Cell,
    bound: &Bound,
    part: &Part,
    mut visit: impl FnMut(&Op, Option<Nanos>) -> Result<(), String>,
) -> Result<(), String> {
    let time = common::time_of(cell, part.round);
    let mut last_end = part.presets().map(|p| p.complete).max();
    let within = |cost: Cost| recovers_within_ns(bound, cost.get().into());
    // Most calls cost the same.
    let (mut cost, mut held) = (Cost::ONE, within(Cost::ONE));
    for (place, op) in part.ops.iter().enumerate() {
        let alone = part.ops.get(place + 1).is_none_or(|next| next.invoke > op.complete);
        if op.cost != cost {
            (cost, held) = (op.cost, within(op.cost));
        }
        if let Some(within) = held
            && common::decided(op)
            && alone
        {
            let needed = within.max(time.lockout_ns).saturating_add(time.slack_ns);
            if last_end.is_none_or(|end| end.0 < op.invoke.0.saturating_sub(needed)) {
                visit(op, last_end)?;
            }
        }
        let end = if common::open_ended(op) { Op::NEVER } else { op.complete };
        last_end = last_end.max(Some(end));
    }
    Ok(())
}

fn witness(cell: &Cell, part: &Part, op: &Op, since: Option<Nanos>) -> String {
    let contract = &cell.header.contract;
    let since = match since {
        Some(end) => format!("{} after what came before it there", Nanos(op.invoke.0.saturating_sub(end.0))),
        None => "the first call there".to_owned(),
    };
    let across = match contract.across_keys {
        Some(across) => format!(", and over all keys {}", across.in_words()),
        None => String::new(),
    };
    let lockout = contract.lockout.map(|l| format!(", locked out for {l}")).unwrap_or_default();
    format!(
        "{}: {} was refused, {since} and with nothing open beside it; by then everything is back ({}{across}{lockout})",
        part.in_words(),
        common::op_in_words(part.round, op),
        contract.bound.in_words()
    )
}
