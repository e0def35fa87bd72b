//! A counter in several parts, so that the calls of a hot key spread over the nodes of a cluster.
//!
//! - `mode = "sum"` asks for all parts, and counts in one if the sum leaves room. It looks and then acts: whoever
//!   looks before the others have counted is let in. Of one call after the other it is exact.
//! - `mode = "share"` gives each part its share of the limit and asks for one part only. Never over the limit; a
//!   call whose part is used up is refused although others have room, and one above a share always is.
//!
//! `tags` says what a part's slot hangs on. Where it is the whole name, or a tag of its own, parts spread, and MGET
//! over them is refused by a cluster (CROSSSLOT) unless the client takes it apart. Under one tag they do not
//! spread. `ttl = "apart"` sets the expiry in a command of its own: who dies before it leaves a key for good, which
//! blocks nobody, since the window's number is part of its name.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::common;
use super::fixed_window_lua::SCRIPT;
use super::fixed_window_numbered::numbered_contract;
use crate::model::algorithms::Algorithm;
use crate::model::contract::{Contract, Denials};
use crate::model::op::{Decision, Source};
use crate::model::units::Cost;
use crate::ports::BoxFuture;
use crate::ports::clock::Clock;
use crate::ports::limiter::{Limiter, Param, ParamKind, Settings, Spec};
use crate::ports::store::{Command, Reply, Store, StoreError};

pub static SPEC: Spec = Spec {
    id: "L25",
    name: "sharded-counter",
    summary: "fixed window: a counter in several parts, summed up or each with its share of the limit",
    sends: "MGET of all parts, INCRBY of one, PEXPIRE at its first hit; or INCRBY of one alone; 1 to 3 round trips",
    known: "sum races between its look and its count; share never leaks and refuses where other parts have room",
    params: &[
        Param { name: "shards", default: "4", kind: ParamKind::Count, help: "parts of the counter" },
        Param {
            name: "mode",
            default: "sum",
            kind: ParamKind::OneOf(&["sum", "share"]),
            help: "what decides: the sum of all parts, or the one part that is hit, up to its share of the limit",
        },
        Param {
            name: "tags",
            default: "none",
            kind: ParamKind::OneOf(&["none", "own", "shared"]),
            help: "hash tag of a part: none, one of its own, or the same for all parts",
        },
        Param {
            name: "ttl",
            default: "apart",
            kind: ParamKind::OneOf(&["apart", "script"]),
            help: "PEXPIRE after the reply of the first hit, or count and expiry in one script",
        },
    ],
    foreign: None,
    needs_server: None,
    check,
    contract,
    build: |build| {
        let (settings, store, clock) = (build.settings, build.store, build.clock);
        Arc::new(Sharded { settings, store, clock, calls: Mutex::new(HashMap::new()) })
    },
};

/// One MGET asks for all of them.
const MOST_SHARDS: u64 = 1000;

fn check(settings: &Settings) -> Result<(), String> {
    let (shards, limit) = (settings.count("shards").get(), settings.limit.get());
    if shards > MOST_SHARDS {
        return Err(format!("{shards} shards are above the most it asks for at once, {MOST_SHARDS}"));
    }
    if shares(settings) && shards > limit {
        return Err(format!("a limit of {limit} leaves some of {shards} shards without a share"));
    }
    common::can_be_kept(settings)
}

fn shares(settings: &Settings) -> bool {
    settings.param("mode") == "share"
}

fn in_script(settings: &Settings) -> bool {
    settings.param("ttl") == "script"
}

fn contract(settings: &Settings) -> Contract {
    let counting = if in_script(settings) { 1 } else { 2 };
    let whole = numbered_contract(settings);
    if shares(settings) {
        // No algorithm: it hangs on which part is asked.
        return Contract { algorithm: None, round_trips_at_most: Some(counting), ..whole };
    }
    let (limit, window, denials) = (settings.limit, settings.window, Denials::Free);
    Contract {
        denials,
        algorithm: Some(Algorithm::AlignedWindow { limit, window, denials }),
        round_trips_at_most: Some(1 + counting),
        ..whole
    }
}

struct Sharded {
    settings: Settings,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// Calls of each key so far: they take its parts in turn.
    calls: Mutex<HashMap<String, u64>>,
}

impl Sharded {
    fn shards(&self) -> u64 {
        self.settings.count("shards").get()
    }

    fn name(&self, key: &str, window: i64, shard: u64) -> String {
        match self.settings.param("tags") {
            "own" => format!("{{{key}:{window}:{shard}}}"),
            "shared" => format!("{{{key}:{window}}}:{shard}"),
            _ => format!("{key}:{window}:{shard}"),
        }
    }

    fn next_shard(&self, key: &str) -> u64 {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let made = calls.entry(key.to_owned()).or_insert(0);
        *made += 1;
        (*made - 1) % self.shards()
    }

    /// Its part of the limit; what cannot be divided goes to the first ones.
    fn share(&self, shard: u64) -> u64 {
        let (limit, shards) = (self.settings.limit.get(), self.shards());
        limit / shards + u64::from(shard < limit % shards)
    }

    /// Counts in one part; answers with its count.
    async fn count(&self, shard: &str, cost: Cost) -> Result<i64, StoreError> {
        let kept = common::kept_ms(&self.settings, 1);
        if in_script(&self.settings) {
            let args = vec![cost.get().to_string(), kept.to_string()];
            return self.store.eval(&SCRIPT, &[shard], args).await?.expect_list(2)?[0].expect_int();
        }
        let count = self.store.command(common::incr(shard, cost)).await?.expect_int()?;
        if count == i64::from(cost.get()) {
            self.store.command(Command::new("PEXPIRE").arg(shard).arg(kept)).await?;
        }
        Ok(count)
    }

    async fn sum(&self, key: &str, window: i64) -> Result<i64, StoreError> {
        let mget =
            (0..self.shards()).map(|n| self.name(key, window, n)).fold(Command::new("MGET"), Command::arg);
        let Reply::List(parts) = self.store.command(mget).await? else {
            return Err(StoreError::Unexpected("MGET without a list".to_owned()));
        };
        let count = |part: &Reply| if *part == Reply::Nil { Ok(0) } else { part.expect_int() };
        parts.iter().map(count).sum()
    }

    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let (window, left) = common::open_window(&self.settings, &*self.clock);
        let left = Some(Duration::from_millis(left));
        let shard = self.next_shard(key);
        let name = self.name(key, window, shard);
        let wanted = u64::from(cost.get());
        let decision = |allowed: bool, remaining, most: u64| Decision {
            allowed,
            remaining,
            limit: self.settings.limit,
            retry_after: left.filter(|_| !allowed && wanted <= most),
            reset: left,
            source: Source::Store,
        };
        if shares(&self.settings) {
            let count = u64::try_from(self.count(&name, cost).await?).unwrap_or(0);
            return Ok(decision(count <= self.share(shard), None, self.share(0)));
        }
        let limit = self.settings.limit.get();
        let room = limit.saturating_sub(u64::try_from(self.sum(key, window).await?).unwrap_or(0));
        if wanted > room {
            return Ok(decision(false, Some(room), limit));
        }
        self.count(&name, cost).await?;
        Ok(decision(true, Some(room - wanted), limit))
    }

    /// As the calls would have been spread.
    async fn preset(&self, key: &str, used: u64) -> Result<(), StoreError> {
        let (window, _) = common::open_window(&self.settings, &*self.clock);
        for shard in 0..self.shards() {
            let part = used / self.shards() + u64::from(shard < used % self.shards());
            let name = self.name(key, window, shard);
            common::preset_counter(&*self.store, &self.settings, &name, part).await?;
        }
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.insert(key.to_owned(), used);
        Ok(())
    }
}

impl Limiter for Sharded {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.preset(key, used))
    }
}
