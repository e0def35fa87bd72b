//! `[[fault]]`: what breaks while calls are made, from when, for how long.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::model::units::Span;

/// A fault, once or several times with equal gaps. Which fields it takes is said in its own file under
/// `faults/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedFault {
    /// From the beginning of the round to the first time.
    pub at: Span,
    /// Its name, as `rl-lab list faults` shows it.
    #[serde(rename = "do")]
    pub fault: String,
    /// Whom it strikes: `primary`, `replica-1`, `sentinel-1`, …
    #[serde(default = "primary", skip_serializing_if = "is_primary")]
    pub on: String,
    /// How long it lasts; to the end of the round where absent.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Span>,
    #[serde(default = "super::workload::one", skip_serializing_if = "is_one")]
    pub times: NonZeroU32,
    /// From the beginning of one time to that of the next.
    #[serde(default, skip_serializing_if = "is_none")]
    pub every: Span,
    /// How much a delay delays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Span>,
    /// After how many writes a hold holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u32>,
    /// Which writes those are; any where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named: Option<String>,
}

fn primary() -> String {
    "primary".to_owned()
}

fn is_primary(on: &str) -> bool {
    on == "primary"
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_one(n: &NonZeroU32) -> bool {
    n.get() == 1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_none(span: &Span) -> bool {
    *span == Span::default()
}

impl PlannedFault {
    const MOST: u32 = 100;
    /// A run stays bounded in time.
    const LONGEST_MS: u64 = 120_000;

    /// When it begins, in ns from the beginning of the round.
    pub fn times(&self) -> impl Iterator<Item = i64> + '_ {
        (0..i64::from(self.times.get()))
            .map(|n| self.at.nanos().saturating_add(self.every.nanos().saturating_mul(n)))
    }

    /// When the last of it is over, or has begun where it has no end of its own.
    pub fn over_by(&self) -> Span {
        let more = self.every.millis() * u64::from(self.times.get() - 1);
        let ms = self.at.millis() + more + self.lasts.map_or(0, Span::millis);
        Span::from_millis(ms).unwrap_or_default()
    }

    pub fn validate(&self) -> Result<(), String> {
        let name = &self.fault;
        if self.times.get() > Self::MOST {
            return Err(format!(
                "{name} {} times is above the most the lab does, {}",
                self.times,
                Self::MOST
            ));
        }
        if self.lasts.is_some_and(|lasts| lasts == Span::default()) {
            return Err(format!("{name} for no time changes nothing"));
        }
        if self.over_by().millis() > Self::LONGEST_MS {
            return Err(format!("{name} goes on for longer than {} s", Self::LONGEST_MS / 1000));
        }
        match (self.times.get(), self.lasts) {
            (1, _) => Ok(()),
            (_, Some(lasts)) if lasts < self.every => Ok(()),
            (_, None) if self.every > Span::default() => Ok(()),
            _ => Err(format!("{name} several times needs every, longer than for")),
        }
    }

    /// `freeze of primary at 2s for 3s`.
    pub fn in_words(&self) -> String {
        let mut words = self.fault.clone();
        if let Some(by) = self.by {
            words += &format!(" by {by}");
        }
        if let Some(after) = self.after {
            words += &format!(" after {after} {}", self.named.as_deref().unwrap_or("writes"));
        }
        words += &format!(" of {}", self.on);
        words += &match self.times.get() {
            1 => format!(" at {}", self.at),
            n => format!(" {n} times from {} on, every {}", self.at, self.every),
        };
        if let Some(lasts) = self.lasts {
            words += &format!(" for {lasts}");
        }
        words
    }
}
