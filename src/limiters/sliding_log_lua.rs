//! A log of admitted calls in a sorted set, in one script: exact at every moment, and as large as
//! the limit.
//!
//! With `clock=app` the time is an argument: a node whose clock is ahead throws away entries that
//! others still count. With `clock=server` the script reads TIME. Members carry a name no other
//! call has, so calls in the same microsecond count one by one.

use std::sync::{Arc, LazyLock};

use super::common;
use crate::model::algorithms::Algorithm;
use crate::model::contract::{Bound, Contract, DecidingClock, Denials};
use crate::model::op::Decision;
use crate::model::units::Cost;
use crate::ports::BoxFuture;
use crate::ports::clock::Clock;
use crate::ports::limiter::{Limiter, Settings, Spec};
use crate::ports::store::{Script, Store, StoreError};

pub static SPEC: Spec = Spec {
    id: "L08",
    name: "sliding-log-lua",
    summary: "sliding log: a sorted set of admitted calls, one script",
    sends: "EVALSHA; 1 round trip",
    known: "exact; with the app's clock, skew over-admits; a hundred bytes per admitted call",
    params: &[common::CLOCK],
    foreign: None,
    needs_server: None,
    check: common::fits_a_log,
    contract,
    build: |build| {
        Arc::new(SlidingLog {
            names: common::Names::of(&build),
            settings: build.settings,
            store: build.store,
            clock: build.clock,
        })
    },
};

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("sliding_log.lua")));

fn contract(settings: &Settings) -> Contract {
    let (limit, window) = (settings.limit, settings.window);
    Contract {
        bound: Bound::SlidingWindow { limit, window },
        clock: common::clock(settings),
        key_ttl_at_most: common::kept(settings, 1).ok(),
        algorithm: Some(Algorithm::SlidingLog { limit, window, denials: Denials::Free }),
        round_trips_at_most: Some(1),
        ..common::counter_contract(settings, Denials::Free)
    }
}

struct SlidingLog {
    settings: Settings,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    names: common::Names,
}

impl SlidingLog {
    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let s = &self.settings;
        let now = match common::clock(s) {
            DecidingClock::App => self.clock.wall_us().to_string(),
            DecidingClock::Server | DecidingClock::Expiry => String::new(),
        };
        let window_us = s.window.millis() * 1000;
        let args = vec![
            s.limit.to_string(),
            window_us.to_string(),
            cost.get().to_string(),
            self.names.next(),
            now,
            common::kept_ms(s, 1).to_string(),
        ];
        common::scripted(s, self.store.eval(&SCRIPT, &[key], args).await?)
    }
}

impl Limiter for SlidingLog {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        let ttl = common::kept(&self.settings, 1).unwrap_or(self.settings.window);
        Box::pin(common::preset_log(&*self.store, &self.settings, key, used, self.clock.wall_us(), ttl))
    }
}
