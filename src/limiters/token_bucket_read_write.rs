//! The same token bucket, read and written by two commands: HMGET, compute in the app, HSET.
//!
//! All who read before the first one writes see a full bucket, take one token each, and write
//! the same rest. Sequentially it is exact. With a cold pool the calls queue behind connecting
//! and the first round looks right.
//!
//! The source's form sets no expiry (`expire=no`): every key it ever saw stays.

use std::sync::Arc;
use std::time::Duration;

use super::token_bucket_lua::{self as bucket, capacity, fill_ms};
use crate::model::algorithms::Algorithm;
use crate::model::contract::Contract;
use crate::model::op::{Decision, Source};
use crate::model::units::Cost;
use crate::ports::BoxFuture;
use crate::ports::clock::Clock;
use crate::ports::limiter::{Limiter, Param, ParamKind, Settings, Spec};
use crate::ports::store::{Command, Reply, Store, StoreError};

pub static SPEC: Spec = Spec {
    id: "L14",
    name: "token-bucket-read-write",
    summary: "token bucket: read it, refill and take in the app, write it back",
    sends: "HMGET, HSET (and PEXPIRE); 2 to 3 round trips",
    known: "races: everybody who read before the first write is admitted; keys never expire",
    params: &[
        bucket::CAPACITY,
        Param {
            name: "expire",
            default: "no",
            kind: ParamKind::OneOf(&["no", "yes"]),
            help: "whether each write gives the key an expiry",
        },
    ],
    foreign: None,
    needs_server: None,
    check: bucket::check,
    contract,
    build: |build| Arc::new(ReadWrite { settings: build.settings, store: build.store, clock: build.clock }),
};

fn contract(settings: &Settings) -> Contract {
    let (capacity, refill, window) = (capacity(settings), settings.limit, settings.window);
    Contract {
        algorithm: Some(Algorithm::TokenBucketKept { capacity, refill, window }),
        round_trips_at_most: Some(if settings.param("expire") == "yes" { 3 } else { 2 }),
        ..bucket::contract(settings)
    }
}

struct ReadWrite {
    settings: Settings,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

/// Reads the state that [`Bucket::of`] understands.
pub(super) fn read(key: &str) -> Command {
    Command::new("HMGET").arg(key).arg("parts").arg("at")
}

/// A bucket as a hash holds it, in parts of which a call takes one window's length in ms and of which
/// a millisecond brings as many as the limit.
pub(super) struct Bucket {
    parts: i64,
    /// The time in ms up to which it is filled.
    at: i64,
}

impl Bucket {
    /// What HMGET read, refilled up to `now`. A clock that goes backwards refills nothing.
    pub(super) fn of(settings: &Settings, state: Reply, now: i64) -> Result<Self, StoreError> {
        let state = state.expect_list(2)?;
        let at = state[1].int().unwrap_or(now);
        let gained = (now - at).max(0).saturating_mul(settings.limit.get() as i64);
        let full = Self::full(settings);
        let parts = full.min(state[0].int().unwrap_or(full).saturating_add(gained));
        Ok(Self { parts, at: now.max(at) })
    }

    /// What `used` calls made just now have left of a full one.
    pub(super) fn after(settings: &Settings, used: u64, now: i64) -> Self {
        let left = capacity(settings).get().saturating_sub(used);
        Self { parts: left as i64 * Self::part(settings), at: now }
    }

    fn part(settings: &Settings) -> i64 {
        settings.window.millis() as i64
    }

    fn full(settings: &Settings) -> i64 {
        capacity(settings).get() as i64 * Self::part(settings)
    }

    /// The decision and, if the call is admitted, the bucket to write back.
    pub(super) fn take(&self, settings: &Settings, cost: Cost) -> (Decision, Option<Self>) {
        let part = Self::part(settings);
        let wanted = i64::from(cost.get()).saturating_mul(part);
        let allowed = self.parts >= wanted;
        let parts = if allowed { self.parts - wanted } else { self.parts };
        let fits = wanted <= Self::full(settings);
        let earned = |parts: i64| Duration::from_millis((parts as u64).div_ceil(settings.limit.get()));
        let decision = Decision {
            allowed,
            remaining: Some((parts / part) as u64),
            limit: settings.limit,
            retry_after: (!allowed && fits).then(|| earned(wanted - parts)),
            reset: Some(earned(Self::full(settings) - parts)),
            source: Source::Store,
        };
        (decision, allowed.then_some(Self { parts, at: self.at }))
    }

    pub(super) fn write(&self, key: &str) -> Command {
        Command::new("HSET").arg(key).arg("parts").arg(self.parts).arg("at").arg(self.at)
    }
}

impl ReadWrite {
    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let state = self.store.command(read(key)).await?;
        let bucket = Bucket::of(&self.settings, state, self.clock.wall_us() / 1000)?;
        let (decision, after) = bucket.take(&self.settings, cost);
        if let Some(after) = after {
            self.write(key, &after).await?;
        }
        Ok(decision)
    }

    async fn write(&self, key: &str, bucket: &Bucket) -> Result<(), StoreError> {
        self.store.command(bucket.write(key)).await?;
        if self.settings.param("expire") == "yes" {
            let ttl = Command::new("PEXPIRE").arg(key).arg(fill_ms(&self.settings));
            self.store.command(ttl).await?;
        }
        Ok(())
    }
}

impl Limiter for ReadWrite {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        let bucket = Bucket::after(&self.settings, used, self.clock.wall_us() / 1000);
        Box::pin(async move { self.write(key, &bucket).await })
    }
}
