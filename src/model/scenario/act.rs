//! `[[workload.act]]`: what somebody else does to the store while it is called.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::model::units::Span;

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    /// The server forgets every script: between two calls, while none is open.
    ScriptFlush,
    /// A script that keeps the server busy for a while: beside the calls.
    BusyScript,
}

impl Act {
    pub fn name(self) -> &'static str {
        match self {
            Self::ScriptFlush => "script-flush",
            Self::BusyScript => "busy-script",
        }
    }

    /// Whether it goes on beside the calls, and not between them.
    pub fn is_beside(self) -> bool {
        self == Self::BusyScript
    }
}

/// An act, once or several times with equal gaps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedAct {
    /// From the beginning of the round to the first time.
    pub at: Span,
    #[serde(rename = "do")]
    pub act: Act,
    /// How long a busy script takes.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Span>,
    #[serde(default = "super::workload::one")]
    pub times: NonZeroU32,
    #[serde(default)]
    pub every: Span,
}

impl PlannedAct {
    /// The server answers others after five seconds only; a script stays far below.
    const LONGEST_MS: u64 = 1_000;
    const MOST: u32 = 10_000;

    /// When it is done, in ns from the beginning of the round.
    pub fn times(&self) -> impl Iterator<Item = i64> + '_ {
        (0..i64::from(self.times.get()))
            .map(|n| self.at.nanos().saturating_add(self.every.nanos().saturating_mul(n)))
    }

    pub fn validate(&self) -> Result<(), String> {
        let name = self.act.name();
        if self.times.get() > Self::MOST {
            return Err(format!(
                "{name} {} times is above the most the lab does, {}",
                self.times,
                Self::MOST
            ));
        }
        match (self.act, self.lasts.map(Span::millis)) {
            (Act::BusyScript, Some(1..=Self::LONGEST_MS)) => Ok(()),
            (Act::BusyScript, _) => Err(format!("{name} needs for, from 1 ms to {} ms", Self::LONGEST_MS)),
            (Act::ScriptFlush, Some(_)) => Err(format!("{name} takes no time: for does not belong to it")),
            (Act::ScriptFlush, None) => Ok(()),
        }
    }

    pub fn in_words(&self) -> String {
        let mut words = self.act.name().to_owned();
        if let Some(lasts) = self.lasts {
            words += &format!(" of {lasts}");
        }
        match self.times.get() {
            1 => words += &format!(" at {}", self.at),
            n if self.every == Span::default() => words += &format!(" {n} times at {}", self.at),
            n => words += &format!(" {n} times, every {}", self.every),
        }
        words
    }
}
