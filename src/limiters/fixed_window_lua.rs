//! INCR and EXPIRE at the first hit, in one script: exact, no gap, and the wait is known.
//!
//! What no fixed window cures: twice the limit fits across the edge of two windows.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use super::common;
use crate::model::contract::{Contract, Denials};
use crate::model::op::Decision;
use crate::model::units::Cost;
use crate::ports::BoxFuture;
use crate::ports::limiter::{Limiter, Settings, Spec, takes_all};
use crate::ports::store::{Script, Store, StoreError};

pub static SPEC: Spec = Spec {
    id: "L06",
    name: "fixed-window-lua",
    summary: "fixed window: one script counts and sets the expiry at the first hit",
    sends: "EVALSHA; 1 round trip",
    known: "exact; a burst at the edge of two windows passes twice the limit",
    params: &[],
    foreign: None,
    needs_server: None,
    check: takes_all,
    contract,
    build: |build| Arc::new(FixedWindowLua { settings: build.settings, store: build.store }),
};

pub(super) static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("fixed_window.lua")));

fn contract(settings: &Settings) -> Contract {
    Contract {
        algorithm: common::fixed_window(settings, Denials::Charged),
        round_trips_at_most: Some(1),
        ..common::counter_contract(settings, Denials::Charged)
    }
}

/// The counter that the script keeps.
pub(super) struct FixedWindowLua {
    pub settings: Settings,
    pub store: Arc<dyn Store>,
}

impl FixedWindowLua {
    pub async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let args = vec![cost.get().to_string(), self.settings.window.millis().to_string()];
        let reply = self.store.eval(&SCRIPT, &[key], args).await?.expect_list(2)?;
        let count = reply[0].expect_int()?;
        // PTTL rounds down; the window ends within the millisecond after it.
        let left = u64::try_from(reply[1].expect_int()?).ok().map(|ms| Duration::from_millis(ms + 1));
        Ok(common::counted(&self.settings, cost, count, left))
    }
}

impl Limiter for FixedWindowLua {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(common::preset_counter(&*self.store, &self.settings, key, used))
    }
}
