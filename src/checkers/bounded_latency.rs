//! `bounded-latency`: no caller waits longer for an answer than the scenario says callers can, whatever
//! breaks.
//!
//! A machine is slow in its own way, so the bound is the required one plus three times what the slowest call
//! took before anything broke. Time during which the thread of the calls stood still counts for nobody.
//!
//! On a machine so slow that this excuses everything, the calls are held against each other: where a fifth of
//! those that were open while something was broken, and five at least, took longer than required and three
//! times what 95 of 100 took before, no slow machine singled them out.
//!
//! Proves, when it fails, that calls took longer than that: the witness says for how long, and what was
//! broken. A pass needs a call that was open while something was broken for certain, and calls to compare
//! with. Requests on a route without a limiter, which wait for a worker like any other, are held to the same.
//! O(n × stalls).

use super::common;
use crate::model::history::{Cell, Faulted, Round};
use crate::model::op::Op;
use crate::model::scene::Place;
use crate::model::units::Nanos;
use crate::model::verdict::Finding;
use crate::ports::checker::Checker;

pub struct BoundedLatency;

impl Checker for BoundedLatency {
    fn name(&self) -> &'static str {
        "bounded-latency"
    }

    fn proves(&self) -> &'static str {
        "no caller waits longer than required, whatever breaks"
    }

    fn judge(&self, cell: &Cell) -> Finding {
        let Some(needs) = cell.header.outage else {
            return Finding::unknown("nothing says how long a caller can wait ([outage] answers_within)");
        };
        if cell.rounds.iter().all(|r| r.faults.is_empty()) {
            return Finding::unknown("nothing broke, so nothing was tried");
        }
        let (mut longest, mut struck, mut allowed) = (Nanos(0), 0_u64, i64::MAX);
        for round in &cell.rounds {
            let Some(slowest) = slowest_before(round, needs.recovers_within.nanos()) else {
                return Finding::unknown(
                    "no call was made while nothing was broken: nothing to compare with",
                );
            };
            let within = needs.answers_within.nanos();
            let most = within.saturating_add(slowest.saturating_mul(3));
            allowed = allowed.min(most);
            let mut longer = Vec::new();
            for (invoke, complete) in &round.asides {
                let took = without_stalls(round, *invoke, *complete);
                if took > most {
                    return Finding::fail(aside(round, *invoke, took, most));
                }
            }
            for op in &round.ops {
                let Some(took) = took(round, op) else {
                    return Finding::unknown(format!(
                        "{} has no end: the history is cut short",
                        common::op_in_words(round, op)
                    ));
                };
                if took > most {
                    let seen = Place::of(round, [op.id]);
                    return Finding::fail(witness(round, op, took, most, slowest)).seen_at(seen);
                }
                longer.extend(Some(took).filter(|_| open_meanwhile(round, op)));
                struck += u64::from(open_meanwhile(round, op));
                longest = longest.max(Nanos(took));
            }
            let usual = within.saturating_add(usual_before(round).unwrap_or(slowest).saturating_mul(3));
            let over = longer.iter().filter(|took| **took > usual).count();
            if over >= 5 && over * 5 >= longer.len() {
                return Finding::fail(format!(
                    "{over} of {} calls that were open while something was broken took longer than {}, the \
                     required time and three times what 95 of 100 took before; the slowest {}",
                    longer.len(),
                    Nanos(usual),
                    Nanos(longer.iter().copied().max().unwrap_or(0)).beside(Nanos(usual))
                ));
            }
        }
        if let Some(cut) = common::cut_short(cell) {
            return cut;
        }
        if struck == 0 {
            return Finding::unknown("no call was open while something was broken");
        }
        Finding::pass(format!(
            "{struck} calls were open while something was broken; the slowest took {}, of {} it may",
            longest.beside(Nanos(allowed)),
            Nanos(allowed).beside(longest)
        ))
    }
}

/// Whether a call was open while something may have been broken.
fn open_meanwhile(round: &Round, op: &Op) -> bool {
    round.faults.iter().any(|f| f.touches(op.invoke, answered(round, op)))
}

/// What 95 of 100 calls took at most that ended before anything broke.
fn usual_before(round: &Round) -> Option<i64> {
    let broke = round.faults.iter().map(|f| f.asked).min()?;
    let mut took: Vec<i64> =
        round.ops.iter().filter(|op| answered(round, op) < broke).filter_map(|op| took(round, op)).collect();
    took.sort_unstable();
    let place = (took.len() * 95).div_ceil(100).checked_sub(1)?;
    took.get(place).copied()
}

/// When the caller got its answer, also one that leaves open what the store did.
fn answered(round: &Round, op: &Op) -> Nanos {
    round.answered_at(op.id).unwrap_or(op.complete)
}

/// How long a caller waited, without what the thread of the calls stood still; `None` if nobody knows.
fn took(round: &Round, op: &Op) -> Option<i64> {
    let end = answered(round, op);
    if end == Op::NEVER {
        return None;
    }
    Some(without_stalls(round, op.invoke, end))
}

fn without_stalls(round: &Round, from: Nanos, to: Nanos) -> i64 {
    let still =
        |(began, ended): &(Nanos, Nanos)| ended.0.min(to.0).saturating_sub(began.0.max(from.0)).max(0);
    to.0.saturating_sub(from.0).saturating_sub(round.stalls.iter().map(still).sum())
}

fn aside(round: &Round, invoke: Nanos, took: i64, most: i64) -> String {
    format!(
        "a request on a route without a limiter waited {} for a worker, from {} of the round on; {} are allowed",
        Nanos(took).beside(Nanos(most)),
        Nanos(invoke.0.saturating_sub(round.began.0)),
        Nanos(most).beside(Nanos(took))
    )
}

/// What the slowest call took of those that ended before anything broke or, where there is none because the
/// round begins with it, were made when everything had been mended for a while.
fn slowest_before(round: &Round, mended_for: i64) -> Option<i64> {
    let broke = round.faults.iter().map(|f| f.asked).min()?;
    let slowest =
        |of: &dyn Fn(&&Op) -> bool| round.ops.iter().filter(of).filter_map(|op| took(round, op)).max();
    slowest(&|op| answered(round, op) < broke).or_else(|| {
        let mended = round.faults.iter().map(|f| f.over).max()??;
        slowest(&|op| op.invoke.0 >= mended.0.saturating_add(mended_for))
    })
}

fn witness(round: &Round, op: &Op, took: i64, most: i64, slowest: i64) -> String {
    let end = answered(round, op);
    let broken: Vec<String> =
        round.faults.iter().filter(|f| f.touches(op.invoke, end)).map(|f| in_words(round, f)).collect();
    let broken = if broken.is_empty() { "nothing broken".to_owned() } else { broken.join(", ") };
    format!(
        "op {} of node {} waited {} from {} of the round on; {} are allowed, {} of them for a slow machine; \
         meanwhile {broken}",
        op.id,
        op.node,
        Nanos(took).beside(Nanos(most)),
        Nanos(op.invoke.0.saturating_sub(round.began.0)),
        Nanos(most).beside(Nanos(took)),
        Nanos(slowest.saturating_mul(3)),
    )
}

/// `freeze of primary from 2001.2 ms to 5003.1 ms`.
pub fn in_words(round: &Round, fault: &Faulted) -> String {
    let at = |t: Nanos| Nanos(t.0.saturating_sub(round.began.0));
    let from = at(fault.from);
    let (from, to) = match fault.lifted.map(at) {
        Some(to) => (from.beside(to), to.beside(from)),
        None => (from.to_string(), "the end".to_owned()),
    };
    format!("{} of {} from {from} to {to}", fault.fault, fault.on)
}
