//! A look at calls as they pass by: mostly it clears them, and nothing has to be kept or put in order.

use super::bucket::{self, Rate};
use super::windows::{first_window, last_window, within_first};
use super::{Admitted, TimeContext, sliding};
use crate::model::contract::Bound;
use crate::model::units::Nanos;

/// What one pass in order of invocation tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Glance {
    /// No span is over.
    Clear,
    /// One is.
    Over,
    /// Only [`super::over`] knows.
    Unclear,
}

/// O(n) and no memory, and no further than to the first call that is not clear. Calls that come in
/// another order than that of their invocation are unclear.
pub fn glance<I>(bound: &Bound, ops: I, time: TimeContext) -> Glance
where
    I: Iterator<Item = Admitted> + Clone,
{
    match *bound {
        Bound::None => Glance::Clear,
        Bound::FixedWindow { limit, window } => fixed(ops, time, limit.get(), window.nanos()),
        Bound::AlignedWindow { limit, window } => aligned(ops, time, limit.get(), window.nanos()),
        Bound::WeightedTwoWindow { limit, window } => weighted(ops, time, limit.get(), window.nanos()),
        Bound::SlidingWindow { limit, window } => {
            let reach = window.nanos().saturating_sub(time.slack_ns);
            let mut may = sliding::MayBeOver::new(ops.clone(), reach, limit.get());
            unless(ops, |op| may.with(op))
        }
        Bound::Bucket { capacity, refill, window } => {
            let rate = Rate { capacity: capacity.get(), refill: refill.get(), window: window.nanos() };
            let mut may = bucket::MayBeOver::new(rate, time.slack_ns);
            unless(ops, |op| may.with(op))
        }
    }
}

/// Clear unless one is not, or they come in another order.
fn unless(ops: impl Iterator<Item = Admitted>, mut may_be_over: impl FnMut(&Admitted) -> bool) -> Glance {
    let mut last = Nanos(i64::MIN);
    for op in ops {
        if op.invoke < last || may_be_over(&op) {
            return Glance::Unclear;
        }
        last = op.invoke;
    }
    Glance::Clear
}

fn fixed<I>(ops: I, time: TimeContext, limit: u64, window: i64) -> Glance
where
    I: Iterator<Item = Admitted> + Clone,
{
    let (from, to) = within_first(time, window);
    let mut first = 0u64;
    let reach = window.saturating_sub(time.slack_ns);
    let mut two = sliding::MayBeOver::new(ops.clone(), reach, limit.saturating_mul(2));
    let mut over = false;
    let seen = unless(ops, |op| {
        if super::inside(op, from, to) {
            first = first.saturating_add(op.cost);
        }
        over |= first > limit;
        over || two.with(op)
    });
    if over { Glance::Over } else { seen }
}

fn aligned(ops: impl Iterator<Item = Admitted>, time: TimeContext, limit: u64, window: i64) -> Glance {
    let (mut open, mut sum, mut over) = (i64::MIN, 0u64, false);
    let seen = unless(ops, |op| {
        let n = first_window(op, time, window);
        if n != open {
            (open, sum) = (n, 0);
        }
        if last_window(op, time, window) == n {
            sum = sum.saturating_add(op.cost);
        }
        over = sum > limit;
        over
    });
    if over { Glance::Over } else { seen }
}

/// Clear while a window and the one before fit together at their full weight.
fn weighted(ops: impl Iterator<Item = Admitted>, time: TimeContext, limit: u64, window: i64) -> Glance {
    // The open window, what it holds, and the one before that held anything.
    let (mut open, mut sum, mut before) = (i64::MIN, 0u64, (i64::MIN, 0u64));
    unless(ops, |op| {
        let n = first_window(op, time, window);
        if n != open {
            if sum > 0 {
                before = (open, sum);
            }
            (open, sum) = (n, 0);
        }
        if last_window(op, time, window) == n {
            sum = sum.saturating_add(op.cost);
        }
        let last = if before.0 == n.saturating_sub(1) { before.1 } else { 0 };
        sum > 0 && sum.saturating_add(last) > limit
    })
}
