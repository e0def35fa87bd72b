//! Does a set of admitted ops break a bound, whatever really happened between their timestamps?
//!
//! Sound first: an op is counted in a span only if its whole interval `[invoke, complete]` lies
//! inside, so wherever in its interval the store applied it, it was applied in that span. A span
//! that holds more than the bound allows is therefore a violation under every reading.
//! What is not found here may still have happened: soundness is bought with completeness.
//!
//! Cost: fixed and aligned windows O(n); sliding windows and buckets O(n log n).

use std::collections::BTreeMap;

use super::contract::Bound;
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
    match *bound {
        Bound::None => None,
        Bound::FixedWindow { limit, window } => fixed(ops, time, limit.get(), window.nanos()),
        Bound::AlignedWindow { limit, window } => aligned(ops, time, limit.get(), window.nanos()),
        Bound::SlidingWindow { limit, window } => {
            let reach = window.nanos().saturating_sub(time.slack_ns);
            densest_span(ops, reach, |sum, _| sum > limit.get(), 0, 1).map(|span| {
                span.into_excess(ops, limit.get(), format!("all lie inside one span of {window}"))
            })
        }
        Bound::WeightedTwoWindow { limit, window } => weighted(ops, time, limit.get(), window.nanos()),
        Bound::Bucket { capacity, refill, window } => {
            bucket(ops, time, capacity.get(), refill.get(), window.nanos())
        }
    }
}

/// The window that the first hit opened began no earlier than `first_touch`; it was still open
/// one window's length after that. Everything that completed before then belongs to it.
fn fixed(ops: &[Admitted], time: TimeContext, limit: u64, window: i64) -> Option<Excess> {
    let from = time.first_touch;
    let to = Nanos(from.0.saturating_add(window.saturating_sub(time.slack_ns).saturating_sub(1)));
    let first = Span::collect(ops, from, to);
    if first.admitted > limit {
        return Some(first.into_excess(
            ops,
            limit,
            "all lie inside the window that the key's first hit opened".to_owned(),
        ));
    }
    // Later windows have an unknown phase, but a span of one window's length meets at most two.
    let two = limit.saturating_mul(2);
    densest_span(ops, window.saturating_sub(time.slack_ns), |sum, _| sum > two, 0, 1).map(|span| {
        span.into_excess(ops, two, "a span of one window's length meets at most two windows".to_owned())
    })
}

fn aligned(ops: &[Admitted], time: TimeContext, limit: u64, window: i64) -> Option<Excess> {
    let number = |at: i64| (at.saturating_add(time.epoch_ns_at_zero)).div_euclid(window);
    let mut sums: BTreeMap<i64, u64> = BTreeMap::new();
    for op in ops {
        let n = number(op.invoke.0.saturating_sub(time.slack_ns));
        if n == number(op.complete.0.saturating_add(time.slack_ns)) {
            let sum = sums.entry(n).or_default();
            *sum = sum.saturating_add(op.cost);
        }
    }
    let (n, _) = sums.into_iter().find(|(_, sum)| *sum > limit)?;
    let edge = |n: i64| n.saturating_mul(window).saturating_sub(time.epoch_ns_at_zero);
    let from = Nanos(edge(n).saturating_add(time.slack_ns));
    let to = Nanos(edge(n.saturating_add(1)).saturating_sub(time.slack_ns).saturating_sub(1));
    Some(Span::collect(ops, from, to).into_excess(
        ops,
        limit,
        format!("all lie inside clock-aligned window {n}"),
    ))
}

/// The rule of a sliding counter. Of the ops of a window that had completed by some moment, one was
/// applied last: by then the others were counted, and the window before weighed at least what it
/// weighs at that moment.
fn weighted(ops: &[Admitted], time: TimeContext, limit: u64, window: i64) -> Option<Excess> {
    let slack = time.slack_ns;
    let number = |at: i64| at.saturating_add(time.epoch_ns_at_zero).div_euclid(window);
    // Ops surely inside one window, by window, in order of completion, with running sums.
    let mut windows: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    for (i, op) in ops.iter().enumerate() {
        let n = number(op.invoke.0.saturating_sub(slack));
        if n == number(op.complete.0.saturating_add(slack)) {
            windows.entry(n).or_default().push(i);
        }
    }
    let mut before: (i64, u64) = (i64::MIN, 0);
    for (n, mut members) in windows {
        members.sort_unstable_by_key(|i| ops[*i].complete);
        let last = if before.0 == n.saturating_sub(1) { before.1 } else { 0 };
        let begins = n.saturating_mul(window).saturating_sub(time.epoch_ns_at_zero);
        let mut sum = 0u64;
        for op in members.iter().map(|i| &ops[*i]) {
            sum = sum.saturating_add(op.cost);
            let elapsed = op.complete.0.saturating_add(slack).saturating_sub(begins).min(window);
            let weighed =
                i128::from(sum) * i128::from(window) + i128::from(last) * i128::from(window - elapsed);
            if weighed > i128::from(limit) * i128::from(window) {
                let from = Nanos(begins.saturating_sub(if last > 0 { window } else { 0 }));
                let admitted = u64::try_from((weighed - 1) / i128::from(window) + 1).unwrap_or(u64::MAX);
                let span = Span { from, to: op.complete, admitted };
                let rule =
                    format!("window {n} and the one before, weighted, when the last of them was admitted");
                return Some(span.into_excess(ops, limit, rule));
            }
        }
        before = (n, sum);
    }
    None
}

/// In a span of length L at most capacity + refill × (L + slack) / window can be admitted.
fn bucket(ops: &[Admitted], time: TimeContext, capacity: u64, refill: u64, window: i64) -> Option<Excess> {
    let over = |sum: u64, length: i64| {
        let spare = i128::from(sum) - i128::from(capacity);
        spare * i128::from(window) > i128::from(refill) * i128::from(length.saturating_add(time.slack_ns))
    };
    let span = densest_span(ops, i64::MAX, over, refill, window)?;
    let length = i128::from(span.to.0) - i128::from(span.from.0) + i128::from(time.slack_ns);
    let refilled = i128::from(refill) * length / i128::from(window);
    let allowed = capacity.saturating_add(u64::try_from(refilled).unwrap_or(u64::MAX));
    Some(span.into_excess(ops, allowed, format!("capacity {capacity} plus {refilled} refilled in that span")))
}

struct Span {
    from: Nanos,
    to: Nanos,
    admitted: u64,
}

impl Span {
    fn collect(ops: &[Admitted], from: Nanos, to: Nanos) -> Self {
        let admitted =
            ops.iter().filter(|o| inside(o, from, to)).fold(0u64, |sum, o| sum.saturating_add(o.cost));
        Self { from, to, admitted }
    }

    fn into_excess(self, ops: &[Admitted], allowed: u64, rule: String) -> Excess {
        let mut members: Vec<usize> =
            (0..ops.len()).filter(|i| inside(&ops[*i], self.from, self.to)).collect();
        members.sort_by_key(|i| (ops[*i].complete, ops[*i].invoke));
        Excess { from: self.from, to: self.to, admitted: self.admitted, allowed, members, rule }
    }
}

fn inside(op: &Admitted, from: Nanos, to: Nanos) -> bool {
    op.invoke >= from && op.complete <= to
}

/// Finds a span `[a, b]`, `b − a < reach`, for which `over(sum of costs wholly inside, b − a)`.
///
/// `a` only needs to be some op's invoke and `b` some op's completion. Ops are added in order of
/// completion; the tree holds for each `a` the weight `sum × window + refill × a`, and an op adds
/// its cost to every `a` at or before its invoke (a range add). The best `a` for the current `b`
/// is a range maximum: with refill 0 the fullest span, otherwise the one furthest above the bucket.
fn densest_span(
    ops: &[Admitted],
    reach: i64,
    over: impl Fn(u64, i64) -> bool,
    refill: u64,
    window: i64,
) -> Option<Span> {
    if ops.is_empty() || reach <= 0 {
        return None;
    }
    let mut starts: Vec<Nanos> = ops.iter().map(|o| o.invoke).collect();
    starts.sort_unstable();
    starts.dedup();
    let mut by_completion: Vec<&Admitted> = ops.iter().collect();
    by_completion.sort_unstable_by_key(|o| (o.complete, o.invoke));
    let mut tree = RangeMax::new(starts.iter().map(|a| i128::from(refill) * i128::from(a.0)).collect());
    for (i, op) in by_completion.iter().enumerate() {
        let position = starts.partition_point(|a| *a <= op.invoke);
        tree.add_prefix(position, i128::from(op.cost) * i128::from(window));
        let b = op.complete;
        // Ops that complete together belong to the same span: decide after the last of them.
        if by_completion.get(i + 1).is_some_and(|next| next.complete == b) {
            continue;
        }
        let first = starts.partition_point(|a| i128::from(b.0) - i128::from(a.0) >= i128::from(reach));
        let last = starts.partition_point(|a| *a <= b);
        let Some((weight, at)) = tree.max(first, last) else { continue };
        let a = starts[at];
        let sum = (weight - i128::from(refill) * i128::from(a.0)) / i128::from(window);
        let sum = u64::try_from(sum).unwrap_or(0);
        if over(sum, b.0.saturating_sub(a.0)) {
            return Some(Span { from: a, to: b, admitted: sum });
        }
    }
    None
}

/// A segment tree: add to a prefix, ask for the maximum (and its leftmost place) of a range.
struct RangeMax {
    leaves: usize,
    /// Maximum of the subtree including this node's own pending addition, and its leaf.
    best: Vec<(i128, usize)>,
    pending: Vec<i128>,
}

impl RangeMax {
    fn new(values: Vec<i128>) -> Self {
        let leaves = values.len().next_power_of_two();
        let mut best = vec![(i128::MIN / 4, usize::MAX); 2 * leaves];
        for (i, value) in values.into_iter().enumerate() {
            best[leaves + i] = (value, i);
        }
        for node in (1..leaves).rev() {
            best[node] = Self::higher(best[2 * node], best[2 * node + 1]);
        }
        Self { leaves, pending: vec![0; 2 * leaves], best }
    }

    fn higher(left: (i128, usize), right: (i128, usize)) -> (i128, usize) {
        if right.0 > left.0 { right } else { left }
    }

    /// Adds `amount` to the first `end` places.
    fn add_prefix(&mut self, end: usize, amount: i128) {
        self.add(1, 0, self.leaves, end, amount);
    }

    fn add(&mut self, node: usize, from: usize, to: usize, end: usize, amount: i128) {
        if end <= from {
            return;
        }
        if to <= end {
            self.best[node].0 += amount;
            self.pending[node] += amount;
            return;
        }
        let middle = usize::midpoint(from, to);
        self.add(2 * node, from, middle, end, amount);
        self.add(2 * node + 1, middle, to, end, amount);
        let (value, at) = Self::higher(self.best[2 * node], self.best[2 * node + 1]);
        self.best[node] = (value + self.pending[node], at);
    }

    /// The maximum of the places `first..last`, or `None` if there are none.
    fn max(&self, first: usize, last: usize) -> Option<(i128, usize)> {
        (first < last).then(|| self.query(1, 0, self.leaves, first, last))
    }

    fn query(&self, node: usize, from: usize, to: usize, first: usize, last: usize) -> (i128, usize) {
        if last <= from || to <= first {
            return (i128::MIN / 4, usize::MAX);
        }
        if first <= from && to <= last {
            return self.best[node];
        }
        let middle = usize::midpoint(from, to);
        let (value, at) = Self::higher(
            self.query(2 * node, from, middle, first, last),
            self.query(2 * node + 1, middle, to, first, last),
        );
        (value + self.pending[node], at)
    }
}

#[cfg(test)]
mod tests {
    use super::super::units::{Limit, Window};
    use super::*;
    use proptest::prelude::*;

    fn op(id: u32, invoke: i64, complete: i64) -> Admitted {
        Admitted { op: Some(OpId(id)), invoke: Nanos(invoke), complete: Nanos(complete), cost: 1 }
    }

    fn limit(n: u64) -> Limit {
        Limit::new(n).unwrap()
    }

    fn window(ms: u64) -> Window {
        Window::from_millis(ms).unwrap()
    }

    fn time() -> TimeContext {
        TimeContext { first_touch: Nanos(0), slack_ns: 0, epoch_ns_at_zero: 0 }
    }

    const MS: i64 = 1_000_000;

    #[test]
    fn one_too_many_in_the_first_window_is_found() {
        let bound = Bound::FixedWindow { limit: limit(2), window: window(100) };
        let ops = [op(0, 0, 1), op(1, 2, 3), op(2, 4, 5)];
        let found = excess(&bound, &ops, time()).unwrap();
        assert_eq!((found.admitted, found.allowed, found.members), (3, 2, vec![0, 1, 2]));
        assert_eq!(excess(&bound, &ops[..2], time()), None);
    }

    #[test]
    fn an_op_that_may_belong_to_the_next_window_excuses() {
        let bound = Bound::FixedWindow { limit: limit(2), window: window(100) };
        let ops = [op(0, 0, 1), op(1, 2, 3), op(2, 4, 100 * MS)];
        assert_eq!(excess(&bound, &ops, time()), None);
    }

    #[test]
    fn twice_the_limit_across_an_edge_is_within_a_fixed_bound_but_not_a_sliding_one() {
        let ops: Vec<_> = (0..4).map(|i| op(i, 99 * MS + i64::from(i), 99 * MS + i64::from(i) + 1)).collect();
        let fixed = Bound::FixedWindow { limit: limit(2), window: window(100) };
        let late = TimeContext { first_touch: Nanos(-50 * MS), ..time() };
        assert_eq!(excess(&fixed, &ops, late), None);
        let sliding = Bound::SlidingWindow { limit: limit(2), window: window(100) };
        assert_eq!(excess(&sliding, &ops, late).unwrap().admitted, 3);
        let five: Vec<_> = (0..5).map(|i| op(i, 99 * MS, 99 * MS + 1)).collect();
        assert!(excess(&fixed, &five, late).is_some());
    }

    #[test]
    fn aligned_windows_follow_the_epoch() {
        let bound = Bound::AlignedWindow { limit: limit(1), window: window(100) };
        let ops = [op(0, 10 * MS, 11 * MS), op(1, 60 * MS, 61 * MS)];
        assert!(excess(&bound, &ops, time()).is_some());
        let shifted = TimeContext { epoch_ns_at_zero: 50 * MS, ..time() };
        assert_eq!(excess(&bound, &ops, shifted), None);
    }

    #[test]
    fn a_sliding_counter_weighs_the_window_before() {
        let bound = Bound::WeightedTwoWindow { limit: limit(4), window: window(100) };
        // Four in one window; in the middle of the next the first two still weigh: two more fit.
        let mut ops: Vec<_> = (0..4).map(|i| op(i, 90 * MS, 91 * MS)).collect();
        ops.push(op(4, 150 * MS, 150 * MS + 1));
        ops.push(op(5, 151 * MS, 151 * MS + 1));
        assert_eq!(excess(&bound, &ops, time()), None);
        ops.push(op(6, 152 * MS, 152 * MS + 1));
        assert!(excess(&bound, &ops, time()).is_some());
        // Two windows later nothing of them weighs any more.
        let apart: Vec<_> = (0..4)
            .map(|i| op(i, 90 * MS, 91 * MS))
            .chain((4..8).map(|i| op(i, 210 * MS, 211 * MS)))
            .collect();
        assert_eq!(excess(&bound, &apart, time()), None);
    }

    #[test]
    fn a_bucket_pays_out_its_refill_and_no_more() {
        let bound = Bound::Bucket { capacity: limit(2), refill: limit(1), window: window(10) };
        // Two at once, then one each 10 ms: exactly the bound.
        let good = [op(0, 0, 1), op(1, 0, 1), op(2, 10 * MS, 10 * MS + 1), op(3, 20 * MS, 20 * MS + 1)];
        assert_eq!(excess(&bound, &good, time()), None);
        let bad = [op(0, 0, 1), op(1, 0, 1), op(2, 9 * MS, 9 * MS + 1)];
        let found = excess(&bound, &bad, time()).unwrap();
        assert_eq!((found.admitted, found.allowed), (3, 2));
        // The limiter's clock reads whole milliseconds: 9.x ms may look like 10 to it.
        assert_eq!(excess(&bound, &bad, TimeContext { slack_ns: MS, ..time() }), None);
    }

    #[test]
    fn no_bound_is_never_broken() {
        let ops = [op(0, 0, 1), op(1, 0, 1)];
        assert_eq!(excess(&Bound::None, &ops, time()), None);
    }

    #[test]
    fn a_preset_counts_as_calls_made_before() {
        let bound = Bound::FixedWindow { limit: limit(10), window: window(1000) };
        let ops =
            [Admitted { op: None, invoke: Nanos(0), complete: Nanos(1), cost: 9 }, op(0, 2, 3), op(1, 2, 4)];
        assert_eq!(excess(&bound, &ops, time()).unwrap().admitted, 11);
    }

    /// The definition, tried on every pair: what the tree must agree with.
    fn by_definition(ops: &[Admitted], reach: i64, over: &dyn Fn(u64, i64) -> bool) -> bool {
        ops.iter().any(|a| {
            ops.iter().any(|b| {
                let (from, to) = (a.invoke, b.complete);
                from <= to && to.0 - from.0 < reach && {
                    let sum =
                        ops.iter().filter(|o| o.invoke >= from && o.complete <= to).map(|o| o.cost).sum();
                    over(sum, to.0 - from.0)
                }
            })
        })
    }

    fn some_ops() -> impl Strategy<Value = Vec<Admitted>> {
        prop::collection::vec((0i64..60, 0i64..20, 1u64..4), 0..14).prop_map(|v| {
            v.into_iter()
                .map(|(i, d, cost)| Admitted {
                    op: None,
                    invoke: Nanos(i * MS),
                    complete: Nanos((i + d) * MS),
                    cost,
                })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn the_tree_agrees_with_the_definition_of_a_bucket(ops in some_ops(), capacity in 1u64..6, refill in 1u64..4, ms in 1u64..20) {
            let w = i128::from(window(ms).nanos());
            let over = |sum: u64, length: i64| (i128::from(sum) - i128::from(capacity)) * w > i128::from(refill) * i128::from(length);
            let bound = Bound::Bucket { capacity: limit(capacity), refill: limit(refill), window: window(ms) };
            prop_assert_eq!(excess(&bound, &ops, time()).is_some(), by_definition(&ops, i64::MAX, &over));
        }

        #[test]
        fn the_tree_agrees_with_the_definition_of_a_sliding_window(ops in some_ops(), n in 1u64..6, ms in 1u64..40) {
            let over = |sum: u64, _: i64| sum > n;
            let bound = Bound::SlidingWindow { limit: limit(n), window: window(ms) };
            let found = excess(&bound, &ops, time());
            prop_assert_eq!(found.is_some(), by_definition(&ops, window(ms).nanos(), &over));
            if let Some(found) = found {
                let sum: u64 = found.members.iter().map(|i| ops[*i].cost).sum();
                prop_assert_eq!(sum, found.admitted);
            }
        }
    }
}
