//! Two numbered counters, the older one weighted by how much of its window still lies within one
//! window's length: nearly a sliding window in the memory of two numbers.
//!
//! Its promise is about the weighted sum, not about calls: a full window's burst at the end of one
//! window and a greedy trickle after it put up to twice the limit into one real span.
//!
//! The usual script builds the counters' names itself (`keys=built`), which a cluster cannot route
//! and an ACL does not cover; `keys=declared` passes them, in one slot.

use std::sync::{Arc, LazyLock};

use super::common;
use crate::model::algorithms::Algorithm;
use crate::model::contract::{Bound, Contract, DecidingClock, Denials};
use crate::model::op::Decision;
use crate::model::units::{Cost, Limit, Window};
use crate::ports::BoxFuture;
use crate::ports::clock::Clock;
use crate::ports::limiter::{Limiter, Param, ParamKind, Settings, Spec};
use crate::ports::store::{Command, Script, Store, StoreError};

pub static SPEC: Spec = Spec {
    id: "L11",
    name: "sliding-counter-lua",
    summary: "sliding counter: two numbered counters, the older one weighted, one script",
    sends: "EVALSHA; 1 round trip",
    known: "close to a sliding window at two numbers; up to twice the limit in one real span",
    params: &[Param {
        name: "keys",
        default: "built",
        kind: ParamKind::OneOf(&["built", "declared"]),
        help: "whether the script builds the names of its counters or is given them",
    }],
    foreign: None,
    needs_server: None,
    check,
    contract,
    build: |build| {
        Arc::new(SlidingCounter { settings: build.settings, store: build.store, clock: build.clock })
    },
};

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("sliding_counter.lua")));

fn check(settings: &Settings) -> Result<(), String> {
    // Two windows and the call itself, each up to the limit, are added up.
    let parts = 3 * u128::from(settings.limit.get()) * u128::from(settings.window.millis());
    if parts > u128::from(Limit::MAX) {
        return Err(format!(
            "{} over {} needs more than 2^53 parts, which a script cannot count exactly",
            settings.limit, settings.window
        ));
    }
    common::kept(settings, 2).map(|_| ())
}

fn contract(settings: &Settings) -> Contract {
    let ttl: Option<Window> = common::kept(settings, 2).ok();
    let (limit, window) = (settings.limit, settings.window);
    Contract {
        bound: Bound::WeightedTwoWindow { limit, window },
        clock: DecidingClock::App,
        key_ttl_at_most: ttl,
        algorithm: Some(Algorithm::SlidingCounter { limit, window }),
        round_trips_at_most: Some(1),
        ..common::counter_contract(settings, Denials::Free)
    }
}

struct SlidingCounter {
    settings: Settings,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

impl SlidingCounter {
    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let s = &self.settings;
        let now = self.clock.wall_us() / 1000;
        let number = now.div_euclid(s.window.millis() as i64);
        let args = vec![
            s.limit.to_string(),
            s.window.millis().to_string(),
            cost.get().to_string(),
            now.to_string(),
            common::kept_ms(s, 2).to_string(),
        ];
        let reply = if s.param("keys") == "declared" {
            let (current, before) = (format!("{{{key}}}:{number}"), format!("{{{key}}}:{}", number - 1));
            self.store.eval(&SCRIPT, &[key, &current, &before], args).await?
        } else {
            self.store.eval(&SCRIPT, &[key], args).await?
        };
        common::scripted(s, reply)
    }

    async fn after(&self, key: &str, used: u64) -> Result<(), StoreError> {
        let ms = self.settings.window.millis();
        let number = (self.clock.wall_us() / 1000).div_euclid(ms as i64);
        let current = match self.settings.param("keys") {
            "declared" => format!("{{{key}}}:{number}"),
            _ => format!("{key}:{number}"),
        };
        let set =
            Command::new("SET").arg(current).arg(used).arg("PX").arg(common::kept_ms(&self.settings, 2));
        self.store.command(set).await.map(|_| ())
    }
}

impl Limiter for SlidingCounter {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.after(key, used))
    }
}
