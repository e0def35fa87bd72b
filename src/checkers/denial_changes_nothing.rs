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
use super::rooms::{ENOUGH, Rules, Seen};
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
    let weighing = Weighing::of(cell, round);
    Parts::by_key(round, cell.header.contract.scope).each(|part| {
        seen.roomy += weighing.evidence(&part, seen);
        let refused = weighing.weigh(&part, common::denied);
        for place in refused.contrary {
            seen.wrong(|| weighing.witness(&part.leaving_out(&refused.unexplained), place));
        }
    });
}

/// As many calls as are looked at first for evidence: mostly they are enough.
const FEW: usize = 1 << 12;

struct Weighing<'a> {
    free: Rules<'a>,
    charged: Rules<'a>,
    across: Option<Across>,
}

/// What is known under a bound over all keys, of calls by their number.
struct Across {
    /// Whether there was room, refusals not counted, and counted.
    free: Vec<bool>,
    charged: Vec<bool>,
    unexplained: Vec<bool>,
}

/// Calls of a part, by place.
#[derive(Default)]
struct Weighed {
    /// For which there was room if refusals took nothing, and may have been none if they did.
    contrary: Vec<usize>,
    /// Refusals for which there was room: nothing was charged for them.
    unexplained: Vec<bool>,
}

impl<'a> Weighing<'a> {
    fn of(cell: &'a Cell, round: &Round) -> Self {
        let rules = |denials| Rules { cell, denials };
        let mut weighing =
            Self { free: rules(Denials::Free), charged: rules(Denials::Charged), across: None };
        let Some(bound) = cell.header.contract.across_keys else { return weighing };
        let free = weighing.free.across(round).unwrap_or_default();
        let mut across = Across { free, charged: Vec::new(), unexplained: vec![false; round.ops.len()] };
        Parts::by_key(round, cell.header.contract.scope).each(|part| {
            let mut ledger = weighing.free.own(&part);
            for op in part.ops.iter().filter(|op| common::denied(op)) {
                let fits = across.free[op.id.0 as usize] && weighing.free.fits(&mut ledger, op);
                across.unexplained[op.id.0 as usize] = fits;
            }
        });
        across.charged = vec![false; round.ops.len()];
        Parts::together(round, cell.header.contract.scope).each(|part| {
            let left_out = common::left_out_of(&part, &across.unexplained);
            let part = part.leaving_out(&left_out);
            weighing.charged.across_part(&bound, &part, &mut across.charged);
        });
        weighing.across = Some(across);
        weighing
    }

    /// How many admitted calls refusals would have kept out, as far as more are wanted: looked for among
    /// the first few, and then among ever more.
    fn evidence(&self, part: &Part, seen: &Seen) -> u64 {
        let mut most = FEW;
        while seen.wants_more() {
            let few = part.first(most);
            // What was invoked before its end decides about a call: all of that is among the few.
            let next = part.ops.get(most).map_or(Op::NEVER, |op| op.invoke);
            let told = |op: &Op| op.outcome == Outcome::Admitted && (op.complete < next || next == Op::NEVER);
            let found = self.weigh(&few, told).contrary.len() as u64;
            if most >= part.ops.len() || seen.roomy + found >= ENOUGH {
                return found;
            }
            most *= 8;
        }
        0
    }

    fn weigh(&self, part: &Part, asked: impl Fn(&Op) -> bool) -> Weighed {
        let asked = |op: &Op| common::decided(op) && asked(op);
        let across = |fits: fn(&Across) -> &Vec<bool>, op: &Op| {
            self.across.as_ref().is_none_or(|across| fits(across)[op.id.0 as usize])
        };
        let mut roomy = vec![false; part.ops.len()];
        let mut ledger = self.free.own(part);
        let mut any = false;
        for (fits, op) in roomy.iter_mut().zip(part.ops).filter(|(_, op)| common::denied(op) || asked(op)) {
            *fits = across(|a| &a.free, op) && self.free.fits(&mut ledger, op);
            any |= *fits && asked(op);
        }
        if !any {
            return Weighed::default();
        }
        drop(ledger);
        let places = |ops: &[Op], roomy: &[bool]| -> Vec<usize> {
            (0..ops.len()).filter(|place| roomy[*place] && asked(&ops[*place])).collect()
        };
        let mut contrary = places(part.ops, &roomy);
        for (fits, op) in roomy.iter_mut().zip(part.ops) {
            *fits &= common::denied(op);
        }
        let part = part.leaving_out(&roomy);
        let mut ledger = self.charged.own(&part);
        contrary.retain(|place| {
            let fits = ledger.fits(self.charged.call_in(&part, *place));
            !(fits && across(|a| &a.charged, &part.ops[*place]))
        });
        drop(ledger);
        Weighed { contrary, unexplained: roomy }
    }

    fn witness(&self, part: &Part, place: usize) -> String {
        let op = &part.ops[place];
        let unexplained = self.across.as_ref().map_or(&[][..], |across| &across.unexplained);
        let without = self.free.explain(&part.leaving_out(&[]), op);
        let with = self.charged.explain_beside(part, op, unexplained);
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
}
