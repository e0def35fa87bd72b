//! GCRA in one script: one key with the theoretical arrival time, nothing to refill.
//!
//! The arithmetic is that of [`crate::model::algorithms::gcra`], in whole microseconds. With
//! `clock=app` an app server whose clock is ahead moves the TAT for everybody; with
//! `clock=server` the script reads TIME.

use std::sync::{Arc, LazyLock};

use super::common;
use crate::model::algorithms::{Algorithm, gcra::interval_us};
use crate::model::contract::{Contract, DecidingClock};
use crate::model::op::Decision;
use crate::model::units::{Cost, Limit, Window};
use crate::ports::BoxFuture;
use crate::ports::clock::Clock;
use crate::ports::limiter::{Limiter, Settings, Spec};
use crate::ports::store::{Command, Script, Store, StoreError};

pub static SPEC: Spec = Spec {
    id: "L12",
    name: "gcra-lua",
    summary: "GCRA: one script moves the theoretical arrival time",
    sends: "EVALSHA; 1 round trip",
    known: "exact; never more than burst plus refill",
    params: &[common::CLOCK, common::count_param("burst", "calls admitted at once; the limit if not given")],
    foreign: None,
    needs_server: None,
    check,
    contract,
    build: |build| Arc::new(GcraLua { settings: build.settings, store: build.store, clock: build.clock }),
};

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("gcra.lua")));

fn burst(settings: &Settings) -> Limit {
    settings.count_or_limit("burst")
}

/// The whole tolerance, burst × interval, in milliseconds rounded up.
fn depth_ms(settings: &Settings) -> u64 {
    let depth = u128::from(interval_us(settings.limit, settings.window)) * u128::from(burst(settings).get());
    u64::try_from(depth.div_ceil(1000)).unwrap_or(u64::MAX)
}

fn check(settings: &Settings) -> Result<(), String> {
    let window_us = settings.window.millis() * 1000;
    if settings.limit.get() > window_us {
        return Err(format!(
            "{} per {} is more than one a microsecond, which it cannot express",
            settings.limit, settings.window
        ));
    }
    Window::from_millis(depth_ms(settings)).map_err(|_| {
        format!(
            "a burst of {} at {} per {} takes longer than 366 days to earn",
            burst(settings),
            settings.limit,
            settings.window
        )
    })?;
    Ok(())
}

fn contract(settings: &Settings) -> Contract {
    let kept = depth_ms(settings).saturating_add(common::kept_for_the_late_ms(settings));
    let ttl = Window::from_millis(kept).unwrap_or(settings.window);
    let (burst, limit, window) = (burst(settings), settings.limit, settings.window);
    Contract {
        algorithm: Some(Algorithm::Gcra { burst, limit, window }),
        round_trips_at_most: Some(1),
        ..common::bucket_contract(settings, burst, common::clock(settings), ttl)
    }
}

struct GcraLua {
    settings: Settings,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

impl GcraLua {
    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let now = match common::clock(&self.settings) {
            DecidingClock::App => self.clock.wall_us().to_string(),
            DecidingClock::Server | DecidingClock::Expiry => String::new(),
        };
        let interval = interval_us(self.settings.limit, self.settings.window);
        let args = vec![
            interval.to_string(),
            burst(&self.settings).to_string(),
            cost.get().to_string(),
            now,
            common::kept_for_the_late_ms(&self.settings).to_string(),
        ];
        common::scripted(&self.settings, self.store.eval(&SCRIPT, &[key], args).await?)
    }

    async fn after(&self, key: &str, used: u64) -> Result<(), StoreError> {
        // More than a burst can never have been admitted: the TAT is at most that far ahead.
        let used = used.min(burst(&self.settings).get());
        let ahead = interval_us(self.settings.limit, self.settings.window) * used;
        let tat = common::now_us(&self.settings, &*self.store, &*self.clock)
            .await?
            .saturating_add(i64::try_from(ahead).unwrap_or(i64::MAX / 2));
        let command = if used == 0 {
            // A TAT that is not ahead is no TAT at all, and would have no time to live.
            Command::new("DEL").arg(key)
        } else {
            Command::new("SET")
                .arg(key)
                .arg(tat)
                .arg("PX")
                .arg(ahead.div_ceil(1000) + common::kept_for_the_late_ms(&self.settings))
        };
        self.store.command(command).await.map(|_| ())
    }
}

impl Limiter for GcraLua {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.after(key, used))
    }
}
