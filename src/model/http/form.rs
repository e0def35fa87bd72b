//! What a front says of a decision: the honest form, and those that are broken on purpose.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Answer, Decided, Family, PROBLEM_JSON, Problem, date_of};
use crate::model::contract::Bound;
use crate::model::names;
use crate::model::op::{Decision, ceil_millis};

/// How honest a front is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    #[default]
    Honest,
    /// A refusal does not say when to come back.
    NoRetryAfter,
    /// `Retry-After: 0`.
    Zero,
    /// `Retry-After` is the whole window, whatever is left of it.
    WholeWindow,
    /// `Retry-After` is rounded down, to 1 at least.
    Floor,
    /// `X-RateLimit-Reset` is how long it takes, and not when it is.
    ResetDelta,
}

impl Form {
    pub const ALL: [Self; 6] =
        [Self::Honest, Self::NoRetryAfter, Self::Zero, Self::WholeWindow, Self::Floor, Self::ResetDelta];

    pub fn name(self) -> &'static str {
        match self {
            Self::Honest => "honest",
            Self::NoRetryAfter => "no-retry-after",
            Self::Zero => "zero",
            Self::WholeWindow => "whole-window",
            Self::Floor => "floor",
            Self::ResetDelta => "reset-delta",
        }
    }

    /// For a default that need not be written.
    pub fn is_honest(&self) -> bool {
        *self == Self::Honest
    }
}

impl std::str::FromStr for Form {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|form| form.name() == text);
        let known = Self::ALL.map(Self::name);
        found.ok_or_else(|| names::unknown("front", text, &known))
    }
}

/// What a refusal is called: the same for each, so that clients can tell it by that.
const REFUSED: &str = "urn:rl-lab:problem:rate-limited";
const NO_ANSWER: &str = "urn:rl-lab:problem:limiter-unavailable";
const MISTAKE: &str = "urn:rl-lab:problem:bad-request";

/// Turns decisions of a limiter into answers.
#[derive(Debug, Clone, Copy)]
pub struct Says {
    pub form: Form,
    /// What the limiter promises. The most that it admits at once is what `Limit` says.
    pub bound: Bound,
}

impl Says {
    /// The answer to a call that was decided, at a time in Unix µs.
    pub fn decided(&self, decision: &Decision, now_us: i64) -> Answer {
        let limit = self.bound.burst().unwrap_or(decision.limit.get());
        let reset = self.reset(decision);
        let text = |n: u64| Some(n.to_string());
        let family = |reset| Family {
            limit: text(limit),
            remaining: decision.remaining.map(|n| n.to_string()),
            reset,
        };
        let delta = reset.map(|after| seconds_up(after).to_string());
        let at = reset.map(|after| unix_up(now_us, after).to_string());
        let x_reset = if self.form == Form::ResetDelta { delta.clone() } else { at };
        let answer = Answer {
            status: 200,
            date: date_of(now_us),
            draft: family(delta),
            x: family(x_reset),
            decided: Some(Decided::from(decision)),
            ..Answer::default()
        };
        if decision.allowed {
            return answer;
        }
        let told_ms = decision.retry_after.map(ceil_millis);
        let detail = match told_ms {
            Some(ms) => format!("{limit} are admitted at once, and the next in {ms} ms"),
            None => format!("{limit} are admitted at once"),
        };
        let retry_after = self.retry_after(decision).map(|s| s.to_string());
        let refusal = Answer { status: Answer::TOO_MANY, retry_after, ..answer };
        refusal.with(REFUSED, "too many requests", detail, told_ms)
    }

    /// The answer where the limiter has none.
    pub fn no_answer(error: &str, now_us: i64) -> Answer {
        let answer = Answer { status: 503, date: date_of(now_us), ..Answer::default() };
        answer.with(NO_ANSWER, "the limiter has no answer", error.to_owned(), None)
    }

    /// The answer to what cannot be asked.
    pub fn mistake(what: &str, now_us: i64) -> Answer {
        let answer = Answer { status: 400, date: date_of(now_us), ..Answer::default() };
        answer.with(MISTAKE, "this cannot be asked", what.to_owned(), None)
    }

    fn retry_after(&self, decision: &Decision) -> Option<u64> {
        let wait = decision.retry_after;
        match self.form {
            Form::NoRetryAfter => None,
            Form::Zero => Some(0),
            Form::WholeWindow => self.bound.window().map(|w| seconds_up(w.duration()).max(1)),
            Form::Floor => wait.map(|wait| wait.as_secs().max(1)),
            Form::Honest | Form::ResetDelta => wait.map(|wait| seconds_up(wait).max(1)),
        }
    }

    /// How long until there is more: for a refusal the moment that `Retry-After` speaks of; for others when
    /// the full limit is there again, where the limiter tells it or, of a bucket, what is left does.
    fn reset(&self, decision: &Decision) -> Option<Duration> {
        if !decision.allowed && decision.retry_after.is_some() {
            return decision.retry_after;
        }
        let refilled = || match self.bound {
            Bound::Bucket { capacity, refill, window } => {
                let missing = u128::from(capacity.get().saturating_sub(decision.remaining?));
                let ms = (missing * u128::from(window.millis())).div_ceil(u128::from(refill.get()));
                u64::try_from(ms).ok().map(Duration::from_millis)
            }
            _ => None,
        };
        decision.reset.or_else(refilled)
    }
}

impl Answer {
    /// The same with a problem of its status.
    fn with(self, kind: &str, title: &str, detail: String, retry_after_ms: Option<u64>) -> Self {
        let problem = Problem {
            kind: Some(kind.to_owned()),
            title: Some(title.to_owned()),
            status: Some(self.status.into()),
            detail: Some(detail),
            retry_after_ms,
        };
        Self { media_type: Some(PROBLEM_JSON.to_owned()), problem: Some(problem), ..self }
    }
}

/// Whole seconds, rounded up: who waits them out has waited long enough.
fn seconds_up(span: Duration) -> u64 {
    span.as_secs().saturating_add(u64::from(span.subsec_nanos() > 0))
}

/// The first whole second at which this much time has passed.
fn unix_up(now_us: i64, after: Duration) -> u64 {
    let now = u128::try_from(now_us).unwrap_or(0);
    u64::try_from((now + after.as_micros()).div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::RetryAfter;
    use super::*;
    use crate::model::op::Source;
    use crate::model::units::{Limit, Window};

    const NOW: i64 = 1_700_000_000_250_000;

    fn bucket() -> Bound {
        let (capacity, refill) = (Limit::new(4).unwrap(), Limit::new(2).unwrap());
        Bound::Bucket { capacity, refill, window: Window::from_millis(3000).unwrap() }
    }

    fn decision(wait_ms: Option<u64>, remaining: u64) -> Decision {
        Decision {
            allowed: wait_ms.is_none(),
            remaining: Some(remaining),
            limit: Limit::new(2).unwrap(),
            retry_after: wait_ms.map(Duration::from_millis),
            reset: None,
            source: Source::Store,
        }
    }

    fn said(form: Form, decision: &Decision) -> Answer {
        Says { form, bound: bucket() }.decided(decision, NOW)
    }

    #[test]
    fn an_honest_wait_is_rounded_up_and_never_none() {
        for (ms, seconds) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (1400, 2)] {
            let answer = said(Form::Honest, &decision(Some(ms), 0));
            assert_eq!(answer.retry_after(), Some(RetryAfter::Seconds(seconds)), "{ms} ms");
            assert_eq!((answer.told_ms(), answer.status), (Some(ms), 429));
            assert_eq!(answer.problem.unwrap().status, Some(429), "the status of the answer");
        }
    }

    #[test]
    fn both_families_say_the_same_in_their_own_ways() {
        let refused = said(Form::Honest, &decision(Some(1400), 0));
        assert_eq!(refused.draft.fields(), [Some("4"), Some("0"), Some("2")]);
        // 1700000000.25 and 1.4 s.
        assert_eq!(refused.x.fields(), [Some("4"), Some("0"), Some("1700000002")]);
        assert_eq!(refused.date_s(), Some(1_700_000_000));
        // Three of four are missing, and one comes back each 1.5 s.
        let admitted = said(Form::Honest, &decision(None, 1));
        assert_eq!((admitted.status, admitted.draft.reset.as_deref()), (200, Some("5")));
        assert_eq!((admitted.retry_after, admitted.problem), (None, None));
    }

    #[test]
    fn a_broken_form_differs_from_the_honest_one_in_one_field() {
        let refusal = decision(Some(1400), 0);
        let honest = said(Form::Honest, &refusal);
        let with = |text: Option<&str>| Answer { retry_after: text.map(str::to_owned), ..honest.clone() };
        assert_eq!(said(Form::NoRetryAfter, &refusal), with(None));
        assert_eq!(said(Form::Zero, &refusal), with(Some("0")));
        assert_eq!(said(Form::WholeWindow, &refusal), with(Some("3")));
        assert_eq!(said(Form::Floor, &refusal), with(Some("1")));
        let mut delta = honest.clone();
        delta.x.reset = Some("2".to_owned());
        assert_eq!(said(Form::ResetDelta, &refusal), delta);
    }

    #[test]
    fn a_form_is_named_as_files_name_it() {
        for form in Form::ALL {
            assert_eq!(form.name().parse(), Ok(form));
            assert_eq!(serde_json::to_value(form).unwrap(), form.name());
        }
        assert!("flor".parse::<Form>().unwrap_err().contains("did you mean 'floor'"));
    }
}
