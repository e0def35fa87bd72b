//! Exact sequential models: what each algorithm decides when nothing runs at the same time.
//!
//! A model is a pure function of its state, the time and the cost. Limiters that need no store
//! run on them, and the Lua scripts are compared with them call by call.

pub mod fixed_window;
pub mod gcra;
pub mod token_bucket;

/// What a model decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    pub allowed: bool,
    pub remaining: u64,
    /// Milliseconds until a call of the same cost is admitted; 0 if this one was, `None` if no
    /// call of that cost ever can be.
    pub retry_after_ms: Option<u64>,
}
