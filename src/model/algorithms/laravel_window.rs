//! The hash window of Laravel's Redis throttle: start and end in whole seconds, and a call whose
//! time does not lie between the two, before as well as after, starts the window anew.
//!
//! Refused calls are not counted: the script that looks does not write.

use super::{Model, Step};
use crate::model::units::{Cost, Limit, Window};

const SECOND_US: i64 = 1_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaravelWindow {
    limit: Limit,
    /// The window's length; the limiter takes whole seconds only.
    length_us: i64,
    /// When the window began (µs, a whole second) and what it has counted.
    open: Option<(i64, u64)>,
}

impl LaravelWindow {
    pub fn new(limit: Limit, window: Window) -> Self {
        Self { limit, length_us: window.nanos() / 1000, open: None }
    }

    pub fn acquire(&mut self, now_us: i64, cost: Cost) -> Step {
        // Its end belongs to the window.
        let inside = |began: i64| (began..=began + self.length_us).contains(&now_us);
        let open = self.open.filter(|(began, _)| inside(*began));
        let (limit, cost) = (self.limit.get(), u64::from(cost.get()));
        let counted = open.map_or(0, |(_, counted)| counted);
        let left = limit.saturating_sub(counted);
        if cost <= left {
            let began = open.map_or(now_us - now_us.rem_euclid(SECOND_US), |(began, _)| began);
            self.open = Some((began, counted + cost));
            return Step { allowed: true, remaining: left - cost, retry_after_ms: Some(0) };
        }
        let wait = |(began, _): (i64, u64)| ((began + self.length_us - now_us) / 1000 + 1) as u64;
        // Whoever is refused without a window asked for more than any window holds.
        let retry_after_ms = if cost > limit { None } else { open.map(wait) };
        Step { allowed: false, remaining: left, retry_after_ms }
    }
}

impl Model for LaravelWindow {
    fn acquire(&mut self, now_us: i64, cost: Cost) -> Step {
        Self::acquire(self, now_us, cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_begins_with_a_whole_second_and_includes_its_end() {
        let mut w = LaravelWindow::new(Limit::new(2).unwrap(), Window::from_millis(2000).unwrap());
        let at = |w: &mut LaravelWindow, t| w.acquire(t, Cost::ONE);
        assert!(at(&mut w, 10_900_000).allowed && at(&mut w, 11_000_000).allowed);
        let refused = at(&mut w, 11_999_500);
        assert_eq!((refused.allowed, refused.retry_after_ms), (false, Some(1)));
        assert_eq!(at(&mut w, 12_000_000).retry_after_ms, Some(1), "its last microsecond");
        assert!(at(&mut w, 12_000_001).allowed);
    }

    #[test]
    fn two_clocks_further_apart_than_the_window_reset_it_for_each_other() {
        let mut w = LaravelWindow::new(Limit::new(1).unwrap(), Window::from_millis(60_000).unwrap());
        for _ in 0..5 {
            assert!(w.acquire(100_000_000, Cost::ONE).allowed && w.acquire(170_000_000, Cost::ONE).allowed);
        }
        assert!(!w.acquire(170_000_000, Cost::ONE).allowed);
    }
}
