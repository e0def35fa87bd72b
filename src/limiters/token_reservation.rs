//! Token reservation: an app server claims a batch from the store, hands it out by itself, and claims
//! again; who claims beyond the limit gives the excess back with a second command.
//!
//! Giving back is what is wrong: the excess is what the counter said, claims of others that will be
//! given back as well included. n refusals at once each give back all of it, the counter falls below
//! what was handed out, and the difference is handed out again. Alone it is wrong the other way round:
//! of a batch that fits in part nothing is handed out, and the rest of the limit is lost.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::common;
use crate::model::contract::{Contract, Denials};
use crate::model::op::{Decision, Source};
use crate::model::units::Cost;
use crate::ports::BoxFuture;
use crate::ports::limiter::{Limiter, Settings, Spec, takes_all};
use crate::ports::store::{Command, Store, StoreError};

pub static SPEC: Spec = Spec {
    id: "L24",
    name: "token-reservation",
    summary: "fixed window: claim a batch, hand it out locally, give back what was too much",
    sends: "per batch: INCRBY, PEXPIRE at the first hit, DECRBY of the excess; 1 to 3 round trips",
    known: "refusals at once each give back the whole excess: over the limit; alone it loses the last batch",
    params: &[common::count_param("batch", "tokens claimed at a time; a tenth of the limit if not given")],
    foreign: None,
    needs_server: None,
    check: takes_all,
    contract,
    build: |build| {
        Arc::new(TokenReservation {
            settings: build.settings,
            store: build.store,
            held: Mutex::new(HashMap::new()),
        })
    },
};

/// No algorithm: what is refused depends on who holds which tokens.
fn contract(settings: &Settings) -> Contract {
    Contract { round_trips_at_most: Some(3), ..common::counter_contract(settings, Denials::Free) }
}

struct TokenReservation {
    settings: Settings,
    store: Arc<dyn Store>,
    /// Tokens that this node claimed and did not hand out yet, by key.
    held: Mutex<HashMap<String, i64>>,
}

impl TokenReservation {
    fn held(&self) -> MutexGuard<'_, HashMap<String, i64>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn batch(&self) -> i64 {
        let tenth = (self.settings.limit.get() / 10).max(1);
        self.settings.param("batch").parse().unwrap_or(tenth) as i64
    }

    fn take(&self, key: &str, cost: i64) -> bool {
        let mut held = self.held();
        match held.get_mut(key) {
            Some(tokens) if *tokens >= cost => {
                *tokens -= cost;
                true
            }
            _ => false,
        }
    }

    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let limit = self.settings.limit;
        let decision = |allowed, source| Decision {
            allowed,
            remaining: None,
            limit,
            retry_after: None,
            reset: None,
            source,
        };
        let cost = i64::from(cost.get());
        if self.take(key, cost) {
            return Ok(decision(true, Source::Local));
        }
        let batch = self.batch().max(cost);
        let claim = Command::new("INCRBY").arg(key).arg(batch);
        let total = self.store.command(claim).await?.expect_int()?;
        if total == batch {
            self.store.command(common::expire(&self.settings, key)).await?;
        }
        let excess = total - limit.get() as i64;
        if excess > 0 {
            self.store.command(Command::new("DECRBY").arg(key).arg(excess)).await?;
            return Ok(decision(false, Source::Store));
        }
        *self.held().entry(key.to_owned()).or_insert(0) += batch - cost;
        Ok(decision(true, Source::Store))
    }
}

impl Limiter for TokenReservation {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(common::preset_counter(&*self.store, &self.settings, key, used))
    }
}
