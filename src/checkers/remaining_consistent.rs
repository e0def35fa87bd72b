//! `remaining-consistent`: what a caller is told is left, is left.
//!
//! Judged on pairs of calls A, B of one key, one right after the other with nothing else open from
//! A's beginning to B's end (on any key, where the contract bounds all keys together). Fails if
//!
//! * a decision tells more than the bound admits at once;
//! * A tells R, and B, which costs no more than R, is refused: between calls what is left only grows;
//! * A tells R, and B is admitted, costs c and tells less than R − c. Of fractions there is no excuse:
//!   ⌊x − c⌋ = ⌊x⌋ − c for a whole c, and arithmetic in doubles rounds monotonically, which never takes a
//!   number across a whole one. A refused A may have been charged after it was told, where refusals
//!   are: then it counts with its own cost too;
//! * A is admitted and tells R, B is admitted, costs c and tells R' (0 if nothing), and R' + c is more
//!   than can be left: R and what can have come back in between ([`crate::model::room::Regain`]).
//!   Where levels have fractions, "R left" may be all but R + 1, so only what is a whole call above
//!   that convicts.
//!
//! A refusal that tells 0 whatever is left is not convicted by the last two: many say so by convention.
//! It cannot see a wrong number on a call that overlaps others, or that nobody put to the test. A pass
//! needs a pair of which both tell; `n/a` where no decision tells. O(n log n), O(n) in order.

use std::collections::BTreeMap;

use super::common::{self, Part, Parts};
use crate::model::contract::{Bound, Denials};
use crate::model::history::Cell;
use crate::model::indexed::{IndexedCell, IndexedRound};
use crate::model::op::{KeyId, Op, Outcome};
use crate::model::room::{Call, Ledger};
use crate::model::units::{Nanos, NodeId};
use crate::model::verdict::Finding;
use crate::ports::checker::Checker;

pub struct RemainingConsistent;

impl Checker for RemainingConsistent {
    fn name(&self) -> &'static str {
        "remaining-consistent"
    }

    fn proves(&self) -> &'static str {
        "what a caller is told is left, is what the next call finds"
    }

    fn judge(&self, cell: &Cell) -> Finding {
        self.judge_indexed(&IndexedCell::of(cell))
    }

    fn judge_indexed(&self, cell: &IndexedCell) -> Finding {
        let contract = &cell.header.contract;
        let Some(most) = contract.bound.burst() else {
            return Finding::unknown("the limiter promises no bound, so nothing says how much can be left");
        };
        let (mut telling, mut pairs) = (0u64, 0u64);
        for round in cell.rounds() {
            let told = |op: &&Op| common::decided(op) && op.remaining.get().is_some();
            telling += round.ops.iter().filter(told).count() as u64;
            let over = |op: &&Op| op.remaining.get().is_some_and(|left| left > most);
            if let Some(op) = round.ops.iter().filter(told).find(over) {
                let left = op.remaining.get().unwrap_or_default();
                return Finding::fail(format!(
                    "round {}: {} told {left} left, more than the {most} that can ever be",
                    round.index,
                    common::op_in_words(round, op)
                ));
            }
            // What happens on another key can matter only where all keys share a bound.
            let parts = match contract.across_keys {
                Some(_) => Parts::together(round, contract.scope),
                None => Parts::by_key(round, contract.scope),
            };
            let mut regains = Regains::of(round);
            let followed = parts.try_each(|part| {
                pairs += follow(cell, &part, &mut regains)?;
                Ok(())
            });
            if let Err(witness) = followed {
                return Finding::fail(witness);
            }
        }
        if telling == 0 {
            return Finding::not_applicable("no decision tells what is left");
        }
        if let Some(cut) = common::cut_short(cell) {
            return cut;
        }
        if pairs == 0 {
            return Finding::unknown("no two calls came one right after the other with nothing else open");
        }
        Finding::pass(format!("{pairs} times a call found what the one before it was told"))
    }
}

/// How many pairs of a part held, or the witness of one that does not.
fn follow(cell: &Cell, part: &Part, regains: &mut Regains<'_>) -> Result<u64, String> {
    let mut pairs = 0;
    common::neighbours(part, |a, b| {
        let pair = Pair { a, b };
        if pair.decided() {
            pair.hold(cell, part, regains)?;
            pairs += u64::from(a.remaining.get().is_some() && b.remaining.get().is_some());
        }
        Ok(())
    })?;
    Ok(pairs)
}

struct Pair<'a> {
    a: &'a Op,
    b: &'a Op,
}

impl Pair<'_> {
    fn decided(&self) -> bool {
        common::decided(self.a) && common::decided(self.b)
    }

    fn hold(&self, cell: &Cell, part: &Part, regains: &mut Regains<'_>) -> Result<(), String> {
        let Self { a, b } = self;
        let Some(told) = a.remaining.get() else { return Ok(()) };
        let cost = u64::from(b.cost.get());
        let admitted = |op: &Op| op.outcome == Outcome::Admitted;
        if !admitted(b) {
            return if cost > told {
                Ok(())
            } else {
                Err(self.witness(part, told, "and the next call, which costs no more, was refused"))
            };
        }
        let charged = !admitted(a) && cell.header.contract.denials == Denials::Charged;
        let spent = cost + if charged { u64::from(a.cost.get()) } else { 0 };
        if let Some(left) = b.remaining.get()
            && left < told.saturating_sub(spent)
        {
            return Err(self.witness(
                part,
                told,
                &format!("and the next call {left}: more is gone than it took"),
            ));
        }
        let left = b.remaining.get().unwrap_or(0).saturating_add(cost);
        if !admitted(a) || left <= told {
            return Ok(());
        }
        if regains.exclude(cell, part, self, told, left) {
            let what = match b.remaining.get() {
                Some(left) => format!("and the next call was admitted and told {left}"),
                None => "and the next call was admitted".to_owned(),
            };
            return Err(self.witness(
                part,
                told,
                &format!("{what}: more was left, and no time for it to come back"),
            ));
        }
        Ok(())
    }

    fn witness(&self, part: &Part, told: u64, what: &str) -> String {
        let key = part.named(self.a.key);
        format!(
            "{}: {} told {told} left, {what}; that is {} with nothing open in between",
            key.in_words(),
            common::op_in_words(part.round, self.a),
            common::op_in_words(part.round, self.b)
        )
    }
}

/// What can have come back in a round, under the bound of each key and under the one over all keys.
/// Made when it is first asked for: most pairs never are.
struct Regains<'a> {
    round: &'a IndexedRound<'a>,
    /// Of the part that is followed.
    current: Option<(Whose, Known)>,
    /// Of each key, where its calls are followed together with those of others.
    own: BTreeMap<Whose, Known>,
}

type Whose = (Option<KeyId>, Option<NodeId>);

struct Known {
    ledger: Ledger,
    first_touch: Nanos,
}

impl Known {
    fn of(cell: &Cell, part: &Part, bound: &Bound) -> Self {
        let time = common::time_of(cell, part.round);
        let ledger = Ledger::new(bound, time, part.uses(cell.header.contract.denials));
        Self { ledger, first_touch: part.first_touch() }
    }

    fn excludes(&mut self, a: &Op, b: &Op, told: u64, left: u64) -> bool {
        let call = |op: &Op| Call {
            invoke: op.invoke,
            complete: op.complete,
            cost: op.cost.get().into(),
            entered: 0,
        };
        let regained = self.ledger.regained(call(a), call(b), self.first_touch);
        regained.is_some_and(|regain| regain.excludes(told, left))
    }
}

impl<'a> Regains<'a> {
    fn of(round: &'a IndexedRound<'a>) -> Self {
        Self { round, current: None, own: BTreeMap::new() }
    }

    /// Whoever tells the least of several bounds is contradicted only if each of them is.
    fn exclude(&mut self, cell: &Cell, part: &Part, pair: &Pair, told: u64, left: u64) -> bool {
        let contract = &cell.header.contract;
        let (a, b) = (pair.a, pair.b);
        let whose = (part.key, part.node);
        let (_, known) = match self.current.take().filter(|(of, _)| *of == whose) {
            Some(known) => self.current.insert(known),
            None => {
                let bound = contract.across_keys.as_ref().unwrap_or(&contract.bound);
                self.current.insert((whose, Known::of(cell, part, bound)))
            }
        };
        let excluded = known.excludes(a, b, told, left);
        if contract.across_keys.is_none() || !excluded {
            return excluded;
        }
        if self.own.is_empty() {
            Parts::by_key(self.round, contract.scope).each(|of_key| {
                let known = Known::of(cell, &of_key, &contract.bound);
                self.own.insert((of_key.key, of_key.node), known);
            });
        }
        self.own.get_mut(&(Some(a.key), part.node)).is_some_and(|own| own.excludes(a, b, told, left))
    }
}
