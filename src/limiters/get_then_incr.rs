//! GET, compare, INCR: check-then-act in two round trips.
//!
//! Whoever reads before the first writer writes is admitted: with n calls in flight up to n − 1
//! more than the limit. One caller after the other it is exact, which is why tests miss it.
//! The first hit sets the window (`expire=yes`); with `expire=no` the key never goes away.

use std::sync::Arc;

use super::common;
use crate::model::contract::{Contract, Denials};
use crate::model::op::{Decision, Source};
use crate::model::units::Cost;
use crate::ports::BoxFuture;
use crate::ports::limiter::{Limiter, Param, ParamKind, Settings, Spec, takes_all};
use crate::ports::store::{Command, Store, StoreError};

pub static SPEC: Spec = Spec {
    id: "L01",
    name: "get-then-incr",
    summary: "fixed window: read the count, compare, then increment",
    sends: "GET, INCRBY, PEXPIRE at the first hit; 2 to 3 round trips",
    known: "races: admits whatever is in flight",
    params: &[Param {
        name: "expire",
        default: "yes",
        kind: ParamKind::OneOf(&["yes", "no"]),
        help: "whether the first hit gives the key an expiry",
    }],
    foreign: None,
    needs_server: None,
    check: takes_all,
    contract,
    build: |build| Arc::new(GetThenIncr { settings: build.settings, store: build.store }),
};

fn contract(settings: &Settings) -> Contract {
    let expires = settings.param("expire") == "yes";
    Contract {
        // A window that never ends is no window.
        algorithm: if expires { common::fixed_window(settings, Denials::Free) } else { None },
        round_trips_at_most: Some(if expires { 3 } else { 2 }),
        ..common::counter_contract(settings, Denials::Free)
    }
}

struct GetThenIncr {
    settings: Settings,
    store: Arc<dyn Store>,
}

impl GetThenIncr {
    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let seen = self.store.command(Command::new("GET").arg(key)).await?.int().unwrap_or(0);
        let cost_in = i64::from(cost.get());
        let limit = self.settings.limit;
        if seen.saturating_add(cost_in) > limit.get() as i64 {
            let remaining = limit.get().saturating_sub(u64::try_from(seen).unwrap_or(0));
            return Ok(Decision {
                allowed: false,
                remaining: Some(remaining),
                limit,
                retry_after: None,
                reset: None,
                source: Source::Store,
            });
        }
        let count = self.store.command(common::incr(key, cost)).await?.expect_int()?;
        if count == cost_in && self.settings.param("expire") == "yes" {
            self.store.command(common::expire(&self.settings, key)).await?;
        }
        // It decided before it counted: the count only tells what is left.
        let remaining = limit.get().saturating_sub(u64::try_from(count).unwrap_or(0));
        Ok(Decision {
            allowed: true,
            remaining: Some(remaining),
            limit,
            retry_after: None,
            reset: None,
            source: Source::Store,
        })
    }
}

impl Limiter for GetThenIncr {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(common::preset_counter(&*self.store, &self.settings, key, used))
    }
}
