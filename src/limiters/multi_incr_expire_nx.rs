//! INCR and EXPIRE NX in one MULTI/EXEC: no gap between the two, and a key that lost its expiry
//! gets one with the next request.
//!
//! EXPIRE takes NX since Redis 7.0; on 6.2 it is an error inside the transaction.

use std::sync::Arc;

use super::common;
use crate::model::contract::{Contract, Denials};
use crate::model::op::Decision;
use crate::model::units::Cost;
use crate::ports::BoxFuture;
use crate::ports::limiter::{Limiter, Needs, Settings, Spec, Version, takes_all};
use crate::ports::store::{Store, StoreError};

pub static SPEC: Spec = Spec {
    id: "L04",
    name: "multi-incr-expire-nx",
    summary: "fixed window: increment and set a missing expiry in one transaction",
    sends: "MULTI, INCRBY, PEXPIRE NX, EXEC; 1 round trip",
    known: "exact; heals a key without expiry at the next request",
    params: &[],
    foreign: None,
    needs_server: Some(Needs::Since(Version(7, 0), "EXPIRE takes NX since 7.0")),
    check: takes_all,
    contract,
    build: |build| Arc::new(MultiIncrExpireNx { settings: build.settings, store: build.store }),
};

fn contract(settings: &Settings) -> Contract {
    Contract {
        algorithm: common::fixed_window(settings, Denials::Charged),
        round_trips_at_most: Some(1),
        ..common::counter_contract(settings, Denials::Charged)
    }
}

struct MultiIncrExpireNx {
    settings: Settings,
    store: Arc<dyn Store>,
}

impl MultiIncrExpireNx {
    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let commands = vec![common::incr(key, cost), common::expire(&self.settings, key).arg("NX")];
        let replies = self.store.transaction(commands).await?;
        let count =
            replies.first().ok_or_else(|| StoreError::Unexpected("EXEC without replies".to_owned()))?;
        Ok(common::counted(&self.settings, cost, count.expect_int()?, None))
    }
}

impl Limiter for MultiIncrExpireNx {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(common::preset_counter(&*self.store, &self.settings, key, used))
    }
}
