//! Nobody waits for the count: a call is answered by a flag that the node keeps, and counted behind its back, as
//! Cloudflare described in 2017.
//!
//! A call passes unless its window is flagged. What has passed is gathered for `delay` and then added to the
//! window's counter, one batch of a key at a time; an answer above the limit flags the window on this node. So
//! whatever comes until then passes, on each node: by how much the limit is exceeded is the traffic's doing. A count
//! that the store does not take is lost.
//!
//! A call above the limit never passes. A refused call is not counted. Whether it was nobody could tell: in a window that is flagged nothing passes any
//! more. The flag says yes or no, and not for how long.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::background::Background;
use super::common;
use super::fixed_window_numbered::{Numbered, numbered_contract};
use crate::model::contract::Contract;
use crate::model::op::{Decision, Source};
use crate::model::units::Cost;
use crate::ports::BoxFuture;
use crate::ports::limiter::{Limiter, Param, ParamKind, Settings, Spec};
use crate::ports::store::StoreError;

pub static SPEC: Spec = Spec {
    id: "L33",
    name: "async-count-flag",
    summary: "fixed window: calls pass unless a flag says no, and are counted in the background",
    sends: "nothing that a call waits for; INCRBY, PEXPIRE in one pipeline behind it",
    known: "no call waits; whatever comes until the count is back passes",
    params: &[Param {
        name: "delay",
        default: "100ms",
        kind: ParamKind::Span,
        help: "how long calls are gathered before they are counted",
    }],
    foreign: None,
    needs_server: None,
    check: common::can_be_kept,
    contract,
    build: |build| {
        let delay = build.settings.span("delay");
        let counters =
            Numbered { settings: build.settings, store: build.store, clock: build.clock, one_trip: true };
        Arc::new(AsyncCount {
            shared: Arc::new(Shared { counters, delay, keys: Mutex::new(HashMap::new()) }),
            counting: Background::default(),
        })
    },
};

/// No algorithm: what passes hangs on when a count comes back.
fn contract(settings: &Settings) -> Contract {
    Contract {
        algorithm: None,
        round_trips_at_most: Some(0),
        in_background: true,
        ..numbered_contract(settings)
    }
}

struct AsyncCount {
    shared: Arc<Shared>,
    /// At most one for each key.
    counting: Background,
}

struct Shared {
    counters: Numbered,
    delay: Duration,
    keys: Mutex<HashMap<String, Key>>,
}

#[derive(Debug, Default)]
struct Key {
    /// The window that is over its limit, as far as anybody told.
    flagged: Option<i64>,
    /// What has passed and is not counted yet, in the window of this number.
    passed: u64,
    window: i64,
    /// Whether somebody is counting for it.
    counted_for: bool,
}

impl Key {
    /// Whether a call passes, and whether somebody must begin to count.
    fn ask(&mut self, window: i64, cost: u64) -> (bool, bool) {
        if self.flagged == Some(window) {
            return (false, false);
        }
        if self.window != window {
            // The window before is over: its count tells nobody anything.
            (self.window, self.passed) = (window, 0);
        }
        self.passed = self.passed.saturating_add(cost);
        (true, !std::mem::replace(&mut self.counted_for, true))
    }

    /// What is to be counted next; nothing, and then nobody is counting any more.
    fn next(&mut self) -> Option<(i64, Cost)> {
        let batch = u32::try_from(self.passed).unwrap_or(u32::MAX);
        self.passed -= u64::from(batch);
        let next = Cost::new(batch).ok().map(|cost| (self.window, cost));
        self.counted_for = next.is_some();
        next
    }
}

impl Shared {
    fn with<T>(&self, key: &str, work: impl FnOnce(&mut Key) -> T) -> T {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        match keys.get_mut(key) {
            Some(known) => work(known),
            None => work(keys.entry(key.to_owned()).or_default()),
        }
    }

    /// Counts what has passed until there is nothing left to count.
    async fn count(&self, key: &str) {
        let limit = i64::try_from(self.counters.settings.limit.get()).unwrap_or(i64::MAX);
        loop {
            self.counters.clock.sleep(self.delay).await;
            let Some((window, cost)) = self.with(key, Key::next) else { return };
            if let Ok(count) = self.counters.count(key, window, cost).await
                && count >= limit
            {
                self.with(key, |known| known.flagged = Some(window));
            }
        }
    }
}

impl AsyncCount {
    fn decide(&self, key: &str, cost: Cost) -> Decision {
        let (window, left) = self.shared.counters.open_window();
        let (cost, limit) = (u64::from(cost.get()), self.shared.counters.settings.limit.get());
        let asks = cost <= limit;
        let (allowed, begin) =
            if asks { self.shared.with(key, |known| known.ask(window, cost)) } else { (false, false) };
        if begin {
            let (shared, key) = (Arc::clone(&self.shared), key.to_owned());
            self.counting.begin(async move { shared.count(&key).await });
        }
        Decision {
            allowed,
            remaining: None,
            limit: self.shared.counters.settings.limit,
            retry_after: None,
            reset: Some(Duration::from_millis(left)),
            source: Source::Local,
        }
    }
}

impl Limiter for AsyncCount {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(async move { Ok(self.decide(key, cost)) })
    }

    /// What was used before is known to the store, and to nobody else.
    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.shared.counters.preset(key, used))
    }

    fn settle(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.counting.settle())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_come_while_one_is_counted_are_counted_together_next() {
        let mut key = Key::default();
        assert_eq!([key.ask(7, 1), key.ask(7, 2)], [(true, true), (true, false)]);
        assert_eq!(key.next(), Some((7, Cost::new(3).unwrap())));
        assert_eq!(key.ask(7, 5), (true, false), "somebody is counting");
        assert_eq!(key.next(), Some((7, Cost::new(5).unwrap())));
        assert_eq!(key.next(), None);
        assert_eq!(key.ask(7, 1), (true, true), "nobody is any more");
    }

    #[test]
    fn a_flag_holds_for_its_window_and_no_other() {
        let mut key = Key { flagged: Some(7), window: 7, ..Key::default() };
        assert_eq!(key.ask(7, 1), (false, false));
        assert_eq!(key.ask(8, 1), (true, true));
        assert_eq!(key.next(), Some((8, Cost::ONE)));
    }

    #[test]
    fn what_was_not_counted_of_a_window_that_is_over_is_not_counted_in_the_next() {
        let mut key = Key::default();
        key.ask(7, 4);
        key.ask(8, 1);
        assert_eq!(key.next(), Some((8, Cost::ONE)));
    }
}
