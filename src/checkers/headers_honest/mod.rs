//! `headers-honest`: what an answer over HTTP says of the limit is true, and enough to go by.
//!
//! Judged on what was answered to each call, as recorded. Eight rules, each with a finding of its own; the worst
//! is the verdict, and what does not apply leaves it as it is:
//!
//! * **status**: 429 if the limiter behind the service had refused the call, and not otherwise. Only where the
//!   lab stands on both sides.
//! * **retry-after**: a refusal says when to come back, in whole seconds from 1 on, or as a date. A call that
//!   costs more than there ever is has nothing to wait for.
//! * **wait-is-enough**: the wait is no shorter than the true one, which the limiter itself or
//!   `retry_after_ms` tells; and who waits it out, with nothing else open on the key meanwhile, is not refused.
//! * **wait-is-needed**: it is no longer than the true one rounded up to a whole second; and who comes back
//!   more than a second before its end, with nothing in between, is not admitted. A date may be a second longer,
//!   since the answer's own date leaves out as much.
//! * **reset**: `RateLimit-Reset` is a number of seconds (366 days at most), `X-RateLimit-Reset` a Unix time near
//!   the answer's own date: not more than a day before it and not more than 367 after it. Of a refusal it is not before
//!   what `Retry-After` says, or whoever goes by it comes too early; where it is after that, which it may be if it
//!   means that all of the limit is there again, nothing is told.
//! * **remaining**: no more is left than the limit, nothing where a call that costs 1 was refused, and what is
//!   left is what the next call finds: that is `remaining-consistent` of what the field says, where the limiter's
//!   bound is known. Where it is not, and calls follow each other: no less is given before a refusal than was left,
//!   and exactly that at least once.
//! * **families**: where both families are there they say the same; the two resets may be two seconds apart
//!   and what the date leaves out.
//! * **problem**: a refusal has a body `application/problem+json`, an object with type, title and status, and
//!   the status is the one of the answer.
//!
//! A pass needs calls that were refused, and each rule put to the test: a wait that was waited out by somebody
//! who was then admitted; for how long it needs to be its true length, or a wait of one second, which is the least
//! there is, or somebody who came back little more than a second before its end and was refused. It cannot see whether a
//! type is the same for ever. `n/a` where calls do not go over HTTP. O(n log n).

mod rules;
mod waits;

use crate::model::history::{Cell, Round};
use crate::model::http::Answer;
use crate::model::indexed::IndexedCell;
use crate::model::op::Op;
use crate::model::verdict::{Finding, Verdict};
use crate::ports::checker::Checker;

use super::common;

pub struct HeadersHonest;

impl Checker for HeadersHonest {
    fn name(&self) -> &'static str {
        "headers-honest"
    }

    fn proves(&self) -> &'static str {
        "what an answer over HTTP says of the limit is true, and enough to go by"
    }

    fn judge(&self, cell: &Cell) -> Finding {
        self.judge_indexed(&IndexedCell::of(cell))
    }

    fn judge_indexed(&self, cell: &IndexedCell) -> Finding {
        if !cell.header.http {
            return Finding::not_applicable("calls do not go over HTTP");
        }
        let rules = rules(cell);
        let worst = rules.iter().map(|r| r.finding.verdict).max();
        let of = |verdict| rules.iter().filter(move |r| r.finding.verdict == verdict);
        match worst {
            Some(Verdict::Fail) => {
                let failed: Vec<&str> = of(Verdict::Fail).map(|r| r.name).collect();
                let first = of(Verdict::Fail).next().map(|r| r.finding.because.as_str()).unwrap_or_default();
                Finding::fail(format!("{}: {first}", failed.join(", ")))
            }
            Some(Verdict::Unknown) => {
                let told = of(Verdict::Unknown).map(|r| format!("{}: {}", r.name, r.finding.because));
                Finding::unknown(told.collect::<Vec<_>>().join("; "))
            }
            _ => common::cut_short(cell).unwrap_or_else(|| {
                let told = of(Verdict::Pass).map(|r| format!("{}: {}", r.name, r.finding.because));
                Finding::pass(told.collect::<Vec<_>>().join("; "))
            }),
        }
    }
}

/// A rule, and what was found.
pub struct Rule {
    pub name: &'static str,
    pub finding: Finding,
}

/// What each rule finds, in their order.
pub fn rules(cell: &IndexedCell) -> Vec<Rule> {
    let waits = waits::follow(cell);
    let found = [
        ("status", rules::status(cell)),
        ("retry-after", rules::retry_after(cell)),
        ("wait-is-enough", waits.enough()),
        ("wait-is-needed", waits.needed()),
        ("reset", rules::reset(cell)),
        ("remaining", rules::remaining(cell)),
        ("families", rules::families(cell)),
        ("problem", rules::problem(cell)),
    ];
    found.into_iter().map(|(name, finding)| Rule { name, finding }).collect()
}

/// A call and what was answered to it.
#[derive(Clone, Copy)]
struct Heard<'a> {
    round: &'a Round,
    op: &'a Op,
    answer: &'a Answer,
}

impl Heard<'_> {
    /// `round 1, key k: op 3 of node 0 …, was answered 429 and`.
    fn witness(&self, what: &str) -> String {
        let key = self.round.keys.get(self.op.key.0 as usize).map_or("?", String::as_str);
        let (status, call) = (self.answer.status, common::op_in_words(self.round, self.op));
        format!("round {}, key {key}: {call} was answered {status} {what}", self.round.index)
    }
}

/// Everything that was answered, in order.
fn heard<'a>(cell: &'a Cell) -> impl Iterator<Item = Heard<'a>> {
    cell.rounds.iter().flat_map(|round| {
        let of = move |(id, answer): (&u32, &'a Answer)| {
            Some(Heard { round, op: round.ops.get(*id as usize)?, answer })
        };
        round.http.iter().filter_map(of)
    })
}

/// The refusals that somebody can wait for: not of what costs more than there ever is, and not by a policy.
fn refused<'a>(cell: &'a Cell) -> impl Iterator<Item = Heard<'a>> {
    let most = cell.header.contract.bound.burst().unwrap_or(u64::MAX);
    let can = move |h: &Heard| common::denied(h.op) && u64::from(h.op.cost.get()) <= most;
    heard(cell).filter(can)
}

/// The first witness, or else what so many cases put to the test come to.
fn over<'a>(
    cases: impl Iterator<Item = Heard<'a>>,
    objection: impl Fn(&Heard<'a>) -> Result<bool, String>,
) -> Result<u64, Finding> {
    let mut tried = 0;
    for case in cases {
        match objection(&case) {
            Ok(told) => tried += u64::from(told),
            Err(what) => return Err(Finding::fail(case.witness(&what))),
        }
    }
    Ok(tried)
}
