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
    let apart: Vec<_> =
        (0..4).map(|i| op(i, 90 * MS, 91 * MS)).chain((4..8).map(|i| op(i, 210 * MS, 211 * MS))).collect();
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

/// The definition, tried on every pair: what the sweeps must agree with. The end of the first span
/// that is over.
fn by_definition(ops: &[Admitted], reach: i64, over: &dyn Fn(u64, i64) -> bool) -> Option<Nanos> {
    let is_over = |from: Nanos, to: Nanos| {
        from <= to && to.0 - from.0 < reach && {
            let sum = ops.iter().filter(|o| o.invoke >= from && o.complete <= to).map(|o| o.cost).sum();
            over(sum, to.0 - from.0)
        }
    };
    let ends = ops.iter().map(|b| b.complete);
    ends.filter(|to| ops.iter().any(|a| is_over(a.invoke, *to))).min()
}

/// Ops of every shape: apart, overlapping all over, instant ones, on a coarse clock, of mixed costs;
/// more than fit into one leaf of the bucket's tree, in order of invocation or not.
fn some_ops() -> impl Strategy<Value = Vec<Admitted>> {
    let shape = |begin: i64, step: i64, length: i64, cost: u64| {
        let one = (0..begin, 0..=length, 1..=cost).prop_map(move |(i, d, cost)| Admitted {
            op: None,
            invoke: Nanos(i * step),
            complete: Nanos((i + d) * step),
            cost,
        });
        prop::collection::vec(one, 0..40)
    };
    let any = prop_oneof![
        shape(60, MS, 20, 3),
        shape(40, MS, 60, 1),
        shape(60, MS, 0, 2),
        shape(6, 10 * MS, 2, 1),
        shape(200, MS / 2, 3, 9),
    ];
    (any, any_bool()).prop_map(|(mut ops, sorted)| {
        if sorted {
            ops.sort_by_key(|o| o.invoke);
        }
        ops
    })
}

fn any_bool() -> impl Strategy<Value = bool> {
    prop_oneof![Just(true), Just(false)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// What is cleared at a glance is clear, what is over is over, and order is not taken for granted.
    #[test]
    fn a_glance_tells_what_the_sweep_finds(
        ops in some_ops(), kind in 0usize..5, n in 1u64..30, per in 1u64..6, ms in 1u64..40,
        slack in 0i64..3, epoch in 0i64..50,
    ) {
        let (limit, refill, window) = (limit(n), limit(per), window(ms));
        let bound = [
            Bound::FixedWindow { limit, window },
            Bound::AlignedWindow { limit, window },
            Bound::SlidingWindow { limit, window },
            Bound::WeightedTwoWindow { limit, window },
            Bound::Bucket { capacity: limit, refill, window },
        ][kind];
        let first_touch = ops.iter().map(|o| o.invoke).min().unwrap_or_default();
        let time = TimeContext { first_touch, slack_ns: slack * MS, epoch_ns_at_zero: epoch * MS };
        let swept = over(&bound, &ops, time).is_some();
        match glance(&bound, ops.iter().copied(), time) {
            Glance::Clear => prop_assert!(!swept),
            Glance::Over => prop_assert!(swept),
            Glance::Unclear => {}
        }
    }

    #[test]
    fn the_tree_agrees_with_the_definition_of_a_bucket(
        ops in some_ops(), capacity in 1u64..30, refill in 1u64..6, ms in 1u64..20, slack in 0i64..3,
    ) {
        let w = i128::from(window(ms).nanos());
        let slack_ns = slack * MS;
        let over = |sum: u64, length: i64| {
            (i128::from(sum) - i128::from(capacity)) * w > i128::from(refill) * i128::from(length + slack_ns)
        };
        let bound = Bound::Bucket { capacity: limit(capacity), refill: limit(refill), window: window(ms) };
        let found = excess(&bound, &ops, TimeContext { slack_ns, ..time() });
        prop_assert_eq!(found.as_ref().map(|f| f.to), by_definition(&ops, i64::MAX, &over));
        if let Some(found) = found {
            let sum: u64 = found.members.iter().map(|i| ops[*i].cost).sum();
            prop_assert_eq!(sum, found.admitted);
            prop_assert!(over(sum, found.to.0 - found.from.0) && sum > found.allowed);
        }
    }

    #[test]
    fn the_sweep_agrees_with_the_definition_of_a_sliding_window(
        ops in some_ops(), n in 1u64..30, ms in 1u64..40, slack in 0i64..3,
    ) {
        let over = |sum: u64, _: i64| sum > n;
        let bound = Bound::SlidingWindow { limit: limit(n), window: window(ms) };
        let found = excess(&bound, &ops, TimeContext { slack_ns: slack * MS, ..time() });
        let reach = window(ms).nanos() - slack * MS;
        prop_assert_eq!(found.as_ref().map(|f| f.to), by_definition(&ops, reach, &over));
        if let Some(found) = found {
            let sum: u64 = found.members.iter().map(|i| ops[*i].cost).sum();
            prop_assert_eq!(sum, found.admitted);
            prop_assert!(found.to.0 - found.from.0 < reach);
        }
    }

    #[test]
    fn aligned_windows_agree_with_a_count_of_each(
        ops in some_ops(), n in 1u64..20, ms in 1u64..40, slack in 0i64..3, epoch in 0i64..50,
    ) {
        let time = TimeContext { slack_ns: slack * MS, epoch_ns_at_zero: epoch * MS, ..time() };
        let (w, slack) = (window(ms).nanos(), slack * MS);
        let full = |number: i64| {
            let (from, to) = (number * w - epoch * MS + slack, (number + 1) * w - epoch * MS - slack);
            ops.iter().filter(|o| o.invoke.0 >= from && o.complete.0 < to).map(|o| o.cost).sum::<u64>() > n
        };
        let bound = Bound::AlignedWindow { limit: limit(n), window: window(ms) };
        prop_assert_eq!(over(&bound, &ops, time).is_some(), (-2..300).any(full));
    }

    /// No window's length, and no slack, can make a sum out of what a weight only takes from.
    #[test]
    fn weighted_windows_agree_with_the_rule_tried_after_every_op(
        ops in some_ops(), n in 1u64..30, ms in 1u64..40, slack in 0i64..3,
    ) {
        let time = TimeContext { slack_ns: slack * MS, ..time() };
        let (w, slack) = (window(ms).nanos(), slack * MS);
        let sure = |o: &Admitted| {
            let (first, last) = ((o.invoke.0 - slack).div_euclid(w), (o.complete.0 + slack).div_euclid(w));
            (first == last).then_some(first)
        };
        let full = |last: &Admitted| sure(last).is_some_and(|number| {
            let of = |number: i64| ops.iter().filter(move |o| sure(o) == Some(number));
            let own: u64 = of(number).filter(|o| o.complete <= last.complete).map(|o| o.cost).sum();
            let before: u64 = of(number - 1).map(|o| o.cost).sum();
            let left = w - (last.complete.0 + slack - number * w).min(w);
            i128::from(own) * i128::from(w) + i128::from(before) * i128::from(left)
                > i128::from(n) * i128::from(w)
        });
        let bound = Bound::WeightedTwoWindow { limit: limit(n), window: window(ms) };
        prop_assert_eq!(over(&bound, &ops, time).is_some(), ops.iter().any(full));
    }
}
