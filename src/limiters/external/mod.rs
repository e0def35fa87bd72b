//! Limiters that run elsewhere, and the front through which others reach one that runs here. They are nobody's
//! algorithm and not in the list of limiters.

pub mod front;
pub mod http;
pub mod worker;

use crate::model::protocol::{Failure, FailureKind};
use crate::ports::store::StoreError;

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
