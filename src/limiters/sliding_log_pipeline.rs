//! A log in a sorted set, by four plain commands in one pipeline: drop the old, add this call,
//! count, refresh the expiry.
//!
//! Each call is counted before it is judged, so no race lets too many in. But refused calls stay
//! in the log as well: a client that keeps trying never gets in again.

use std::sync::Arc;

use super::common;
use crate::model::algorithms::Algorithm;
use crate::model::contract::{Bound, Contract, DecidingClock, Denials};
use crate::model::op::Decision;
use crate::model::units::Cost;
use crate::ports::BoxFuture;
use crate::ports::clock::Clock;
use crate::ports::limiter::{Limiter, Settings, Spec};
use crate::ports::store::{Command, Store, StoreError};

pub static SPEC: Spec = Spec {
    id: "L10",
    name: "sliding-log-pipeline",
    summary: "sliding log: drop, add, count and refresh in one pipeline",
    sends: "ZREMRANGEBYSCORE, ZADD, ZCARD, PEXPIRE; 1 round trip",
    known: "exact under a race; refused calls fill the log, so who keeps trying stays out",
    params: &[],
    foreign: None,
    needs_server: None,
    check: common::fits_a_log,
    contract,
    build: |build| {
        Arc::new(LogPipeline {
            names: common::Names::of(&build),
            settings: build.settings,
            store: build.store,
            clock: build.clock,
        })
    },
};

fn contract(settings: &Settings) -> Contract {
    let (limit, window) = (settings.limit, settings.window);
    Contract {
        bound: Bound::SlidingWindow { limit, window },
        clock: DecidingClock::App,
        key_ttl_at_most: common::kept(settings, 1).ok(),
        algorithm: Some(Algorithm::SlidingLog { limit, window, denials: Denials::Charged }),
        round_trips_at_most: Some(1),
        ..common::counter_contract(settings, Denials::Charged)
    }
}

struct LogPipeline {
    settings: Settings,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    names: common::Names,
}

impl LogPipeline {
    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let now = self.clock.wall_us();
        let window_us = self.settings.window.nanos() / 1000;
        let mut add = Command::new("ZADD").arg(key);
        // A call that can never pass fills the log; more entries than that would say no more.
        for _ in 0..u64::from(cost.get()).min(self.settings.limit.get() + 1) {
            add = add.arg(now).arg(self.names.next());
        }
        let commands = vec![
            Command::new("ZREMRANGEBYSCORE").arg(key).arg("-inf").arg(now - window_us),
            add,
            Command::new("ZCARD").arg(key),
            Command::new("PEXPIRE").arg(key).arg(common::kept_ms(&self.settings, 1)),
        ];
        let replies = self.store.pipeline(commands).await?;
        let count = replies.get(2).ok_or_else(|| StoreError::Unexpected("too few replies".to_owned()))?;
        Ok(common::counted(&self.settings, cost, count.expect_int()?, None))
    }
}

impl Limiter for LogPipeline {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        let ttl = common::kept(&self.settings, 1).unwrap_or(self.settings.window);
        Box::pin(common::preset_log(&*self.store, &self.settings, key, used, self.clock.wall_us(), ttl))
    }
}
