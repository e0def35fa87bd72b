//! A counter in the memory of each app server: no store, no round trip.
//!
//! It keeps its promise, which is per node. All nodes together admit limit × nodes, and with
//! autoscaling nobody can say what the limit is.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::common;
use crate::model::algorithms::fixed_window::FixedWindow;
use crate::model::contract::{Bound, Contract, DecidingClock, Denials, OnOutage, Scope};
use crate::model::op::{Decision, Source};
use crate::model::units::Cost;
use crate::ports::BoxFuture;
use crate::ports::clock::Clock;
use crate::ports::limiter::{Limiter, Settings, Spec, takes_all};
use crate::ports::store::StoreError;

pub static SPEC: Spec = Spec {
    id: "L20",
    name: "in-memory",
    summary: "fixed window in each app server's own memory",
    sends: "nothing",
    known: "keeps the limit on each node; all together admit limit × nodes",
    params: &[],
    foreign: None,
    needs_server: None,
    check: takes_all,
    contract,
    build: |build| {
        Arc::new(InMemory {
            settings: build.settings,
            clock: build.clock,
            windows: Mutex::new(HashMap::new()),
        })
    },
};

fn contract(settings: &Settings) -> Contract {
    Contract {
        bound: Bound::FixedWindow { limit: settings.limit, window: settings.window },
        scope: Scope::Node,
        clock: DecidingClock::App,
        clock_resolution_ms: 1,
        denials: Denials::Charged,
        on_outage: OnOutage::Unaffected,
        fallback: None,
        key_ttl_at_most: None,
        lockout: None,
        across_keys: None,
        algorithm: common::fixed_window(settings, Denials::Charged),
        round_trips_at_most: Some(0),
        in_background: false,
    }
}

struct InMemory {
    settings: Settings,
    clock: Arc<dyn Clock>,
    windows: Mutex<HashMap<String, FixedWindow>>,
}

impl InMemory {
    /// Runs `work` on the key's window.
    fn with<T>(&self, key: &str, work: impl FnOnce(&mut FixedWindow, i64) -> T) -> T {
        let now = self.clock.wall_us() / 1000;
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        if !windows.contains_key(key) {
            windows.insert(key.to_owned(), FixedWindow::new(self.settings.limit, self.settings.window));
        }
        work(windows.get_mut(key).expect("made just above"), now)
    }
}

impl Limiter for InMemory {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(async move {
            let step = self.with(key, |window, now| window.acquire(now, cost));
            Ok(common::stepped(&self.settings, step, Source::Local))
        })
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.with(key, |window, now| window.preset(now, used));
            Ok(())
        })
    }
}
