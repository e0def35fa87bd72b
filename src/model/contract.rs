//! What a limiter promises ([`Contract`]) and what a scenario or a user needs ([`Requirement`]).
//!
//! The two are kept apart on purpose: a per-process limiter keeps its promise on every node and
//! still fails a global requirement, and a limiter that promises nothing passes nothing.

use serde::{Deserialize, Serialize};

use super::algorithms::Algorithm;
use super::units::{Limit, Window};

/// How much may be admitted over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Bound {
    /// At most `limit` in each window of length `window`; a window opens with the first hit after
    /// the one before it closed. Two windows may touch, so any span of one window's length can
    /// hold up to twice the limit.
    FixedWindow { limit: Limit, window: Window },
    /// As `FixedWindow`, but windows begin at whole multiples of `window` since the Unix epoch.
    AlignedWindow { limit: Limit, window: Window },
    /// At most `limit` in every span of length `window`, wherever it begins.
    SlidingWindow { limit: Limit, window: Window },
    /// Clock-aligned windows; a call is admitted while the count of its own window plus the count
    /// of the one before, weighted by how much of that still lies within one window's length, is
    /// below `limit`. In truth up to twice the limit fits into some span of one window's length.
    WeightedTwoWindow { limit: Limit, window: Window },
    /// At most `capacity` + `refill` × span / `window` in every span.
    Bucket { capacity: Limit, refill: Limit, window: Window },
    /// No promise at all.
    None,
}

impl Bound {
    /// The most that can be admitted in one instant; `None` where nothing is promised.
    pub fn burst(&self) -> Option<u64> {
        match self {
            Self::FixedWindow { limit, .. }
            | Self::AlignedWindow { limit, .. }
            | Self::SlidingWindow { limit, .. }
            | Self::WeightedTwoWindow { limit, .. } => Some(limit.get()),
            Self::Bucket { capacity, .. } => Some(capacity.get()),
            Self::None => None,
        }
    }

    /// The window the bound speaks of; `None` where nothing is promised.
    pub fn window(&self) -> Option<Window> {
        match self {
            Self::FixedWindow { window, .. }
            | Self::AlignedWindow { window, .. }
            | Self::SlidingWindow { window, .. }
            | Self::WeightedTwoWindow { window, .. }
            | Self::Bucket { window, .. } => Some(*window),
            Self::None => None,
        }
    }

    /// The longest a limiter that keeps to this bound may refuse calls of cost 1 before it must have
    /// something to give again, in nanoseconds; `None` if there is no bound.
    ///
    /// A fixed window is over, and the oldest call of a log has left, one window after a refusal at the
    /// latest; a bucket has earned a call long before. A pair of weighted windows takes longer: a
    /// whole limit spent as a window opens still weighs limit − 1 one window and a bit later.
    pub fn gives_back_within_ns(&self) -> Option<i64> {
        let window = self.window()?.nanos();
        Some(match self {
            Self::WeightedTwoWindow { .. } => window.saturating_mul(2),
            _ => window,
        })
    }

    /// The most that this bound allows in any span of length `window`; `None` if there is no bound.
    pub fn most_in(&self, window: Window) -> Option<u128> {
        let span = u128::from(window.millis());
        // A span meets at most this many windows of the given length, wherever they begin.
        let met = |length: Window| span.div_ceil(u128::from(length.millis())) + 1;
        Some(match *self {
            Self::FixedWindow { limit, window } | Self::AlignedWindow { limit, window } => {
                u128::from(limit.get()) * met(window)
            }
            Self::SlidingWindow { limit, window } => {
                u128::from(limit.get()) * span.div_ceil(u128::from(window.millis()))
            }
            // Whole windows are bounded as aligned ones are; the weight only takes away.
            Self::WeightedTwoWindow { limit, window } => u128::from(limit.get()) * met(window),
            Self::Bucket { capacity, refill, window } => {
                u128::from(capacity.get()) + u128::from(refill.get()) * span / u128::from(window.millis())
            }
            Self::None => return None,
        })
    }

    /// Whether whoever keeps this bound keeps the other as well, at all times. `false` where that
    /// is not certain.
    pub fn implies(&self, other: &Bound) -> bool {
        match (*self, *other) {
            (_, Self::None) => true,
            (Self::FixedWindow { limit: a, window: v }, Self::FixedWindow { limit: b, window: w })
            | (Self::AlignedWindow { limit: a, window: v }, Self::AlignedWindow { limit: b, window: w })
            | (
                Self::WeightedTwoWindow { limit: a, window: v },
                Self::AlignedWindow { limit: b, window: w },
            )
            | (
                Self::WeightedTwoWindow { limit: a, window: v },
                Self::WeightedTwoWindow { limit: b, window: w },
            ) if v == w => a <= b,
            (
                Self::Bucket { capacity: c, refill: r, window: v },
                Self::Bucket { capacity, refill, window },
            ) => {
                c <= capacity
                    && u128::from(r.get()) * u128::from(window.millis())
                        <= u128::from(refill.get()) * u128::from(v.millis())
            }
            (
                _,
                Self::FixedWindow { limit, window }
                | Self::AlignedWindow { limit, window }
                | Self::SlidingWindow { limit, window },
            ) => self.most_in(window).is_some_and(|most| most <= u128::from(limit.get())),
            _ => false,
        }
    }

    /// The bound as a sentence part: `at most 10 in each 60s window from its first hit`.
    pub fn in_words(&self) -> String {
        match self {
            Self::FixedWindow { limit, window } => {
                format!("at most {limit} in each {window} window, opened by its first hit")
            }
            Self::AlignedWindow { limit, window } => {
                format!("at most {limit} in each clock-aligned {window} window")
            }
            Self::SlidingWindow { limit, window } => format!("at most {limit} in any {window}"),
            Self::WeightedTwoWindow { limit, window } => {
                format!("at most {limit} in the weighted sum of two clock-aligned {window} windows")
            }
            Self::Bucket { capacity, refill, window } => {
                format!("at most {capacity} at once, refilled at {refill} per {window}")
            }
            Self::None => "no bound".to_owned(),
        }
    }
}

/// Over which calls the bound counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Each node on its own.
    Node,
    /// All nodes together.
    Global,
}

/// Whose clock decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DecidingClock {
    /// The wall clock of the app server that makes the call.
    App,
    /// The store's clock, read by `TIME`.
    Server,
    /// The store's expiry of keys: nobody reads a clock.
    Expiry,
}

/// Whether a refused call takes anything out of the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Denials {
    Charged,
    Free,
}

/// What the caller gets while the store does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnOutage {
    /// The call is admitted.
    Open,
    /// The call is refused.
    Closed,
    /// A local limiter decides.
    Fallback,
    /// The caller gets an error and must decide.
    Error,
    /// The limiter does not use a store.
    Unaffected,
}

/// The promise of one configured limiter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Contract {
    pub bound: Bound,
    pub scope: Scope,
    pub clock: DecidingClock,
    /// Resolution in milliseconds of the clock the limiter computes with. Two readings of it can
    /// differ by this much more than real time did; checkers widen intervals by it.
    pub clock_resolution_ms: u64,
    pub denials: Denials,
    pub on_outage: OnOutage,
    /// What the local limiter that decides in an outage promises: on each node, for each key, beside what
    /// `bound` promises.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Bound>,
    /// The longest time to live a key of this limiter may have; `None` if it keeps no keys.
    pub key_ttl_at_most: Option<Window>,
    /// How long a caller that used up its limit is refused from then on, where that is longer than
    /// the window; `None` if it gets back what the bound gives back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lockout: Option<Window>,
    /// A second bound, over all keys of a round together: an address that all users share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub across_keys: Option<Bound>,
    /// What it decides when nothing runs at the same time, exactly: whether a call is admitted and what
    /// remains. `None` if no model says so.
    ///
    /// It holds while the store answers, and while the clocks it goes by run with the store's: a key
    /// expires by the latter, for an app server whose clock is hours behind far too early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<Algorithm>,
    /// The most round trips a decision takes on a warm connection, with scripts loaded and nothing
    /// to retry; `None` if there is no such number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trips_at_most: Option<u32>,
    /// Whether it goes on after a call has its answer. That takes time of its own, which nobody can skip, and
    /// no schedule of calls says when it is done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_background: bool,
}

impl Contract {
    /// The longest a caller may be refused before there must be something for it again, in nanoseconds:
    /// by the bound, by the one over all keys, and by the lockout. `None` if there is no bound.
    pub fn gives_back_within_ns(&self) -> Option<i64> {
        let bound = self.bound.gives_back_within_ns()?;
        let across = self.across_keys.as_ref().and_then(Bound::gives_back_within_ns);
        let lockout = self.lockout.map(Window::nanos);
        Some([across, lockout].into_iter().flatten().fold(bound, i64::max))
    }
}

/// What the scenario or the user needs, whatever the limiter promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    pub bound: Bound,
    pub scope: Scope,
}

impl Requirement {
    /// `at most 5 in any 15m, over all nodes together`.
    pub fn in_words(&self) -> String {
        let over = match self.scope {
            Scope::Global => "over all nodes together",
            Scope::Node => "on each node",
        };
        format!("{}, {over}", self.bound.in_words())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(n: u64) -> Limit {
        Limit::new(n).unwrap()
    }

    fn window(ms: u64) -> Window {
        Window::from_millis(ms).unwrap()
    }

    #[test]
    fn a_bucket_does_not_imply_a_window_of_its_capacity() {
        let bucket = Bound::Bucket { capacity: limit(10), refill: limit(10), window: window(60_000) };
        let fixed = |n| Bound::FixedWindow { limit: limit(n), window: window(60_000) };
        assert_eq!(bucket.most_in(window(60_000)), Some(20));
        assert!(!bucket.implies(&fixed(10)) && !bucket.implies(&fixed(19)) && bucket.implies(&fixed(20)));
    }

    #[test]
    fn a_fixed_window_implies_itself_and_no_sliding_one_of_its_limit() {
        let fixed = Bound::FixedWindow { limit: limit(10), window: window(100) };
        assert!(fixed.implies(&fixed));
        assert!(!fixed.implies(&Bound::SlidingWindow { limit: limit(10), window: window(100) }));
        assert!(fixed.implies(&Bound::SlidingWindow { limit: limit(20), window: window(100) }));
        assert!(!fixed.implies(&Bound::FixedWindow { limit: limit(10), window: window(99) }));
        assert!(!Bound::None.implies(&fixed) && fixed.implies(&Bound::None));
    }

    #[test]
    fn a_sliding_window_implies_every_window_of_its_length() {
        let sliding = Bound::SlidingWindow { limit: limit(10), window: window(100) };
        assert!(sliding.implies(&Bound::FixedWindow { limit: limit(10), window: window(100) }));
        assert!(sliding.implies(&Bound::AlignedWindow { limit: limit(10), window: window(50) }));
        assert!(!sliding.implies(&Bound::SlidingWindow { limit: limit(10), window: window(101) }));
    }

    #[test]
    fn a_weighted_pair_of_windows_may_hold_back_for_longer_than_one() {
        // Ten spent as a window opens: one window later they weigh 10 × (1 − e), above 9 until a
        // tenth of the window has gone by.
        let (limit, window) = (limit(10), window(100));
        let pair = Bound::WeightedTwoWindow { limit, window };
        assert!(pair.gives_back_within_ns() > Some(110_000_000));
        assert_eq!(Bound::SlidingWindow { limit, window }.gives_back_within_ns(), Some(100_000_000));
        assert_eq!(Bound::None.gives_back_within_ns(), None);
    }
}
