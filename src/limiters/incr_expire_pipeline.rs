//! INCR and EXPIRE on every request, in one round trip: recommended as the cure for the gap
//! between the two, and wrong in its own way.
//!
//! Every request, refused ones too, pushes the expiry back by a whole window. A client that keeps
//! calling, however slowly, keeps its counter for ever and is never released.
//!
//! As a plain pipeline (`atomic=no`) other commands may come between the two; as MULTI/EXEC, which
//! is what some clients' `pipeline()` sends, they may not. Both refresh the expiry.

use std::sync::Arc;

use super::common;
use crate::model::contract::{Contract, Denials};
use crate::model::op::Decision;
use crate::model::units::Cost;
use crate::ports::BoxFuture;
use crate::ports::limiter::{Limiter, Param, ParamKind, Settings, Spec, takes_all};
use crate::ports::store::{Store, StoreError};

pub static SPEC: Spec = Spec {
    id: "L03",
    name: "incr-expire-pipeline",
    summary: "fixed window: increment and refresh the expiry on every request",
    sends: "INCRBY, PEXPIRE in one pipeline or transaction; 1 round trip",
    known: "exact under a race; a steady client is never released",
    params: &[Param {
        name: "atomic",
        default: "no",
        kind: ParamKind::OneOf(&["no", "yes"]),
        help: "a plain pipeline, or MULTI/EXEC",
    }],
    foreign: None,
    needs_server: None,
    check: takes_all,
    contract,
    build: |build| Arc::new(IncrExpirePipeline { settings: build.settings, store: build.store }),
};

/// No algorithm: its window is pushed on by every call, which no fixed window's is.
fn contract(settings: &Settings) -> Contract {
    Contract { round_trips_at_most: Some(1), ..common::counter_contract(settings, Denials::Charged) }
}

struct IncrExpirePipeline {
    settings: Settings,
    store: Arc<dyn Store>,
}

impl IncrExpirePipeline {
    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let commands = vec![common::incr(key, cost), common::expire(&self.settings, key)];
        let replies = if self.settings.param("atomic") == "yes" {
            self.store.transaction(commands).await?
        } else {
            self.store.pipeline(commands).await?
        };
        Ok(common::counted(&self.settings, cost, common::first_int(&replies)?, None))
    }
}

impl Limiter for IncrExpirePipeline {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(common::preset_counter(&*self.store, &self.settings, key, used))
    }
}
