//! Does a set of admitted ops break a bound, whatever really happened between their timestamps?
//!
//! Sound first: an op is counted in a span only if its whole interval `[invoke, complete]` lies
//! inside, so wherever in its interval the store applied it, it was applied in that span. A span
//! that holds more than the bound allows is therefore a violation under every reading.
//! What is not found here may still have happened: soundness is bought with completeness.
//!
//! Ops are recorded in the order of their invocation, and everything here goes through them in that
//! order; ops that come in another are sorted first. Whatever lies wholly inside a span was invoked
//! inside it: what the invocations alone cannot break is cleared in O(n), without a look at the
//! completions, and as the ops pass by ([`glance`]). Only what is left is put in order of completion ([`super::order`]) and swept:
//! [`sliding`] in O(n), [`bucket`] in O(n log n). Beside the ops that takes 4 bytes per op for the order
//! and 4 for a bucket's tree.

mod bucket;
mod glance;
mod sliding;
mod windows;

pub use glance::{Glance, glance};

use std::borrow::Cow;

use super::contract::Bound;
use super::order::by_end;
use super::units::{Nanos, OpId};

/// One admitted call (or a preset, `op: None`, which counts like calls made before the round).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admitted {
    pub op: Option<OpId>,
    pub invoke: Nanos,
    pub complete: Nanos,
    pub cost: u64,
}

/// What else is known about the time of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeContext {
    /// No op on the key was submitted before this.
    pub first_touch: Nanos,
    /// Two readings of the limiter's clock may differ by this much more, or less, than the time
    /// that passed: its resolution plus any step seen in the round.
    pub slack_ns: i64,
    /// Unix time, in nanoseconds, at the run's anchor. Needed for aligned windows only.
    pub epoch_ns_at_zero: i64,
}

/// A span that holds more than the bound allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excess {
    pub from: Nanos,
    pub to: Nanos,
    pub admitted: u64,
    pub allowed: u64,
    /// Indices into the ops given, in order of completion.
    pub members: Vec<usize>,
    /// Why no reading of the timestamps excuses it.
    pub rule: String,
}

/// The first span that breaks the bound, if there is one.
pub fn excess(bound: &Bound, ops: &[Admitted], time: TimeContext) -> Option<Excess> {
    Some(over(bound, ops, time)?.explain(bound, ops))
}

/// The same, without its members.
pub fn over(bound: &Bound, ops: &[Admitted], time: TimeContext) -> Option<Over> {
    let ops = &*by_invocation(ops);
    match *bound {
        Bound::None => None,
        Bound::FixedWindow { limit, window } => windows::fixed(ops, time, limit.get(), window.nanos()),
        Bound::AlignedWindow { limit, window } => windows::aligned(ops, time, limit.get(), window.nanos()),
        Bound::SlidingWindow { limit, window } => {
            let reach = window.nanos().saturating_sub(time.slack_ns);
            sliding::over(ops, reach, limit.get()).map(|span| span.of(Rule::OneSpan, limit.get()))
        }
        Bound::WeightedTwoWindow { limit, window } => {
            windows::weighted(ops, time, limit.get(), window.nanos())
        }
        Bound::Bucket { capacity, refill, window } => {
            let rate =
                bucket::Rate { capacity: capacity.get(), refill: refill.get(), window: window.nanos() };
            bucket::over(ops, rate, time.slack_ns)
        }
    }
}

/// The ops in the order of their invocation, in which they mostly are.
fn by_invocation(ops: &[Admitted]) -> Cow<'_, [Admitted]> {
    if ops.is_sorted_by_key(|o| o.invoke) {
        return Cow::Borrowed(ops);
    }
    let mut sorted = ops.to_vec();
    sorted.sort_by_key(|o| o.invoke);
    Cow::Owned(sorted)
}

/// Places of the ops in order of completion.
fn by_completion(ops: &[Admitted]) -> Vec<u32> {
    let count = u32::try_from(ops.len()).expect("fewer than 2^32 ops in a round");
    let mut places: Vec<u32> = (0..count).collect();
    by_end(&mut places, |n| ops[n].invoke, |at| ops[*at as usize].complete);
    places
}

/// A span and how much was admitted wholly inside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    from: Nanos,
    to: Nanos,
    admitted: u64,
}

impl Span {
    fn of(self, rule: Rule, allowed: u64) -> Over {
        Over { span: self, allowed, rule }
    }
}

/// A span that holds too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Over {
    span: Span,
    allowed: u64,
    rule: Rule,
}

/// Why all of a span counts against one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    FirstWindow,
    TwoWindows,
    Aligned(i64),
    OneSpan,
    Weighted(i64),
    Refilled(u64),
}

impl Over {
    /// In words and with the ops that lie inside: of the bound and the ops it was found for.
    pub fn explain(self, bound: &Bound, ops: &[Admitted]) -> Excess {
        let Span { from, to, admitted } = self.span;
        let mut members: Vec<usize> = (0..ops.len()).filter(|i| inside(&ops[*i], from, to)).collect();
        members.sort_unstable_by_key(|i| (ops[*i].complete, ops[*i].invoke, *i));
        Excess { from, to, admitted, allowed: self.allowed, members, rule: self.rule.in_words(bound) }
    }
}

impl Rule {
    fn in_words(self, bound: &Bound) -> String {
        match self {
            Self::FirstWindow => "all lie inside the window that the key's first hit opened".to_owned(),
            Self::TwoWindows => "a span of one window's length meets at most two windows".to_owned(),
            Self::Aligned(n) => format!("all lie inside clock-aligned window {n}"),
            Self::OneSpan => {
                let length = bound.window().map_or(String::new(), |w| format!(" of {w}"));
                format!("all lie inside one span{length}")
            }
            Self::Weighted(n) => {
                format!("window {n} and the one before, weighted, when the last of them was admitted")
            }
            Self::Refilled(refilled) => {
                let capacity = bound.burst().unwrap_or(0);
                format!("capacity {capacity} plus {refilled} refilled in that span")
            }
        }
    }
}

fn inside(op: &Admitted, from: Nanos, to: Nanos) -> bool {
    op.invoke >= from && op.complete <= to
}

#[cfg(test)]
mod tests;
