//! `retry-after-honest`: who is told to wait can come back then, and need not have waited twice as
//! long.
//!
//! A refused call D that tells a wait r is held against a later call E of the same key and cost, with
//! nothing that counts open or invoked from D's beginning to E's end but the two themselves (on any
//! key, where the contract bounds all keys together; refusals count where they are charged). Fails if
//!
//! * E was invoked at least r after D had its answer, and was refused: the hint is too short;
//! * E had its answer less than r / 2 after D was invoked, and was admitted: it is more than twice too
//!   long. Who can only tell whole seconds, as `Retry-After` does, rounds up to one: where every hint of
//!   the cell is in whole seconds, r less a second counts here;
//! * r = 0: a refusal that says "now".
//!
//! Allowed for are a millisecond, in which a clock that reads whole ones may be late, and any step of
//! the wall clock in the round; not the resolution that the contract names, or a wait told in whole seconds
//! and half a second short would be excused by it. Recorded hints are whole milliseconds, rounded up.
//!
//! It cannot see a hint that nobody tried. A pass needs both sides: somebody who waited it out and was
//! admitted, and somebody who had waited half of it, but not all, and was refused. `n/a` where no
//! refusal tells a wait. O(n log n).

use std::collections::BTreeMap;

use super::common::{self, Part, Parts, use_of};
use crate::model::history::{Cell, Round};
use crate::model::indexed::{IndexedCell, IndexedRound};
use crate::model::op::Op;
use crate::model::pages;
use crate::model::room::{Usage, gallop};
use crate::model::units::{Nanos, millis_in_words};
use crate::model::verdict::Finding;
use crate::ports::checker::Checker;

pub struct RetryAfterHonest;

impl Checker for RetryAfterHonest {
    fn name(&self) -> &'static str {
        "retry-after-honest"
    }

    fn proves(&self) -> &'static str {
        "waiting out the hint of a refusal is enough, and half of it is not"
    }

    fn judge(&self, cell: &Cell) -> Finding {
        self.judge_indexed(&IndexedCell::of(cell))
    }

    fn judge_indexed(&self, cell: &IndexedCell) -> Finding {
        let hints = || cell.rounds.iter().flat_map(|r| &r.ops).filter_map(hint_ms);
        if hints().next().is_none() {
            return Finding::not_applicable("no refusal tells how long to wait");
        }
        let whole_seconds = hints().all(|ms| ms % 1000 == 0);
        let (mut out, mut half) = (0u64, 0u64);
        for round in cell.rounds() {
            match follow(cell, round, whole_seconds) {
                Ok(held) => (out, half) = (out + held.out, half + held.half),
                Err(witness) => return Finding::fail(witness),
            }
        }
        if let Some(cut) = common::cut_short(cell) {
            return cut;
        }
        match (out, half) {
            (0, _) => Finding::unknown("nobody waited a hint out and came back with nothing in between"),
            (_, 0) => Finding::unknown("nobody came back after half of a hint, so it may be far too long"),
            _ => Finding::pass(format!(
                "{out} hints were waited out and the call admitted; {half} times half of one was not enough"
            )),
        }
    }
}

fn hint_ms(op: &Op) -> Option<u64> {
    op.retry_after_ms.get().filter(|_| common::denied(op))
}

fn usage(cell: &Cell, part: &Part) -> Usage {
    Usage::new(part.uses(cell.header.contract.denials))
}

fn follow(cell: &Cell, round: &IndexedRound, whole_seconds: bool) -> Result<Held, String> {
    let scope = cell.header.contract.scope;
    let mut all = BTreeMap::new();
    if cell.header.contract.across_keys.is_some() {
        Parts::together(round, scope).each(|part| {
            all.insert(part.node, All::of(usage(cell, &part), &part, cell));
        });
    }
    let mut held = Held::default();
    Parts::by_key(round, scope).try_each(|part| {
        if part.ops.iter().any(|op| hint_ms(op).is_some()) {
            let all = all.get_mut(&part.node);
            let before = all.as_ref().map_or_else(Vec::new, |all| all.before_each(part.ops));
            Waits { cell, part, whole_seconds, own: usage(cell, &part), all, before }.judge(&mut held)?;
        }
        Ok(())
    })?;
    Ok(held)
}

/// Hints of a part that were put to the test.
#[derive(Default)]
struct Held {
    /// Waited out, and admitted.
    out: u64,
    /// Waited out half of it and not all, and refused.
    half: u64,
}

/// The calls of one part, and what is known of the time between them.
struct Waits<'a> {
    cell: &'a Cell,
    part: Part<'a>,
    whole_seconds: bool,
    own: Usage,
    all: Option<&'a mut All>,
    /// Of all keys together, by place in the part.
    before: Vec<u32>,
}

/// What is known of all keys together. Asked key by key, so that each question is far from the last.
struct All {
    usage: Usage,
    /// How many uses come before each op of the round, by their numbers; empty if those are not in order of
    /// invocation.
    before: Vec<u32>,
}

impl All {
    fn of(usage: Usage, part: &Part, cell: &Cell) -> Self {
        let ops = &part.round.ops;
        let mut before = Vec::new();
        if part.ops.len() == ops.len() && ops.is_sorted_by_key(|op| op.invoke) {
            let denials = cell.header.contract.denials;
            pages::reserve_exact(&mut before, ops.len());
            before.extend(ops.iter().scan(0, |uses, op| {
                let before = *uses;
                *uses += u32::from(use_of(op, denials).is_some());
                Some(before)
            }));
        }
        Self { usage, before }
    }

    /// For some ops, far apart: asked for all of them at once, so that none waits for another.
    fn before_each(&self, ops: &[Op]) -> Vec<u32> {
        if self.before.is_empty() {
            return Vec::new();
        }
        ops.iter().map(|op| self.before.get(op.id.0 as usize).copied().unwrap_or(0)).collect()
    }
}

impl Waits<'_> {
    fn slack_ns(&self) -> i64 {
        common::step_ns(self.part.round).saturating_add(1_000_000)
    }

    fn judge(mut self, held: &mut Held) -> Result<(), String> {
        let ops = self.part.ops;
        let mut by_cost: BTreeMap<u32, Vec<&Op>> = BTreeMap::new();
        for op in ops.iter().filter(|op| common::decided(op)) {
            by_cost.entry(op.cost.get()).or_default().push(op);
        }
        for calls in by_cost.values() {
            let admitted: Vec<&Op> = calls.iter().copied().filter(|op| common::admitted(op)).collect();
            let mut ahead = Ahead { out: Row::of(calls), half: Row::of(calls), admitted: Row::of(&admitted) };
            for d in calls {
                if let Some(ms) = hint_ms(d) {
                    self.hold(d, ms, &mut ahead, held)?;
                }
            }
        }
        Ok(())
    }

    /// Holds one hint against the calls of its cost after it.
    fn hold(&mut self, d: &Op, ms: u64, ahead: &mut Ahead, held: &mut Held) -> Result<(), String> {
        if ms == 0 {
            return Err(self.witness(d, "was refused and told to come back at once"));
        }
        // Nothing that comes after D can tell then.
        if !self.own.is_over_by(self.asked_from(d)) {
            return Ok(());
        }
        let told = i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(1_000_000);
        let out = d.complete.0.saturating_add(told).saturating_add(self.slack_ns());
        if let Some(e) = ahead.out.first_from(out)
            && self.nothing_between(d, e)
        {
            if common::denied(e) {
                let waited = Nanos(e.invoke.0.saturating_sub(d.complete.0));
                let what = format!("{waited} after it {} refused again: too short", self.call(e));
                return Err(
                    self.witness(d, &format!("was refused and told to wait {}; {what}", millis_in_words(ms)))
                );
            }
            held.out += 1;
        }
        let half = d.complete.0.saturating_add(told / 2);
        if let Some(e) = ahead.half.first_from(half)
            && e.invoke.0 < d.complete.0.saturating_add(told)
            && common::denied(e)
            && self.nothing_between(d, e)
        {
            held.half += 1;
        }
        let sure = if self.whole_seconds { told.saturating_sub(1_000_000_000) } else { told };
        let early = d.invoke.0.saturating_add(sure / 2).saturating_sub(self.slack_ns());
        if let Some(e) = ahead.admitted.first_from(d.complete.0.saturating_add(1))
            && e.complete.0 < early
            && self.nothing_between(d, e)
        {
            let waited = Nanos(e.complete.0.saturating_sub(d.invoke.0));
            let what =
                format!("no more than {waited} after it {} admitted: more than twice too long", self.call(e));
            return Err(
                self.witness(d, &format!("was refused and told to wait {}; {what}", millis_in_words(ms)))
            );
        }
        Ok(())
    }

    /// From when on nothing else may have been open. After a step back D may not have seen what was counted
    /// under a later time.
    fn asked_from(&self, d: &Op) -> Nanos {
        Nanos(d.invoke.0.saturating_sub(common::step_ns(self.part.round)))
    }

    /// Whether only these two can have taken anything out of the limit after D was invoked and before
    /// E had its answer. What was open when D was invoked may have been applied after it.
    fn nothing_between(&mut self, d: &Op, e: &Op) -> bool {
        let denials = self.cell.header.contract.denials;
        let theirs: u64 = [d, e].iter().filter_map(|op| use_of(op, denials)).map(|u| u.cost).sum();
        let from = self.asked_from(d);
        let alone = |usage: &mut Usage| usage.holds_only(theirs, from, e.complete);
        alone(&mut self.own)
            && !self.others_between(d, e)
            && self.all.as_deref_mut().is_none_or(|all| alone(&mut all.usage))
    }

    /// Whether uses of any key were surely invoked after D and before E.
    fn others_between(&self, d: &Op, e: &Op) -> bool {
        let before = |op: &Op| self.before.get(self.part.ops.element_offset(op)?).copied();
        let of_d = u32::from(use_of(d, self.cell.header.contract.denials).is_some());
        before(d).zip(before(e)).is_some_and(|(d, e)| e > d.saturating_add(of_d))
    }

    fn call(&self, op: &Op) -> String {
        format!("op {} of the same cost was", op.id)
    }

    fn witness(&self, d: &Op, what: &str) -> String {
        let round: &Round = self.part.round;
        format!("{}: {} {what}", self.part.in_words(), common::op_in_words(round, d))
    }
}

/// Calls of one cost in order, and where each of the three questions was last answered.
struct Ahead<'o> {
    out: Row<'o>,
    half: Row<'o>,
    admitted: Row<'o>,
}

struct Row<'o> {
    calls: &'o [&'o Op],
    place: usize,
}

impl<'o> Row<'o> {
    fn of(calls: &'o [&'o Op]) -> Self {
        Self { calls, place: 0 }
    }

    /// The first call that was invoked at this moment or later.
    fn first_from(&mut self, at: i64) -> Option<&'o Op> {
        self.place = gallop(self.place, self.calls.len(), |place| self.calls[place].invoke.0 < at);
        self.calls.get(self.place).copied()
    }
}
