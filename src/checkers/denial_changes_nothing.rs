//! `denial-changes-nothing`: where the contract says that refusals are free, they are.
//!
//! Proves, when it fails, that a call was refused for which there was room if the refusals before it
//! took nothing, and may have been none if they were charged: the witness names them. Another cause may
//! have had the same effect; the promise is broken either way. A refusal for which there was room
//! even then surely has another cause and is left to `no-false-denial`.
//!
//! It cannot see a charge that never kept anybody out. A pass needs an admitted call that came after
//! refusals, had room without them and would have had none with them: had they been charged, it could
//! have been refused. O(n log n), O(n) for calls recorded in order.

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
    let contract = &cell.header.contract;
    let free = Rules { cell, denials: Denials::Free };
    let charged = Rules { cell, denials: Denials::Charged };
    let (all_free, all_charged) = (free.across(round), charged.across(round));
    let of = |all: &Option<Vec<bool>>, op: &Op| all.as_ref().is_none_or(|fits| fits[op.id.0 as usize]);
    Parts::by_key(round, contract.scope).each(|part| {
        if all_free.is_none() && !part.ops.iter().any(common::denied) {
            return;
        }
        let (mut own_free, mut own_charged) = (free.own(&part), charged.own(&part));
        for op in part.ops.iter().filter(|op| common::decided(op)) {
            let admitted = op.outcome == Outcome::Admitted;
            if admitted && !seen.wants_more() {
                continue;
            }
            let mut without = || of(&all_free, op) && free.fits(&mut own_free, op);
            let mut with = || of(&all_charged, op) && charged.fits(&mut own_charged, op);
            // What mostly says no is asked first: it is the cheap answer.
            let told = if admitted { !with() && without() } else { without() && !with() };
            if told && admitted {
                seen.roomy += 1;
            } else if told {
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
