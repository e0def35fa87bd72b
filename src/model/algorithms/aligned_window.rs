//! A counter per clock-aligned window: windows begin at whole multiples of their length since the
//! Unix epoch, in whole milliseconds.

use super::numbered::Numbered;
use super::{Model, Step};
use crate::model::contract::Denials;
use crate::model::units::{Cost, Limit, Window};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlignedWindow {
    limit: Limit,
    window: Window,
    denials: Denials,
    counts: Numbered,
}

impl AlignedWindow {
    pub fn new(limit: Limit, window: Window, denials: Denials) -> Self {
        Self { limit, window, denials, counts: Numbered::default() }
    }

    /// A clock that goes back counts on in the window it comes to.
    pub fn acquire(&mut self, now_ms: i64, cost: Cost) -> Step {
        let length = self.window.millis() as i64;
        let number = now_ms.div_euclid(length);
        let (limit, cost) = (self.limit.get(), u64::from(cost.get()));
        let with_it = self.counts.of(number).saturating_add(cost);
        let allowed = with_it <= limit;
        if allowed || self.denials == Denials::Charged {
            self.counts.set(number, with_it);
        }
        let retry_after_ms = match (allowed, cost > limit) {
            (true, _) => Some(0),
            (false, true) => None,
            (false, false) => Some((length - now_ms.rem_euclid(length)) as u64),
        };
        Step { allowed, remaining: limit.saturating_sub(self.counts.of(number)), retry_after_ms }
    }
}

impl Model for AlignedWindow {
    fn acquire(&mut self, now_us: i64, cost: Cost) -> Step {
        Self::acquire(self, now_us.div_euclid(1000), cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_ends_at_a_whole_multiple_of_its_length_whenever_it_was_first_hit() {
        let (limit, window) = (Limit::new(2).unwrap(), Window::from_millis(100).unwrap());
        let mut w = AlignedWindow::new(limit, window, Denials::Free);
        let at = |w: &mut AlignedWindow, t| w.acquire(t, Cost::ONE);
        assert!(at(&mut w, 1090).allowed && at(&mut w, 1099).allowed);
        let refused = at(&mut w, 1099);
        assert_eq!((refused.allowed, refused.retry_after_ms), (false, Some(1)));
        assert!(at(&mut w, 1100).allowed, "twice the limit passes at an edge");
        assert!(!at(&mut w, 1098).allowed, "and a clock that goes back finds the old window used up");
    }

    #[test]
    fn a_refused_call_takes_what_it_asked_for_only_where_denials_are_charged() {
        let (limit, window) = (Limit::new(3).unwrap(), Window::from_millis(100).unwrap());
        for (denials, remaining) in [(Denials::Free, 2), (Denials::Charged, 0)] {
            let mut w = AlignedWindow::new(limit, window, denials);
            assert!(w.acquire(0, Cost::ONE).allowed);
            let refused = w.acquire(0, Cost::new(3).unwrap());
            assert_eq!((refused.allowed, refused.remaining), (false, remaining), "{denials:?}");
        }
    }
}
