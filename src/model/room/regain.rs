//! How much more can be left at one call than at an earlier one, if nothing else happened in between?
//!
//! What comes back comes back for a reason: a window ends, an entry leaves, a bucket refills. Where
//! the reason cannot have come up between two calls, what is left is what was left.

use super::{Call, Ledger};
use crate::model::contract::Bound;
use crate::model::units::Nanos;

/// The most that can have come back between two calls, as a fraction of a call.
///
/// A limiter tells what is left in whole calls, rounded down: told R, it had less than R + 1. If what
/// it has is a whole number at all times, it had R.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Regain {
    parts: i128,
    whole: i128,
    /// Whether what is left is a whole number all the time.
    in_whole_calls: bool,
}

impl Regain {
    fn of_calls(calls: u64) -> Self {
        Self { parts: calls.into(), whole: 1, in_whole_calls: true }
    }

    /// Whether there cannot have been this much left at the second call if `told` was left after the
    /// first.
    pub fn excludes(&self, told: u64, left: u64) -> bool {
        let more = (i128::from(left) - i128::from(told)).saturating_mul(self.whole);
        if self.in_whole_calls { more > self.parts } else { more >= self.parts.saturating_add(self.whole) }
    }
}

impl Ledger {
    /// What can have come back from the invocation of one call to the completion of a later one.
    /// `first_touch` is when the first call of all was made; the ledger holds refusals too, if they
    /// are charged. `None` where that has no certain limit.
    ///
    /// * A fixed window opened no earlier than the first call and is whole until one window's length
    ///   after it. Later windows have an unknown phase.
    /// * An aligned window gives nothing back before its edge.
    /// * From a log, entries leave one window's length after they were made.
    /// * Of two weighted windows the older one gives back its share of the time between.
    /// * A bucket refills at its rate (here at the true one: what is asked is the most).
    pub fn regained(&mut self, first: Call, second: Call, first_touch: Nanos) -> Option<Regain> {
        let slack = self.time.slack_ns;
        let (from, to) = (first.invoke.0, second.complete.0);
        let between = i128::from(to) - i128::from(from) + i128::from(slack);
        match self.bound {
            Bound::FixedWindow { window, .. } => {
                let whole_until = first_touch.0.saturating_add(window.nanos()).saturating_sub(slack);
                (to < whole_until).then(|| Regain::of_calls(0))
            }
            Bound::AlignedWindow { window, .. } => {
                self.one_window(from, to, window.nanos()).map(|_| Regain::of_calls(0))
            }
            Bound::SlidingWindow { window, .. } => {
                let left = Nanos(from.saturating_sub(window.nanos()).saturating_sub(slack));
                let until = Nanos(to.saturating_sub(window.nanos()).saturating_add(slack));
                Some(Regain::of_calls(self.usage.between(left, until)))
            }
            Bound::WeightedTwoWindow { window, .. } => {
                let n = self.one_window(from, to, window.nanos())?;
                let (begin, end) = self.window(n - 1, window.nanos());
                let before = self.usage.between(Nanos(begin), Nanos(end.min(to)));
                let whole = i128::from(window.nanos());
                let parts = i128::from(before) * between;
                Some(Regain { parts, whole, in_whole_calls: before == 0 })
            }
            Bound::Bucket { refill, window, .. } => Some(Regain {
                parts: i128::from(refill.get()).saturating_mul(between),
                whole: window.nanos().into(),
                in_whole_calls: false,
            }),
            Bound::None => None,
        }
    }

    /// The aligned window in which both moments surely lie.
    fn one_window(&self, from: i64, to: i64, window: i64) -> Option<i64> {
        let n = self.number(from.saturating_sub(self.time.slack_ns), window);
        (n == self.number(to.saturating_add(self.time.slack_ns), window)).then_some(n)
    }
}
