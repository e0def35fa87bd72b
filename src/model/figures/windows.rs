//! Figures of whole windows: the fullest, and who was refused although none was full.

use super::super::contract::Bound;
use super::super::history::{Cell, Round};
use super::super::op::{Op, Outcome};
use super::super::units::Window;

/// The window that is asked about: the requirement's, else the one of the limiter's own promise.
pub fn window_of(cell: &Cell) -> Option<Window> {
    let required = cell.header.requirement.and_then(|r| r.bound.window());
    required.or_else(|| cell.header.contract.bound.window())
}

/// What an identity may get in a window, and how long that is, where all that counts is a window: the
/// requirement's, else the limiter's own promise.
pub fn limit_of(cell: &Cell) -> Option<(u64, Window)> {
    let required = cell.header.requirement.map(|r| r.bound);
    let bound = required.unwrap_or(cell.header.contract.bound);
    // Of a bucket a window may hold more than it holds at once.
    let windowed = !matches!(bound, Bound::Bucket { .. } | Bound::None);
    bound.burst().zip(bound.window()).filter(|_| windowed)
}

/// Refusals of calls that had room in whatever window they fall into: all that may have been admitted to their
/// identity in a window's length before them, and while they were open, leaves their cost.
pub fn refused_below(round: &Round, limit: u64, window: Window) -> u64 {
    let counts = |o: &&Op| matches!(o.outcome, Outcome::Admitted | Outcome::Unknown);
    let mut starts: Vec<&Op> = round.ops.iter().filter(counts).collect();
    let mut ends = starts.clone();
    starts.sort_unstable_by_key(|o| (o.key, o.invoke));
    // What nobody knows the outcome of may still come about.
    let over = |o: &Op| if o.outcome == Outcome::Unknown { i64::MAX } else { o.complete.0 };
    ends.sort_unstable_by_key(|o| (o.key, over(o)));
    // Cost up to each place of a list.
    let summed = |ops: &[&Op]| {
        let sums = ops.iter().scan(0u64, |sum, o| {
            *sum += u64::from(o.cost.get());
            Some(*sum)
        });
        std::iter::once(0).chain(sums).collect::<Vec<u64>>()
    };
    let (began, ended) = (summed(&starts), summed(&ends));
    let below = |denied: &&Op| {
        let from = denied.invoke.0.saturating_sub(window.nanos());
        let before = starts.partition_point(|o| (o.key, o.invoke) < (denied.key, denied.complete));
        let gone = ends.partition_point(|o| o.key < denied.key || (o.key == denied.key && over(o) <= from));
        // Whoever is gone began before, so that this is what lies between, of this key alone.
        began[before] - ended[gone] + u64::from(denied.cost.get()) <= limit
    };
    round.ops.iter().filter(|o| o.outcome == Outcome::Denied).filter(below).count() as u64
}

/// The most admitted cost of one key that lies wholly inside some span `[a, a + window)`.
///
/// `a` only needs to be some call's invocation. A call as long as the window lies inside no such
/// span; of the others, those that begin before `a` also end before `a + window`: what has ended by
/// then, less what began before `a`, is what lies inside.
pub fn most(round: &Round, window: Window) -> u64 {
    let length = window.nanos();
    let short = |o: &&Op| o.outcome == Outcome::Admitted && o.complete.0.saturating_sub(o.invoke.0) < length;
    let mut starts: Vec<&Op> = round.ops.iter().filter(short).collect();
    let mut ends = starts.clone();
    starts.sort_unstable_by_key(|o| (o.key, o.invoke));
    ends.sort_unstable_by_key(|o| (o.key, o.complete));
    let (mut most, mut began, mut ended, mut next) = (0, 0u64, 0u64, 0);
    let mut key = None;
    // Both lists hold the same calls, so that of each key as many, from the same place on.
    for (place, first) in starts.iter().enumerate() {
        if key != Some(first.key) {
            (key, began, ended, next) = (Some(first.key), 0, 0, place);
        }
        while let Some(op) = ends
            .get(next)
            .filter(|o| o.key == first.key && o.complete.0.saturating_sub(length) < first.invoke.0)
        {
            ended += u64::from(op.cost.get());
            next += 1;
        }
        most = most.max(ended - began);
        began += u64::from(first.cost.get());
    }
    most
}

#[cfg(test)]
mod tests {
    use super::super::super::op::KeyId;
    use super::super::super::units::{Cost, Nanos, NodeId, OpId};
    use super::*;
    use proptest::prelude::*;

    const MS: i64 = 1_000_000;

    fn admitted(calls: &[(u32, i64, i64, u32)]) -> Round {
        let mut round = Round::default();
        for (n, (key, invoke, complete, cost)) in calls.iter().enumerate() {
            let cost = Cost::new(*cost).unwrap();
            let mut op = Op::new(OpId(n as u32), NodeId(0), KeyId(*key), cost, Nanos(*invoke));
            (op.complete, op.outcome) = (Nanos(*complete), Outcome::Admitted);
            round.ops.push(op);
        }
        round
    }

    fn window(ms: u64) -> Window {
        Window::from_millis(ms).unwrap()
    }

    #[test]
    fn what_lies_exactly_one_window_apart_is_not_in_one() {
        let round = admitted(&[(0, 0, 0, 1), (0, 100 * MS, 100 * MS, 1)]);
        assert_eq!(most(&round, window(100)), 1);
        assert_eq!(most(&round, window(101)), 2);
    }

    #[test]
    fn keys_are_counted_by_themselves_and_costs_in_full() {
        let round = admitted(&[(0, 0, 1, 3), (1, 0, 1, 5), (0, 2, 3, 4)]);
        assert_eq!(most(&round, window(100)), 7);
    }

    /// Refused at a time, beside what was admitted.
    fn refused(mut round: Round, key: u32, at: i64, cost: u32) -> Round {
        let id = OpId(round.ops.len() as u32);
        let mut op = Op::new(id, NodeId(0), KeyId(key), Cost::new(cost).unwrap(), Nanos(at));
        (op.complete, op.outcome) = (Nanos(at + MS), Outcome::Denied);
        round.ops.push(op);
        round
    }

    #[test]
    fn a_refusal_is_below_the_limit_if_no_window_that_it_may_fall_into_was_full() {
        let two = || admitted(&[(0, 0, MS, 1), (0, 2 * MS, 3 * MS, 1)]);
        let below = |round: Round, limit| refused_below(&round, limit, window(100));
        assert_eq!(below(refused(two(), 0, 5 * MS, 1), 2), 0, "both were taken");
        assert_eq!(below(refused(two(), 0, 5 * MS, 1), 3), 1);
        assert_eq!(below(refused(two(), 0, 5 * MS, 2), 3), 0, "it costs more than was left");
        assert_eq!(
            below(refused(two(), 0, 100 * MS, 1), 2),
            0,
            "the first may still count: it ended at 1 ms"
        );
        assert_eq!(below(refused(two(), 0, 101 * MS, 1), 2), 1, "the first has left every window");
        assert_eq!(below(refused(two(), 1, 5 * MS, 1), 2), 1, "another identity");
    }

    proptest! {
        #[test]
        fn refusals_below_the_limit_are_those_that_looking_at_each_finds(
            calls in proptest::collection::vec((0u32..2, 0i64..60, 0i64..15, 1u32..4), 0..30),
            denied in proptest::collection::vec((0u32..2, 0i64..60, 1u32..4), 0..10),
        ) {
            let calls: Vec<_> = calls.iter().map(|(k, at, len, c)| (*k, at * MS, (at + len) * MS, *c)).collect();
            let round = denied.iter().fold(admitted(&calls), |r, (k, at, c)| refused(r, *k, at * MS, *c));
            let looked = denied.iter().filter(|(key, at, cost)| {
                let (from, to) = ((at - 10) * MS, (at + 1) * MS);
                let taken: u64 = calls.iter().filter(|c| c.0 == *key && c.2 > from && c.1 < to).map(|c| u64::from(c.3)).sum();
                taken + u64::from(*cost) <= 5
            });
            prop_assert_eq!(refused_below(&round, 5, window(10)), looked.count() as u64);
        }

        #[test]
        fn the_fullest_window_is_the_one_that_trying_them_all_finds(
            calls in proptest::collection::vec((0u32..2, 0i64..40, 0i64..15, 1u32..4), 0..30),
        ) {
            let calls: Vec<_> = calls.iter().map(|(k, at, len, c)| (*k, at * MS, (at + len) * MS, *c)).collect();
            let round = admitted(&calls);
            let inside = |key: u32, a: i64| -> u64 {
                let of = |c: &&(u32, i64, i64, u32)| c.0 == key && c.1 >= a && c.2 < a + 10 * MS;
                calls.iter().filter(of).map(|c| u64::from(c.3)).sum()
            };
            let tried = calls.iter().map(|c| inside(c.0, c.1)).max().unwrap_or(0);
            prop_assert_eq!(most(&round, window(10)), tried);
        }
    }
}
