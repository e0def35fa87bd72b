//! Laravel's Redis throttle: two scripts, each atomic, and a decision that is not.
//!
//! The first script only looks; the second counts, and what it answers is ignored. The window is
//! start and end in whole seconds of the *app's* clock, and a call whose time lies outside starts
//! the window anew: two servers whose clocks differ by more than the window reset it for each
//! other at every call.

use std::sync::{Arc, LazyLock};

use super::common;
use crate::model::algorithms::Algorithm;
use crate::model::contract::{Contract, DecidingClock, Denials};
use crate::model::op::{Decision, Source};
use crate::model::units::Cost;
use crate::ports::BoxFuture;
use crate::ports::clock::Clock;
use crate::ports::limiter::{Limiter, Settings, Spec};
use crate::ports::store::{Command, Script, Store, StoreError};

pub static SPEC: Spec = Spec {
    id: "L17",
    name: "laravel-throttle-redis",
    summary: "fixed window: one script looks, a second one counts and is not listened to",
    sends: "EVALSHA twice; 2 round trips",
    known: "races between its scripts; a call from outside the window, by the app's clock, resets it",
    params: &[],
    foreign: None,
    needs_server: None,
    check: |settings| {
        common::whole_seconds(settings)?;
        common::twice_the_window(settings).map(|_| ())
    },
    contract,
    build: |build| {
        Arc::new(ThrottleRedis { settings: build.settings, store: build.store, clock: build.clock })
    },
};

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("laravel_throttle_redis.lua")));

fn contract(settings: &Settings) -> Contract {
    Contract {
        clock: DecidingClock::App,
        clock_resolution_ms: 1000,
        key_ttl_at_most: common::twice_the_window(settings).ok(),
        algorithm: Some(Algorithm::LaravelWindow { limit: settings.limit, window: settings.window }),
        round_trips_at_most: Some(2),
        ..common::counter_contract(settings, Denials::Free)
    }
}

struct ThrottleRedis {
    settings: Settings,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

impl ThrottleRedis {
    fn seconds(&self) -> u64 {
        self.settings.window.millis() / 1000
    }

    async fn script(&self, key: &str, cost: u32) -> Result<i64, StoreError> {
        let now = self.clock.wall_us();
        let args = vec![
            format!("{}.{:06}", now.div_euclid(1_000_000), now.rem_euclid(1_000_000)),
            now.div_euclid(1_000_000).to_string(),
            self.seconds().to_string(),
            self.settings.limit.to_string(),
            cost.to_string(),
        ];
        self.store.eval(&SCRIPT, &[key], args).await?.expect_int()
    }

    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let left = self.script(key, 0).await?;
        let allowed = left >= i64::from(cost.get());
        let left = if allowed { self.script(key, cost.get()).await? } else { left };
        Ok(Decision {
            allowed,
            remaining: Some(u64::try_from(left).unwrap_or(0)),
            limit: self.settings.limit,
            retry_after: None,
            reset: None,
            source: Source::Store,
        })
    }

    async fn after(&self, key: &str, used: u64) -> Result<(), StoreError> {
        let now = self.clock.wall_us().div_euclid(1_000_000);
        let end = now + self.seconds() as i64;
        let set =
            Command::new("HSET").arg(key).arg("start").arg(now).arg("end").arg(end).arg("count").arg(used);
        self.store.command(set).await?;
        let ttl = Command::new("EXPIRE").arg(key).arg(self.seconds() * 2);
        self.store.command(ttl).await.map(|_| ())
    }
}

impl Limiter for ThrottleRedis {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.after(key, used))
    }
}
