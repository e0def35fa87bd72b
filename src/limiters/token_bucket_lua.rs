//! A token bucket in one script: HMGET, compute, HSET, PEXPIRE.
//!
//! The arithmetic is that of [`crate::model::algorithms::token_bucket`]: whole parts, nothing
//! lost to rounding, and a clock that goes backwards refills nothing. The key lives until the
//! bucket would be full again.

use std::sync::{Arc, LazyLock};

use super::common;
use crate::model::algorithms::Algorithm;
use crate::model::contract::{Contract, DecidingClock};
use crate::model::op::Decision;
use crate::model::units::{Cost, Limit, Window};
use crate::ports::BoxFuture;
use crate::ports::clock::Clock;
use crate::ports::limiter::{Build, Limiter, Param, Settings, Spec};
use crate::ports::store::{Command, Script, Store, StoreError};

pub static SPEC: Spec = Spec {
    id: "L13",
    name: "token-bucket-lua",
    summary: "token bucket: one script reads, refills, takes and writes back",
    sends: "EVALSHA; 1 round trip",
    known: "exact; never more than capacity plus refill",
    params: &[common::CLOCK, CAPACITY],
    foreign: None,
    needs_server: None,
    check,
    contract,
    build: |build| Arc::new(ScriptedBucket::new(build, &SCRIPT, u64::saturating_sub)),
};

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("token_bucket.lua")));

pub(super) const CAPACITY: Param =
    common::count_param("capacity", "tokens in a full bucket; the limit if not given");

pub(super) fn capacity(settings: &Settings) -> Limit {
    settings.count_or_limit("capacity")
}

/// Milliseconds from empty to full, rounded up.
pub(super) fn fill_ms(settings: &Settings) -> u128 {
    let parts = u128::from(capacity(settings).get()) * u128::from(settings.window.millis());
    parts.div_ceil(u128::from(settings.limit.get()))
}

pub(super) fn check(settings: &Settings) -> Result<(), String> {
    let parts = u128::from(capacity(settings).get()) * u128::from(settings.window.millis());
    if parts > u128::from(Limit::MAX) {
        return Err(format!(
            "a bucket of {} over {} needs more than 2^53 parts, which a script cannot count exactly",
            capacity(settings),
            settings.window
        ));
    }
    fill_window(settings).map(|_| ())
}

fn fill_window(settings: &Settings) -> Result<Window, String> {
    let kept = fill_ms(settings) + u128::from(common::kept_for_the_late_ms(settings));
    let ms = u64::try_from(kept).unwrap_or(u64::MAX);
    Window::from_millis(ms)
        .map_err(|_| format!("a bucket of {} takes longer than 366 days to fill", capacity(settings)))
}

pub(super) fn contract(settings: &Settings) -> Contract {
    let ttl = fill_window(settings).unwrap_or(settings.window);
    let (capacity, refill, window) = (capacity(settings), settings.limit, settings.window);
    Contract {
        algorithm: Some(Algorithm::TokenBucket { capacity, refill, window }),
        round_trips_at_most: Some(1),
        ..common::bucket_contract(settings, capacity, common::clock(settings), ttl)
    }
}

/// `{capacity, refill, window, cost, now, kept}`, as the scripts of buckets take them.
pub(super) fn arguments(settings: &Settings, app: &dyn Clock, cost: Cost) -> Vec<String> {
    let now = match common::clock(settings) {
        DecidingClock::App => (app.wall_us() / 1000).to_string(),
        DecidingClock::Server | DecidingClock::Expiry => String::new(),
    };
    vec![
        capacity(settings).to_string(),
        settings.limit.to_string(),
        settings.window.millis().to_string(),
        cost.get().to_string(),
        now,
        common::kept_for_the_late_ms(settings).to_string(),
    ]
}

/// A bucket kept by a script that takes `{capacity, refill, window, cost, now, kept}` and answers
/// `{allowed, remaining, wait}`. Its state is a hash: `parts`, and `at`, the time they are as of.
pub(super) struct ScriptedBucket {
    settings: Settings,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    script: &'static Script,
    /// Whole calls' worth of parts after `used` of `capacity`.
    after: fn(capacity: u64, used: u64) -> u64,
}

impl ScriptedBucket {
    pub(super) fn new(build: Build, script: &'static Script, after: fn(u64, u64) -> u64) -> Self {
        Self { settings: build.settings, store: build.store, clock: build.clock, script, after }
    }

    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let args = arguments(&self.settings, &*self.clock, cost);
        common::scripted(&self.settings, self.store.eval(self.script, &[key], args).await?)
    }

    async fn put(&self, key: &str, used: u64) -> Result<(), StoreError> {
        let s = &self.settings;
        let parts = (self.after)(capacity(s).get(), used) * s.window.millis();
        let now = common::now_us(s, &*self.store, &*self.clock).await? / 1000;
        self.store.command(Command::new("HSET").arg(key).arg("parts").arg(parts).arg("at").arg(now)).await?;
        let ttl = Command::new("PEXPIRE").arg(key).arg(fill_ms(s));
        self.store.command(ttl).await.map(|_| ())
    }
}

impl Limiter for ScriptedBucket {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.put(key, used))
    }
}
