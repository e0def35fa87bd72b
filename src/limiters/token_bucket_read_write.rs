//! The same token bucket, read and written by two commands: HMGET, compute in the app, HSET.
//!
//! All who read before the first one writes see a full bucket, take one token each, and write
//! the same rest. Sequentially it is exact. With a cold pool the calls queue behind connecting
//! and the first round looks right.
//!
//! The source's form sets no expiry (`expire=no`): every key it ever saw stays.

use std::sync::Arc;

use super::token_bucket_lua::{self as bucket, capacity, fill_ms};
use crate::model::algorithms::Algorithm;
use crate::model::contract::Contract;
use crate::model::op::{Decision, Source};
use crate::model::units::Cost;
use crate::ports::BoxFuture;
use crate::ports::clock::Clock;
use crate::ports::limiter::{Limiter, Param, ParamKind, Settings, Spec};
use crate::ports::store::{Command, Store, StoreError};

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

impl ReadWrite {
    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let s = &self.settings;
        let part = s.window.millis() as i64;
        let refill = s.limit.get() as i64;
        let full = capacity(s).get() as i64 * part;
        let read = self.store.command(Command::new("HMGET").arg(key).arg("parts").arg("at")).await?;
        let state = read.expect_list(2)?;
        let now = self.clock.wall_us() / 1000;
        let at = state[1].int().unwrap_or(now);
        let gained = (now - at).max(0).saturating_mul(refill);
        let mut parts = full.min(state[0].int().unwrap_or(full).saturating_add(gained));
        let wanted = i64::from(cost.get()).saturating_mul(part);
        let allowed = parts >= wanted;
        let mut wait = None;
        if allowed {
            parts -= wanted;
            self.write(key, parts, now.max(at)).await?;
        } else if wanted <= full {
            wait = Some(std::time::Duration::from_millis(((wanted - parts) as u64).div_ceil(refill as u64)));
        }
        Ok(Decision {
            allowed,
            remaining: Some((parts / part) as u64),
            limit: s.limit,
            retry_after: wait,
            reset: None,
            source: Source::Store,
        })
    }

    async fn write(&self, key: &str, parts: i64, at: i64) -> Result<(), StoreError> {
        self.store.command(Command::new("HSET").arg(key).arg("parts").arg(parts).arg("at").arg(at)).await?;
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
        let left = capacity(&self.settings).get().saturating_sub(used);
        let parts = left as i64 * self.settings.window.millis() as i64;
        Box::pin(self.write(key, parts, self.clock.wall_us() / 1000))
    }
}
