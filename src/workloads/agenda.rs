//! What the timed workloads share: calls that are due, made one after the other at their times, and what
//! is done to the store between them.
//!
//! Nothing overlaps: a call that is due while another is open is made after it. What is tried is
//! time and order, not a race.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::calls::call;
use crate::model::op::Completion;
use crate::model::scenario::{PlannedAct, PlannedFault};
use crate::model::units::{Cost, Nanos, NodeId, Window};
use crate::ports::limiter::Fleet;
use crate::ports::workload::{Offer, Record};

/// So much longer than it was told a client waits: clocks are read in whole milliseconds.
pub const READ_IN_WHOLE_MS: i64 = 2_000_000;

/// A call that is to be made. `T` is what the workload needs to know about it afterwards.
#[derive(Debug, Clone)]
pub struct Due<T> {
    pub node: NodeId,
    pub key: Arc<str>,
    pub cost: Cost,
    pub what: T,
}

/// Calls by the time they are due; those due at the same time in the order they were entered. What is
/// done to the store comes before the calls of its moment.
pub struct Agenda<'a, T> {
    order: BinaryHeap<Reverse<(Nanos, usize)>>,
    entries: Vec<Option<Entry<'a, T>>>,
}

enum Entry<'a, T> {
    Call(Due<T>),
    Act(&'a PlannedAct),
    Fault(&'a PlannedFault),
    Scale(u32),
}

impl<'a, T> Agenda<'a, T> {
    /// An agenda with the acts and the faults of a round that begins then.
    pub fn new(offer: &Offer<'a>, begin: Nanos) -> Self {
        let mut agenda = Self { order: BinaryHeap::new(), entries: Vec::new() };
        for act in offer.plan.acts.iter().filter(|a| !a.act.is_beside()) {
            for after in act.times() {
                agenda.enter(Nanos(begin.0.saturating_add(after)), Entry::Act(act));
            }
        }
        for fault in offer.faults {
            for after in fault.times() {
                agenda.enter(Nanos(begin.0.saturating_add(after)), Entry::Fault(fault));
            }
        }
        agenda
    }

    pub fn add(&mut self, at: Nanos, due: Due<T>) {
        self.enter(at, Entry::Call(due));
    }

    /// From then on there are so many app servers.
    pub fn scale(&mut self, at: Nanos, nodes: u32) {
        self.enter(at, Entry::Scale(nodes));
    }

    fn enter(&mut self, at: Nanos, entry: Entry<'a, T>) {
        self.order.push(Reverse((at, self.entries.len())));
        self.entries.push(Some(entry));
    }

    fn next(&mut self) -> Option<(Nanos, Entry<'a, T>)> {
        let Reverse((at, place)) = self.order.pop()?;
        self.entries[place].take().map(|entry| (at, entry))
    }
}

/// When the round begins: now, or where the next aligned window does.
pub async fn begin(offer: &Offer<'_>) -> Nanos {
    if !offer.plan.at_edge {
        return offer.time.now();
    }
    let edge = offer.time.next_edge(offer.window);
    offer.time.until(edge).await;
    if offer.begins.set(edge).is_ok() {
        offer.record.began(edge);
    }
    edge
}

/// Makes every call of the agenda. After each, `then` may enter more.
pub async fn follow<'a, T>(
    offer: &Offer<'a>,
    mut agenda: Agenda<'a, T>,
    mut then: impl FnMut(&mut Agenda<'a, T>, Due<T>, Nanos, &Completion),
) {
    while let Some((at, entry)) = agenda.next() {
        if !offer.time.until(at).await || offer.record.stopped() {
            return;
        }
        let due = match entry {
            Entry::Call(due) => due,
            Entry::Act(act) => {
                offer.actor.act(act).await;
                continue;
            }
            Entry::Fault(fault) => {
                offer.actor.strike(fault).await;
                continue;
            }
            Entry::Scale(nodes) => {
                scaled(&offer.fleet, &*offer.record, nodes);
                continue;
            }
        };
        let limiter = &offer.nodes[usize::from(due.node.0)];
        let completion = call(&*offer.record, &**limiter, (due.node, 0), &due.key, due.cost).await;
        then(&mut agenda, due, offer.time.now(), &completion);
    }
}

/// `n`-th of planned times that lie `every` apart.
pub fn nth(begin: Nanos, every: Window, n: u64) -> Nanos {
    Nanos(begin.0.saturating_add(every.nanos().saturating_mul(i64::try_from(n).unwrap_or(i64::MAX))))
}

/// Tells everybody that there are so many app servers now.
pub fn scaled(fleet: &Fleet, record: &dyn Record, nodes: u32) {
    fleet.set(nodes);
    record.changed(format!("{nodes} nodes"));
}

/// The node whose turn it is.
pub fn in_turn(offer: &Offer<'_>, n: u64) -> NodeId {
    NodeId(u16::try_from(n % offer.nodes.len() as u64).expect("at most 1,000 nodes"))
}
