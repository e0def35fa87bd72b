//! Limiters that run elsewhere, and the front through which others reach one that runs here. They are nobody's
//! algorithm and not in the list of limiters.

pub mod front;
pub mod http;
pub mod script;
pub mod worker;

use crate::model::protocol::{Failure, FailureKind};
use crate::model::units::Cost;
use crate::ports::limiter::Limiter;
use crate::ports::store::{StoreError, mark_sent, note_contact};

/// An error as the protocol says it.
pub fn told(error: StoreError) -> Failure {
    let (kind, text) = match error {
        StoreError::Refused(text) => (FailureKind::Refused, text),
        StoreError::NotConnected(text) => (FailureKind::NotConnected, text),
        StoreError::NoAnswer(text) => (FailureKind::NoAnswer, text),
        StoreError::Unexpected(text) => (FailureKind::Unexpected, text),
        StoreError::NodeDied => (FailureKind::NoAnswer, StoreError::NodeDied.to_string()),
    };
    Failure { kind, text }
}

/// An error that was told so.
pub fn heard(failure: Failure) -> StoreError {
    let Failure { kind, text } = failure;
    match kind {
        FailureKind::Refused => StoreError::Refused(text),
        FailureKind::NotConnected => StoreError::NotConnected(text),
        FailureKind::NoAnswer => StoreError::NoAnswer(text),
        FailureKind::Unexpected => StoreError::Unexpected(text),
    }
}

/// Somebody waits for an answer. Who stops waiting does not know how far its call came, whoever made it stop.
struct Waiting;

impl Waiting {
    fn begin() -> Self {
        note_contact(None);
        Self
    }

    fn heard(self) {
        std::mem::forget(self);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        mark_sent();
    }
}

/// As many calls as a preset makes where it can do nothing else.
pub const MOST_PRESET: u64 = 10_000;

/// Puts a key into the state that it has after so many calls by making them.
pub async fn preset_by_calls(limiter: &dyn Limiter, key: &str, used: u64) -> Result<(), StoreError> {
    if used > MOST_PRESET {
        return Err(StoreError::Refused(format!(
            "{used} calls before a round are more than are made, {MOST_PRESET}"
        )));
    }
    for number in 1..=used {
        if !limiter.acquire(key, Cost::ONE).await?.allowed {
            return Err(StoreError::Refused(format!("call {number} of {used} before the round was refused")));
        }
    }
    Ok(())
}
