//! One call of a limiter, from submission to what the caller learnt.
//!
//! `info` is the word that matters: the caller does not know whether the store applied the call.
//! A timed-out INCR is `info`, never `fail`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::http;
use super::units::{Cost, Limit, Nanos, NodeId, OpId};

/// Who made the decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    Store,
    FailOpen,
    FailClosed,
    Fallback,
    Local,
    /// The limiter refused, and was not heeded: it is only tried out.
    Shadow,
}

impl Source {
    pub fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::FailOpen => "fail-open",
            Self::FailClosed => "fail-closed",
            Self::Fallback => "fallback",
            Self::Local => "local",
            Self::Shadow => "shadow",
        }
    }

    /// Whether it decided because the store did not.
    #[inline]
    pub fn is_instead_of_store(self) -> bool {
        matches!(self, Self::FailOpen | Self::FailClosed | Self::Fallback)
    }

    /// Whether a policy decided, and not the limiter: such an answer says nothing about the limit.
    #[inline]
    pub fn is_of_a_policy(self) -> bool {
        self.is_instead_of_store() || self == Self::Shadow
    }
}

/// What a limiter answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub allowed: bool,
    /// What is left after this call, where the algorithm knows it.
    pub remaining: Option<u64>,
    pub limit: Limit,
    /// How long until a call of the same cost can succeed; `None` if admitted or unknown.
    pub retry_after: Option<Duration>,
    /// How long until the full limit is available again, where the algorithm knows it.
    pub reset: Option<Duration>,
    pub source: Source,
}

/// How far a call came on its way to the store, by the lab's own record of its exchanges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contact {
    /// It did not ask it.
    NotAsked,
    /// It asked, and nothing came back.
    Unanswered,
    /// Whatever came back was an error.
    Refused,
    /// At least one exchange was answered.
    Answered,
}

impl Contact {
    pub fn name(self) -> &'static str {
        match self {
            Self::NotAsked => "not-asked",
            Self::Unanswered => "unanswered",
            Self::Refused => "refused",
            Self::Answered => "answered",
        }
    }
}

/// What is recorded of a decided call beside its decision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Note {
    /// `None` where nobody recorded it.
    pub contact: Option<Contact>,
    /// Most of the limit is used, and somebody reports it.
    pub near: bool,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Completion {
    Ok(Decision),
    /// An error after which the store certainly did not apply the call.
    Fail(String),
    /// An error after which nobody knows whether the store applied it.
    Info(String),
}

/// The error of a call whose node died: nothing of it is on its way any more.
pub const NODE_DIED: &str = "the node died at this step";

/// What a call came to, as the checkers see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Admitted,
    Denied,
    Failed,
    /// Not completed, or completed without anybody knowing what happened.
    Unknown,
}

impl Outcome {
    /// Whether there was a decision.
    pub fn is_decided(self) -> bool {
        matches!(self, Self::Admitted | Self::Denied)
    }
}

/// A number that may be absent, in eight bytes. A million ops are kept in memory at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Maybe(u64);

impl Maybe {
    pub const NONE: Self = Self(u64::MAX);

    #[inline]
    pub fn get(self) -> Option<u64> {
        (self.0 != u64::MAX).then_some(self.0)
    }
}

impl From<Option<u64>> for Maybe {
    fn from(value: Option<u64>) -> Self {
        value.map_or(Self::NONE, |v| Self(v.min(u64::MAX - 1)))
    }
}

/// Index of a key in its round's key table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub u32);

/// One call as recorded: 56 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op {
    pub id: OpId,
    pub key: KeyId,
    pub cost: Cost,
    pub node: NodeId,
    pub outcome: Outcome,
    pub source: Option<Source>,
    /// Stamped before the limiter is called.
    pub invoke: Nanos,
    /// Stamped after it answered; [`Op::NEVER`] while it has not.
    pub complete: Nanos,
    pub remaining: Maybe,
    pub retry_after_ms: Maybe,
    /// What the node's clock said, in µs since 1970, if the call read it exactly once.
    pub clock_us: Maybe,
}

impl Op {
    /// The completion of an op that never completed: after everything else.
    pub const NEVER: Nanos = Nanos(i64::MAX);

    pub fn new(id: OpId, node: NodeId, key: KeyId, cost: Cost, invoke: Nanos) -> Self {
        Self {
            id,
            key,
            cost,
            node,
            outcome: Outcome::Unknown,
            source: None,
            invoke,
            complete: Self::NEVER,
            remaining: Maybe::NONE,
            retry_after_ms: Maybe::NONE,
            clock_us: Maybe::NONE,
        }
    }

    /// Writes the completion into the op.
    pub fn finish(&mut self, at: Nanos, completion: &Completion) {
        self.complete = at;
        match completion {
            Completion::Ok(decision) => {
                self.outcome = if decision.allowed { Outcome::Admitted } else { Outcome::Denied };
                self.source = Some(decision.source);
                self.remaining = decision.remaining.into();
                self.retry_after_ms = decision.retry_after.map(ceil_millis).into();
            }
            Completion::Fail(_) => self.outcome = Outcome::Failed,
            // Nobody knows whether the store applied it, but nothing of it is on its way any more.
            Completion::Info(error) if error == NODE_DIED => self.outcome = Outcome::Unknown,
            // Nobody knows when, or whether, the store applies it: its interval stays open.
            Completion::Info(_) => {
                self.outcome = Outcome::Unknown;
                self.complete = Self::NEVER;
            }
        }
    }
}

/// Whole milliseconds, rounded up: a caller who waits them out has waited long enough.
pub fn ceil_millis(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX - 1)
}

/// What a call did on its way to an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// Whether anything may have reached the store.
    pub sent: bool,
    /// Exchanges with the store.
    pub trips: u32,
    /// What the node's clock said, in µs since 1970, if it was read exactly once.
    pub clock_us: Option<i64>,
    /// What it was answered over HTTP, where it was asked so.
    pub answer: Option<Box<http::Answer>>,
    pub note: Note,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_op_stays_small() {
        assert!(size_of::<Op>() <= 56, "{}", size_of::<Op>());
    }

    #[test]
    fn an_info_op_keeps_its_interval_open() {
        let mut op = Op::new(OpId(0), NodeId(0), KeyId(0), Cost::ONE, Nanos(5));
        op.finish(Nanos(9), &Completion::Info("timed out".into()));
        assert_eq!((op.outcome, op.complete), (Outcome::Unknown, Op::NEVER));
        op.finish(Nanos(9), &Completion::Info(NODE_DIED.into()));
        assert_eq!((op.outcome, op.complete), (Outcome::Unknown, Nanos(9)), "the dead send nothing");
    }
}
