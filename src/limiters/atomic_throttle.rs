//! A throttle that counts in one script, tells the wait in whole seconds, and lets everybody in while
//! the store does not answer.
//!
//! Its wait is TTL, which rounds to the nearest second: with 1,392 ms left it says 1 s, so a caller that
//! waits as told comes up to half a second too early. How long an unanswered call takes is the client
//! profile's timeout; what it then admits bears `fail-open` as its source, so that it can be counted.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use super::common;
use crate::model::contract::{Contract, Denials, OnOutage};
use crate::model::op::{Decision, Source};
use crate::model::units::Cost;
use crate::ports::BoxFuture;
use crate::ports::limiter::{Limiter, Settings, Spec};
use crate::ports::store::{Script, Store, StoreError};

pub static SPEC: Spec = Spec {
    id: "L19",
    name: "atomic-throttle",
    summary: "fixed window: one script counts, TTL tells the wait; admits while the store is away",
    sends: "EVALSHA; 1 round trip",
    known: "exact; its wait is up to half a second short; an outage lets everybody in",
    params: &[],
    foreign: None,
    needs_server: None,
    check: common::whole_seconds,
    contract,
    build: |build| Arc::new(AtomicThrottle { settings: build.settings, store: build.store }),
};

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("atomic_throttle.lua")));

fn contract(settings: &Settings) -> Contract {
    Contract {
        on_outage: OnOutage::Open,
        // Of its hint only as much as TTL tells.
        algorithm: common::fixed_window(settings, Denials::Charged),
        round_trips_at_most: Some(1),
        ..common::counter_contract(settings, Denials::Charged)
    }
}

struct AtomicThrottle {
    settings: Settings,
    store: Arc<dyn Store>,
}

impl AtomicThrottle {
    async fn counted(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let seconds = self.settings.window.millis() / 1000;
        let args = vec![cost.get().to_string(), seconds.to_string()];
        let reply = self.store.eval(&SCRIPT, &[key], args).await?.expect_list(2)?;
        let left = u64::try_from(reply[1].expect_int()?).ok().map(Duration::from_secs);
        Ok(common::counted(&self.settings, cost, reply[0].expect_int()?, left))
    }

    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        match self.counted(key, cost).await {
            // A node that died admits nobody.
            Err(error) if error != StoreError::NodeDied => Ok(self.open()),
            counted => counted,
        }
    }

    fn open(&self) -> Decision {
        Decision {
            allowed: true,
            remaining: None,
            limit: self.settings.limit,
            retry_after: None,
            reset: None,
            source: Source::FailOpen,
        }
    }
}

impl Limiter for AtomicThrottle {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(common::preset_counter(&*self.store, &self.settings, key, used))
    }
}
