//! TIME first, then a script that gets it as an argument and uses it as the member's name:
//! recommended where TIME was thought to be forbidden in scripts.
//!
//! Calls that read the same time write the same member: they collapse into one, and the log counts
//! fewer calls than it admitted. And the time is old by the time it is used.

use std::sync::{Arc, LazyLock};

use super::common;
use crate::model::contract::{Bound, Contract, DecidingClock, Denials};
use crate::model::op::Decision;
use crate::model::units::Cost;
use crate::ports::BoxFuture;
use crate::ports::clock::Clock;
use crate::ports::limiter::{Limiter, Settings, Spec};
use crate::ports::store::{Command, Script, Store, StoreError};

pub static SPEC: Spec = Spec {
    id: "L35",
    name: "sliding-log-time-argv",
    summary: "sliding log: read TIME, pass it to a script that names the member after it",
    sends: "TIME, EVALSHA; 2 round trips",
    known: "equal timestamps collapse into one entry: over the limit under load",
    params: &[],
    foreign: None,
    needs_server: None,
    check: common::fits_a_log,
    contract,
    build: |build| Arc::new(TimeArgv { settings: build.settings, store: build.store, clock: build.clock }),
};

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("sliding_log_time_argv.lua")));

/// No algorithm: what collapses depends on which calls read the same millisecond.
fn contract(settings: &Settings) -> Contract {
    Contract {
        bound: Bound::SlidingWindow { limit: settings.limit, window: settings.window },
        clock: DecidingClock::Server,
        round_trips_at_most: Some(2),
        ..common::counter_contract(settings, Denials::Free)
    }
}

struct TimeArgv {
    settings: Settings,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

impl TimeArgv {
    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let time = self.store.command(Command::new("TIME")).await?.expect_list(2)?;
        let now_ms = time[0].expect_int()? * 1000 + time[1].expect_int()? / 1000;
        let s = &self.settings;
        let args = vec![
            s.limit.to_string(),
            s.window.millis().to_string(),
            cost.get().to_string(),
            now_ms.to_string(),
        ];
        common::scripted(s, self.store.eval(&SCRIPT, &[key], args).await?)
    }
}

impl Limiter for TimeArgv {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        let now_ms = self.clock.wall_us() / 1000;
        Box::pin(common::preset_log(&*self.store, &self.settings, key, used, now_ms, self.settings.window))
    }
}
