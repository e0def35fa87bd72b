//! For the tests of policies: a limiter that does as it is told, and a clock that is set by hand.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::stand_in;
use crate::model::op::{Decision, Source};
use crate::model::units::{Cost, Limit, Window};
use crate::ports::BoxFuture;
use crate::ports::clock::Clock;
use crate::ports::limiter::Limiter;
use crate::ports::policy::{PolicySettings, PolicySpec, Terms, Wrap};
use crate::ports::store::StoreError;

/// Answers as it is told, the store's way, and admits where it is told nothing; counts how often it is asked.
/// It says what remains of a limit of ten where it is told so.
#[derive(Default)]
pub struct Scripted {
    answers: Mutex<VecDeque<Result<Decision, StoreError>>>,
    asked: AtomicU64,
    settled: AtomicU64,
}

fn decision(allowed: bool, remaining: Option<u64>) -> Decision {
    Decision { allowed, remaining, ..stand_in(Limit::new(10).unwrap(), Source::Store) }
}

impl Scripted {
    /// How often it was waited for.
    pub fn settled(&self) -> u64 {
        self.settled.load(Ordering::Relaxed)
    }

    fn next(&self, answer: Result<Decision, StoreError>) {
        self.answers.lock().unwrap().push_back(answer);
    }

    /// Admits, or has no answer.
    pub fn answers_next(&self, well: bool) {
        let gone = || StoreError::NoAnswer("gone".to_owned());
        self.next(if well { Ok(decision(true, None)) } else { Err(gone()) });
    }

    /// Admits with so many left, or refuses.
    pub fn decides_next(&self, remaining: Option<u64>) {
        self.next(Ok(decision(remaining.is_some(), remaining.or(Some(0)))));
    }

    pub fn forget(&self) {
        self.answers.lock().unwrap().clear();
    }

    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Limiter for Scripted {
    fn acquire<'a>(&'a self, _: &'a str, _: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let answer = self.answers.lock().unwrap().pop_front().unwrap_or_else(|| Ok(decision(true, None)));
        Box::pin(std::future::ready(answer))
    }

    fn preset<'a>(&'a self, _: &'a str, _: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn settle(&self) -> BoxFuture<'_, ()> {
        self.settled.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready(()))
    }
}

/// Set in ms.
#[derive(Default)]
pub struct Hand(AtomicU64);

impl Hand {
    pub fn set(&self, ms: u64) {
        self.0.store(ms, Ordering::Relaxed);
    }
}

impl Clock for Hand {
    fn wall_us(&self) -> i64 {
        i64::try_from(self.0.load(Ordering::Relaxed) * 1000).unwrap()
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// A limit per minute.
pub fn terms(limit: u64, nodes: u32) -> Terms {
    Terms {
        limit: Limit::new(limit).unwrap(),
        window: Window::from_millis(60_000).unwrap(),
        nodes: NonZeroU32::new(nodes).unwrap(),
    }
}

/// The policy with these parameters around the scripted limiter.
pub fn wrapped(
    spec: &PolicySpec,
    given: &[(&str, &str)],
    terms: Terms,
    inner: &Arc<Scripted>,
    clock: &Arc<Hand>,
) -> Arc<dyn Limiter> {
    let given = given.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    (spec.wrap)(Wrap {
        inner: Arc::clone(inner) as Arc<dyn Limiter>,
        settings: PolicySettings::new(spec, &given).unwrap(),
        terms,
        clock: Arc::clone(clock) as Arc<dyn Clock>,
    })
}
