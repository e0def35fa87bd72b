//! Exact sequential models: what each algorithm decides when nothing runs at the same time.
//!
//! A model is a pure function of its state, the time and the cost. Limiters that need no store
//! run on them, and the Lua scripts are compared with them call by call.

pub mod aligned_window;
pub mod fixed_window;
pub mod gcra;
pub mod laravel_window;
mod numbered;
#[cfg(test)]
mod properties;
pub mod sliding_counter;
pub mod sliding_log;
pub mod token_bucket;

use serde::{Deserialize, Serialize};

use crate::model::contract::Denials;
use crate::model::units::{Cost, Limit, Window};

/// An algorithm with everything that decides, as a contract names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Algorithm {
    /// A counter whose window opens with its first hit.
    FixedWindow {
        limit: Limit,
        window: Window,
        denials: Denials,
    },
    /// A counter per window, windows beginning at whole multiples of their length.
    AlignedWindow {
        limit: Limit,
        window: Window,
        denials: Denials,
    },
    /// The time of every call that counts.
    SlidingLog {
        limit: Limit,
        window: Window,
        denials: Denials,
    },
    /// Two aligned windows, the older one weighted.
    SlidingCounter {
        limit: Limit,
        window: Window,
    },
    /// A window in whole seconds that starts anew with any call from outside it.
    LaravelWindow {
        limit: Limit,
        window: Window,
    },
    Gcra {
        burst: Limit,
        limit: Limit,
        window: Window,
    },
    TokenBucket {
        capacity: Limit,
        refill: Limit,
        window: Window,
    },
    /// A token bucket of which a refused call writes nothing back: the time up to which it is filled
    /// stays where it was, which shows once a clock goes back.
    TokenBucketKept {
        capacity: Limit,
        refill: Limit,
        window: Window,
    },
}

/// An algorithm at work on one key.
pub trait Model: Send {
    /// Decides a call made at this time, in microseconds. Times may repeat and go back.
    fn acquire(&mut self, now_us: i64, cost: Cost) -> Step;
}

impl Algorithm {
    /// The state before the first call.
    pub fn start(&self) -> Box<dyn Model> {
        match *self {
            Self::FixedWindow { limit, window, denials } => {
                Box::new(fixed_window::FixedWindow::new(limit, window).with(denials))
            }
            Self::AlignedWindow { limit, window, denials } => {
                Box::new(aligned_window::AlignedWindow::new(limit, window, denials))
            }
            Self::SlidingLog { limit, window, denials } => {
                Box::new(sliding_log::SlidingLog::new(limit, window, denials))
            }
            Self::SlidingCounter { limit, window } => {
                Box::new(sliding_counter::SlidingCounter::new(limit, window))
            }
            Self::LaravelWindow { limit, window } => {
                Box::new(laravel_window::LaravelWindow::new(limit, window))
            }
            Self::Gcra { burst, limit, window } => Box::new(gcra::Gcra::new(burst, limit, window)),
            Self::TokenBucket { capacity, refill, window } => {
                Box::new(token_bucket::TokenBucket::new(capacity, refill, window))
            }
            Self::TokenBucketKept { capacity, refill, window } => {
                Box::new(token_bucket::TokenBucket::new(capacity, refill, window).kept_by_refusals())
            }
        }
    }
}

/// What a model decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    pub allowed: bool,
    pub remaining: u64,
    /// Milliseconds until a call of the same cost is admitted; 0 if this one was, `None` if no
    /// call of that cost ever can be.
    pub retry_after_ms: Option<u64>,
}
