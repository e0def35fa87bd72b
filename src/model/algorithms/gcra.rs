//! The generic cell rate algorithm, in whole microseconds.
//!
//! Source: ITU-T I.371, "virtual scheduling". One number is kept, the theoretical arrival time
//! (TAT). With emission interval T = window / limit and tolerance τ = (burst − 1) × T a call of
//! cost c is admitted if `max(now, TAT) + c × T − now ≤ burst × T`; it moves TAT to the left-hand
//! side. T is rounded up to a microsecond, so the rate is never above limit / window.

use super::{Model, Step};
use crate::model::units::{Cost, Limit, Window};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gcra {
    burst: Limit,
    /// T in microseconds.
    interval_us: u64,
    tat_us: Option<i64>,
}

impl Gcra {
    pub fn new(burst: Limit, limit: Limit, window: Window) -> Self {
        Self { burst, interval_us: interval_us(limit, window), tat_us: None }
    }

    pub fn acquire(&mut self, now_us: i64, cost: Cost) -> Step {
        let interval = self.interval_us as i64;
        let depth = interval * self.burst.get() as i64;
        let tat = self.tat_us.map_or(now_us, |t| t.max(now_us));
        let next = tat + interval * i64::from(cost.get());
        let ahead = next - now_us;
        if ahead > depth {
            let wait = if u64::from(cost.get()) > self.burst.get() {
                None
            } else {
                Some(((ahead - depth) as u64).div_ceil(1000))
            };
            return Step {
                allowed: false,
                remaining: ((depth - (tat - now_us)) / interval).max(0) as u64,
                retry_after_ms: wait,
            };
        }
        self.tat_us = Some(next);
        Step { allowed: true, remaining: ((depth - ahead) / interval) as u64, retry_after_ms: Some(0) }
    }
}

/// T in microseconds, rounded up.
pub fn interval_us(limit: Limit, window: Window) -> u64 {
    (window.millis() * 1000).div_ceil(limit.get())
}

impl Model for Gcra {
    fn acquire(&mut self, now_us: i64, cost: Cost) -> Step {
        Self::acquire(self, now_us, cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::bounds::{Admitted, TimeContext, excess};
    use crate::model::contract::Bound;
    use crate::model::units::Nanos;
    use proptest::prelude::*;

    fn limit(n: u64) -> Limit {
        Limit::new(n).unwrap()
    }

    #[test]
    fn a_burst_of_twelve_at_ten_a_second_waits_about_a_hundred_ms() {
        let mut g = Gcra::new(limit(12), limit(10), Window::from_millis(1000).unwrap());
        for _ in 0..12 {
            assert!(g.acquire(0, Cost::ONE).allowed);
        }
        let refused = g.acquire(2_000, Cost::ONE);
        assert_eq!((refused.allowed, refused.retry_after_ms), (false, Some(98)));
    }

    proptest! {
        #[test]
        fn what_it_admits_never_breaks_the_bucket_bound(
            steps in prop::collection::vec((0i64..400_000, 1u32..3), 1..80),
            burst in 2u64..8, per in 1u64..20, ms in 50u64..3000,
        ) {
            let window = Window::from_millis(ms).unwrap();
            let mut g = Gcra::new(limit(burst), limit(per), window);
            let mut now = 0;
            let mut ops = Vec::new();
            for (gap, cost) in steps {
                now += gap;
                if g.acquire(now, Cost::new(cost).unwrap()).allowed {
                    ops.push(Admitted { op: None, invoke: Nanos(now * 1000), complete: Nanos(now * 1000), cost: cost.into() });
                }
            }
            let bound = Bound::Bucket { capacity: limit(burst), refill: limit(per), window };
            let time = TimeContext { first_touch: Nanos(0), slack_ns: 0, epoch_ns_at_zero: 0 };
            prop_assert_eq!(excess(&bound, &ops, time), None);
        }

        #[test]
        fn waiting_out_the_hint_is_enough_and_one_ms_less_is_not(
            gaps in prop::collection::vec(0i64..50_000, 1..40), burst in 1u64..6, per in 1u64..50,
        ) {
            let mut g = Gcra::new(limit(burst), limit(per), Window::from_millis(1000).unwrap());
            let mut now = 0;
            for gap in gaps {
                now += gap;
                let step = g.acquire(now, Cost::ONE);
                if !step.allowed {
                    let wait = step.retry_after_ms.unwrap() as i64 * 1000;
                    prop_assert!(g.clone().acquire(now + wait, Cost::ONE).allowed);
                    prop_assert!(!g.clone().acquire(now + wait - 1000, Cost::ONE).allowed);
                }
            }
        }
    }
}
