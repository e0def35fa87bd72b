//! What `no-false-denial`, `no-lost-permit` and `denial-changes-nothing` share: for each decided call,
//! whether there was room for it, under the bound of its key and under the one over all keys.

use std::collections::BTreeMap;

use super::common::{self, Part, Parts, use_of};
use crate::model::contract::{Bound, Denials};
use crate::model::history::{Cell, Round};
use crate::model::op::{Op, Outcome};
use crate::model::room::{Call, Ledger, Room};
use crate::model::units::NodeId;
use crate::model::verdict::Finding;

/// The ledgers of one round, kept with refusals in them or without.
pub struct Books<'a> {
    cell: &'a Cell,
    round: &'a Round,
    denials: Denials,
    /// One for each node where the scope is the node; none if there is no bound over all keys.
    across: BTreeMap<Option<NodeId>, Ledger>,
}

/// What two ledgers say about a call: the one with less room speaks.
pub struct Answer {
    pub room: Room,
    pub bound: Bound,
    /// Whether it is the bound over all keys.
    pub across: bool,
}

impl<'a> Books<'a> {
    pub fn open(cell: &'a Cell, round: &'a Round, denials: Denials) -> Self {
        let contract = &cell.header.contract;
        let mut across = BTreeMap::new();
        if let Some(bound) = &contract.across_keys {
            let time = common::time_of(cell, round);
            for part in Parts::together(round, contract.scope).iter() {
                across.insert(part.node, Ledger::new(bound, time, part.uses(denials)));
            }
        }
        Self { cell, round, denials, across }
    }

    /// The ledger of a key.
    pub fn ledger(&self, part: &Part) -> Ledger {
        let time = common::time_of(self.cell, self.round);
        Ledger::new(&self.cell.header.contract.bound, time, part.uses(self.denials))
    }

    pub fn ask(&mut self, own: &mut Ledger, part: &Part, op: &Op) -> Answer {
        let contract = &self.cell.header.contract;
        let call = Call {
            invoke: op.invoke,
            complete: op.complete,
            cost: op.cost.get().into(),
            entered: use_of(op, self.denials).map_or(0, |u| u.cost),
        };
        let of_key = Answer { room: own.room(call), bound: contract.bound, across: false };
        let (Some(across), Some(bound)) = (self.across.get_mut(&part.node), contract.across_keys) else {
            return of_key;
        };
        let of_all = Answer { room: across.room(call), bound, across: true };
        let tight = |a: &Answer| (a.room.fits, a.room.limit.saturating_sub(a.room.in_use));
        if tight(&of_all) < tight(&of_key) { of_all } else { of_key }
    }

    /// The uses that took room from a call, in words, and how much was used before the round.
    pub fn counted(&mut self, own: &mut Ledger, part: &Part, op: &Op, answer: &Answer) -> String {
        let (calls, before) = self.takers(own, part, op, answer);
        let before = if before > 0 { format!(" and {before} used before the round") } else { String::new() };
        format!("{}{before}", common::ids(calls.into_iter()))
    }

    /// The calls that took room from a call, and how much a preset did.
    pub fn takers(&mut self, own: &mut Ledger, part: &Part, op: &Op, answer: &Answer) -> (Vec<&'a Op>, u64) {
        let round = self.round;
        let ledger = if answer.across { self.across.get_mut(&part.node) } else { None };
        let since = ledger.unwrap_or(own).taken_since(answer.room);
        let meant = |o: &Op| {
            (answer.across || Some(o.key) == part.key)
                && part.node.is_none_or(|n| n == o.node)
                && o.id != op.id
        };
        let denials = self.denials;
        let took = |o: &&Op| {
            let taken = use_of(o, denials).filter(|u| u.complete >= since && u.invoke <= answer.room.to);
            meant(o) && taken.is_some()
        };
        let presets = round.presets.iter().filter(|p| {
            (answer.across || Some(p.key) == part.key)
                && part.node.is_none_or(|n| n == p.node)
                && p.complete >= since
        });
        (round.ops.iter().filter(took).collect(), presets.map(|p| p.used).sum())
    }
}

/// Judges refusals for which there was room, refusals counted as used or not.
pub fn judge(cell: &Cell, denials: Denials) -> Finding {
    let contract = &cell.header.contract;
    if contract.bound == Bound::None {
        return Finding::unknown("the limiter promises no bound, so nothing says whom it must let in");
    }
    let mut seen = Seen::default();
    let mut first = None;
    for round in &cell.rounds {
        let mut books = Books::open(cell, round, denials);
        let wrong_before = seen.wrong;
        for part in Parts::by_key(round, contract.scope).iter() {
            let mut ledger = books.ledger(&part);
            for op in part.ops().filter(|op| common::decided(op)) {
                let answer = books.ask(&mut ledger, &part, op);
                seen.denials += u64::from(op.outcome == Outcome::Denied);
                match (answer.room.fits, op.outcome) {
                    (false, _) => {}
                    (true, Outcome::Admitted) => seen.roomy += 1,
                    (true, _) => {
                        seen.wrong += 1;
                        if first.is_none() {
                            first = Some(witness(&mut books, &mut ledger, &part, op, &answer));
                        }
                    }
                }
            }
        }
        seen.rounds_wrong += u32::from(seen.wrong > wrong_before);
    }
    match first {
        Some(witness) => Finding::fail(format!("{witness}{}", seen.so_many(cell))),
        None => seen.evidence(cell),
    }
}

#[derive(Default)]
pub struct Seen {
    /// Refusals for which there was room, and the rounds they were in.
    pub wrong: u64,
    pub rounds_wrong: u32,
    /// Admitted calls that would have convicted, had they been refused.
    pub roomy: u64,
    pub denials: u64,
}

impl Seen {
    /// The end of a witness.
    pub fn so_many(&self, cell: &Cell) -> String {
        if self.wrong < 2 {
            return String::new();
        }
        format!("; so {} refusals in {} of {} rounds", self.wrong, self.rounds_wrong, cell.rounds.len())
    }

    fn evidence(&self, cell: &Cell) -> Finding {
        if let Some(cut) = common::cut_short(cell) {
            return cut;
        }
        let Self { roomy, denials, .. } = self;
        if *denials == 0 {
            return Finding::unknown("nobody was refused, so no refusal was put to the test");
        }
        if *roomy == 0 {
            return Finding::unknown(
                "no call surely had room: calls that overlap may each have come after all the others; fewer in flight \
                 or a longer rest between them would tell",
            );
        }
        Finding::pass(format!(
            "{roomy} calls surely had room, and none of the {denials} that were refused did"
        ))
    }
}

fn witness(books: &mut Books, own: &mut Ledger, part: &Part, op: &Op, answer: &Answer) -> String {
    let whose = if answer.across { " over all keys" } else { "" };
    format!(
        "{}: {} was refused although at most {} of {}{whose} can have been in use ({}{}); counted: ops {}",
        part.in_words(),
        common::op_in_words(part.round, op),
        answer.room.in_use,
        answer.room.limit,
        answer.bound.in_words(),
        match (books.denials, &books.cell.header.contract.lockout) {
            (Denials::Charged, _) => "; refusals counted as well".to_owned(),
            (_, Some(lockout)) => format!("; {lockout} of lockout taken into account"),
            _ => String::new(),
        },
        books.counted(own, part, op, answer)
    )
}
