//! A token bucket in whole milliseconds, as `token-bucket-lua` computes it.
//!
//! Tokens are kept as a fraction of `window` milliseconds so that nothing is lost to rounding:
//! a full bucket holds `capacity × window_ms` parts, a millisecond adds `refill` parts, a call of
//! cost c takes `c × window_ms` parts.

use super::{Model, Step};
use crate::model::units::{Cost, Limit, Window};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenBucket {
    capacity: Limit,
    refill: Limit,
    window: Window,
    /// Parts in the bucket and the time (ms) up to which it is filled.
    state: Option<(u128, i64)>,
    /// Whether a refused call leaves the state as it found it.
    kept_by_refusals: bool,
}

impl TokenBucket {
    pub fn new(capacity: Limit, refill: Limit, window: Window) -> Self {
        Self { capacity, refill, window, state: None, kept_by_refusals: false }
    }

    /// As read and written by separate commands: a refused call has nothing to write.
    #[must_use]
    pub fn kept_by_refusals(self) -> Self {
        Self { kept_by_refusals: true, ..self }
    }

    /// A clock that goes backwards adds nothing and does not move the fill time.
    pub fn acquire(&mut self, now_ms: i64, cost: Cost) -> Step {
        let part = u128::from(self.window.millis());
        let full = u128::from(self.capacity.get()) * part;
        let (mut parts, mut filled) = self.state.unwrap_or((full, now_ms));
        if now_ms > filled {
            parts = full.min(parts + (now_ms - filled) as u128 * u128::from(self.refill.get()));
            filled = now_ms;
        }
        let wanted = u128::from(cost.get()) * part;
        let allowed = parts >= wanted;
        if allowed {
            parts -= wanted;
        }
        if allowed || !self.kept_by_refusals {
            self.state = Some((parts, filled));
        }
        let retry_after_ms = if allowed {
            Some(0)
        } else if wanted > full {
            None
        } else {
            Some((wanted - parts).div_ceil(u128::from(self.refill.get())) as u64)
        };
        Step { allowed, remaining: (parts / part) as u64, retry_after_ms }
    }
}

impl Model for TokenBucket {
    fn acquire(&mut self, now_us: i64, cost: Cost) -> Step {
        Self::acquire(self, now_us.div_euclid(1000), cost)
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
    fn a_clock_that_goes_back_refills_nothing() {
        let mut b = TokenBucket::new(limit(1), limit(1), Window::from_millis(1000).unwrap());
        assert!(b.acquire(10_000, Cost::ONE).allowed);
        assert!(!b.acquire(9_000, Cost::ONE).allowed);
        assert!(!b.acquire(10_500, Cost::ONE).allowed);
        assert!(b.acquire(11_000, Cost::ONE).allowed);
    }

    #[test]
    fn a_refused_call_from_a_clock_ahead_fills_the_bucket_for_those_behind_unless_it_writes_nothing() {
        for (kept, allowed) in [(false, true), (true, false)] {
            let mut b = TokenBucket::new(limit(2), limit(1), Window::from_millis(1000).unwrap());
            b = if kept { b.kept_by_refusals() } else { b };
            assert!(b.acquire(10_000, Cost::new(2).unwrap()).allowed);
            assert!(!b.acquire(11_000, Cost::new(2).unwrap()).allowed);
            assert_eq!(b.acquire(10_000, Cost::ONE).allowed, allowed);
        }
    }

    proptest! {
        #[test]
        fn what_it_admits_never_breaks_the_bucket_bound(
            steps in prop::collection::vec((0i64..400, 1u32..3), 1..80),
            capacity in 2u64..8, per in 1u64..20, ms in 50u64..3000,
        ) {
            let window = Window::from_millis(ms).unwrap();
            let mut bucket = TokenBucket::new(limit(capacity), limit(per), window);
            let mut now = 0;
            let mut ops = Vec::new();
            for (gap, cost) in steps {
                now += gap;
                if bucket.acquire(now, Cost::new(cost).unwrap()).allowed {
                    let at = Nanos(now * 1_000_000);
                    ops.push(Admitted { op: None, invoke: at, complete: at, cost: cost.into() });
                }
            }
            let bound = Bound::Bucket { capacity: limit(capacity), refill: limit(per), window };
            let time = TimeContext { first_touch: Nanos(0), slack_ns: 0, epoch_ns_at_zero: 0 };
            prop_assert_eq!(excess(&bound, &ops, time), None);
        }
    }
}
