//! INCR, then EXPIRE if the count is 1: the counting command decides, so it is exact under a race.
//!
//! Between the two commands lies a gap. A node that dies in it leaves a key without expiry, and
//! once the count passes the limit its owner is blocked for good.

use std::sync::Arc;

use super::common;
use crate::model::contract::{Contract, Denials};
use crate::model::op::Decision;
use crate::model::units::Cost;
use crate::ports::BoxFuture;
use crate::ports::limiter::{Limiter, Settings, Spec, takes_all};
use crate::ports::store::{Store, StoreError};

pub static SPEC: Spec = Spec {
    id: "L02",
    name: "incr-then-expire",
    summary: "fixed window: increment, set the expiry at the first hit",
    sends: "INCRBY, PEXPIRE at the first hit; 1 to 2 round trips",
    known: "exact under a race; a crash between its commands leaves a key that never expires",
    params: &[],
    foreign: None,
    needs_server: None,
    check: takes_all,
    contract,
    build: |build| Arc::new(IncrThenExpire { settings: build.settings, store: build.store }),
};

fn contract(settings: &Settings) -> Contract {
    Contract {
        algorithm: common::fixed_window(settings, Denials::Charged),
        round_trips_at_most: Some(2),
        ..common::counter_contract(settings, Denials::Charged)
    }
}

struct IncrThenExpire {
    settings: Settings,
    store: Arc<dyn Store>,
}

impl IncrThenExpire {
    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let count = self.store.command(common::incr(key, cost)).await?.expect_int()?;
        if count == i64::from(cost.get()) {
            self.store.command(common::expire(&self.settings, key)).await?;
        }
        Ok(common::counted(&self.settings, cost, count, None))
    }
}

impl Limiter for IncrThenExpire {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(common::preset_counter(&*self.store, &self.settings, key, used))
    }
}
