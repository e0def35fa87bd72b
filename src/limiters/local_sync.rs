//! Counts locally and tells the others now and then: admits while the shared count, as it was told last, and its
//! own since then are below the limit.
//!
//! Windows begin at whole multiples of their length on the app's clock; the shared counter of each has a key of its
//! own. Every `sync` a node adds what it has admitted to the shared count and reads what that is now, at times of its
//! own: the nodes are spread evenly over the interval, so that they do not come all at once. In between it knows
//! nothing of the others, and all together admit what they do not know of each other: about
//! traffic × `sync` × (n − 1) / n beyond the limit, at most the limit for each node.
//!
//! With `sync=0s` every call reads the count and adds to it: exact for calls that follow each other, and a race like
//! any other that reads first and writes afterwards.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::common;
use crate::model::contract::{Bound, Contract, DecidingClock, Denials, OnOutage};
use crate::model::op::{Decision, Source};
use crate::model::units::{Cost, NodeId};
use crate::ports::BoxFuture;
use crate::ports::clock::Clock;
use crate::ports::limiter::{Fleet, Limiter, Param, ParamKind, Settings, Spec};
use crate::ports::store::{Command, Store, StoreError};

pub static SPEC: Spec = Spec {
    id: "L22",
    name: "local-sync",
    summary: "fixed window: own count and the last shared one, exchanged every so often",
    sends: "INCRBY and PEXPIRE as one transaction, once per `sync` and node; with 0s GET, and the same for each call",
    known: "over by what the nodes admit between two exchanges: 627 of 600 a minute at 1 s, 1006 at 15 s",
    params: &[Param {
        name: "sync",
        default: "",
        kind: ParamKind::Span,
        help: "how often a node exchanges counts with the store, 0s for each call; a tenth of the window if not given",
    }],
    foreign: None,
    needs_server: None,
    check: common::can_be_kept,
    contract,
    build: |build| {
        Arc::new(LocalSync {
            sync: sync(&build.settings),
            settings: build.settings,
            store: build.store,
            clock: build.clock,
            fleet: build.fleet,
            node: build.node,
            counts: Mutex::new(HashMap::new()),
        })
    },
};

fn sync(settings: &Settings) -> Duration {
    settings.span_if_given("sync").unwrap_or_else(|| settings.window.duration() / 10)
}

/// No algorithm: what is admitted depends on who was told what when.
fn contract(settings: &Settings) -> Contract {
    Contract {
        bound: Bound::AlignedWindow { limit: settings.limit, window: settings.window },
        clock: DecidingClock::App,
        // What cannot be exchanged is exchanged later.
        on_outage: OnOutage::Fallback,
        key_ttl_at_most: common::kept(settings, 1).ok(),
        round_trips_at_most: Some(if sync(settings).is_zero() { 2 } else { 1 }),
        ..common::counter_contract(settings, Denials::Free)
    }
}

struct LocalSync {
    settings: Settings,
    sync: Duration,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    fleet: Arc<Fleet>,
    node: NodeId,
    counts: Mutex<HashMap<String, Count>>,
}

/// What a node knows of a key.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    window: i64,
    /// What all had admitted when it asked last.
    shared: u64,
    /// What it has admitted itself and told nobody yet.
    own: u64,
    /// In which interval it asked last.
    asked: i64,
}

impl LocalSync {
    fn counts(&self) -> MutexGuard<'_, HashMap<String, Count>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the interval between two exchanges of this node that it is in.
    fn interval(&self) -> i64 {
        let every = i64::try_from(self.sync.as_micros()).unwrap_or(i64::MAX).max(1);
        let nodes = i64::from(self.fleet.at_first());
        let own = i64::from(self.node.0) % nodes * (every / nodes);
        self.clock.wall_us().saturating_sub(own).div_euclid(every)
    }

    /// Enters the open window, and looks at what is known of the key.
    fn at<T>(&self, key: &str, window: i64, look: impl FnOnce(&mut Count) -> T) -> T {
        let mut counts = self.counts();
        if !counts.contains_key(key) {
            counts.insert(key.to_owned(), Count { window, asked: self.interval(), ..Count::default() });
        }
        let count = counts.get_mut(key).expect("made just above");
        if count.window != window {
            // What was admitted in a window that is over concerns nobody any more.
            *count = Count { window, asked: count.asked, ..Count::default() };
        }
        look(count)
    }

    fn shared_key(key: &str, window: i64) -> String {
        format!("{key}:{window}")
    }

    /// Adds what it has admitted itself to the shared count, and reads that.
    async fn exchange(&self, key: &str, window: i64) -> Result<(), StoreError> {
        let own = self.at(key, window, |count| count.own);
        let shared = Self::shared_key(key, window);
        let total = if own == 0 {
            self.store.command(Command::new("GET").arg(&shared)).await?.int().unwrap_or(0)
        } else {
            let add = Command::new("INCRBY").arg(&shared).arg(own);
            let keep = Command::new("PEXPIRE").arg(&shared).arg(common::kept_ms(&self.settings, 1));
            common::first_int(&self.store.transaction(vec![add, keep]).await?)?
        };
        self.at(key, window, |count| {
            count.own = count.own.saturating_sub(own);
            count.shared = u64::try_from(total).unwrap_or(0);
        });
        Ok(())
    }

    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let (window, left) = common::open_window(&self.settings, &*self.clock);
        let each = self.sync.is_zero();
        let interval = self.interval();
        let due = self.at(key, window, |count| std::mem::replace(&mut count.asked, interval) != interval);
        let mut source = Source::Local;
        // An exchange that fails is made again in the next interval: until then it goes by what it knows.
        if (each || due) && self.known(self.exchange(key, window).await)? {
            source = Source::Store;
        }
        let (limit, cost) = (self.settings.limit.get(), u64::from(cost.get()));
        let (allowed, used) = self.at(key, window, |count| {
            let allowed = count.shared + count.own + cost <= limit;
            if allowed {
                count.own += cost;
            }
            (allowed, count.shared + count.own)
        });
        if each && allowed && !self.known(self.exchange(key, window).await)? {
            source = Source::Local;
        }
        let waits = !allowed && cost <= limit;
        Ok(Decision {
            allowed,
            // Of what it was told; what others have admitted since, nobody told it.
            remaining: if each { Some(limit.saturating_sub(used)) } else { None },
            limit: self.settings.limit,
            retry_after: waits.then(|| Duration::from_millis(left)),
            reset: Some(Duration::from_millis(left)),
            source,
        })
    }

    /// Whether an exchange came about. Who died decides nothing.
    fn known(&self, exchanged: Result<(), StoreError>) -> Result<bool, StoreError> {
        match exchanged {
            Ok(()) => Ok(true),
            Err(StoreError::NodeDied) => Err(StoreError::NodeDied),
            Err(_) => Ok(false),
        }
    }
}

impl Limiter for LocalSync {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    /// The shared count says so, and this node was told.
    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let (window, _) = common::open_window(&self.settings, &*self.clock);
            let shared = Self::shared_key(key, window);
            common::preset_counter(&*self.store, &self.settings, &shared, used).await?;
            self.exchange(key, window).await
        })
    }
}
