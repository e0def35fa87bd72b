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

use crate::model::scenario::{Shape, WorkloadPlan};
use crate::model::units::{Cost, NodeId, Seed};
use crate::ports::BoxFuture;
use crate::ports::limiter::Limiter;
use crate::ports::workload::{Offer, Record, Workload, call};

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
    let requests = offer.plan.requests.get();
    let callers = offer.plan.in_flight.get().min(requests);
    let connections = offer.plan.connections.get();
    let nodes = u32::try_from(offer.nodes.len()).unwrap_or(1);
    let line = Arc::new(Barrier::new(callers as usize));
    let tasks: Vec<_> = shuffled(callers, offer.seed)
        .into_iter()
        .map(|w| {
            let connection = w % connections;
            let node = connection % nodes;
            let caller = Caller {
                node: NodeId(u16::try_from(node).expect("at most 1,000 nodes")),
                lane: connection / nodes,
                limiter: Arc::clone(&offer.nodes[node as usize]),
                key: Arc::clone(&offer.key),
                record: Arc::clone(&offer.record),
            };
            let line = Arc::clone(&line);
            let share = requests / callers + u32::from(w < requests % callers);
            tokio::spawn(async move {
                line.wait().await;
                // Dealt out, not taken from a common pile: a limiter that answers without waiting
                // would let the first caller take them all, and its node with it.
                for _ in 0..share {
                    if caller.record.stopped() {
                        return;
                    }
                    caller.call().await;
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
    key: Arc<str>,
    record: Arc<dyn Record>,
}

impl Caller {
    async fn call(&self) {
        let at = (self.node, self.lane);
        call(&*self.record, &*self.limiter, at, &self.key, Cost::ONE).await;
    }
}

/// 0..n in an order that the seed decides (Fisher–Yates over SplitMix64).
fn shuffled(n: u32, seed: Seed) -> Vec<u32> {
    let mut state = seed.0;
    let mut random = move || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    };
    let mut order: Vec<u32> = (0..n).collect();
    for i in (1..order.len()).rev() {
        let j = random() % (i as u64 + 1);
        order.swap(i, usize::try_from(j).unwrap_or(0));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_decides_the_order_and_nobody_is_lost() {
        assert_eq!(shuffled(200, Seed(7)), shuffled(200, Seed(7)));
        assert_ne!(shuffled(200, Seed(7)), shuffled(200, Seed(8)));
        let mut all = shuffled(200, Seed(7));
        all.sort_unstable();
        assert_eq!(all, (0..200).collect::<Vec<_>>());
    }
}
