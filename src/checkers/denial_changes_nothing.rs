//! `denial-changes-nothing`: where the contract says that refusals are free, they are.
//!
//! Proves, when it fails, that a call was refused for which there was room if the refusals before it
//! took nothing, and may have been none if they were charged: the witness names them. Only
//! refusals that were right by themselves are taken for charged: one for which there was room has some
//! other cause, such as a key that never expires, and explains nothing. A refusal for which there was
//! room even then is left to `no-false-denial`.
//!
//! It cannot see a charge that never kept anybody out. A pass needs an admitted call that came after
//! refusals, had room without them and would have had none with them: had they been charged, it could
//! have been refused. O(n log n), O(n) for calls recorded in order.

use super::common::{self, Part, Parts};
use super::rooms::{Across, ENOUGH, Rules, Seen};
use crate::model::contract::{Bound, Denials};
use crate::model::history::Cell;
use crate::model::indexed::{IndexedCell, IndexedRound};
use crate::model::op::{Op, Outcome};
use crate::model::scene::Place;
use crate::model::verdict::Finding;
use crate::ports::checker::Checker;

pub struct DenialChangesNothing;

impl Checker for DenialChangesNothing {
    fn name(&self) -> &'static str {
        "denial-changes-nothing"
    }

    fn proves(&self) -> &'static str {
        "a refused call takes nothing out of the limit, where the contract says so"
    }

    fn judge(&self, cell: &Cell) -> Finding {
        self.judge_indexed(&IndexedCell::of(cell))
    }

    fn judge_indexed(&self, cell: &IndexedCell) -> Finding {
        let contract = &cell.header.contract;
        if contract.denials == Denials::Charged {
            return Finding::not_applicable("it declares that refused calls are charged");
        }
        if contract.bound == Bound::None {
            return Finding::unknown(
                "the limiter promises no bound, so nothing says what a refusal must leave",
            );
        }
        let mut seen = Seen::default();
        // Where nobody was refused there is nothing to be charged.
        for round in cell.rounds().iter().filter(|r| r.ops.iter().any(common::denied)) {
            let wrong_before = seen.wrong;
            weigh(cell, round, &mut seen, FEW);
            seen.rounds_wrong += u32::from(seen.wrong > wrong_before);
        }
        if let Some(finding) = seen.conviction(cell).or_else(|| common::cut_short(cell)) {
            return finding;
        }
        if seen.roomy == 0 {
            return Finding::unknown(
                "no call came after refusals in such a way that a charge for them would have shown",
            );
        }
        Finding::pass(format!(
            "{} calls or more got in for which there was no room had the refusals before them been charged",
            seen.roomy.min(ENOUGH)
        ))
    }
}

fn weigh(cell: &Cell, round: &IndexedRound, seen: &mut Seen, few: usize) {
    let mut weighing = Weighing::of(cell, round);
    Parts::by_key(round, cell.header.contract.scope).each(|part| {
        // Where the first few tell nothing, the admitted calls are weighed with the refused ones.
        let found = weighing.evidence(&part, seen, few);
        let whole = found.is_none();
        let admitted = |op: &Op| whole && op.outcome == Outcome::Admitted;
        let Weighed { mut contrary, unexplained } =
            weighing.weigh(&part, |op| common::denied(op) || admitted(op));
        seen.roomy += found.unwrap_or_else(|| {
            let told = |(is, op): &(&bool, &Op)| **is && admitted(op);
            contrary.iter().zip(part.ops).filter(told).count() as u64
        });
        if whole {
            contrary.iter_mut().zip(part.ops).for_each(|(is, op)| *is &= common::denied(op));
        }
        let (first, many) = (contrary.iter().position(|is| *is), count(&contrary));
        // A witness takes memory of its own.
        drop(contrary);
        if let Some(first) = first {
            seen.wrong(|| weighing.witness(&part.leaving_out(&unexplained), first));
            seen.wrong += many - 1;
        }
    });
}

/// One bit for each call, while the ledger of all of them takes what memory there is.
struct Bits(Vec<u64>);

impl Bits {
    fn of(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }

    fn has(&self, place: usize) -> bool {
        self.0[place / 64] >> (place % 64) & 1 == 1
    }

    fn set(&mut self, place: usize, is: bool) {
        let bit = 1 << (place % 64);
        if is {
            self.0[place / 64] |= bit;
        } else {
            self.0[place / 64] &= !bit;
        }
    }
}

fn count(those: &[bool]) -> u64 {
    those.iter().filter(|is| **is).count() as u64
}

/// As many calls as are looked at first for evidence: mostly they are enough.
const FEW: usize = 1 << 12;

struct Weighing<'a> {
    cell: &'a Cell,
    round: &'a IndexedRound<'a>,
    free: Rules<'a>,
    charged: Rules<'a>,
    across_free: Across<'a>,
    /// Made when it is first asked for: it leaves out what is unexplained on any key.
    across_charged: Option<Across<'a>>,
}

/// Calls of a part, by place.
#[derive(Default)]
struct Weighed {
    /// Whether there was room if refusals took nothing, and may have been none if they did.
    contrary: Vec<bool>,
    /// Whether it is a refusal for which there was room: nothing was charged for them.
    unexplained: Vec<bool>,
}

impl<'a> Weighing<'a> {
    fn of(cell: &'a Cell, round: &'a IndexedRound<'a>) -> Self {
        let rules = |denials| Rules { cell, denials };
        let (free, charged) = (rules(Denials::Free), rules(Denials::Charged));
        let across_free = Across::new(free, round, Vec::new());
        Self { cell, round, free, charged, across_free, across_charged: None }
    }

    /// Room under the bound over all keys, refusals counted unless there was room for them.
    fn fits_charged_across(&mut self, part: &Part, op: &Op) -> bool {
        let Self { cell, round, free, charged, across_free, across_charged } = self;
        let across = across_charged.get_or_insert_with(|| {
            let contract = &cell.header.contract;
            let mut unexplained = Vec::new();
            if contract.across_keys.is_some() {
                unexplained = vec![false; round.ops.len()];
                Parts::by_key(round, contract.scope).each(|part| {
                    let mut own = free.own(&part);
                    for op in part.ops.iter().filter(|op| common::denied(op)) {
                        unexplained[op.id.0 as usize] =
                            free.fits(&mut own, op) && across_free.fits(&part, op);
                    }
                });
            }
            Across::new(*charged, round, unexplained)
        });
        across.fits(part, op)
    }

    /// Admitted calls that refusals would have kept out, if more are wanted: those among the first few, or
    /// among ever more until there is one. `None` if all of them would have to be looked at.
    fn evidence(&mut self, part: &Part, seen: &Seen, few: usize) -> Option<u64> {
        let mut most = few;
        while seen.wants_more() {
            if most >= part.ops.len() {
                return None;
            }
            let few = part.first(most);
            // What was invoked before its end decides about a call: all of that is among the few.
            let next = part.ops.get(most).map_or(Op::NEVER, |op| op.invoke);
            let told = |op: &Op| op.outcome == Outcome::Admitted && (op.complete < next || next == Op::NEVER);
            let found = count(&self.weigh(&few, told).contrary);
            if found > 0 {
                return Some(found);
            }
            most *= 8;
        }
        Some(0)
    }

    fn weigh(&mut self, part: &Part, asked: impl Fn(&Op) -> bool) -> Weighed {
        let asked = |op: &Op| common::decided(op) && asked(op);
        let mut roomy = vec![false; part.ops.len()];
        let mut ledger = self.free.own(part);
        let mut any = false;
        for (fits, op) in roomy.iter_mut().zip(part.ops).filter(|(_, op)| common::denied(op) || asked(op)) {
            *fits = self.free.fits(&mut ledger, op) && self.across_free.fits(part, op);
            any |= *fits && asked(op);
        }
        if !any {
            return Weighed::default();
        }
        drop(ledger);
        let mut contrary = Bits::of(part.ops.len());
        for (place, (fits, op)) in roomy.iter_mut().zip(part.ops).enumerate() {
            contrary.set(place, *fits && asked(op));
            *fits &= common::denied(op);
        }
        let part = part.leaving_out(&roomy);
        let mut ledger = self.charged.own(&part);
        for (place, op) in part.ops.iter().enumerate() {
            if contrary.has(place) {
                let fits = ledger.fits(self.charged.call_in(&part, place));
                contrary.set(place, !(fits && self.fits_charged_across(&part, op)));
            }
        }
        drop(ledger);
        let contrary = (0..part.ops.len()).map(|place| contrary.has(place)).collect();
        Weighed { contrary, unexplained: roomy }
    }

    fn witness(&self, part: &Part, place: usize) -> (String, Place) {
        let op = &part.ops[place];
        let unexplained = self.across_charged.as_ref().map_or(&[][..], Across::unexplained);
        let without = self.free.explain(&part.leaving_out(&[]), op).in_words();
        let with = self.charged.explain_beside(part, op, unexplained);
        let text = format!(
            "{}: {} was refused although {}, refusals not counted; with them it can have been {}, as if the refused ops \
         had been charged: {}",
            part.in_words(),
            common::op_in_words(part.round, op),
            without,
            with.room.in_use,
            common::ids(with.takers.iter().filter(|o| common::denied(o)))
        );
        (text, Place::of(part.round, with.takers.iter().map(|o| o.id).chain([op.id])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::contract::Scope;
    use crate::model::history::{CellHeader, Round};
    use crate::model::op::Source;
    use crate::model::room::{Call, Ledger};
    use crate::model::units::{Cost, Limit, Nanos, NodeId, OpId, Window};
    use proptest::prelude::*;

    /// Key, node, time, length, cost, outcome.
    type Seed = (u32, u16, i64, i64, u32, u8);

    fn cell(calls: &[Seed], bound: Bound, scope: Scope, across: Option<u64>) -> Cell {
        let text = r#"{"scenario":"s","limiter":"l","client":"c","backend":"b","server":{"flavour":"","version":""},
            "limit":2,"nodes":2,"rounds":1,"concurrent":false,"requirement":null,"checks":[],
            "contract":{"bound":{"kind":"none"},"scope":"global","clock":"expiry","clock_resolution_ms":0,
                        "denials":"free","on_outage":"error","key_ttl_at_most":"60s"}}"#;
        let mut header: CellHeader = serde_json::from_str(text).unwrap();
        (header.contract.bound, header.contract.scope) = (bound, scope);
        let window = bound.window().unwrap();
        header.contract.across_keys =
            across.map(|n| Bound::SlidingWindow { limit: Limit::new(n).unwrap(), window });
        let mut round = Round::starting(1, Nanos(0), None);
        round.complete = true;
        for (n, (key, node, at, length, cost, outcome)) in calls.iter().enumerate() {
            let key = round.key(&format!("k{key}"));
            let cost = Cost::new(*cost).unwrap();
            let mut op = Op::new(OpId(n as u32), NodeId(*node), key, cost, Nanos(*at));
            op.complete = Nanos(at + length);
            op.source = Some(Source::Store);
            op.outcome = match outcome {
                0 => Outcome::Failed,
                1..=5 => Outcome::Admitted,
                _ => Outcome::Denied,
            };
            round.ops.push(op);
        }
        Cell { header, epoch_ns_at_zero: 0, rounds: vec![round], honesty: None }
    }

    /// Whether a call fits beside what the round's calls took, exactly and under both bounds.
    fn fits(cell: &Cell, round: &Round, op: &Op, denials: Denials) -> bool {
        let contract = &cell.header.contract;
        let taken = |op: &Op| common::use_of(op, denials);
        [(true, Some(contract.bound)), (false, contract.across_keys)].into_iter().all(|(apart, bound)| {
            let Some(bound) = bound else { return true };
            let beside = |o: &&Op| {
                (!apart || o.key == op.key) && (contract.scope == Scope::Global || o.node == op.node)
            };
            let uses: Vec<_> = round.ops.iter().filter(beside).filter_map(taken).collect();
            let entered = taken(&round.ops[op.id.0 as usize]).map_or(0, |u| u.cost);
            let (invoke, complete, cost) = (op.invoke, op.complete, op.cost.get().into());
            let call = Call { invoke, complete, cost, entered };
            Ledger::new(&bound, common::time_of(cell, round), uses).room(call).fits
        })
    }

    /// Calls with room if refusals took nothing, and none if those did that had none: how many of them were
    /// admitted, and refused.
    fn by_definition(cell: &Cell) -> (u64, u64) {
        let round = &cell.rounds[0];
        let mut right = round.clone();
        for (op, told) in right.ops.iter_mut().zip(&round.ops) {
            if common::denied(told) && fits(cell, round, told, Denials::Free) {
                op.outcome = Outcome::Failed;
            }
        }
        let contrary =
            |op: &&Op| fits(cell, round, op, Denials::Free) && !fits(cell, &right, op, Denials::Charged);
        let found: Vec<&Op> = round.ops.iter().filter(|op| common::decided(op)).filter(contrary).collect();
        let count = |outcome| found.iter().filter(|op| op.outcome == outcome).count() as u64;
        (count(Outcome::Admitted), count(Outcome::Denied))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// However few calls are looked at first.
        #[test]
        fn what_is_found_is_what_each_call_by_itself_shows(
            calls in prop::collection::vec((0u32..2, 0u16..2, 0i64..30, 0i64..4, 1u32..3, 0u8..12), 1..40),
            kind in 0usize..5, limit in 1u64..6, per_node in any::<bool>(),
            across in prop::option::of(2u64..9), few in 1usize..50,
        ) {
            const MS: i64 = 1_000_000;
            let mut calls = calls;
            calls.sort_by_key(|call| call.2);
            calls.iter_mut().for_each(|call| (call.2, call.3) = (call.2 * MS, call.3 * MS));
            let (limit, window) = (Limit::new(limit).unwrap(), Window::from_millis(10).unwrap());
            let bound = [
                Bound::FixedWindow { limit, window },
                Bound::AlignedWindow { limit, window },
                Bound::SlidingWindow { limit, window },
                Bound::WeightedTwoWindow { limit, window },
                Bound::Bucket { capacity: limit, refill: limit, window },
            ][kind];
            let cell = cell(&calls, bound, if per_node { Scope::Node } else { Scope::Global }, across);
            let (admitted, refused) = by_definition(&cell);
            let (round, mut seen) = (&IndexedRound::of(&cell.rounds[0]), Seen::default());
            weigh(&cell, round, &mut seen, few);
            prop_assert!(seen.roomy <= admitted && (seen.roomy > 0) == (admitted > 0), "{}", seen.roomy);
            prop_assert_eq!(seen.wrong, refused);
        }
    }
}
