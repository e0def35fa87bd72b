//! A counter per window, and a node that remembers who is over the limit, as envoyproxy/ratelimit does with its
//! local cache: whoever was refused is refused for the rest of the window without asking.
//!
//! Refused calls are charged, so whoever was refused once would be refused again by the store: it decides as
//! `fixed-window-numbered` does, in fewer calls. Not so once somebody lifts the limit by removing the counter: the
//! store would admit, and the node remembers, for the rest of the window or for as long as `trust` says.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::common;
use super::fixed_window_numbered::{Numbered, numbered_contract};
use crate::model::op::{Decision, Source};
use crate::model::units::Cost;
use crate::ports::BoxFuture;
use crate::ports::limiter::{Limiter, Param, ParamKind, Spec};
use crate::ports::store::StoreError;

pub static SPEC: Spec = Spec {
    id: "L32",
    name: "exceeded-cache",
    summary: "fixed window: a counter per window, and a node remembers who is over the limit",
    sends: "INCRBY, PEXPIRE in one pipeline, nothing once refused; 0 to 1 round trips",
    known: "exact; refused calls cost nothing; a limit that is lifted stays in force on the node",
    params: &[Param {
        name: "trust",
        default: "",
        kind: ParamKind::Span,
        help: "how long a refusal is remembered; to the end of its window if empty",
    }],
    foreign: None,
    needs_server: None,
    check: common::can_be_kept,
    contract: numbered_contract,
    build: |build| {
        let trust = build.settings.span_if_given("trust");
        let counters =
            Numbered { settings: build.settings, store: build.store, clock: build.clock, one_trip: true };
        Arc::new(ExceededCache { counters, trust, exceeded: Mutex::new(HashMap::new()) })
    },
};

struct ExceededCache {
    counters: Numbered,
    trust: Option<Duration>,
    exceeded: Mutex<HashMap<String, Exceeded>>,
}

/// A key that is over its limit.
struct Exceeded {
    window: i64,
    /// Since when, by the node's monotonic clock.
    told: Duration,
}

impl ExceededCache {
    fn exceeded(&self) -> MutexGuard<'_, HashMap<String, Exceeded>> {
        self.exceeded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remembers(&self, key: &str, window: i64) -> bool {
        let exceeded = self.exceeded();
        let Some(known) = exceeded.get(key).filter(|known| known.window == window) else { return false };
        self.trust.is_none_or(|trust| self.counters.clock.monotonic().saturating_sub(known.told) < trust)
    }

    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let (window, left) = self.counters.open_window();
        let settings = &self.counters.settings;
        let left = Some(Duration::from_millis(left));
        if self.remembers(key, window) {
            let beyond = i64::try_from(settings.limit.get()).unwrap_or(i64::MAX).saturating_add(1);
            return Ok(Decision { source: Source::Local, ..common::counted(settings, cost, beyond, left) });
        }
        let count = self.counters.count(key, window, cost).await?;
        let decision = common::counted(settings, cost, count, left);
        if !decision.allowed {
            let told = self.counters.clock.monotonic();
            self.exceeded().insert(key.to_owned(), Exceeded { window, told });
        }
        Ok(decision)
    }
}

impl Limiter for ExceededCache {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.counters.preset(key, used))
    }
}
