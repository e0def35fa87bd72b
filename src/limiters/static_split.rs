//! The limit split between the app servers: each counts its own share, and nobody asks anybody.
//!
//! A fixed window that begins at whole multiples of its length on the app's clock, in each app server's memory.
//! All together never admit more than the limit, as long as the number they divide by is the number there is. What
//! it costs is fairness: where traffic is uneven, the busy node refuses what idle ones could have admitted.
//!
//! `nodes = "at-first"` divides by the number of a configuration file: with autoscaling, those that come bring a
//! share of their own along. `nodes = "now"` is told of each change: within the window in which nodes come, what the
//! old ones have spent already stays spent, and the new ones' shares come on top of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::common;
use crate::model::contract::{Bound, Contract, DecidingClock, Denials, OnOutage};
use crate::model::op::{Decision, Source};
use crate::model::units::{Cost, NodeId};
use crate::ports::BoxFuture;
use crate::ports::clock::Clock;
use crate::ports::limiter::{Fleet, Limiter, Param, ParamKind, Settings, Spec, takes_all};
use crate::ports::store::StoreError;

pub static SPEC: Spec = Spec {
    id: "L21",
    name: "static-split",
    summary: "fixed window: each app server has limit / n of its own",
    sends: "nothing",
    known: "never over while n is right; refuses wrongly where traffic is uneven; over when nodes come",
    params: &[Param {
        name: "nodes",
        default: "at-first",
        kind: ParamKind::OneOf(&["at-first", "now"]),
        help: "what the limit is divided by: the number of nodes as the round begins, or as it is now",
    }],
    foreign: None,
    needs_server: None,
    check: takes_all,
    contract,
    build: |build| {
        Arc::new(StaticSplit {
            live: build.settings.param("nodes") == "now",
            settings: build.settings,
            clock: build.clock,
            fleet: build.fleet,
            node: build.node,
            counts: Mutex::new(HashMap::new()),
        })
    },
};

/// No algorithm: what is refused depends on which node is asked.
fn contract(settings: &Settings) -> Contract {
    Contract {
        bound: Bound::AlignedWindow { limit: settings.limit, window: settings.window },
        clock: DecidingClock::App,
        on_outage: OnOutage::Unaffected,
        key_ttl_at_most: None,
        round_trips_at_most: Some(0),
        ..common::counter_contract(settings, Denials::Free)
    }
}

struct StaticSplit {
    settings: Settings,
    live: bool,
    clock: Arc<dyn Clock>,
    fleet: Arc<Fleet>,
    node: NodeId,
    /// By key: the window's number, and what was admitted in it here.
    counts: Mutex<HashMap<String, (i64, u64)>>,
}

impl StaticSplit {
    /// What this node may admit in a window. What does not divide goes to the first nodes, one each.
    fn share(&self) -> u64 {
        let nodes = u64::from(if self.live { self.fleet.now() } else { self.fleet.at_first() });
        let limit = self.settings.limit.get();
        limit / nodes + u64::from(u64::from(self.node.0) < limit % nodes)
    }

    fn decide(&self, key: &str, cost: Cost) -> Decision {
        let (window, left) = common::open_window(&self.settings, &*self.clock);
        let (share, cost) = (self.share(), u64::from(cost.get()));
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = match counts.get_mut(key) {
            Some(count) => count,
            None => counts.entry(key.to_owned()).or_insert((window, 0)),
        };
        if count.0 != window {
            *count = (window, 0);
        }
        let allowed = count.1 + cost <= share;
        if allowed {
            count.1 += cost;
        }
        let waits = !allowed && cost <= share;
        Decision {
            allowed,
            // Of its own share it knows; what the caller would get elsewhere it does not.
            remaining: None,
            limit: self.settings.limit,
            retry_after: waits.then(|| Duration::from_millis(left)),
            reset: Some(Duration::from_millis(left)),
            source: Source::Local,
        }
    }
}

impl Limiter for StaticSplit {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(async move { Ok(self.decide(key, cost)) })
    }

    /// Whoever is asked first has used its share first: the lab presets a limiter that counts for all on one node.
    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        let (window, _) = common::open_window(&self.settings, &*self.clock);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.insert(key.to_owned(), (window, used));
        Box::pin(std::future::ready(Ok(())))
    }
}
