//! A node that died in a call, and what it left.

use serde::{Deserialize, Serialize};

use crate::model::units::Nanos;

/// Where in a call its node died.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrashPoint {
    /// Which exchange with the store, from 1, and how many an undisturbed call makes.
    pub step: u32,
    pub of: u32,
    /// After the store had applied it; otherwise before it was sent.
    pub after: bool,
    pub command: String,
}

impl CrashPoint {
    /// `before PEXPIRE, step 2 of 2`.
    pub fn in_words(&self) -> String {
        let when = if self.after { "after" } else { "before" };
        format!("{when} {}, step {} of {}", self.command, self.step, self.of)
    }
}

/// A key as a crash left it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyLeft {
    pub key: String,
    /// In ms, −1 without expiry.
    pub pttl: i64,
    pub kind: String,
    /// A counter's value, or how many members there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<i64>,
}

/// A crash and what it left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crashed {
    pub point: CrashPoint,
    pub left: Vec<KeyLeft>,
    pub at: Nanos,
}
