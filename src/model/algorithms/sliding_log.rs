//! A log with the time of each unit of cost, in microseconds: a call is admitted if it and what the
//! last window holds fit into the limit.

use std::collections::VecDeque;

use super::{Model, Step};
use crate::model::contract::Denials;
use crate::model::units::{Cost, Limit, Window};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlidingLog {
    limit: Limit,
    window_us: i64,
    denials: Denials,
    /// The time of each unit, in order.
    log: VecDeque<i64>,
}

impl SlidingLog {
    /// With `denials` charged, refused calls are logged as well: whoever keeps trying stays out.
    pub fn new(limit: Limit, window: Window, denials: Denials) -> Self {
        Self { limit, window_us: window.nanos() / 1000, denials, log: VecDeque::new() }
    }

    /// An entry as old as the window is gone. A clock that goes back finds what it wrote when it
    /// was ahead, and nothing of what it dropped then.
    pub fn acquire(&mut self, now_us: i64, cost: Cost) -> Step {
        let old = now_us.saturating_sub(self.window_us);
        self.log.drain(..self.log.partition_point(|at| *at <= old));
        let limit = self.limit.get() as usize;
        let cost = cost.get() as usize;
        let allowed = self.log.len() + cost <= limit;
        if allowed || self.denials == Denials::Charged {
            let place = self.log.partition_point(|at| *at <= now_us);
            // More than fills the log says no more.
            for _ in 0..cost.min(limit.saturating_add(1)) {
                self.log.insert(place, now_us);
            }
        }
        let retry_after_ms = match (allowed, cost > limit) {
            (true, _) => Some(0),
            (false, true) => None,
            (false, false) => {
                // The call fits once the entry at this place has left.
                let leaves = self.log[self.log.len() + cost - limit - 1] + self.window_us;
                Some(((leaves - now_us) as u64).div_ceil(1000))
            }
        };
        Step { allowed, remaining: limit.saturating_sub(self.log.len()) as u64, retry_after_ms }
    }
}

impl Model for SlidingLog {
    fn acquire(&mut self, now_us: i64, cost: Cost) -> Step {
        Self::acquire(self, now_us, cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(denials: Denials) -> SlidingLog {
        SlidingLog::new(Limit::new(2).unwrap(), Window::from_millis(100).unwrap(), denials)
    }

    #[test]
    fn each_call_leaves_one_window_after_it_came() {
        let mut w = log(Denials::Free);
        assert!(w.acquire(0, Cost::ONE).allowed && w.acquire(60_000, Cost::ONE).allowed);
        let refused = w.acquire(99_999, Cost::ONE);
        assert_eq!((refused.allowed, refused.remaining, refused.retry_after_ms), (false, 0, Some(1)));
        assert!(w.acquire(100_000, Cost::ONE).allowed, "the first has left");
        assert_eq!(w.acquire(100_000, Cost::new(2).unwrap()).retry_after_ms, Some(100));
        assert_eq!(w.acquire(100_000, Cost::new(3).unwrap()).retry_after_ms, None);
    }

    #[test]
    fn whoever_keeps_trying_stays_out_where_refusals_are_logged() {
        for (denials, let_in_again) in [(Denials::Free, true), (Denials::Charged, false)] {
            let mut w = log(denials);
            let admitted: Vec<bool> = (0..20).map(|n| w.acquire(n * 25_000, Cost::ONE).allowed).collect();
            assert!(admitted[..2].iter().all(|a| *a));
            assert_eq!(admitted[2..].iter().any(|a| *a), let_in_again, "{denials:?}");
        }
    }
}
