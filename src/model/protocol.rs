//! The lines between the lab and an app server that is a process of its own: one JSON object each, requests
//! on its stdin and answers on its stdout. `docs/protocol.md` describes them for who writes one.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::contract::Contract;
use super::op::{Contact, Source};
use super::units::{Cost, Limit, NodeId, Window};

/// The version that the first line names.
pub const VERSION: u32 = 1;

/// The longest line that either side reads, in bytes.
pub const LONGEST_LINE: usize = 1 << 20;

/// The first line to an app server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// [`VERSION`].
    pub hello: u32,
    /// Where the store is: `redis://HOST:PORT`.
    pub redis: String,
    pub limit: Limit,
    #[serde(with = "millis")]
    pub window_ms: Window,
    /// Which app server it is, from 0.
    pub node: NodeId,
    /// How many app servers there are, where it is one of several.
    #[serde(default = "alone", skip_serializing_if = "is_alone")]
    pub nodes: NonZeroU32,
    /// How far its clock is to be ahead of its machine's.
    #[serde(default)]
    pub clock_offset_ms: i64,
    /// Connections to the store.
    pub connections: u32,
    /// Connect on the first call instead of before `ready`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cold_pool: bool,
}

fn alone() -> NonZeroU32 {
    NonZeroU32::MIN
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_alone(n: &NonZeroU32) -> bool {
    *n == NonZeroU32::MIN
}

/// The first line from it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    pub ready: bool,
    /// What its limiter promises.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract: Option<Contract>,
    /// What its clock says, in µs since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now_us: Option<i64>,
    /// Why it is not ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What is asked there, and its version: a library's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What it can beside deciding calls; what the lab does not know of is passed over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
}

/// It knows the op `preset`.
pub const PRESET: &str = "preset";
/// It knows the op `traffic`.
pub const TRAFFIC: &str = "traffic";

impl Ready {
    pub fn not(error: String) -> Self {
        Self { error: Some(error), ..Self::default() }
    }

    pub fn can(&self, what: &str) -> bool {
        self.capabilities.iter().any(|known| known == what)
    }
}

/// A line to it after the first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// No other open request has it.
    pub id: u64,
    #[serde(flatten)]
    pub what: What,
    /// Time that counts as passed beyond what the machine's clock says: its own clock is as far ahead.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skipped_us: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub enum What {
    Acquire {
        key: String,
        #[serde(default = "one")]
        cost: Cost,
        /// Which of its connections serves the call, taken modulo their number; the id where absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lane: Option<u32>,
    },
    /// Puts the key into the state it has after `used` calls of cost 1 were admitted just now.
    Preset { key: String, used: u64 },
    /// How much was sent to the store so far.
    Traffic,
}

/// A line from it after the first: one for each request, in the order in which they end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    pub id: u64,
    /// Of a decided call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<bool>,
    /// What is left after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining: Option<u64>,
    /// The limit that decided, where it is not the one of `hello`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// How long until a call of the same cost can succeed, rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// How long until all of the limit is there again, rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_ms: Option<u64>,
    /// Who decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Why there is no decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// Whether anything of the call may have reached the store. Taken to be so where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<bool>,
    /// Exchanges with the store that the call made; in answer to `traffic`, all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trips: Option<u64>,
    /// Commands sent, in answer to `traffic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands: Option<u64>,
    /// What its clock said, in µs since 1970, if the call read it exactly once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_us: Option<i64>,
    /// How far a decided call came on its way to the store; nobody knows where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contact: Option<Contact>,
    /// Whether it reports that most of the limit is used.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub near: bool,
}

/// Why a request came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    pub kind: FailureKind,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The store answered with an error: it did not apply the command.
    Refused,
    /// No connection could be made: nothing was sent.
    NotConnected,
    /// Sent, and no answer: it may have been applied.
    NoAnswer,
    /// An answer that cannot be read, or a request.
    Unexpected,
}

fn one() -> Cost {
    Cost::ONE
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_zero(n: &i64) -> bool {
    *n == 0
}

/// A window as a whole number of ms: other languages have no words such as `60s`.
mod millis {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::model::units::Window;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
    pub fn serialize<S: Serializer>(window: &Window, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u64(window.millis())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Window, D::Error> {
        Window::from_millis(u64::deserialize(d)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_read_as_they_are_documented() {
        let hello: Hello = serde_json::from_str(
            r#"{"hello":1,"redis":"redis://127.0.0.1:6379","limit":10,"window_ms":60000,"node":1,
                "clock_offset_ms":-7,"connections":2}"#,
        )
        .unwrap();
        assert_eq!((hello.window_ms.millis(), hello.node, hello.cold_pool), (60_000, NodeId(1), false));
        let request: Request =
            serde_json::from_str(r#"{"id":1,"op":"acquire","key":"user:42","cost":1}"#).unwrap();
        let what = What::Acquire { key: "user:42".into(), cost: Cost::ONE, lane: None };
        assert_eq!(request, Request { id: 1, what, skipped_us: 0 });
        let text = r#"{"id":1,"allowed":true,"remaining":9,"retry_after_ms":0,"source":"store"}"#;
        let answer: Answer = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&answer).unwrap(), text);
        let error = r#"{"id":2,"error":{"kind":"no-answer","text":"timed out"}}"#;
        let answer: Answer = serde_json::from_str(error).unwrap();
        assert_eq!(answer.error.unwrap().kind, FailureKind::NoAnswer);
    }

    #[test]
    fn what_is_no_line_is_refused() {
        for text in [
            r#"{"id":1,"op":"acquire","key":"k","cost":0}"#,
            r#"{"id":1,"op":"forget","key":"k"}"#,
            r#"{"op":"acquire","key":"k"}"#,
            r#"{"id":-1,"op":"acquire","key":"k"}"#,
        ] {
            assert!(serde_json::from_str::<Request>(text).is_err(), "{text}");
        }
        let hello = r#"{"hello":1,"redis":"r","limit":10,"window_ms":0,"node":1,"connections":2}"#;
        assert!(serde_json::from_str::<Hello>(hello).is_err());
    }
}
