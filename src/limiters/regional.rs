//! A store in each region. Three ways to keep one limit with them:
//!
//! - `form = "alone"`: each region counts for itself, and all together admit limit × regions.
//! - `form = "merged"`: each region counts its own calls, and every `merge` its nodes read what the others have
//!   counted, as long as a window that they were called in is open; of two numbers the greater is the later one (a
//!   grow-only counter, merged). What the others admit between two merges nobody knows of: the limit is exceeded by
//!   that much and no more, and then holds in all regions.
//! - `form = "far"`: all regions ask the first one's store. Exact, and every call waits for the way there.
//!
//! Node i belongs to region i mod the number of regions. Where there is one store the three are the same. Windows
//! are numbered, so that regions mean the same one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;

use super::background::Background;
use super::common;
use super::cost_based::SCRIPT;
use super::fixed_window_numbered::numbered_contract;
use crate::model::algorithms::Algorithm;
use crate::model::contract::{Contract, Denials};
use crate::model::op::Decision;
use crate::model::units::Cost;
use crate::ports::BoxFuture;
use crate::ports::clock::Clock;
use crate::ports::limiter::{Limiter, Param, ParamKind, Settings, Spec};
use crate::ports::store::{Command, Reply, Store, StoreError};

pub static SPEC: Spec = Spec {
    id: "L37",
    name: "regional",
    summary: "fixed window: a store in each region, alone, merged with the others', or one far store for all",
    sends: "EVALSHA; 1 round trip, and GET of the other regions behind the calls if merged",
    known: "alone: limit × regions; merged: over by what came between two merges; far: exact and slow",
    params: &[
        Param {
            name: "form",
            default: "alone",
            kind: ParamKind::OneOf(&["alone", "merged", "far"]),
            help: "whose counts decide: the region's own, those of all as last heard of, or one store's for all",
        },
        Param {
            name: "merge",
            default: "100ms",
            kind: ParamKind::Span,
            help: "how long a merged region waits before it reads the others' counts again",
        },
    ],
    foreign: None,
    needs_server: None,
    check: common::can_be_kept,
    contract,
    build: |build| {
        // In the order of the regions, without its own: the first is the first region's, unless this is that.
        let region = usize::from(build.node.0) % (build.others.len() + 1);
        let far = build.settings.param("form") == "far" && region > 0;
        let store = if far { Arc::clone(&build.others[0]) } else { build.store };
        // Not for ever at once, whatever it is set to.
        let pause = build.settings.span("merge").max(Duration::from_millis(1));
        let shared = Shared {
            pause,
            settings: build.settings,
            clock: build.clock,
            others: build.others,
            heard: Mutex::new(HashMap::new()),
        };
        Arc::new(Regional { shared: Arc::new(shared), store, merging: Background::default() })
    },
};

fn contract(settings: &Settings) -> Contract {
    let (limit, window, denials) = (settings.limit, settings.window, Denials::Free);
    let exact = Algorithm::AlignedWindow { limit, window, denials };
    Contract {
        denials,
        // The others decide by what they do not know of each other.
        algorithm: Some(exact).filter(|_| settings.param("form") == "far"),
        in_background: settings.param("form") == "merged",
        ..numbered_contract(settings)
    }
}

struct Regional {
    shared: Arc<Shared>,
    /// The one that decides.
    store: Arc<dyn Store>,
    /// At most one for each key and window.
    merging: Background,
}

struct Shared {
    pause: Duration,
    settings: Settings,
    clock: Arc<dyn Clock>,
    others: Vec<Arc<dyn Store>>,
    heard: Mutex<HashMap<String, Heard>>,
}

/// What is known of the other regions' counts of a key.
#[derive(Debug, Default)]
struct Heard {
    window: i64,
    counts: Vec<u64>,
    /// The window about which somebody is asking.
    asked_about: Option<i64>,
}

impl Heard {
    /// What others have counted in this window, and whether somebody must begin to ask.
    fn look(&mut self, window: i64) -> (u64, bool) {
        if self.window != window {
            (self.window, self.counts) = (window, Vec::new());
        }
        let counted = self.counts.iter().fold(0u64, |sum, n| sum.saturating_add(*n));
        (counted, self.asked_about.replace(window) != Some(window))
    }

    /// Counters only grow: of two words about one the greater is the later.
    fn merge(&mut self, window: i64, told: &[u64]) {
        if self.window == window {
            self.counts.resize(told.len().max(self.counts.len()), 0);
            self.counts.iter_mut().zip(told).for_each(|(known, told)| *known = (*known).max(*told));
        }
    }
}

impl Shared {
    fn with<T>(&self, key: &str, work: impl FnOnce(&mut Heard) -> T) -> T {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        match heard.get_mut(key) {
            Some(known) => work(known),
            None => work(heard.entry(key.to_owned()).or_default()),
        }
    }

    /// Asks every other region again and again while the window is open. One that does not answer has told
    /// nothing new.
    async fn ask(&self, key: &str, window: i64) {
        let name = format!("{key}:{window}");
        loop {
            self.clock.sleep(self.pause).await;
            if common::open_window(&self.settings, &*self.clock).0 != window {
                return;
            }
            let get = || Command::new("GET").arg(&name);
            let told = join_all(self.others.iter().map(|store| store.command(get()))).await;
            let count = |reply: &Result<Reply, StoreError>| {
                reply.as_ref().ok().and_then(Reply::int).and_then(|n| u64::try_from(n).ok()).unwrap_or(0)
            };
            let told: Vec<u64> = told.iter().map(count).collect();
            self.with(key, |heard| heard.merge(window, &told));
        }
    }
}

impl Regional {
    /// What the other regions are known to have counted. Asking them is begun, and not waited for.
    fn heard(&self, key: &str, window: i64) -> u64 {
        let shared = &self.shared;
        if shared.settings.param("form") != "merged" || shared.others.is_empty() {
            return 0;
        }
        let (counted, begin) = shared.with(key, |heard| heard.look(window));
        if begin {
            let (shared, key) = (Arc::clone(shared), key.to_owned());
            self.merging.begin(async move { shared.ask(&key, window).await });
        }
        counted
    }

    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let settings = &self.shared.settings;
        let (window, left) = common::open_window(settings, &*self.shared.clock);
        let room = settings.limit.get().saturating_sub(self.heard(key, window));
        let args = [room, common::kept_ms(settings, 1), u64::from(cost.get())].map(|n| n.to_string());
        let args = args.into_iter().chain(["missing".to_owned()]).collect();
        let name = format!("{key}:{window}");
        let decision = common::scripted(settings, self.store.eval(&SCRIPT, &[&name], args).await?)?;
        let left = Duration::from_millis(left);
        let fits = u64::from(cost.get()) <= settings.limit.get();
        let retry_after = Some(left).filter(|_| !decision.allowed && fits);
        Ok(Decision { retry_after, reset: Some(left), ..decision })
    }
}

impl Limiter for Regional {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    /// In the store that decides for this node.
    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let settings = &self.shared.settings;
            let (window, _) = common::open_window(settings, &*self.shared.clock);
            common::preset_counter(&*self.store, settings, &format!("{key}:{window}"), used).await
        })
    }

    fn settle(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.merging.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_comes_late_takes_nothing_back() {
        let mut heard = Heard::default();
        assert_eq!(heard.look(7), (0, true));
        assert_eq!(heard.look(7), (0, false), "somebody is asking");
        heard.merge(7, &[4, 1]);
        assert_eq!(heard.look(7), (5, false));
        heard.merge(7, &[3, 2]);
        assert_eq!(heard.look(7), (6, false));
    }

    #[test]
    fn what_was_asked_about_another_window_is_no_count_of_this_one() {
        let mut heard = Heard::default();
        heard.look(7);
        assert_eq!(heard.look(8), (0, true), "and nobody asks about this one yet");
        heard.merge(7, &[9]);
        assert_eq!(heard.look(8), (0, false));
    }
}
