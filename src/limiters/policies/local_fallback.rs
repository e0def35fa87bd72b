//! `local-fallback`: where the limiter has no answer, each app server counts by itself, in its own memory.
//!
//! A fixed window for each key, opened by the first call that has to do without the store. It knows nothing of
//! what the store had counted: who had used up the limit gets the whole share again, and until the window is
//! over twice the limit may have been admitted. With the limit divided by the app servers, nobody gets more than
//! that; but a user whose calls all reach one of them gets only its share. A wider one (`limit`) refuses less
//! and admits that many times the app servers.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{WITHIN, ask, stand_in};
use crate::model::algorithms::fixed_window::FixedWindow;
use crate::model::contract::{Bound, Contract, OnOutage};
use crate::model::op::{Decision, Source};
use crate::model::units::{Cost, Limit, Window};
use crate::ports::BoxFuture;
use crate::ports::clock::Clock;
use crate::ports::limiter::{Limiter, Param, ParamKind};
use crate::ports::policy::{PolicySettings, PolicySpec, Terms};
use crate::ports::store::StoreError;

pub static SPEC: PolicySpec = PolicySpec {
    id: "P3",
    name: "local-fallback",
    summary: "where the limiter has no answer, each app server counts by itself up to its share of the limit",
    params: &[
        Param {
            name: "limit",
            default: "",
            kind: ParamKind::Count,
            help: "what each app server admits by itself in a window; the limit / app servers by default",
        },
        WITHIN,
    ],
    contract: |settings, terms, inner| Contract {
        on_outage: OnOutage::Fallback,
        fallback: Some(Bound::FixedWindow { limit: own_limit(settings, terms), window: terms.window }),
        // It counts in whole milliseconds.
        clock_resolution_ms: inner.clock_resolution_ms.max(1),
        ..inner
    },
    wrap: |wrap| {
        let limit = own_limit(&wrap.settings, &wrap.terms);
        let within = wrap.settings.span_if_given("within");
        let counts = LocalCounts { limit, window: wrap.terms.window, windows: Mutex::default() };
        Arc::new(LocalFallback { inner: wrap.inner, counts, clock: wrap.clock, within })
    },
};

/// What each app server admits by itself: rounded down, but one at least.
fn own_limit(settings: &PolicySettings, terms: &Terms) -> Limit {
    let share = |limit: Limit, nodes: NonZeroU32| limit.get() / u64::from(nodes.get());
    settings.limit_if_given("limit").unwrap_or_else(|| {
        Limit::new(share(terms.limit, terms.nodes)).or_else(|_| Limit::new(1)).unwrap_or(terms.limit)
    })
}

struct LocalFallback {
    inner: Arc<dyn Limiter>,
    counts: LocalCounts,
    clock: Arc<dyn Clock>,
    within: Option<Duration>,
}

/// The windows of the keys that had to do without the store.
struct LocalCounts {
    limit: Limit,
    window: Window,
    windows: Mutex<HashMap<String, FixedWindow>>,
}

impl LocalCounts {
    /// From so many keys on, those whose window is over are forgotten whenever there are twice as many.
    const MANY: usize = 1024;

    fn decide(&self, key: &str, cost: Cost, now_ms: i64) -> Decision {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        if windows.len() >= Self::MANY && windows.len().is_power_of_two() && !windows.contains_key(key) {
            windows.retain(|_, window| !window.is_over(now_ms));
        }
        if !windows.contains_key(key) {
            windows.insert(key.to_owned(), FixedWindow::new(self.limit, self.window));
        }
        let step = windows.get_mut(key).expect("made just above").acquire(now_ms, cost);
        // Of the limit itself it cannot tell what is left, or when.
        Decision { allowed: step.allowed, ..stand_in(self.limit, Source::Fallback) }
    }
}

impl Limiter for LocalFallback {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(async move {
            match ask(&*self.inner, key, cost, self.within).await {
                Err(error) if error != StoreError::NodeDied => {
                    let now_ms = i64::try_from(self.clock.monotonic().as_millis()).unwrap_or(i64::MAX);
                    Ok(self.counts.decide(key, cost, now_ms))
                }
                decided => decided,
            }
        })
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.preset(key, used)
    }

    fn settle(&self) -> BoxFuture<'_, ()> {
        self.inner.settle()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Hand, Scripted, terms, wrapped};
    use super::*;

    #[tokio::test]
    async fn its_count_starts_anew_when_the_store_goes_away_and_again_a_window_later() {
        let (inner, clock) = (Arc::new(Scripted::default()), Arc::new(Hand::default()));
        let policy = wrapped(&SPEC, &[], terms(10, 3), &inner, &clock);
        let call = async |store: bool, key| {
            inner.answers_next(store);
            let decision = policy.acquire(key, Cost::ONE).await.unwrap();
            (decision.source, decision.allowed)
        };
        for _ in 0..10 {
            assert_eq!(call(true, "a").await, (Source::Store, true));
        }
        // A third of ten, rounded down, whatever the store had counted.
        for n in 0..5 {
            assert_eq!(call(false, "a").await, (Source::Fallback, n < 3), "{n}");
        }
        assert_eq!(call(false, "b").await, (Source::Fallback, true), "each key by itself");
        assert_eq!(call(true, "a").await, (Source::Store, true), "the store decides where it can");
        assert_eq!(call(false, "a").await, (Source::Fallback, false), "a window that is open stays so");
        clock.set(60_000);
        assert_eq!(call(false, "a").await, (Source::Fallback, true));
    }

    #[test]
    fn its_share_is_one_at_least_and_what_it_is_given_is_what_it_is() {
        let of = |given: &[(&str, &str)], limit, nodes| {
            let given = given.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            own_limit(&PolicySettings::new(&SPEC, &given).unwrap(), &terms(limit, nodes)).get()
        };
        assert_eq!((of(&[], 10, 1), of(&[], 10, 4), of(&[], 10, 11)), (10, 2, 1));
        assert_eq!(of(&[("limit", "10")], 10, 4), 10);
    }

    #[test]
    fn keys_whose_window_is_over_are_forgotten() {
        let window = Window::from_millis(100).unwrap();
        let counts = LocalCounts { limit: Limit::new(1).unwrap(), window, windows: Mutex::default() };
        for n in 0..10 * LocalCounts::MANY {
            counts.decide(&format!("k{n}"), Cost::ONE, n as i64);
        }
        let kept = counts.windows.lock().unwrap().len();
        assert!(kept <= 2 * LocalCounts::MANY, "{kept}");
        assert!(!counts.decide("k10239", Cost::ONE, 10_240).allowed, "it is still open");
    }
}
