//! A leaky bucket used as a meter, in one script: each call pours its cost in, time lets it leak,
//! and what would overflow is refused.
//!
//! The mirror of a token bucket, with the same bound: what is full here is empty there. It shapes
//! nothing; "even outflow" would need a queue.

use std::sync::{Arc, LazyLock};

use super::common;
use super::token_bucket_lua::{self as bucket, capacity, fill_ms};
use crate::model::contract::DecidingClock;
use crate::model::op::Decision;
use crate::model::units::Cost;
use crate::ports::BoxFuture;
use crate::ports::clock::Clock;
use crate::ports::limiter::{Limiter, Settings, Spec};
use crate::ports::store::{Command, Script, Store, StoreError};

pub static SPEC: Spec = Spec {
    id: "L15",
    name: "leaky-bucket-lua",
    summary: "leaky bucket as a meter: one script leaks, pours and refuses what overflows",
    sends: "EVALSHA; 1 round trip",
    known: "exact; never more than capacity plus leak",
    params: &[common::CLOCK, bucket::CAPACITY],
    needs_server: None,
    check: bucket::check,
    contract: bucket::contract,
    build: |build| Arc::new(LeakyBucket { settings: build.settings, store: build.store, clock: build.clock }),
};

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("leaky_bucket.lua")));

struct LeakyBucket {
    settings: Settings,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

impl LeakyBucket {
    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let s = &self.settings;
        let now = match common::clock(s) {
            DecidingClock::App => (self.clock.wall_us() / 1000).to_string(),
            DecidingClock::Server => String::new(),
        };
        let args = vec![
            capacity(s).to_string(),
            s.limit.to_string(),
            s.window.millis().to_string(),
            cost.get().to_string(),
            now,
            common::kept_for_the_late_ms(s).to_string(),
        ];
        common::scripted(s, self.store.eval(&SCRIPT, &[key], args).await?)
    }

    async fn after(&self, key: &str, used: u64) -> Result<(), StoreError> {
        let parts = used.min(capacity(&self.settings).get()) * self.settings.window.millis();
        let now = common::now_us(&self.settings, &*self.store, &*self.clock).await? / 1000;
        self.store.command(Command::new("HSET").arg(key).arg("parts").arg(parts).arg("at").arg(now)).await?;
        let ttl = Command::new("PEXPIRE").arg(key).arg(fill_ms(&self.settings));
        self.store.command(ttl).await.map(|_| ())
    }
}

impl Limiter for LeakyBucket {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.after(key, used))
    }
}
