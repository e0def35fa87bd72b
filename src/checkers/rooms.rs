//! What `no-false-denial`, `no-lost-permit` and `denial-changes-nothing` share: for each decided call,
//! whether there was room for it, under the bound of its key and under the one over all keys.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::common::{self, Part, Parts, use_of};
use crate::model::contract::{Bound, Denials};
use crate::model::history::Cell;
use crate::model::indexed::{IndexedCell, IndexedRound};
use crate::model::op::{Op, Outcome};
use crate::model::room::{Call, Ledger, Room};
use crate::model::scene::Place;
use crate::model::units::NodeId;
use crate::model::verdict::Finding;

/// Admitted calls that are asked about once nobody was refused wrongly so far. More are no better
/// evidence, and each takes time.
pub const ENOUGH: u64 = 1_000;

/// The rules by which room is judged: a contract, with refusals counted as used or not.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    pub cell: &'a Cell,
    pub denials: Denials,
}

impl<'a> Rules<'a> {
    pub fn ledger(&self, bound: &Bound, part: &Part) -> Ledger {
        Ledger::new(bound, common::time_of(self.cell, part.round), part.uses(self.denials))
    }

    /// The ledger of a key.
    pub fn own(&self, part: &Part) -> Ledger {
        self.ledger(&self.cell.header.contract.bound, part)
    }

    #[inline]
    pub fn fits(&self, ledger: &mut Ledger, op: &Op) -> bool {
        ledger.fits(self.call(op))
    }

    #[inline]
    fn call(&self, op: &Op) -> Call {
        Call { entered: use_of(op, self.denials).map_or(0, |u| u.cost), ..left_out(op) }
    }

    /// The call at this place, which is not in its own way.
    pub fn call_in(&self, part: &Part, place: usize) -> Call {
        let op = &part.ops[place];
        if part.left_out.get(place).is_some_and(|out| *out) { left_out(op) } else { self.call(op) }
    }

    /// The bound that leaves a call least room, how much that is, and what takes it. For witnesses.
    pub fn explain(&self, part: &Part, op: &Op) -> Explained {
        self.explain_beside(part, op, &[])
    }

    /// The same where some calls of the round, by their number, take nothing.
    pub fn explain_beside(&self, part: &Part, op: &Op, unexplained: &[bool]) -> Explained {
        let own = self.explain_by(&self.cell.header.contract.bound, part, op, false);
        let Some(bound) = self.cell.header.contract.across_keys else { return own };
        let mut across = None;
        let round = IndexedRound::of(part.round);
        Parts::together(&round, self.cell.header.contract.scope).each(|all| {
            if all.node == part.node {
                let left_out = common::left_out_of(&all, unexplained);
                across = Some(self.explain_by(&bound, &all.leaving_out(&left_out), op, true));
            }
        });
        across.into_iter().chain([own]).min_by_key(Explained::left).expect("its own bound is one")
    }

    fn explain_by(&self, bound: &Bound, part: &Part, op: &Op, across: bool) -> Explained {
        let mut ledger = self.ledger(bound, part);
        let place = part.ops.iter().position(|o| o.id == op.id).expect("a call of its part");
        let room = ledger.room(self.call_in(part, place));
        let since = ledger.taken_since(room);
        let took = |o: &&Op| {
            let taken = use_of(o, self.denials).filter(|u| u.complete >= since && u.invoke <= room.to);
            o.id != op.id && taken.is_some()
        };
        Explained {
            room,
            bound: *bound,
            across,
            takers: part.counted().filter(took).copied().collect(),
            before: part.presets().filter(|p| p.complete >= since).map(|p| p.used).sum(),
        }
    }
}

/// Room under the bound over all keys, where there is one. Made when it is first asked for: few calls
/// have room under the bound of their own key and are in question.
pub struct Across<'a> {
    rules: Rules<'a>,
    round: &'a IndexedRound<'a>,
    /// By number, calls that take nothing; empty if there is none.
    unexplained: Vec<bool>,
    /// For each node, or for all together.
    ledgers: Option<BTreeMap<Option<NodeId>, Ledger>>,
}

impl<'a> Across<'a> {
    pub fn new(rules: Rules<'a>, round: &'a IndexedRound<'a>, unexplained: Vec<bool>) -> Self {
        Self { rules, round, unexplained, ledgers: None }
    }

    pub fn unexplained(&self) -> &[bool] {
        &self.unexplained
    }

    /// Whether there is room for a decided call of this part.
    #[inline]
    pub fn fits(&mut self, part: &Part, op: &Op) -> bool {
        let Self { rules, round, unexplained, .. } = self;
        let contract = &rules.cell.header.contract;
        let Some(bound) = contract.across_keys else { return true };
        let ledgers = self.ledgers.get_or_insert_with(|| {
            let mut ledgers = BTreeMap::new();
            Parts::together(round, contract.scope).each(|all| {
                let left_out = common::left_out_of(&all, unexplained);
                ledgers.insert(all.node, rules.ledger(&bound, &all.leaving_out(&left_out)));
            });
            ledgers
        });
        let out = unexplained.get(op.id.0 as usize).is_some_and(|out| *out);
        let call = if out { left_out(op) } else { rules.call(op) };
        ledgers.get_mut(&part.node).is_none_or(|ledger| ledger.fits(call))
    }
}

/// A call of which nothing stands in the ledger.
#[inline]
fn left_out(op: &Op) -> Call {
    Call { invoke: op.invoke, complete: op.complete, cost: op.cost.get().into(), entered: 0 }
}

/// Why there was room for a call, or why not.
pub struct Explained {
    pub room: Room,
    pub bound: Bound,
    /// Whether it is the bound over all keys.
    pub across: bool,
    /// The calls that may have been in its way, and what was used before the round.
    pub takers: Vec<Op>,
    pub before: u64,
}

impl Explained {
    fn left(&self) -> (bool, u64) {
        (self.room.fits, self.room.limit.saturating_sub(self.room.in_use))
    }

    /// `at most 3 of 10 can have been in use (at most 10 in any 60s)`.
    pub fn in_words(&self) -> String {
        let whose = if self.across { " over all keys" } else { "" };
        let Room { in_use, limit, .. } = self.room;
        format!("at most {in_use} of {limit}{whose} can have been in use ({})", self.bound.in_words())
    }
}

/// Judges refusals for which there was room, refusals counted as used or not.
pub fn judge(cell: &IndexedCell, denials: Denials) -> Finding {
    let contract = &cell.header.contract;
    if contract.bound == Bound::None {
        return Finding::unknown("the limiter promises no bound, so nothing says whom it must let in");
    }
    let rules = Rules { cell, denials };
    let mut seen = Seen::default();
    for round in cell.rounds() {
        let mut across = Across::new(rules, round, Vec::new());
        let wrong_before = seen.wrong;
        Parts::by_key(round, contract.scope).each(|part| {
            seen.denials += part.ops.iter().filter(|op| common::denied(op)).count() as u64;
            let mut ledger = rules.own(&part);
            for op in part.ops.iter().filter(|op| common::decided(op)) {
                let admitted = op.outcome == Outcome::Admitted;
                let asked = !admitted || seen.wants_more();
                if !(asked && rules.fits(&mut ledger, op) && across.fits(&part, op)) {
                    continue;
                }
                if admitted {
                    seen.roomy += 1;
                } else {
                    seen.wrong(|| witness(&rules, &part, op));
                }
            }
        });
        seen.rounds_wrong += u32::from(seen.wrong > wrong_before);
    }
    seen.finding(cell)
}

#[derive(Default)]
pub struct Seen {
    /// Refusals for which there was room, the rounds they were in, and the first in words.
    pub wrong: u64,
    pub rounds_wrong: u32,
    pub first: Option<(String, Place)>,
    /// Admitted calls that would have convicted, had they been refused; no more than [`ENOUGH`].
    pub roomy: u64,
    pub denials: u64,
}

impl Seen {
    pub fn wrong(&mut self, witness: impl FnOnce() -> (String, Place)) {
        self.wrong += 1;
        if self.first.is_none() {
            self.first = Some(witness());
        }
    }

    /// Whether another admitted call would add to the evidence.
    pub fn wants_more(&self) -> bool {
        self.roomy < ENOUGH
    }

    fn roomy_in_words(&self) -> String {
        if self.wants_more() { format!("{} calls", self.roomy) } else { format!("{ENOUGH} calls or more") }
    }

    /// The conviction, if there is one.
    pub fn conviction(&self, cell: &Cell) -> Option<Finding> {
        let (first, place) = self.first.as_ref()?;
        let many =
            format!("; so {} refusals in {} of {} rounds", self.wrong, self.rounds_wrong, cell.rounds.len());
        let witness = format!("{first}{}", if self.wrong > 1 { many.as_str() } else { "" });
        Some(Finding::fail(witness).seen_at(place.clone()))
    }

    fn finding(&self, cell: &Cell) -> Finding {
        if let Some(finding) = self.conviction(cell).or_else(|| common::cut_short(cell)) {
            return finding;
        }
        if self.denials == 0 {
            return Finding::unknown("nobody was refused, so no refusal was put to the test");
        }
        if self.roomy == 0 {
            return Finding::unknown(
                "no call surely had room: calls that overlap may each have come after all the others; fewer in flight \
                 or a longer rest between them would tell",
            );
        }
        Finding::pass(format!(
            "{} surely had room, and none of the {} that were refused did",
            self.roomy_in_words(),
            self.denials
        ))
    }
}

fn witness(rules: &Rules, part: &Part, op: &Op) -> (String, Place) {
    let explained = rules.explain(part, op);
    let mut text = format!(
        "{}: {} was refused although {}",
        part.in_words(),
        common::op_in_words(part.round, op),
        explained.in_words()
    );
    if rules.denials == Denials::Charged {
        text.push_str(", refusals counted as well");
    }
    if let Some(lockout) = rules.cell.header.contract.lockout {
        let _ = write!(text, ", in the {lockout} of its lockout too");
    }
    let _ = write!(text, "; counted ops: {}", common::ids(explained.takers.iter()));
    if explained.before > 0 {
        let _ = write!(text, ", and {} used before the round", explained.before);
    }
    let seen = Place::of(part.round, explained.takers.iter().map(|o| o.id).chain([op.id]));
    (text, seen)
}
