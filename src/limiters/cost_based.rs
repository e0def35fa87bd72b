//! A fixed window whose calls cost more than one, in one script; a refused call takes nothing.
//!
//! The trap is in the expiry. "If the count is 1, set it" (`ttl=first`) is right for calls of cost
//! 1 and never true for a first call of cost 5: that key stays for good. Asking whether there is
//! an expiry (`ttl=missing`) is right for every cost, and heals.

use std::sync::{Arc, LazyLock};

use super::common;
use crate::model::contract::{Contract, Denials};
use crate::model::op::Decision;
use crate::model::units::Cost;
use crate::ports::BoxFuture;
use crate::ports::limiter::{Limiter, Param, ParamKind, Settings, Spec, takes_all};
use crate::ports::store::{Script, Store, StoreError};

pub static SPEC: Spec = Spec {
    id: "L27",
    name: "cost-based",
    summary: "fixed window by cost: one script checks, adds the cost and sets the expiry",
    sends: "EVALSHA; 1 round trip",
    known: "exact, denials free; with ttl=first a first call of cost above 1 leaves a key for good",
    params: &[Param {
        name: "ttl",
        default: "missing",
        kind: ParamKind::OneOf(&["missing", "first"]),
        help: "set the expiry where there is none, or where the count came to 1",
    }],
    foreign: None,
    needs_server: None,
    check: takes_all,
    contract,
    build: |build| Arc::new(CostBased { settings: build.settings, store: build.store }),
};

pub(super) static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("cost_based.lua")));

fn contract(settings: &Settings) -> Contract {
    let ends = settings.param("ttl") == "missing";
    Contract {
        // With ttl=first a window may never end.
        algorithm: if ends { common::fixed_window(settings, Denials::Free) } else { None },
        round_trips_at_most: Some(1),
        ..common::counter_contract(settings, Denials::Free)
    }
}

struct CostBased {
    settings: Settings,
    store: Arc<dyn Store>,
}

impl CostBased {
    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let s = &self.settings;
        let args = vec![
            s.limit.to_string(),
            s.window.millis().to_string(),
            cost.get().to_string(),
            s.param("ttl").to_owned(),
        ];
        common::scripted(s, self.store.eval(&SCRIPT, &[key], args).await?)
    }
}

impl Limiter for CostBased {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(common::preset_counter(&*self.store, &self.settings, key, used))
    }
}
