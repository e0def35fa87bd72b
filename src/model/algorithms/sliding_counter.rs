//! Two counters of clock-aligned windows, the older one weighted by how much of its window still
//! lies within one window's length, as `sliding-counter-lua` computes it.
//!
//! Counted in parts, one window's length in milliseconds to a call: a call of the window before
//! weighs as many parts as milliseconds of it are left. All whole numbers, so nothing is rounded.

use super::numbered::Numbered;
use super::{Model, Step};
use crate::model::units::{Cost, Limit, Window};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlidingCounter {
    limit: Limit,
    window: Window,
    counts: Numbered,
}

impl SlidingCounter {
    pub fn new(limit: Limit, window: Window) -> Self {
        Self { limit, window, counts: Numbered::default() }
    }

    pub fn acquire(&mut self, now_ms: i64, cost: Cost) -> Step {
        let part = u128::from(self.window.millis());
        let number = now_ms.div_euclid(self.window.millis() as i64);
        let elapsed = now_ms.rem_euclid(self.window.millis() as i64) as u128;
        let (count, last) = (u128::from(self.counts.of(number)), u128::from(self.counts.of(number - 1)));
        let (full, wanted) = (u128::from(self.limit.get()) * part, u128::from(cost.get()) * part);
        let weighted = count * part + last * (part - elapsed);
        if weighted + wanted <= full {
            self.counts.set(number, (count + u128::from(cost.get())) as u64);
            let remaining = ((full - weighted - wanted) / part) as u64;
            return Step { allowed: true, remaining, retry_after_ms: Some(0) };
        }
        let counted = count * part;
        let wait = if wanted > full {
            None
        } else if counted + wanted <= full {
            // Until the window before weighs little enough: it weighs something, or the call had fit.
            Some((weighted + wanted - full).div_ceil(last))
        } else {
            // Not in this window: until this one, by then the one before, weighs little enough.
            Some(part - elapsed + (counted + wanted - full).div_ceil(count))
        };
        Step {
            allowed: false,
            remaining: (full.saturating_sub(weighted) / part) as u64,
            retry_after_ms: wait.map(|ms| ms as u64),
        }
    }
}

impl Model for SlidingCounter {
    fn acquire(&mut self, now_us: i64, cost: Cost) -> Step {
        Self::acquire(self, now_us.div_euclid(1000), cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_before_weighs_less_with_every_millisecond() {
        let mut w = SlidingCounter::new(Limit::new(4).unwrap(), Window::from_millis(100).unwrap());
        let at = |w: &mut SlidingCounter, t| w.acquire(t, Cost::ONE);
        assert!((0..4).all(|_| at(&mut w, 90).allowed));
        // Four that weigh three quarters each leave one; then two thirds and so on.
        let refused = at(&mut w, 101);
        assert_eq!((refused.allowed, refused.remaining, refused.retry_after_ms), (false, 0, Some(24)));
        assert!(!at(&mut w, 124).allowed && at(&mut w, 125).allowed);
        assert_eq!(at(&mut w, 125).retry_after_ms, Some(25));
        // In a window that used itself up the wait goes on into the next one.
        let mut w = SlidingCounter::new(Limit::new(4).unwrap(), Window::from_millis(100).unwrap());
        assert!((0..4).all(|_| at(&mut w, 10).allowed));
        assert_eq!(at(&mut w, 10).retry_after_ms, Some(90 + 25));
    }
}
