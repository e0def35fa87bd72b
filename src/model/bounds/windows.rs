//! Bounds that speak of windows: opened by a first hit, aligned to the clock, or two of them weighted.

use super::{Admitted, Over, Rule, Span, TimeContext, by_completion, inside, sliding};
use crate::model::units::Nanos;

/// The window that the first hit opened began no earlier than `first_touch`; it was still open
/// one window's length after that. Everything that completed before then belongs to it.
pub fn fixed(ops: &[Admitted], time: TimeContext, limit: u64, window: i64) -> Option<Over> {
    let (from, to) = within_first(time, window);
    let costs = ops.iter().filter(|o| inside(o, from, to)).map(|o| o.cost);
    let admitted = costs.fold(0u64, u64::saturating_add);
    if admitted > limit {
        return Some(Span { from, to, admitted }.of(Rule::FirstWindow, limit));
    }
    // Later windows have an unknown phase, but a span of one window's length meets at most two.
    let two = limit.saturating_mul(2);
    let reach = window.saturating_sub(time.slack_ns);
    sliding::over(ops, reach, two).map(|span| span.of(Rule::TwoWindows, two))
}

/// Where calls surely belong to the window that the first hit opened.
pub fn within_first(time: TimeContext, window: i64) -> (Nanos, Nanos) {
    let from = time.first_touch;
    (from, Nanos(from.0.saturating_add(window.saturating_sub(time.slack_ns).saturating_sub(1))))
}

pub fn aligned(ops: &[Admitted], time: TimeContext, limit: u64, window: i64) -> Option<Over> {
    for (n, members) in by_window(ops, time, window) {
        let sum = members.iter().filter(|o| last_window(o, time, window) == n).map(|o| o.cost);
        if sum.fold(0u64, u64::saturating_add) > limit {
            let edge = |n: i64| n.saturating_mul(window).saturating_sub(time.epoch_ns_at_zero);
            let from = Nanos(edge(n).saturating_add(time.slack_ns));
            let to = Nanos(edge(n.saturating_add(1)).saturating_sub(time.slack_ns).saturating_sub(1));
            let costs = ops.iter().filter(|o| inside(o, from, to)).map(|o| o.cost);
            let admitted = costs.fold(0u64, u64::saturating_add);
            return Some(Span { from, to, admitted }.of(Rule::Aligned(n), limit));
        }
    }
    None
}

/// The rule of a sliding counter. Of the ops of a window that had completed by some moment, one was
/// applied last: by then the others were counted, and the window before weighed at least what it
/// weighs at that moment.
pub fn weighted(ops: &[Admitted], time: TimeContext, limit: u64, window: i64) -> Option<Over> {
    let mut before: (i64, u64) = (i64::MIN, 0);
    for (n, members) in by_window(ops, time, window) {
        let sure = |o: &&Admitted| last_window(o, time, window) == n;
        if !members.iter().any(|o| sure(&o)) {
            continue;
        }
        let last = if before.0 == n.saturating_sub(1) { before.1 } else { 0 };
        let whole = members.iter().filter(sure).fold(0u64, |sum, o| sum.saturating_add(o.cost));
        before = (n, whole);
        // Both at their full weight fit: so they do at any other.
        if whole.saturating_add(last) <= limit {
            continue;
        }
        let begins = n.saturating_mul(window).saturating_sub(time.epoch_ns_at_zero);
        let mut sum = 0u64;
        for op in by_completion(members).into_iter().map(|i| &members[i as usize]).filter(sure) {
            sum = sum.saturating_add(op.cost);
            let elapsed = op.complete.0.saturating_add(time.slack_ns).saturating_sub(begins).min(window);
            let weighed =
                i128::from(sum) * i128::from(window) + i128::from(last) * i128::from(window - elapsed);
            if weighed > i128::from(limit) * i128::from(window) {
                let from = Nanos(begins.saturating_sub(if last > 0 { window } else { 0 }));
                let admitted = u64::try_from((weighed - 1) / i128::from(window) + 1).unwrap_or(u64::MAX);
                return Some(Span { from, to: op.complete, admitted }.of(Rule::Weighted(n), limit));
            }
        }
    }
    None
}

/// The ops by the clock-aligned window in which each may have been applied first: in order of
/// invocation they come window by window.
fn by_window(ops: &[Admitted], time: TimeContext, window: i64) -> impl Iterator<Item = (i64, &[Admitted])> {
    let first = move |op: &Admitted| first_window(op, time, window);
    ops.chunk_by(move |a, b| first(a) == first(b)).map(move |members| (first(&members[0]), members))
}

/// The window in which the op may have been applied first.
#[inline]
pub fn first_window(op: &Admitted, time: TimeContext, window: i64) -> i64 {
    number(op.invoke.0.saturating_sub(time.slack_ns), time, window)
}

/// The window in which the op may have been applied last.
#[inline]
pub fn last_window(op: &Admitted, time: TimeContext, window: i64) -> i64 {
    number(op.complete.0.saturating_add(time.slack_ns), time, window)
}

#[inline]
fn number(at: i64, time: TimeContext, window: i64) -> i64 {
    at.saturating_add(time.epoch_ns_at_zero).div_euclid(window)
}
