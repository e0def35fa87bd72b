//! What the proxy's thread and those who steer it have in common.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::Clock;
use super::ledger::Ledger;
use super::link::Link;
use super::rules::Rules;
use super::transcript::Kept;
use crate::wire::resp::Limits;

pub struct Shared {
    pub upstream: SocketAddr,
    pub rules: Arc<Rules>,
    pub link: Link,
    pub limits: Limits,
    pub clock: Clock,
    pub kept: Kept,
    ledgers: Mutex<BTreeMap<u64, Line>>,
    /// The store answered something, or a connection came or went.
    pub changed: Notify,
}

/// A connection's ledger, shared between its own task and those who ask.
#[derive(Clone)]
pub struct Line(Arc<Mutex<Ledger>>);

impl Line {
    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    pub fn new(upstream: SocketAddr, limits: Limits, clock: Clock, kept: Kept) -> Self {
        Self {
            upstream,
            rules: Arc::default(),
            link: Link::default(),
            limits,
            clock,
            kept,
            ledgers: Mutex::default(),
            changed: Notify::new(),
        }
    }

    fn ledgers(&self) -> MutexGuard<'_, BTreeMap<u64, Line>> {
        self.ledgers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn open(&self, connection: u64) -> Line {
        let line = Line(Arc::new(Mutex::new(Ledger::new(connection, self.kept))));
        let mut ledgers = self.ledgers();
        // Looked at only when there are many, or each connection would look at all the others.
        if ledgers.len() >= 2 * self.kept.closed.max(8) {
            let closed: Vec<u64> =
                ledgers.iter().filter(|(_, l)| l.ledger().is_closed()).map(|(id, _)| *id).collect();
            let surplus = closed.len().saturating_sub(self.kept.closed);
            closed.iter().take(surplus).for_each(|id| drop(ledgers.remove(id)));
        }
        ledgers.insert(connection, line.clone());
        drop(ledgers);
        self.changed.notify_waiters();
        line
    }

    pub fn line(&self, connection: u64) -> Option<Line> {
        self.ledgers().get(&connection).cloned()
    }

    pub fn connections(&self) -> Vec<u64> {
        self.ledgers().iter().filter(|(_, l)| !l.ledger().is_closed()).map(|(id, _)| *id).collect()
    }

    pub fn lines(&self) -> Vec<Line> {
        self.ledgers().values().cloned().collect()
    }
}
