//! What a rate-limited service says over HTTP, as values: a status, the header fields that speak of the limit,
//! and a problem (RFC 9457). The front of the lab makes them of decisions (`form.rs`), its client reads them
//! back, and the history keeps them as they were said.
//!
//! | field | from | says |
//! |---|---|---|
//! | `Retry-After` | RFC 9110, 10.2.3 | whole seconds to wait, or a date |
//! | `RateLimit-Limit`, `-Remaining`, `-Reset` | draft-ietf-httpapi-ratelimit-headers up to -07; later drafts say it in `RateLimit` and `RateLimit-Policy` | how much there is, what is left of it, whole seconds until it is there again |
//! | `X-RateLimit-Limit`, `-Remaining`, `-Reset` | convention | the same, but the reset is a Unix time in seconds |

mod form;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::op::{Decision, Source, ceil_millis};
use super::units::Limit;

pub use form::{Form, Says};

/// Who calls. Without it a caller is known by its address.
pub const IDENTITY: &str = "x-user";
/// What the call costs; 1 without it.
pub const COST: &str = "x-cost";
/// Which call it is.
pub const REQUEST_ID: &str = "x-request-id";
pub const RETRY_AFTER: &str = "retry-after";
pub const DATE: &str = "date";
pub const CONTENT_TYPE: &str = "content-type";
pub const PROBLEM_JSON: &str = "application/problem+json";

/// The longest value of a header field or of a member of a problem that is kept.
const LONGEST: usize = 200;

/// The three fields of a family: limit, remaining, reset.
pub const DRAFT: [&str; 3] = ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"];
pub const X: [&str; 3] = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];

/// What later drafts say instead, as structured fields.
pub const LATER: [&str; 2] = ["ratelimit", "ratelimit-policy"];

/// An answer, as it was said: a field that is no number is kept as the text it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub status: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<String>,
    /// `RateLimit-…`.
    #[serde(default, skip_serializing_if = "Family::is_absent")]
    pub draft: Family,
    /// `X-RateLimit-…`.
    #[serde(default, skip_serializing_if = "Family::is_absent")]
    pub x: Family,
    /// Fields of later drafts that are there, by their names: they are not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
    /// The media type of the body, without its parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The body, where it says that it is a problem and is an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
    /// What the limiter behind the service had decided, where the lab stands on that side as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<Decided>,
}

/// One family of header fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Family {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset: Option<String>,
}

impl Family {
    pub fn is_absent(&self) -> bool {
        *self == Self::default()
    }

    pub fn fields(&self) -> [Option<&str>; 3] {
        [self.limit.as_deref(), self.remaining.as_deref(), self.reset.as_deref()]
    }
}

/// The members of a problem. One of another type than RFC 9457 gives it counts as absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// An extension: the wait to the millisecond.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl Problem {
    /// `None` if the body is no JSON object.
    pub fn read(body: &[u8]) -> Option<Self> {
        let Ok(Value::Object(members)) = serde_json::from_slice(body) else { return None };
        let text = |name: &str| members.get(name)?.as_str().map(shortened);
        let number = |name: &str| members.get(name)?.as_u64();
        Some(Self {
            kind: text("type"),
            title: text("title"),
            status: number("status"),
            detail: text("detail"),
            retry_after_ms: number("retry_after_ms"),
        })
    }
}

/// What a limiter had decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    pub allowed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl From<&Decision> for Decided {
    fn from(decision: &Decision) -> Self {
        let retry_after_ms = decision.retry_after.map(ceil_millis);
        Self { allowed: decision.allowed, remaining: decision.remaining, retry_after_ms }
    }
}

/// What `Retry-After` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAfter {
    Seconds(u64),
    /// A date, in Unix seconds.
    At(u64),
}

impl Answer {
    pub const TOO_MANY: u16 = 429;

    /// Whether the call was refused for its rate.
    pub fn refused(&self) -> bool {
        self.status == Self::TOO_MANY
    }

    /// Whether it says nothing of the limit: the service has no answer itself.
    pub fn undecided(&self) -> bool {
        self.status >= 500
    }

    /// `Retry-After`, if it is of a form that RFC 9110 knows.
    pub fn retry_after(&self) -> Option<RetryAfter> {
        let text = self.retry_after.as_deref()?;
        whole(text).map(RetryAfter::Seconds).or_else(|| date(text).map(RetryAfter::At))
    }

    /// How many seconds it says to wait. A date counts from the answer's own.
    pub fn wait_s(&self) -> Option<u64> {
        match self.retry_after()? {
            RetryAfter::Seconds(seconds) => Some(seconds),
            RetryAfter::At(at) => Some(at.saturating_sub(self.date_s()?)),
        }
    }

    /// When it was made by its own account, in Unix seconds.
    pub fn date_s(&self) -> Option<u64> {
        date(self.date.as_deref()?)
    }

    /// The wait to the millisecond, where the problem tells it.
    pub fn told_ms(&self) -> Option<u64> {
        self.problem.as_ref()?.retry_after_ms
    }

    /// The true wait in ms, as far as it is known: the limiter's own, else the problem's.
    pub fn exact_ms(&self) -> Option<u64> {
        self.decided.and_then(|d| d.retry_after_ms).or_else(|| self.told_ms())
    }

    /// As a caller reads it. `limit` stands in where none is told; what is no number is not told.
    pub fn decision(&self, limit: Limit) -> Decision {
        let either = |place: usize, read: fn(&str) -> Option<u64>| {
            let [draft, x] = [self.draft.fields()[place], self.x.fields()[place]];
            draft.and_then(read).or_else(|| x.and_then(read))
        };
        let wait = self.wait_s().map(Duration::from_secs);
        let wait = wait.or_else(|| self.told_ms().map(Duration::from_millis));
        Decision {
            allowed: !self.refused(),
            remaining: either(1, whole),
            limit: either(0, quota).and_then(|n| Limit::new(n).ok()).unwrap_or(limit),
            retry_after: wait.filter(|_| self.refused()),
            reset: self.draft.reset.as_deref().and_then(whole).map(Duration::from_secs),
            source: Source::Store,
        }
    }
}

/// A whole number, as header fields write it: digits and nothing else.
pub fn whole(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// What a field of a limit says. The drafts let the quota's policies follow it: `100, 100;w=60`.
/// Another number without a window is no policy but a second limit.
pub fn quota(text: &str) -> Option<u64> {
    let (first, policies) = text.split_once(',').unwrap_or((text, ""));
    let policy = |p: &str| p.contains(';');
    let fits = policies.is_empty() || policies.split(',').all(policy);
    whole(first.split(';').next().unwrap_or_default().trim()).filter(|_| fits)
}

/// A value that is kept: not more of it than anybody needs to see.
pub fn shortened(text: &str) -> String {
    text[..text.floor_char_boundary(LONGEST)].to_owned()
}

fn date(text: &str) -> Option<u64> {
    let at = httpdate::parse_http_date(text).ok()?;
    at.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

/// The date of a moment; `None` for one that HTTP has no date for.
fn date_of(unix_us: i64) -> Option<String> {
    // 253402300800 is the year 10000.
    let us = u64::try_from(unix_us).ok().filter(|us| us / 1_000_000 < 253_402_300_800)?;
    let at: SystemTime = UNIX_EPOCH + Duration::from_micros(us);
    Some(httpdate::fmt_http_date(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_is_digits_and_nothing_else() {
        assert_eq!(["0", "17", "007"].map(whole), [Some(0), Some(17), Some(7)]);
        for text in ["", "-1", "+1", "1.5", "1e3", " 1", "١", "99999999999999999999999"] {
            assert_eq!(whole(text), None, "{text}");
        }
    }

    #[test]
    fn a_limit_may_be_followed_by_its_policies_and_by_no_second_limit() {
        assert_eq!(
            ["100", "100, 100;w=60", "10;w=1", "10, 10;w=1, 50;w=60"].map(quota),
            [Some(100), Some(100), Some(10), Some(10)]
        );
        assert_eq!(["100, 50", "many", ""].map(quota), [None; 3]);
    }

    #[test]
    fn a_problem_is_an_object_and_a_member_of_another_type_is_absent() {
        let read =
            Problem::read(br#"{"type":"about:blank","title":7,"status":429.5,"retry_after_ms":12,"x":[]}"#);
        let kind = Some("about:blank".to_owned());
        assert_eq!(read, Some(Problem { kind, retry_after_ms: Some(12), ..Problem::default() }));
        for body in ["", "[]", "\"text\"", "{", "{}x"] {
            assert_eq!(Problem::read(body.as_bytes()), None, "{body}");
        }
    }

    #[test]
    fn a_wait_is_told_in_seconds_or_as_a_date_that_counts_from_the_answers_own() {
        let said = |retry_after: &str, date: Option<&str>| Answer {
            status: 429,
            retry_after: Some(retry_after.to_owned()),
            date: date.map(str::to_owned),
            ..Answer::default()
        };
        assert_eq!(said("7", None).wait_s(), Some(7));
        let at = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(said(at, Some("Sun, 06 Nov 1994 08:49:30 GMT")).wait_s(), Some(7));
        assert_eq!(said(at, None).wait_s(), None);
        assert_eq!(said("soon", None).retry_after(), None);
    }

    #[test]
    fn what_is_told_is_read_and_what_is_no_number_is_not_told() {
        let limit = Limit::new(5).unwrap();
        let mut answer = Answer { status: 429, ..Answer::default() };
        answer.draft.remaining = Some("many".to_owned());
        answer.x.remaining = Some("3".to_owned());
        answer.x.limit = Some("9".to_owned());
        answer.problem = Problem::read(br#"{"retry_after_ms":1400}"#);
        let read = answer.decision(limit);
        assert_eq!((read.allowed, read.remaining, read.limit.get()), (false, Some(3), 9));
        assert_eq!(read.retry_after, Some(Duration::from_millis(1400)));
        answer.retry_after = Some("2".to_owned());
        assert_eq!(
            answer.decision(limit).retry_after,
            Some(Duration::from_secs(2)),
            "the header comes first"
        );
        answer.status = 200;
        assert_eq!(answer.decision(limit).retry_after, None, "who got in has nothing to wait for");
    }
}
