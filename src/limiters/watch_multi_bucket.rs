//! The token bucket by optimistic locking: WATCH the key, read it, compute in the app, and write it
//! back in a transaction that applies only if nobody touched the key since.
//!
//! Correct without a script, at a price that grows with contention: of all who read the same state one
//! writes, and the others begin anew. A refused call writes nothing, so it never fails. WATCH belongs
//! to a connection, so each call needs one of its own while it lasts.
//!
//! Who has not won after `retries` attempts gets an error: to admit or to refuse would be a guess.

use std::sync::Arc;

use super::common;
use super::token_bucket_lua::{self as bucket, capacity, fill_ms};
use super::token_bucket_read_write::{Bucket, read};
use crate::model::algorithms::Algorithm;
use crate::model::contract::Contract;
use crate::model::op::Decision;
use crate::model::units::Cost;
use crate::ports::BoxFuture;
use crate::ports::clock::Clock;
use crate::ports::limiter::{Limiter, Param, ParamKind, Settings, Spec};
use crate::ports::store::{Command, Store, StoreError};

pub static SPEC: Spec = Spec {
    id: "L31",
    name: "watch-multi-bucket",
    summary: "token bucket: watch and read it, take in the app, write it back unless it was touched",
    sends: "WATCH, HMGET; MULTI, HSET, PEXPIRE, EXEC or UNWATCH; 2 round trips, and 2 for each retry",
    known: "exact; retries grow with contention",
    params: &[
        bucket::CAPACITY,
        Param {
            name: "retries",
            default: "1000",
            kind: ParamKind::Count,
            help: "attempts before it gives up with an error",
        },
    ],
    foreign: None,
    needs_server: None,
    check: bucket::check,
    contract,
    build: |build| Arc::new(WatchMulti { settings: build.settings, store: build.store, clock: build.clock }),
};

fn contract(settings: &Settings) -> Contract {
    let (capacity, refill, window) = (capacity(settings), settings.limit, settings.window);
    Contract {
        algorithm: Some(Algorithm::TokenBucketKept { capacity, refill, window }),
        round_trips_at_most: Some(2),
        ..bucket::contract(settings)
    }
}

struct WatchMulti {
    settings: Settings,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

impl WatchMulti {
    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let mut session = self.store.session().await?;
        let attempts = self.settings.count("retries").get();
        for _ in 0..attempts {
            let watch = vec![Command::new("WATCH").arg(key), read(key)];
            let mut replies = session.pipeline(watch).await?;
            let state = replies.pop().ok_or_else(|| StoreError::Unexpected("too few replies".to_owned()))?;
            let bucket = Bucket::of(&self.settings, state, self.clock.wall_us() / 1000)?;
            let (decision, after) = bucket.take(&self.settings, cost);
            let Some(after) = after else {
                session.command(Command::new("UNWATCH")).await?;
                return Ok(decision);
            };
            if session.transaction(self.write(key, &after)).await?.is_some() {
                return Ok(decision);
            }
        }
        Err(StoreError::Refused(format!(
            "another call wrote first, {attempts} times in a row: nothing applied"
        )))
    }

    fn write(&self, key: &str, bucket: &Bucket) -> Vec<Command> {
        let kept = fill_ms(&self.settings) + u128::from(common::kept_for_the_late_ms(&self.settings));
        vec![bucket.write(key), Command::new("PEXPIRE").arg(key).arg(kept)]
    }
}

impl Limiter for WatchMulti {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        let bucket = Bucket::after(&self.settings, used, self.clock.wall_us() / 1000);
        Box::pin(async move { self.store.transaction(self.write(key, &bucket)).await.map(|_| ()) })
    }
}
