//! The two rules of the wait: long enough, and no longer than needed.

use super::super::common::{self, Parts};
use super::{Heard, refused};
use crate::model::http::RetryAfter;
use crate::model::indexed::IndexedCell;
use crate::model::op::Op;
use crate::model::units::millis_in_words;
use crate::model::verdict::Finding;

const SECOND_NS: i64 = 1_000_000_000;

/// What was found of all waits.
#[derive(Default)]
pub struct Waits {
    told: u64,
    short: Option<String>,
    long: Option<String>,
    /// Waited out by somebody who was then admitted.
    out: u64,
    /// Whose true length is known, or that cannot be shorter, or that somebody cut short by little more than the second
    /// that rounding up may add, and was refused.
    weighed: u64,
}

impl Waits {
    pub fn enough(&self) -> Finding {
        match (&self.short, self.told, self.out) {
            (Some(witness), ..) => Finding::fail(witness.clone()),
            (_, 0, _) => Finding::unknown("no refusal tells a wait"),
            (.., 0) => Finding::unknown("nobody waited one out and came back with nothing in between"),
            (.., n) => Finding::pass(format!("{n} were waited out and the call admitted")),
        }
    }

    pub fn needed(&self) -> Finding {
        match (&self.long, self.told, self.weighed) {
            (Some(witness), ..) => Finding::fail(witness.clone()),
            (_, 0, _) => Finding::unknown("no refusal tells a wait"),
            (.., 0) => Finding::unknown("nobody came back in the last seconds of one, so it may be too long"),
            (.., n) => Finding::pass(format!("{n} are no longer than they need to be")),
        }
    }

    /// Holds what one refusal says against the true wait, where that is known.
    fn weigh(&mut self, refusal: &Heard) {
        let answer = refusal.answer;
        let Some(seconds) = answer.wait_s() else { return };
        self.told += 1;
        let told = answer.told_ms();
        let own = answer.decided.and_then(|d| d.retry_after_ms);
        // Two claims of one answer, and the truth where it is known: whichever is below or above another.
        for (name, ms) in [("Retry-After", Some(seconds.saturating_mul(1000))), ("retry_after_ms", told)] {
            let Some(ms) = ms else { continue };
            for exact in [own, told.filter(|_| own.is_none())].into_iter().flatten() {
                let least = exact.div_ceil(1000).max(1) + spare_s(refusal);
                let what = |how: &str| {
                    let true_one = if own.is_some() { "the limiter's own" } else { "by retry_after_ms" };
                    let (told, exact) = (millis_in_words(ms), millis_in_words(exact));
                    refusal.witness(&format!("with {name} of {told}, {how}: it is {exact}, {true_one}"))
                };
                if ms < exact {
                    self.short.get_or_insert_with(|| what("too short"));
                }
                if ms > least.saturating_mul(1000) {
                    self.long.get_or_insert_with(|| what("longer than needed"));
                }
            }
        }
        self.weighed += u64::from(is_known(refusal));
    }

    /// Holds what D was told against E, which came next with nothing in between.
    fn hold(&mut self, refusal: &Heard, e: &Op, slack: i64) {
        let d = refusal.op;
        let Some(seconds) = refusal.answer.wait_s().and_then(|s| i64::try_from(s).ok()) else { return };
        if common::denied(e) == common::admitted(e) || d.cost != e.cost {
            return;
        }
        let after = |seconds: i64| seconds.saturating_mul(SECOND_NS);
        let out = d.complete.0.saturating_add(after(seconds)).saturating_add(slack);
        if e.invoke.0 >= out {
            if common::denied(e) {
                let what = format!("with a wait of {seconds} s; waited out, op {} was refused again", e.id);
                self.short.get_or_insert_with(|| refusal.witness(&what));
            } else {
                self.out += 1;
            }
            return;
        }
        let sure = seconds - 1 - i64::try_from(spare_s(refusal)).unwrap_or(0);
        let early = d.invoke.0.saturating_add(after(sure)).saturating_sub(slack);
        if common::admitted(e) && e.complete.0 < early {
            let what = format!(
                "with a wait of {seconds} s; op {} was admitted more than a second before its end",
                e.id
            );
            self.long.get_or_insert_with(|| refusal.witness(&what));
        }
        const LATE_NS: i64 = 250_000_000;
        let late = d.complete.0.saturating_add(after(sure)).saturating_sub(LATE_NS);
        self.weighed += u64::from(!is_known(refusal) && common::denied(e) && e.invoke.0 >= late);
    }
}

/// Whether a wait needs nobody to cut it short.
fn is_known(refusal: &Heard) -> bool {
    refusal.answer.wait_s() == Some(1) || refusal.answer.exact_ms().is_some()
}

/// A date counts from the answer's own, which leaves out up to a second.
fn spare_s(refusal: &Heard) -> u64 {
    u64::from(matches!(refusal.answer.retry_after(), Some(RetryAfter::At(_))))
}

pub fn follow(cell: &IndexedCell) -> Waits {
    let mut waits = Waits::default();
    refused(cell).for_each(|refusal| waits.weigh(&refusal));
    let contract = &cell.header.contract;
    for round in cell.rounds() {
        if round.http.is_empty() {
            continue;
        }
        let parts = match contract.across_keys {
            Some(_) => Parts::together(round, contract.scope),
            None => Parts::by_key(round, contract.scope),
        };
        let slack = common::step_ns(round).saturating_add(1_000_000);
        parts.each(|part| {
            let visited = common::neighbours(&part, |d, e| {
                if let Some(answer) = round.http.get(&d.id.0).filter(|_| common::denied(d)) {
                    waits.hold(&Heard { round: round.round(), op: d, answer }, e, slack);
                }
                Ok(())
            });
            debug_assert_eq!(visited, Ok(()));
        });
    }
    waits
}
