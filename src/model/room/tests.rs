use super::*;
use crate::model::units::{Limit, Window};
use proptest::prelude::*;

const MS: i64 = 1_000_000;

fn limit(n: u64) -> Limit {
    Limit::new(n).unwrap()
}

fn window(ms: i64) -> Window {
    Window::from_millis(ms as u64).unwrap()
}

fn time() -> TimeContext {
    TimeContext { slack_ns: 0, lockout_ns: 0, epoch_ns_at_zero: 0 }
}

/// Times in milliseconds.
fn used(invoke: i64, complete: i64, cost: u64) -> Use {
    Use { invoke: Nanos(invoke * MS), complete: Nanos(complete * MS), cost }
}

fn call(invoke: i64, complete: i64, cost: u64) -> Call {
    Call { invoke: Nanos(invoke * MS), complete: Nanos(complete * MS), cost, entered: 0 }
}

fn room(bound: Bound, time: TimeContext, uses: &[Use], call: Call) -> (bool, u64) {
    let room = Ledger::new(&bound, time, uses.iter().copied()).room(call);
    (room.fits, room.in_use)
}

#[test]
fn the_phase_of_a_fixed_window_is_unknown_so_one_window_back_counts() {
    let fixed = Bound::FixedWindow { limit: limit(2), window: window(100) };
    let uses = [used(0, 10, 1), used(20, 30, 1)];
    assert_eq!(room(fixed, time(), &uses, call(110, 111, 1)), (false, 2));
    // The first had surely left by then.
    assert_eq!(room(fixed, time(), &uses, call(111, 112, 1)), (true, 1));
    // Not if the limiter's clock reads whole milliseconds.
    let coarse = TimeContext { slack_ns: MS, ..time() };
    assert_eq!(room(fixed, coarse, &uses, call(111, 112, 1)), (false, 2));
}

#[test]
fn what_began_after_the_call_had_its_answer_takes_no_room() {
    let fixed = Bound::FixedWindow { limit: limit(1), window: window(100) };
    assert_eq!(room(fixed, time(), &[used(6, 7, 1)], call(3, 5, 1)), (true, 0));
    assert_eq!(room(fixed, time(), &[used(5, 7, 1)], call(3, 5, 1)), (false, 1));
}

#[test]
fn no_call_is_in_its_own_way() {
    let fixed = Bound::FixedWindow { limit: limit(3), window: window(100) };
    let uses = [used(0, 1, 1), used(10, 11, 2)];
    assert_eq!(room(fixed, time(), &uses, Call { entered: 2, ..call(10, 11, 2) }), (true, 1));
}

#[test]
fn a_call_that_nobody_answered_may_be_applied_at_any_later_time() {
    let fixed = Bound::FixedWindow { limit: limit(1), window: window(100) };
    let lost = Use { complete: Nanos(i64::MAX), ..used(0, 0, 1) };
    assert_eq!(room(fixed, time(), &[lost], call(5_000, 5_001, 1)), (false, 1));
    let bucket = Bound::Bucket { capacity: limit(1), refill: limit(1), window: window(100) };
    assert!(!room(bucket, time(), &[lost], call(5_000, 5_001, 1)).0);
}

#[test]
fn an_aligned_window_forgets_at_its_edge() {
    let aligned = Bound::AlignedWindow { limit: limit(1), window: window(100) };
    let uses = [used(98, 99, 1)];
    assert_eq!(room(aligned, time(), &uses, call(100, 101, 1)), (true, 0));
    assert_eq!(room(aligned, time(), &uses, call(99, 101, 1)), (false, 1));
    // The epoch moves the edge to 150.
    let moved = TimeContext { epoch_ns_at_zero: 50 * MS, ..time() };
    assert_eq!(room(aligned, moved, &uses, call(100, 101, 1)), (false, 1));
    assert_eq!(room(aligned, moved, &uses, call(150, 151, 1)), (true, 0));
}

#[test]
fn a_call_open_over_an_edge_is_held_against_each_window_by_itself() {
    let aligned = Bound::AlignedWindow { limit: limit(2), window: window(100) };
    // One in each of the two windows: whichever it met, it met one.
    let uses = [used(90, 91, 1), used(105, 106, 1)];
    assert_eq!(room(aligned, time(), &uses, call(95, 110, 1)), (true, 1));
    // Open over five of them, it is held against all together.
    assert_eq!(room(aligned, time(), &uses, call(95, 510, 1)), (false, 2));
}

#[test]
fn the_window_before_weighs_less_and_less() {
    let pair = Bound::WeightedTwoWindow { limit: limit(4), window: window(100) };
    // Four at the end of window 0. A quarter into window 1 they weigh 3: one fits.
    let uses = [used(90, 91, 4)];
    assert_eq!(room(pair, time(), &uses, call(124, 125, 1)), (false, 4));
    assert_eq!(room(pair, time(), &uses, call(126, 127, 1)), (true, 3));
    // Two windows on, nothing of them is left.
    assert_eq!(room(pair, time(), &uses, call(200, 201, 4)), (true, 0));
}

#[test]
fn a_bucket_is_as_empty_as_late_uses_leave_it() {
    let bucket = Bound::Bucket { capacity: limit(2), refill: limit(1), window: window(10) };
    // Both may have been taken as late as 20: by 30 one is back for certain, by 40 both.
    let uses = [used(0, 20, 1), used(0, 20, 1)];
    assert_eq!(room(bucket, time(), &uses, call(29, 29, 1)), (false, 2));
    assert_eq!(room(bucket, time(), &uses, call(30, 30, 1)), (true, 1));
    assert_eq!(room(bucket, time(), &uses, call(39, 39, 2)), (false, 1));
    assert_eq!(room(bucket, time(), &uses, call(40, 40, 2)), (true, 0));
    // The call that overlaps both meets them at their latest, too.
    assert!(!room(bucket, time(), &uses, call(15, 16, 1)).0);
    let three = Bound::Bucket { capacity: limit(3), refill: limit(1), window: window(10) };
    assert_eq!(room(three, time(), &uses, call(15, 15, 1)), (true, 2));
}

#[test]
fn a_call_that_was_overtaken_measures_a_bucket_from_its_own_old_time() {
    // A GCRA of two, full. X was told 5 and applied; D was told 4 and applied after it: 5 + 10 + 10 − 4 is
    // more than 20.
    let bucket = Bound::Bucket { capacity: limit(2), refill: limit(1), window: window(10) };
    assert_eq!(room(bucket, time(), &[used(5, 5, 1)], call(4, 6, 1)), (false, 2));
    assert_eq!(room(bucket, time(), &[used(5, 5, 1)], call(6, 6, 1)), (true, 1));
}

#[test]
fn a_refill_in_whole_microseconds_is_slower_than_it_says_and_that_is_no_lie() {
    // 7 a second: 142,857.14 µs for one, kept as 142,858.
    let gcra = Bound::Bucket { capacity: limit(1), refill: limit(7), window: window(1000) };
    let ask = |ns: i64| {
        let mut ledger = Ledger::new(&gcra, time(), [used(0, 0, 1)]);
        ledger.room(Call { invoke: Nanos(ns), complete: Nanos(ns), cost: 1, entered: 0 }).fits
    };
    assert!(!ask(142_857_143));
    assert!(ask(142_858_000));
}

#[test]
fn a_call_above_the_burst_never_has_room() {
    let (l, w) = (limit(3), window(100));
    for bound in [
        Bound::FixedWindow { limit: l, window: w },
        Bound::AlignedWindow { limit: l, window: w },
        Bound::SlidingWindow { limit: l, window: w },
        Bound::WeightedTwoWindow { limit: l, window: w },
        Bound::Bucket { capacity: l, refill: limit(50), window: w },
    ] {
        assert_eq!(room(bound, time(), &[], call(0, 1, 4)), (false, 0), "{bound:?}");
        assert_eq!(room(bound, time(), &[], call(0, 1, 3)), (true, 0), "{bound:?}");
        assert_eq!(recovers_within_ns(&bound, 4), None);
    }
}

#[test]
fn who_used_up_the_limit_may_be_locked_out_for_longer() {
    let fixed = Bound::FixedWindow { limit: limit(1), window: window(100) };
    let locks = TimeContext { lockout_ns: 200 * MS, ..time() };
    assert_eq!(room(fixed, locks, &[used(0, 1, 1)], call(301, 302, 1)), (false, 1));
    assert_eq!(room(fixed, locks, &[used(0, 1, 1)], call(302, 303, 1)), (true, 0));
}

#[test]
fn a_bucket_needs_to_earn_a_large_call_and_a_window_does_not() {
    let bucket = Bound::Bucket { capacity: limit(20), refill: limit(5), window: window(1000) };
    assert_eq!(recovers_within_ns(&bucket, 1), Some(1000 * MS));
    assert_eq!(recovers_within_ns(&bucket, 20), Some(4000 * MS));
    let sliding = Bound::SlidingWindow { limit: limit(20), window: window(1000) };
    assert_eq!(recovers_within_ns(&sliding, 20), Some(1000 * MS));
}

#[test]
fn a_witness_of_a_bucket_reaches_back_to_when_it_was_full() {
    let bucket = Bound::Bucket { capacity: limit(3), refill: limit(1), window: window(10) };
    // Full again at 10; then emptied at 50, and one at 55.
    let uses = [used(0, 0, 1), used(50, 50, 3), used(65, 65, 1)];
    let mut ledger = Ledger::new(&bucket, time(), uses);
    let room = ledger.room(call(66, 66, 1));
    assert_eq!((room.in_use, ledger.taken_since(room)), (3, Nanos(50 * MS)));
}

/// A use as it really was: when it was applied and what the limiter's clock said then.
#[derive(Debug, Clone, Copy)]
struct Truth {
    applied: i64,
    read: i64,
    cost: u64,
}

/// What the rule itself leaves to a call at this moment, after these uses in this order: admits or not.
fn by_the_rule(bound: &Bound, epoch: i64, before: &[Truth], call: Truth) -> bool {
    let sum =
        |counts: &dyn Fn(&Truth) -> bool| before.iter().filter(|t| counts(t)).map(|t| t.cost).sum::<u64>();
    let number = |at: i64, w: i64| (at + epoch).div_euclid(w);
    match *bound {
        Bound::FixedWindow { limit, window } => {
            // Opened by the first hit after the one before it closed.
            let (mut open, mut count) = (None, 0);
            for hit in before.iter().chain([&call]) {
                if open.is_none_or(|began| hit.read - began >= window.nanos()) {
                    (open, count) = (Some(hit.read), 0);
                }
                count += hit.cost;
            }
            count <= limit.get()
        }
        Bound::SlidingWindow { limit, window } => {
            sum(&|t| t.read > call.read - window.nanos()) + call.cost <= limit.get()
        }
        Bound::AlignedWindow { limit, window } => {
            let n = number(call.read, window.nanos());
            sum(&|t| number(t.read, window.nanos()) == n) + call.cost <= limit.get()
        }
        Bound::WeightedTwoWindow { limit, window } => {
            let w = window.nanos();
            let n = number(call.read, w);
            let (current, last) = (sum(&|t| number(t.read, w) == n), sum(&|t| number(t.read, w) == n - 1));
            let left = w - (call.read + epoch).rem_euclid(w);
            let weighted = current as f64 + last as f64 * (left as f64 / w as f64);
            weighted + call.cost as f64 <= limit.get() as f64
        }
        Bound::Bucket { capacity, refill, window } => {
            let us = window.nanos() / 1000;
            let token = ((us + refill.get() as i64 - 1) / refill.get() as i64) * 1000;
            let depth = token * capacity.get() as i64;
            // A GCRA takes each call at the time it was told; a token bucket never moves back.
            let admits = |at: &dyn Fn(i64, i64) -> i64| {
                let (mut now, mut full) = (i64::MIN, i64::MIN);
                for taken in before {
                    now = at(now, taken.read);
                    full = full.max(now) + token * taken.cost as i64;
                }
                now = at(now, call.read);
                full.max(now) + token * call.cost as i64 - now <= depth
            };
            admits(&|_, read| read) && admits(&i64::max)
        }
        Bound::None => true,
    }
}

fn some_bound() -> impl Strategy<Value = Bound> {
    (0..5, 1u64..7, 1u64..9, 1i64..60).prop_map(|(kind, l, refill, ms)| {
        let (limit, window, refill) = (limit(l), window(ms), limit(refill));
        match kind {
            0 => Bound::FixedWindow { limit, window },
            1 => Bound::AlignedWindow { limit, window },
            2 => Bound::SlidingWindow { limit, window },
            3 => Bound::WeightedTwoWindow { limit, window },
            _ => Bound::Bucket { capacity: limit, refill, window },
        }
    })
}

/// Applied at (µs), open that long before and after, read that long before, off by, cost; whether it
/// was answered.
type Seed = (i64, i64, i64, i64, i64, u64, bool);

fn some_uses() -> impl Strategy<Value = Vec<Seed>> {
    let length = || prop_oneof![Just(0i64), 0i64..500, 0i64..30_000];
    let one =
        (0i64..150_000, length(), length(), length(), 0i64..=2_000, 1u64..4, prop::bool::weighted(0.95));
    prop::collection::vec(one, 0..14)
}

const SLACK: i64 = 2_000_000;

fn truth(seed: &Seed) -> (Truth, Use) {
    let (at, early, late, old, off, cost, answered) = *seed;
    let (at, invoke) = (at * 1000, (at - early) * 1000);
    let complete = if answered { at + late * 1000 } else { i64::MAX };
    // Read within the call, by a clock that is off by up to the slack.
    let read = (at - old * 1000).max(invoke) + off * 1000;
    (Truth { applied: at, read, cost }, Use { invoke: Nanos(invoke), complete: Nanos(complete), cost })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30_000))]

    /// Wherever in their intervals the calls were applied, and whatever the clock said within its
    /// resolution: where there is room, the rule itself admits.
    #[test]
    fn room_is_room_under_every_reading(
        bound in some_bound(), seeds in some_uses(), mut asked in some_uses(), epoch in 0i64..100_000_000,
    ) {
        let Some(asked) = asked.pop() else { return Ok(()) };
        let (call, as_used) = truth(&(asked.0, asked.1, asked.2, asked.3, asked.4, asked.5, true));
        let mut all: Vec<(Truth, Use)> = seeds.iter().map(truth).collect();
        all.sort_by_key(|(t, _)| t.applied);
        let time = TimeContext { slack_ns: SLACK, lockout_ns: 0, epoch_ns_at_zero: epoch };
        let mut ledger = Ledger::new(&bound, time, all.iter().map(|(_, u)| *u));
        let room = ledger.room(Call { invoke: as_used.invoke, complete: as_used.complete, cost: call.cost, entered: 0 });
        let before: Vec<Truth> = all.iter().map(|(t, _)| *t).filter(|t| t.applied <= call.applied).collect();
        let call_asked = Call { invoke: as_used.invoke, complete: as_used.complete, cost: call.cost, entered: 0 };
        // The quick answer is the same, also if it is asked again or out of order.
        prop_assert_eq!(ledger.fits(call_asked), room.fits);
        let mut fresh = Ledger::new(&bound, time, all.iter().map(|(_, u)| *u));
        prop_assert_eq!(fresh.fits(call_asked), room.fits);
        if room.fits {
            prop_assert!(by_the_rule(&bound, epoch, &before, call), "{:?} {:?}", room, before);
        }
    }

    /// Where every call took no time and clocks are perfect there is one reading, and the answer is
    /// the rule's own. (Of a fixed window the phase stays unknown; and whether a call exactly as old as the
    /// window still counts is left in doubt.)
    #[test]
    fn where_nothing_is_uncertain_the_answer_is_exact(
        bound in some_bound(), seeds in some_uses(), at in 0i64..150_000, cost in 1u64..4, epoch in 0i64..100_000_000,
    ) {
        let point = |s: &Seed| truth(&(s.0, 0, 0, 0, 0, s.5, true));
        let mut all: Vec<(Truth, Use)> = seeds.iter().map(point).collect();
        all.sort_by_key(|(t, _)| t.applied);
        let time = TimeContext { slack_ns: 0, lockout_ns: 0, epoch_ns_at_zero: epoch };
        let mut ledger = Ledger::new(&bound, time, all.iter().map(|(_, u)| *u));
        let at = at * 1000;
        let room = ledger.room(Call { invoke: Nanos(at), complete: Nanos(at), cost, entered: 0 });
        let before: Vec<Truth> = all.iter().map(|(t, _)| *t).filter(|t| t.applied <= at).collect();
        let call = Truth { applied: at, read: at, cost };
        let expected = match bound {
            Bound::FixedWindow { limit, window } | Bound::SlidingWindow { limit, window } => {
                let counted = before.iter().filter(|t| t.read >= at - window.nanos()).map(|t| t.cost).sum::<u64>();
                counted + cost <= limit.get()
            }
            // To the last unit, which is left in doubt where the window before weighs.
            Bound::WeightedTwoWindow { limit, window } => {
                let w = i128::from(window.nanos());
                let number = |at: i64| i128::from(at + epoch).div_euclid(w);
                let n = number(at);
                let sum = |n| before.iter().filter(|t| number(t.read) == n).map(|t| i128::from(t.cost)).sum::<i128>();
                let left = w - i128::from(at + epoch).rem_euclid(w);
                let doubt = i128::from(sum(n - 1) > 0);
                (sum(n) + i128::from(cost)) * w + sum(n - 1) * left + doubt <= i128::from(limit.get()) * w
            }
            other => by_the_rule(&other, epoch, &before, call),
        };
        prop_assert_eq!(room.fits, expected);
    }

    /// Asked about all calls of a history, each with itself in the ledger, in whatever order.
    #[test]
    fn the_quick_answer_is_the_whole_one(
        bound in some_bound(), seeds in some_uses(), epoch in 0i64..100_000_000, shuffled in any::<bool>(),
    ) {
        let mut uses: Vec<Use> = seeds.iter().map(|s| truth(s).1).collect();
        if !shuffled {
            uses.sort_by_key(|u| u.invoke);
        }
        let time = TimeContext { slack_ns: SLACK, lockout_ns: 0, epoch_ns_at_zero: epoch };
        let mut quick = Ledger::new(&bound, time, uses.iter().copied());
        for one in uses.iter().filter(|u| u.complete < Nanos(i64::MAX)) {
            let call = Call { invoke: one.invoke, complete: one.complete, cost: one.cost, entered: one.cost };
            let whole = Ledger::new(&bound, time, uses.iter().copied()).room(call);
            prop_assert_eq!(quick.fits(call), whole.fits);
            prop_assert_eq!(quick.room(call), whole);
        }
    }

    #[test]
    fn a_gap_holds_only_what_may_lie_in_it(seeds in some_uses(), which in any::<prop::sample::Index>(), more in 0i64..60) {
        let uses: Vec<Use> = seeds.iter().map(|s| truth(s).1).collect();
        let Some(theirs) = (!uses.is_empty()).then(|| uses[which.index(uses.len())]) else { return Ok(()) };
        let (from, to) = (theirs.invoke, Nanos(theirs.invoke.0 + more * MS));
        let others = uses.iter().filter(|u| u.invoke <= to && u.complete >= from).count() > 1;
        prop_assert_eq!(Usage::new(uses.iter().copied()).holds_only(theirs.cost, from, to), !others);
    }

    #[test]
    fn a_span_holds_what_may_lie_in_it_in_whatever_order_it_is_asked(
        seeds in some_uses(), spans in prop::collection::vec((-20i64..160, 0i64..90), 1..12),
    ) {
        let uses: Vec<Use> = seeds.iter().map(|s| truth(s).1).collect();
        let mut usage = Usage::new(uses.iter().copied());
        for (from, length) in spans {
            let (from, to) = (Nanos(from * MS), Nanos((from + length) * MS));
            let naive = uses.iter().filter(|u| u.invoke <= to && u.complete >= from).map(|u| u.cost).sum::<u64>();
            prop_assert!(usage.between_at_most(from, to) >= naive);
            prop_assert_eq!(usage.between(from, to), naive);
        }
    }
}
