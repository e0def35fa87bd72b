//! `open`: requests that come at their times whether or not others are still open, one every `every`, to the
//! nodes and the keys in turn.
//!
//! What callers of a store that is away feel, only an open loop shows: clients that wait for an answer before
//! they ask again would stop asking. A request counts from its arrival; with `workers`, a node works on so
//! many at a time and the others wait in a queue. Every `aside_every`-th comes with one more, for a route
//! that has no limiter and needs nothing but a worker.
//!
//! Servers take their time to come back. Where the scenario says within which time the store has to decide again,
//! requests go on until that can be told.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::agenda;
use crate::model::op::Completion;
use crate::model::scenario::{Deal, Shape, WorkloadPlan};
use crate::model::units::{Cost, NodeId};
use crate::ports::BoxFuture;
use crate::ports::limiter::Limiter;
use crate::ports::store::{Call, as_call};
use crate::ports::workload::{Offer, Record, Timeline, Workload};

pub struct Open;

impl Workload for Open {
    fn shape(&self) -> Shape {
        Shape::Open
    }

    fn summary(&self) -> &'static str {
        "requests that come at their times whether or not others are open, one every `every`"
    }

    fn concurrent(&self, _plan: &WorkloadPlan) -> bool {
        false
    }

    fn drive<'a>(&'a self, offer: Offer<'a>) -> BoxFuture<'a, ()> {
        Box::pin(drive(offer))
    }
}

/// Where mending what broke takes longer than planned, requests go on until it is shown to be mended, up to so
/// many times as many.
const MOST_TIMES: u64 = 4;

/// What a request needs.
#[derive(Clone)]
struct Node {
    id: NodeId,
    limiter: Arc<dyn Limiter>,
    workers: Option<Arc<Semaphore>>,
    record: Arc<dyn Record>,
    time: Arc<dyn Timeline>,
}

async fn drive(offer: Offer<'_>) {
    let every = offer.plan.every.expect("validated with the scenario");
    let keys: Vec<_> = (0..offer.plan.keys.get()).map(|k| offer.key(k)).collect();
    let nodes: Vec<Node> = (0..)
        .zip(&offer.nodes)
        .map(|(id, limiter)| Node {
            id: NodeId(id),
            limiter: Arc::clone(limiter),
            workers: offer.plan.workers.map(|w| Arc::new(Semaphore::new(w.get() as usize))),
            record: Arc::clone(&offer.record),
            time: Arc::clone(&offer.time),
        })
        .collect();
    let begin = agenda::begin(&offer).await;
    let mut open = JoinSet::new();
    let planned = offer.plan.requests();
    let mut deal = Deal::new(offer.plan);
    for n in 0..planned * MOST_TIMES {
        if n >= planned && !offer.actor.unsettled() {
            break;
        }
        let at = agenda::nth(begin, every, n);
        if !offer.time.until(at).await {
            break;
        }
        let (node, new) = deal.next(at.0 - begin.0);
        if let Some(nodes) = new {
            agenda::scaled(&offer.fleet, &*offer.record, nodes);
        }
        let node = &nodes[usize::from(node.0)];
        let key = Arc::clone(&keys[usize::try_from(n).unwrap_or(0) % keys.len()]);
        open.spawn(node.clone().request(u32::try_from(n).unwrap_or(0), key));
        if offer.plan.aside_every.is_some_and(|k| n % u64::from(k.get()) == 0) {
            open.spawn(node.clone().aside());
        }
    }
    loop {
        let ended = tokio::select! {
            ended = open.join_next() => ended,
            () = stopped(&*offer.record) => return,
        };
        match ended {
            None => return,
            // A limiter that panics is a fault of the lab: hand it on whole.
            Some(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Some(_) => {}
        }
    }
}

/// Returns when the run is to stop.
async fn stopped(record: &dyn Record) {
    while !record.stopped() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

impl Node {
    async fn request(self, lane: u32, key: Arc<str>) {
        let op = self.record.invoke(self.id, &key, Cost::ONE);
        let _worker = self.worker().await;
        let call = as_call(Call::new(op.0, lane), self.limiter.acquire(&key, Cost::ONE));
        let (answer, trace) = call.await;
        let completion = match answer {
            Ok(decision) => Completion::Ok(decision),
            Err(error) => error.completion(trace.sent),
        };
        self.record.complete(op, &completion, trace);
    }

    async fn aside(self) {
        let arrived = self.time.now();
        drop(self.worker().await);
        self.record.aside(arrived, self.time.now());
    }

    async fn worker(&self) -> Option<tokio::sync::SemaphorePermit<'_>> {
        match &self.workers {
            Some(workers) => workers.acquire().await.ok(),
            None => None,
        }
    }
}
