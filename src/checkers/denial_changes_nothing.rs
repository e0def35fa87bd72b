//! `denial-changes-nothing`: where the contract says that refusals are free, they are.
//!
//! Proves, when it fails, that a call was refused for which there was room if the refusals before it
//! took nothing, and may have been none if they were charged: the witness names them. All of
//! those were right by themselves: where one of them had room too, something else keeps callers out,
//! such as a key that never expires, and that is left to `no-false-denial`.
//!
//! It cannot see a charge that never kept anybody out. A pass needs an admitted call that came after
//! refusals, had room without them and would have had none with them: had they been charged, it could
//! have been refused. O(n log n), O(n) for calls recorded in order.

use std::collections::HashSet;

use super::common::{self, Parts};
use super::rooms::{Answer, Books, Seen};
use crate::model::contract::{Bound, Denials};
use crate::model::history::{Cell, Round};
use crate::model::op::{Op, Outcome};
use crate::model::units::OpId;
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
        let mut first = None;
        // Where nobody was refused there is nothing to be charged.
        for round in cell.rounds.iter().filter(|r| r.ops.iter().any(common::denied)) {
            let wrong_before = seen.wrong;
            weigh(cell, round, &mut seen, &mut first);
            seen.rounds_wrong += u32::from(seen.wrong > wrong_before);
        }
        if let Some(witness) = first {
            return Finding::fail(format!("{witness}{}", seen.so_many(cell)));
        }
        if let Some(cut) = common::cut_short(cell) {
            return cut;
        }
        if seen.roomy == 0 {
            return Finding::unknown(
                "no call came after refusals in such a way that a charge for them would have shown",
            );
        }
        Finding::pass(format!(
            "{} calls got in for which there was no room had the refusals before them been charged",
            seen.roomy
        ))
    }
}

fn weigh(cell: &Cell, round: &Round, seen: &mut Seen, first: &mut Option<String>) {
    let unexplained = unexplained(cell, round);
    let mut free = Books::open(cell, round, Denials::Free);
    let mut charged = Books::open(cell, round, Denials::Charged);
    let across = cell.header.contract.across_keys.is_some();
    for part in Parts::by_key(round, cell.header.contract.scope).iter() {
        if !across && !part.ops().any(common::denied) {
            continue;
        }
        let (mut own_free, mut own_charged) = (free.ledger(&part), charged.ledger(&part));
        for op in part.ops().filter(|op| common::decided(op)) {
            let without = free.ask(&mut own_free, &part, op);
            if !without.room.fits {
                continue;
            }
            let with = charged.ask(&mut own_charged, &part, op);
            if with.room.fits {
                continue;
            }
            if op.outcome == Outcome::Admitted {
                seen.roomy += 1;
                continue;
            }
            let (takers, _) = charged.takers(&mut own_charged, &part, op, &with);
            if takers.iter().any(|o| unexplained.contains(&o.id)) {
                continue;
            }
            seen.wrong += 1;
            if first.is_none() {
                *first = Some(format!(
                    "{}: {}",
                    part.in_words(),
                    witness(round, op, &without, &with, takers.into_iter().filter(|o| common::denied(o)))
                ));
            }
        }
    }
}

/// Refusals for which there was room, and which no refusal before them explains by a charge: the first
/// of those on a key are wrong in themselves.
fn unexplained(cell: &Cell, round: &Round) -> HashSet<OpId> {
    let mut free = Books::open(cell, round, Denials::Free);
    let mut charged = Books::open(cell, round, Denials::Charged);
    let mut found = HashSet::new();
    for part in Parts::by_key(round, cell.header.contract.scope).iter() {
        let (mut own_free, mut own_charged) = (free.ledger(&part), charged.ledger(&part));
        for op in part.ops().filter(|op| common::denied(op)) {
            if !free.ask(&mut own_free, &part, op).room.fits {
                continue;
            }
            let with = charged.ask(&mut own_charged, &part, op);
            let mut beside = || charged.takers(&mut own_charged, &part, op, &with).0;
            if with.room.fits || beside().iter().any(|o| found.contains(&o.id)) {
                found.insert(op.id);
            }
        }
    }
    found
}

fn witness<'o>(
    round: &Round,
    op: &Op,
    without: &Answer,
    with: &Answer,
    refusals: impl Iterator<Item = &'o Op>,
) -> String {
    format!(
        "{} was refused although at most {} of {} can have been in use ({}), refusals not counted; with them it can \
         have been {}, as if the refused ops had been charged: {}",
        common::op_in_words(round, op),
        without.room.in_use,
        without.room.limit,
        without.bound.in_words(),
        with.room.in_use,
        common::ids(refusals)
    )
}
