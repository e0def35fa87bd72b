//! `[[clock]]`: what the wall clock of an app server says, beside the truth.

use serde::{Deserialize, Serialize};

use crate::model::offset::Offset;
use crate::model::units::{Nanos, Span};

/// The clock of one node. The truth is the clock of the machine that the lab runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedClock {
    pub node: u16,
    /// How far it is ahead from the beginning of the round on.
    #[serde(default, skip_serializing_if = "is_right")]
    pub offset: Offset,
    /// By how many millionths of the time that has passed it gains.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub drift_ppm: i32,
    /// When somebody sets it, from the beginning of the round, and by how much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jump_at: Option<Span>,
    #[serde(default, skip_serializing_if = "is_right")]
    pub jump: Offset,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_zero(n: &i32) -> bool {
    *n == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_right(offset: &Offset) -> bool {
    offset.is_zero()
}

impl PlannedClock {
    /// How far ahead it is, in µs, when this much of the round has passed.
    pub fn ahead_us(&self, passed: Nanos) -> i64 {
        let passed_us = passed.0 / 1000;
        let drift = i128::from(passed_us) * i128::from(self.drift_ppm) / 1_000_000;
        let jumped = self.jump_at.is_some_and(|at| at.nanos() <= passed.0);
        let jump = if jumped { self.jump.millis() * 1000 } else { 0 };
        self.offset.millis() * 1000 + jump + i64::try_from(drift).unwrap_or(0)
    }

    pub fn validate(&self, nodes: u32) -> Result<(), String> {
        const MOST_PPM: i32 = 500_000;
        if u32::from(self.node) >= nodes {
            return Err(format!("a clock is of node {}, and there are {nodes} from 0 on", self.node));
        }
        if self.drift_ppm.abs() > MOST_PPM {
            return Err(format!("drift_ppm = {} is beyond {MOST_PPM}", self.drift_ppm));
        }
        if self.offset.is_zero() && self.drift_ppm == 0 && self.jump_at.is_none() && self.jump.is_zero() {
            return Err(format!(
                "a clock of node {} with neither offset, drift_ppm nor jump_at is right",
                self.node
            ));
        }
        match (self.jump_at, self.jump.is_zero()) {
            (Some(_), true) => Err("jump_at needs jump: by how much the clock is set".to_owned()),
            (None, false) => Err("jump needs jump_at: when the clock is set".to_owned()),
            _ => Ok(()),
        }
    }

    /// `clock of node 1 ahead by 300ms`.
    pub fn in_words(&self) -> String {
        let mut parts = Vec::new();
        if !self.offset.is_zero() {
            parts.push(format!("off by {}", self.offset));
        }
        if self.drift_ppm != 0 {
            parts.push(format!("drifting by {} ppm", self.drift_ppm));
        }
        if let Some(at) = self.jump_at {
            parts.push(format!("set by {} at {at}", self.jump));
        }
        let said = if parts.is_empty() { "right".to_owned() } else { parts.join(", ") };
        format!("clock of node {} {said}", self.node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_offset_drifts_and_is_set() {
        let clock = PlannedClock {
            node: 1,
            offset: "-2s".parse().unwrap(),
            drift_ppm: 100,
            jump_at: Some("1s".parse().unwrap()),
            jump: "+500ms".parse().unwrap(),
        };
        assert_eq!(clock.ahead_us(Nanos(0)), -2_000_000);
        assert_eq!(clock.ahead_us(Nanos(999_000_000)), -2_000_000 + 99);
        assert_eq!(clock.ahead_us(Nanos(1_000_000_000)), -2_000_000 + 100 + 500_000);
    }
}
