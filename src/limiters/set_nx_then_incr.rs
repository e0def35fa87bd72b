//! SET key 0 EX NX, then INCR: recommended as the cure for a lost EXPIRE.
//!
//! The expiry cannot be lost any more, but the key can: if it expires between the two commands,
//! INCR makes it anew, without an expiry, and it stays for good.

use std::sync::Arc;

use super::common;
use crate::model::contract::{Contract, Denials};
use crate::model::op::Decision;
use crate::model::units::Cost;
use crate::ports::BoxFuture;
use crate::ports::limiter::{Limiter, Settings, Spec, takes_all};
use crate::ports::store::{Command, Store, StoreError};

pub static SPEC: Spec = Spec {
    id: "L05",
    name: "set-nx-then-incr",
    summary: "fixed window: make the counter with its expiry, then increment",
    sends: "SET NX PX, INCRBY; 2 round trips",
    known: "exact under a race; a key that expires between its commands comes back without expiry",
    params: &[],
    foreign: None,
    needs_server: None,
    check: takes_all,
    contract,
    build: |build| Arc::new(SetNxThenIncr { settings: build.settings, store: build.store }),
};

fn contract(settings: &Settings) -> Contract {
    Contract {
        algorithm: common::fixed_window(settings, Denials::Charged),
        round_trips_at_most: Some(2),
        ..common::counter_contract(settings, Denials::Charged)
    }
}

struct SetNxThenIncr {
    settings: Settings,
    store: Arc<dyn Store>,
}

impl SetNxThenIncr {
    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let ms = self.settings.window.millis();
        self.store.command(Command::new("SET").arg(key).arg(0).arg("PX").arg(ms).arg("NX")).await?;
        let count = self.store.command(common::incr(key, cost)).await?.expect_int()?;
        Ok(common::counted(&self.settings, cost, count, None))
    }
}

impl Limiter for SetNxThenIncr {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(common::preset_counter(&*self.store, &self.settings, key, used))
    }
}
