//! A token bucket in one script: HMGET, compute, HSET, PEXPIRE.
//!
//! The arithmetic is that of [`crate::model::algorithms::token_bucket`]: whole parts, nothing
//! lost to rounding, and a clock that goes backwards refills nothing. The key lives until the
//! bucket would be full again.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use super::common;
use crate::model::contract::{Contract, DecidingClock};
use crate::model::op::{Decision, Source};
use crate::model::units::{Cost, Limit, Window};
use crate::ports::BoxFuture;
use crate::ports::clock::Clock;
use crate::ports::limiter::{Limiter, Param, Settings, Spec};
use crate::ports::store::{Command, Script, Store, StoreError};

pub static SPEC: Spec = Spec {
    id: "L13",
    name: "token-bucket-lua",
    summary: "token bucket: one script reads, refills, takes and writes back",
    sends: "EVALSHA; 1 round trip",
    known: "exact; never more than capacity plus refill",
    params: &[common::CLOCK, CAPACITY],
    needs_server: None,
    check,
    contract,
    build: |build| {
        Arc::new(TokenBucketLua { settings: build.settings, store: build.store, clock: build.clock })
    },
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
    common::bucket_contract(settings, capacity(settings), common::clock(settings), ttl)
}

struct TokenBucketLua {
    settings: Settings,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

impl TokenBucketLua {
    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let now = match common::clock(&self.settings) {
            DecidingClock::App => (self.clock.wall_us() / 1000).to_string(),
            DecidingClock::Server => String::new(),
        };
        let s = &self.settings;
        let args = vec![
            capacity(s).to_string(),
            s.limit.to_string(),
            s.window.millis().to_string(),
            cost.get().to_string(),
            now,
            common::kept_for_the_late_ms(s).to_string(),
        ];
        let reply = self.store.eval(&SCRIPT, &[key], args).await?.expect_list(3)?;
        let allowed = reply[0].expect_int()? == 1;
        let wait = u64::try_from(reply[2].expect_int()?).ok().map(Duration::from_millis);
        Ok(Decision {
            allowed,
            remaining: u64::try_from(reply[1].expect_int()?).ok(),
            limit: s.limit,
            retry_after: if allowed { None } else { wait },
            reset: None,
            source: Source::Store,
        })
    }

    async fn after(&self, key: &str, used: u64) -> Result<(), StoreError> {
        let left = capacity(&self.settings).get().saturating_sub(used);
        let parts = left * self.settings.window.millis();
        let now = common::now_us(&self.settings, &*self.store, &*self.clock).await? / 1000;
        self.store.command(Command::new("HSET").arg(key).arg("parts").arg(parts).arg("at").arg(now)).await?;
        let ttl = Command::new("PEXPIRE").arg(key).arg(fill_ms(&self.settings));
        self.store.command(ttl).await.map(|_| ())
    }
}

impl Limiter for TokenBucketLua {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.after(key, used))
    }
}
