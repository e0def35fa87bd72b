//! A counter that starts anew when its window is over; the window opens with the first hit.

use super::{Model, Step};
use crate::model::contract::Denials;
use crate::model::units::{Cost, Limit, Window};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedWindow {
    limit: Limit,
    window: Window,
    denials: Denials,
    /// When the open window began (ms) and what it has counted.
    open: Option<(i64, u64)>,
}

impl FixedWindow {
    pub fn new(limit: Limit, window: Window) -> Self {
        Self { limit, window, denials: Denials::Charged, open: None }
    }

    /// Whether refused calls count; they do unless this says otherwise.
    #[must_use]
    pub fn with(self, denials: Denials) -> Self {
        Self { denials, ..self }
    }

    /// As if `used` had been admitted at `now_ms`.
    pub fn preset(&mut self, now_ms: i64, used: u64) {
        self.open = Some((now_ms, used));
    }

    /// Whether nothing of it counts any more: a call would open another one.
    pub fn is_over(&self, now_ms: i64) -> bool {
        self.open.is_none_or(|(began, _)| now_ms - began >= self.window.millis() as i64)
    }

    pub fn acquire(&mut self, now_ms: i64, cost: Cost) -> Step {
        let length = self.window.millis() as i64;
        let (began, counted) = match self.open {
            Some((began, counted)) if now_ms - began < length => (began, counted),
            _ => (now_ms, 0),
        };
        let limit = self.limit.get();
        let with_it = counted.saturating_add(u64::from(cost.get()));
        let allowed = with_it <= limit;
        let counted = if allowed || self.denials == Denials::Charged { with_it } else { counted };
        if allowed || self.denials == Denials::Charged {
            self.open = Some((began, counted));
        }
        let retry_after_ms = match (allowed, u64::from(cost.get()) > limit) {
            (true, _) => Some(0),
            (false, true) => None,
            (false, false) => Some((began + length - now_ms) as u64),
        };
        Step { allowed, remaining: limit.saturating_sub(counted), retry_after_ms }
    }
}

impl Model for FixedWindow {
    fn acquire(&mut self, now_us: i64, cost: Cost) -> Step {
        Self::acquire(self, now_us.div_euclid(1000), cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_opens_with_the_first_hit_and_starts_anew_after_it() {
        let mut w = FixedWindow::new(Limit::new(2).unwrap(), Window::from_millis(100).unwrap());
        let at = |w: &mut FixedWindow, t| w.acquire(t, Cost::ONE);
        assert!(at(&mut w, 1000).allowed);
        assert_eq!(at(&mut w, 1050).remaining, 0);
        let refused = at(&mut w, 1099);
        assert_eq!((refused.allowed, refused.retry_after_ms), (false, Some(1)));
        assert!(at(&mut w, 1100).allowed);
    }

    #[test]
    fn a_cost_above_the_limit_is_told_never() {
        let mut w = FixedWindow::new(Limit::new(2).unwrap(), Window::from_millis(100).unwrap());
        assert_eq!(w.acquire(0, Cost::new(3).unwrap()).retry_after_ms, None);
    }
}
