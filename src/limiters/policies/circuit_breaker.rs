//! `circuit-breaker`: after several errors in a row the store is left alone for a while, and callers get
//! their answer at once; then one call tries it.
//!
//! Closed, open, half-open as in Nygard's *Release It!*: `failures` errors in a row open it, it stays open for
//! `open`, then one call is let through while the others still get the stand-in; its success closes the
//! breaker, its error opens it again. Each node has its own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{WITHIN, ask, stand_in};
use crate::model::contract::{Contract, OnOutage};
use crate::model::op::{Decision, Source};
use crate::model::units::{Cost, Limit};
use crate::ports::BoxFuture;
use crate::ports::clock::Clock;
use crate::ports::limiter::{Limiter, Param, ParamKind};
use crate::ports::policy::{PolicySettings, PolicySpec};
use crate::ports::store::StoreError;

pub static SPEC: PolicySpec = PolicySpec {
    id: "P4",
    name: "circuit-breaker",
    summary: "after errors in a row it answers at once, without the store, until one call that tries it succeeds",
    params: &[
        Param {
            name: "failures",
            default: "5",
            kind: ParamKind::Count,
            help: "errors in a row that open it",
        },
        Param {
            name: "open",
            default: "1s",
            kind: ParamKind::Span,
            help: "how long it stays open before a call tries",
        },
        Param {
            name: "then",
            default: "open",
            kind: ParamKind::OneOf(&["open", "closed"]),
            help: "what a caller gets without an answer: admitted (open) or refused (closed)",
        },
        WITHIN,
    ],
    contract: |settings, _, inner| {
        let open = source(settings) == Source::FailOpen;
        Contract { on_outage: if open { OnOutage::Open } else { OnOutage::Closed }, ..inner }
    },
    wrap: |wrap| {
        let settings = &wrap.settings;
        Arc::new(CircuitBreaker {
            failures: settings.count("failures"),
            open_ns: settings.span_if_given("open").unwrap_or_default().as_nanos(),
            within: settings.span_if_given("within"),
            source: source(settings),
            state: Mutex::new(State::Closed { failed: 0 }),
            inner: wrap.inner,
            limit: wrap.terms.limit,
            clock: wrap.clock,
        })
    },
};

fn source(settings: &PolicySettings) -> Source {
    if settings.param("then") == "closed" { Source::FailClosed } else { Source::FailOpen }
}

struct CircuitBreaker {
    inner: Arc<dyn Limiter>,
    limit: Limit,
    clock: Arc<dyn Clock>,
    failures: u64,
    open_ns: u128,
    within: Option<Duration>,
    source: Source,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed {
        failed: u64,
    },
    /// Since then, by the node's monotonic clock.
    Open {
        since: Duration,
    },
    /// A call tries the store.
    HalfOpen,
}

impl CircuitBreaker {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this call may ask the store.
    fn lets_through(&self) -> bool {
        let mut state = self.state();
        match *state {
            State::Closed { .. } => true,
            State::HalfOpen => false,
            State::Open { since } => {
                let over = self.clock.monotonic().saturating_sub(since).as_nanos() >= self.open_ns;
                if over {
                    *state = State::HalfOpen;
                }
                over
            }
        }
    }

    fn heard(&self, answered: bool) {
        let mut state = self.state();
        *state = match (*state, answered) {
            // A call that was under way when the breaker opened tells of the time before.
            (State::Open { since }, _) => State::Open { since },
            (_, true) => State::Closed { failed: 0 },
            (State::Closed { failed }, false) if failed + 1 < self.failures => {
                State::Closed { failed: failed + 1 }
            }
            (_, false) => State::Open { since: self.clock.monotonic() },
        };
    }
}

impl Limiter for CircuitBreaker {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(async move {
            if !self.lets_through() {
                return Ok(stand_in(self.limit, self.source));
            }
            let answer = ask(&*self.inner, key, cost, self.within).await;
            self.heard(answer.is_ok());
            match answer {
                Err(error) if error != StoreError::NodeDied => Ok(stand_in(self.limit, self.source)),
                decided => decided,
            }
        })
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.preset(key, used)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Hand, Scripted, terms, wrapped};
    use super::*;

    #[tokio::test]
    async fn it_opens_after_errors_in_a_row_and_closes_when_one_call_succeeds() {
        let (inner, clock) = (Arc::new(Scripted::default()), Arc::new(Hand::default()));
        let breaker = wrapped(&SPEC, &[("failures", "2")], terms(1, 1), &inner, &clock);
        let call = async |answers: &[bool]| {
            answers.iter().for_each(|well| inner.answers_next(*well));
            let before = inner.asked();
            let source = breaker.acquire("k", Cost::ONE).await.unwrap().source;
            inner.forget();
            (source, inner.asked() - before)
        };
        assert_eq!(call(&[false]).await, (Source::FailOpen, 1));
        assert_eq!(call(&[true]).await, (Source::Store, 1), "not in a row");
        assert_eq!(call(&[false]).await, (Source::FailOpen, 1));
        assert_eq!(call(&[false]).await, (Source::FailOpen, 1), "now it opens");
        assert_eq!(call(&[true]).await, (Source::FailOpen, 0), "the store is left alone");
        clock.set(999);
        assert_eq!(call(&[true]).await, (Source::FailOpen, 0));
        clock.set(1000);
        assert_eq!(call(&[false]).await, (Source::FailOpen, 1), "one tries, and it opens again");
        clock.set(1999);
        assert_eq!(call(&[true]).await, (Source::FailOpen, 0));
        clock.set(2000);
        assert_eq!(call(&[true]).await, (Source::Store, 1), "and closes");
        assert_eq!(call(&[true]).await, (Source::Store, 1));
    }
}
