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

use std::borrow::Cow;

use super::common::{self, Part, Parts};
use super::rooms::{Rules, Seen};
use crate::model::contract::{Bound, Denials};
use crate::model::history::{Cell, Round};
use crate::model::op::{Op, Outcome};
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
        // Where nobody was refused there is nothing to be charged.
        for round in cell.rounds.iter().filter(|r| r.ops.iter().any(common::denied)) {
            let wrong_before = seen.wrong;
            weigh(cell, round, &mut seen);
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
            "{} got in for which there was no room had the refusals before them been charged",
            seen.roomy_in_words()
        ))
    }
}

fn weigh(cell: &Cell, round: &Round, seen: &mut Seen) {
    let free = Rules { cell, denials: Denials::Free };
    let charged = Rules { cell, denials: Denials::Charged };
    let asked = |op: &Op| common::decided(&round.ops[op.id.0 as usize]);
    let without = free.fits_each(round, asked);
    // A refusal for which there was room was not right, so nothing was charged for it.
    let unexplained = |op: &Op| common::denied(op) && without[op.id.0 as usize];
    let mut right = Cow::Borrowed(round);
    if round.ops.iter().any(unexplained) {
        for op in right.to_mut().ops.iter_mut().filter(|op| unexplained(op)) {
            op.outcome = Outcome::Failed;
        }
    }
    let with = charged.fits_each(&right, asked);
    Parts::by_key(&right, cell.header.contract.scope).each(|part| {
        for op in part.ops.iter().map(|op| &round.ops[op.id.0 as usize]).filter(|op| common::decided(op)) {
            if !without[op.id.0 as usize] || with[op.id.0 as usize] {
                continue;
            }
            if op.outcome == Outcome::Admitted {
                seen.roomy += 1;
            } else {
                seen.wrong(|| witness(&free, &charged, &part, op));
            }
        }
    });
}

fn witness(free: &Rules, charged: &Rules, part: &Part, op: &Op) -> String {
    let (without, with) = (free.explain(part, op), charged.explain(part, op));
    format!(
        "{}: {} was refused although {}, refusals not counted; with them it can have been {}, as if the refused ops \
         had been charged: {}",
        part.in_words(),
        common::op_in_words(part.round, op),
        without.in_words(),
        with.room.in_use,
        common::ids(with.takers.iter().filter(|o| common::denied(o)))
    )
}
