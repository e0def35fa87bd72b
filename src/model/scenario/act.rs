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
    /// Something is written and `WAIT 1 500` asks how many replicas have it: between two calls.
    Wait,
    /// Others fill the store, with `count` keys of `bytes` each: between two calls.
    Fill,
    /// What filled it is removed: between two calls.
    Empty,
    /// The limit is lifted, by removing every key of the round: between two calls.
    Lift,
}

impl Act {
    pub fn name(self) -> &'static str {
        match self {
            Self::ScriptFlush => "script-flush",
            Self::BusyScript => "busy-script",
            Self::Wait => "wait",
            Self::Fill => "fill",
            Self::Empty => "empty",
            Self::Lift => "lift",
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
    /// How many keys fill the store, how long their values are, and after how long they expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<NonZeroU32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<NonZeroU32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Span>,
}

impl PlannedAct {
    /// The server answers others after five seconds only; a script stays far below.
    const LONGEST_MS: u64 = 1_000;
    const MOST: u32 = 10_000;
    const MOST_BYTES: u64 = 256 << 20;

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
        let fills = self.count.is_some() && self.bytes.is_some();
        if self.act == Act::Fill && !fills {
            return Err("fill needs count and bytes".to_owned());
        }
        if self.act != Act::Fill && (self.count.is_some() || self.bytes.is_some() || self.ttl.is_some()) {
            return Err(format!("count, bytes and ttl belong to fill, not to {name}"));
        }
        let most = u64::from(self.count.map_or(0, NonZeroU32::get))
            * u64::from(self.bytes.map_or(0, NonZeroU32::get));
        if most > Self::MOST_BYTES {
            return Err(format!(
                "fill with {most} bytes is above the most the lab writes, {}",
                Self::MOST_BYTES
            ));
        }
        match (self.act, self.lasts.map(Span::millis)) {
            (Act::BusyScript, Some(1..=Self::LONGEST_MS)) => Ok(()),
            (Act::BusyScript, _) => Err(format!("{name} needs for, from 1 ms to {} ms", Self::LONGEST_MS)),
            (_, Some(_)) => Err(format!("{name} takes no time: for does not belong to it")),
            (_, None) => Ok(()),
        }
    }

    pub fn in_words(&self) -> String {
        let mut words = self.act.name().to_owned();
        if let Some(lasts) = self.lasts {
            words += &format!(" of {lasts}");
        }
        if let (Some(count), Some(bytes)) = (self.count, self.bytes) {
            words += &format!(" with {count} keys of {bytes} bytes");
        }
        if let Some(ttl) = self.ttl {
            words += &format!(" that expire after {ttl}");
        }
        match self.times.get() {
            1 => words += &format!(" at {}", self.at),
            n if self.every == Span::default() => words += &format!(" {n} times at {}", self.at),
            n => words += &format!(" {n} times, every {}", self.every),
        }
        words
    }
}
