//! `burst`: N calls, as many in flight as asked for, released at one start line.
//!
//! `in_flight` callers stand at the line, and the calls are dealt out to them in turn. Each makes
//! its next call as soon as its last one has completed. A caller stays on its connection: caller w uses
//! connection w mod `connections`, which belongs to node (w mod `connections`) mod `nodes`. With
//! more callers than connections several calls are in flight on one connection (multiplexing);
//! with as many, each connection has one, and a check-then-act limiter leaks far less.
//!
//! The seed decides the order in which the callers leave the line.

use std::sync::Arc;

use tokio::sync::Barrier;

use super::calls::call;
use crate::model::random::Random;
use crate::model::scenario::{Shape, WorkloadPlan};
use crate::model::units::{Cost, NodeId};
use crate::ports::BoxFuture;
use crate::ports::limiter::Limiter;
use crate::ports::workload::{Offer, Record, Workload};

pub struct Burst;

impl Workload for Burst {
    fn shape(&self) -> Shape {
        Shape::Burst
    }

    fn summary(&self) -> &'static str {
        "requests calls, in_flight at a time, released at one start line"
    }

    /// Also with one call in flight: a burst of calls made one after the other shows no race, and
    /// must not be taken for one that showed there is none.
    fn concurrent(&self, _plan: &WorkloadPlan) -> bool {
        true
    }

    fn drive<'a>(&'a self, offer: Offer<'a>) -> BoxFuture<'a, ()> {
        Box::pin(drive(offer))
    }
}

async fn drive(offer: Offer<'_>) {
    let requests = u32::try_from(offer.plan.requests()).expect("at most 10 million");
    let keys: Arc<[Arc<str>]> = (0..offer.plan.keys.get()).map(|k| offer.key(k)).collect();
    let callers = offer.plan.in_flight.get().min(requests);
    let connections = offer.plan.connections.get();
    let nodes = u32::try_from(offer.nodes.len()).unwrap_or(1);
    let line = Arc::new(Barrier::new(callers as usize));
    let tasks: Vec<_> = Random::new(offer.seed)
        .shuffled(callers)
        .into_iter()
        .map(|w| {
            let connection = w % connections;
            let node = connection % nodes;
            let caller = Caller {
                node: NodeId(u16::try_from(node).expect("at most 1,000 nodes")),
                lane: connection / nodes,
                limiter: Arc::clone(&offer.nodes[node as usize]),
                keys: Arc::clone(&keys),
                record: Arc::clone(&offer.record),
            };
            let line = Arc::clone(&line);
            let share = requests / callers + u32::from(w < requests % callers);
            tokio::spawn(async move {
                line.wait().await;
                // Dealt out, not taken from a common pile: a limiter that answers without waiting
                // would let the first caller take them all, and its node with it.
                for n in 0..share {
                    if caller.record.stopped() {
                        return;
                    }
                    caller.call(w + n * callers).await;
                }
            })
        })
        .collect();
    for task in tasks {
        if let Err(error) = task.await {
            // A limiter that panics is a fault of the lab: hand it on whole.
            std::panic::resume_unwind(error.into_panic());
        }
    }
}

struct Caller {
    node: NodeId,
    lane: u32,
    limiter: Arc<dyn Limiter>,
    keys: Arc<[Arc<str>]>,
    record: Arc<dyn Record>,
}

impl Caller {
    /// The `number`-th call of the round; the keys take turns.
    async fn call(&self, number: u32) {
        let at = (self.node, self.lane);
        let key = &self.keys[number as usize % self.keys.len()];
        call(&*self.record, &*self.limiter, at, key, Cost::ONE).await;
    }
}
