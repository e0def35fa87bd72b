//! A bucket on each node, and behind it the counter of all, as Envoy advises for its two kinds of limit: what a
//! node's bucket refuses never reaches the store.
//!
//! The bucket is the coarser of the two, twice the limit by default: then a client that calls as fast as the limit
//! lets it never meets it. One that goes on calling empties it, and is refused on that node also where the counter
//! had room: a call that the counter refused took its token all the same. While the store is away the bucket is
//! what is left of the limit, whatever a policy says to the rest.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::common;
use super::fixed_window_lua::FixedWindowLua;
use crate::model::algorithms::token_bucket::TokenBucket;
use crate::model::contract::{Contract, Denials};
use crate::model::op::{Decision, Source};
use crate::model::units::{Cost, Limit};
use crate::ports::BoxFuture;
use crate::ports::clock::Clock;
use crate::ports::limiter::{Limiter, Settings, Spec, takes_all};
use crate::ports::store::StoreError;

pub static SPEC: Spec = Spec {
    id: "L34",
    name: "local-then-global",
    summary: "fixed window in the store behind a token bucket on each node",
    sends: "EVALSHA unless the node's own bucket is empty; 0 to 1 round trips",
    known: "never over the limit; stops a flood before the store; refuses early whoever goes on calling",
    params: &[common::count_param(
        "local",
        "what a node's bucket holds, and gets back in a window; twice the limit if empty",
    )],
    foreign: None,
    needs_server: None,
    check: takes_all,
    contract,
    build: |build| {
        let local = local(&build.settings);
        let global = FixedWindowLua { settings: build.settings, store: build.store };
        Arc::new(LocalThenGlobal { global, local, clock: build.clock, buckets: Mutex::new(HashMap::new()) })
    },
};

/// No algorithm: each node's bucket refuses by itself.
fn contract(settings: &Settings) -> Contract {
    Contract { round_trips_at_most: Some(1), ..common::counter_contract(settings, Denials::Charged) }
}

fn local(settings: &Settings) -> Limit {
    settings.count_or_times("local", 2)
}

struct LocalThenGlobal {
    global: FixedWindowLua,
    local: Limit,
    clock: Arc<dyn Clock>,
    buckets: Mutex<HashMap<String, TokenBucket>>,
}

impl LocalThenGlobal {
    /// By the clock that nobody sets: a wall clock that is put forward would fill the bucket.
    fn passes_here(&self, key: &str, cost: Cost) -> bool {
        let now = i64::try_from(self.clock.monotonic().as_millis()).unwrap_or(i64::MAX);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if !buckets.contains_key(key) {
            let bucket = TokenBucket::new(self.local, self.local, self.global.settings.window);
            buckets.insert(key.to_owned(), bucket);
        }
        buckets.get_mut(key).expect("made just above").acquire(now, cost).allowed
    }

    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        if self.passes_here(key, cost) {
            return self.global.decide(key, cost).await;
        }
        // What the store has left, and from when on it has more, the node does not know.
        Ok(Decision {
            allowed: false,
            remaining: None,
            limit: self.global.settings.limit,
            retry_after: None,
            reset: None,
            source: Source::Local,
        })
    }
}

impl Limiter for LocalThenGlobal {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        self.global.preset(key, used)
    }
}
