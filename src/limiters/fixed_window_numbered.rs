//! The window's number is part of the key: INCR, and EXPIRE at the first hit.
//!
//! Windows begin at whole multiples of their length on the app's clock. A crash between the two
//! commands leaks a key and blocks nobody: the next window has a key of its own.

use std::sync::Arc;
use std::time::Duration;

use super::common;
use crate::model::algorithms::Algorithm;
use crate::model::contract::{Bound, Contract, DecidingClock, Denials};
use crate::model::op::Decision;
use crate::model::units::Cost;
use crate::ports::BoxFuture;
use crate::ports::clock::Clock;
use crate::ports::limiter::{Limiter, Param, ParamKind, Settings, Spec};
use crate::ports::store::{Command, Store, StoreError};

pub static SPEC: Spec = Spec {
    id: "L07",
    name: "fixed-window-numbered",
    summary: "fixed window: a counter per window, its number in the key",
    sends: "INCRBY, PEXPIRE at the first hit (2 round trips), or both in one pipeline",
    known: "exact; twice the limit passes at an edge; a crash leaks a key and blocks nobody",
    params: &[Param {
        name: "trips",
        default: "two",
        kind: ParamKind::OneOf(&["two", "one"]),
        help: "PEXPIRE after the reply of the first hit, or with every INCRBY in one pipeline",
    }],
    foreign: None,
    needs_server: None,
    check: common::can_be_kept,
    contract,
    build: |build| {
        let one_trip = build.settings.param("trips") == "one";
        Arc::new(Numbered { settings: build.settings, store: build.store, clock: build.clock, one_trip })
    },
};

fn contract(settings: &Settings) -> Contract {
    let trips = if settings.param("trips") == "one" { 1 } else { 2 };
    Contract { round_trips_at_most: Some(trips), ..numbered_contract(settings) }
}

/// The contract of a counter per window, whoever keeps it.
pub(super) fn numbered_contract(settings: &Settings) -> Contract {
    let (limit, window) = (settings.limit, settings.window);
    Contract {
        bound: Bound::AlignedWindow { limit, window },
        clock: DecidingClock::App,
        key_ttl_at_most: common::kept(settings, 1).ok(),
        algorithm: Some(Algorithm::AlignedWindow { limit, window, denials: Denials::Charged }),
        round_trips_at_most: Some(1),
        ..common::counter_contract(settings, Denials::Charged)
    }
}

/// A counter per window.
pub(super) struct Numbered {
    pub settings: Settings,
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub one_trip: bool,
}

impl Numbered {
    /// The number of the window that is open now, and the milliseconds it has left.
    pub fn open_window(&self) -> (i64, u64) {
        common::open_window(&self.settings, &*self.clock)
    }

    fn expire(&self, key: &str) -> Command {
        Command::new("PEXPIRE").arg(key).arg(common::kept_ms(&self.settings, 1))
    }

    /// Counts in the window of this number; answers with the count.
    pub async fn count(&self, key: &str, number: i64, cost: Cost) -> Result<i64, StoreError> {
        let key = format!("{key}:{number}");
        if self.one_trip {
            let commands = vec![common::incr(&key, cost), self.expire(&key)];
            return common::first_int(&self.store.pipeline(commands).await?);
        }
        let count = self.store.command(common::incr(&key, cost)).await?.expect_int()?;
        if count == i64::from(cost.get()) {
            self.store.command(self.expire(&key)).await?;
        }
        Ok(count)
    }

    pub async fn preset(&self, key: &str, used: u64) -> Result<(), StoreError> {
        let (number, _) = self.open_window();
        common::preset_counter(&*self.store, &self.settings, &format!("{key}:{number}"), used).await
    }

    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let (number, left) = self.open_window();
        let count = self.count(key, number, cost).await?;
        Ok(common::counted(&self.settings, cost, count, Some(Duration::from_millis(left))))
    }
}

impl Limiter for Numbered {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.preset(key, used))
    }
}
