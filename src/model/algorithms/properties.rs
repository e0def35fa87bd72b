//! What every model must keep: its bound, and its word about the wait.

use proptest::prelude::*;

use super::{Algorithm, Model, Step};
use crate::model::bounds::{Admitted, TimeContext, excess};
use crate::model::contract::{Bound, Denials};
use crate::model::units::{Cost, Limit, Nanos, Window};

const MS_US: i64 = 1_000;

/// A model, the bound it is for and how much two readings of its clock may be off, in µs.
#[derive(Debug, Clone, Copy)]
struct Subject {
    algorithm: Algorithm,
    bound: Bound,
    resolution_us: i64,
}

/// Every algorithm with this limit and window; a burst, or a bucket, of two more than the limit.
fn subjects(limit: u64, window_ms: u64) -> Vec<Subject> {
    let of = |n| Limit::new(n).unwrap();
    let (limit, capacity) = (of(limit), of(limit + 2));
    let window = Window::from_millis(window_ms).unwrap();
    let seconds = Window::from_millis(window_ms.div_ceil(1000) * 1000).unwrap();
    let bucket = Bound::Bucket { capacity, refill: limit, window };
    let mut all = vec![
        (Algorithm::SlidingCounter { limit, window }, Bound::WeightedTwoWindow { limit, window }, MS_US),
        (
            Algorithm::LaravelWindow { limit, window: seconds },
            Bound::FixedWindow { limit, window: seconds },
            1_000 * MS_US,
        ),
        (Algorithm::Gcra { burst: capacity, limit, window }, bucket, 0),
        (Algorithm::TokenBucket { capacity, refill: limit, window }, bucket, MS_US),
        (Algorithm::TokenBucketKept { capacity, refill: limit, window }, bucket, MS_US),
    ];
    for denials in [Denials::Free, Denials::Charged] {
        all.extend([
            (Algorithm::FixedWindow { limit, window, denials }, Bound::FixedWindow { limit, window }, MS_US),
            (
                Algorithm::AlignedWindow { limit, window, denials },
                Bound::AlignedWindow { limit, window },
                MS_US,
            ),
            (Algorithm::SlidingLog { limit, window, denials }, Bound::SlidingWindow { limit, window }, 0),
        ]);
    }
    let subject = |(algorithm, bound, resolution_us)| Subject { algorithm, bound, resolution_us };
    all.into_iter().map(subject).collect()
}

/// The model after these calls, and the times and costs of what it admitted.
fn drive(subject: &Subject, calls: &[(i64, Cost)]) -> (Box<dyn Model>, Vec<Admitted>) {
    let mut model = subject.algorithm.start();
    let mut admitted = Vec::new();
    for (at_us, cost) in calls {
        if model.acquire(*at_us, *cost).allowed {
            let at = Nanos(at_us * 1000);
            admitted.push(Admitted { op: None, invoke: at, complete: at, cost: cost.get().into() });
        }
    }
    (model, admitted)
}

/// The step that one more call gets.
fn then(subject: &Subject, calls: &[(i64, Cost)], at_us: i64, cost: Cost) -> Step {
    drive(subject, calls).0.acquire(at_us, cost)
}

fn broken(bound: &Bound, subject: &Subject, calls: &[(i64, Cost)]) -> bool {
    let (_, admitted) = drive(subject, calls);
    let first_touch = Nanos(calls.first().map_or(0, |(at, _)| at * 1000));
    let time = TimeContext { first_touch, slack_ns: subject.resolution_us * 1000, epoch_ns_at_zero: 0 };
    excess(bound, &admitted, time).is_some()
}

/// Calls at rising times, with gaps as parts of a window. They begin so many µs after a whole second:
/// some at the edges of milliseconds, some between.
fn calls(window_ms: u64, after_us: i64, steps: &[(u64, u32)]) -> Vec<(i64, Cost)> {
    let mut at_us = 1_700_000_000_000_000 + after_us;
    let mut at = |thousandths: u64| {
        at_us += (window_ms * thousandths) as i64;
        at_us
    };
    steps.iter().map(|(gap, cost)| (at(*gap), Cost::new(*cost).unwrap())).collect()
}

fn after_us() -> impl Strategy<Value = i64> {
    prop_oneof![Just(0i64), (0i64..1_000).prop_map(|ms| ms * 1_000), 0i64..1_000_000]
}

/// Gaps in thousandths of a window: mostly short, at times several windows long.
fn steps() -> impl Strategy<Value = Vec<(u64, u32)>> {
    let gap = prop_oneof![3 => Just(0u64), 6 => 0u64..150, 2 => 0u64..1_200, 1 => 0u64..3_500];
    prop::collection::vec((gap, 1u32..5), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_a_model_admits_never_breaks_its_bound(steps in steps(), limit in 1u64..8, ms in 40u64..7_000, after_us in after_us()) {
        for subject in subjects(limit, ms) {
            prop_assert!(!broken(&subject.bound, &subject, &calls(ms, after_us, &steps)), "{subject:?}");
        }
    }

    #[test]
    fn waiting_out_the_hint_is_enough_and_one_ms_less_is_not(steps in steps(), limit in 1u64..8, ms in 40u64..7_000, after_us in after_us()) {
        for subject in subjects(limit, ms) {
            let calls = calls(ms, after_us, &steps);
            let mut model = subject.algorithm.start();
            for (n, (at, cost)) in calls.iter().enumerate() {
                let step = model.acquire(*at, *cost);
                if step.allowed {
                    prop_assert_eq!(step.retry_after_ms, Some(0));
                    continue;
                }
                let so_far = &calls[..=n];
                let Some(wait) = step.retry_after_ms else {
                    // Never: not even a new model has room for it.
                    prop_assert!(!subject.algorithm.start().acquire(*at, *cost).allowed, "{subject:?}");
                    continue;
                };
                let wait_us = wait as i64 * MS_US;
                prop_assert!(then(&subject, so_far, at + wait_us, *cost).allowed, "{subject:?}: {wait} ms");
                prop_assert!(!then(&subject, so_far, at + wait_us - MS_US, *cost).allowed, "{subject:?}: {wait} ms");
            }
        }
    }

    #[test]
    fn what_is_told_to_remain_is_what_one_more_call_may_take(steps in steps(), limit in 1u64..8, ms in 40u64..7_000, after_us in after_us()) {
        for subject in subjects(limit, ms) {
            let calls = calls(ms, after_us, &steps);
            let mut model = subject.algorithm.start();
            for (n, (at, cost)) in calls.iter().enumerate() {
                let left = model.acquire(*at, *cost).remaining as u32;
                let more = |cost| then(&subject, &calls[..=n], *at, Cost::new(cost).unwrap()).allowed;
                prop_assert!(left == 0 || more(left), "{subject:?}: {left} left");
                prop_assert!(!more(left + 1), "{subject:?}: {left} left");
            }
        }
    }
}

/// The bounds above would find a model that admits one too many.
#[test]
fn a_model_of_one_more_than_the_bound_breaks_it() {
    let (limit, ms) = (5, 2_000);
    for (subject, generous) in subjects(limit, ms).into_iter().zip(subjects(limit + 1, ms)) {
        // A first call alone, so that the limit is used up after the window was opened.
        let steps: Vec<(u64, u32)> = (0..40).map(|_| (1, 1)).collect();
        let calls = calls(ms, 0, &steps);
        assert!(!broken(&subject.bound, &subject, &calls), "{subject:?}");
        assert!(broken(&subject.bound, &generous, &calls), "{generous:?}");
    }
}
