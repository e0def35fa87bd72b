//! The token bucket of `token-bucket-lua` in two keys, one for the tokens and one for the time they are
//! as of, as it is often published.
//!
//! On one server it decides alike. On a cluster the two names hash to two slots and the script is
//! refused (CROSSSLOT), unless a hash tag (`tag=yes`) keeps them together.

use std::sync::{Arc, LazyLock};

use super::common;
use super::token_bucket_lua::{self as bucket, capacity, fill_ms};
use crate::model::op::Decision;
use crate::model::units::Cost;
use crate::ports::BoxFuture;
use crate::ports::clock::Clock;
use crate::ports::limiter::{Limiter, Param, ParamKind, Settings, Spec};
use crate::ports::store::{Command, Script, Store, StoreError};

pub static SPEC: Spec = Spec {
    id: "L36",
    name: "two-key-bucket",
    summary: "token bucket: its tokens and their time in two keys, one script",
    sends: "EVALSHA; 1 round trip",
    known: "exact on one server; without a hash tag a cluster refuses it (CROSSSLOT)",
    params: &[
        Param {
            name: "tag",
            default: "no",
            kind: ParamKind::OneOf(&["no", "yes"]),
            help: "whether a hash tag keeps the two keys in one slot",
        },
        common::CLOCK,
        bucket::CAPACITY,
    ],
    foreign: None,
    needs_server: None,
    check: bucket::check,
    contract: bucket::contract,
    build: |build| Arc::new(TwoKeys { settings: build.settings, store: build.store, clock: build.clock }),
};

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("two_key_bucket.lua")));

struct TwoKeys {
    settings: Settings,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

impl TwoKeys {
    fn keys(&self, key: &str) -> (String, String) {
        let name = if self.settings.param("tag") == "yes" { format!("{{{key}}}") } else { key.to_owned() };
        (format!("{name}:tokens"), format!("{name}:ts"))
    }

    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let args = bucket::arguments(&self.settings, &*self.clock, cost);
        let (tokens, ts) = self.keys(key);
        common::scripted_with_reset(&self.settings, self.store.eval(&SCRIPT, &[&tokens, &ts], args).await?)
    }

    async fn after(&self, key: &str, used: u64) -> Result<(), StoreError> {
        let s = &self.settings;
        let parts = capacity(s).get().saturating_sub(used) * s.window.millis();
        let now = common::now_us(s, &*self.store, &*self.clock).await?.div_euclid(1000);
        let (tokens, ts) = self.keys(key);
        for (key, value) in [(tokens, parts.to_string()), (ts, now.to_string())] {
            self.store.command(Command::new("SET").arg(key).arg(value).arg("PX").arg(fill_ms(s))).await?;
        }
        Ok(())
    }
}

impl Limiter for TwoKeys {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.after(key, used))
    }
}
