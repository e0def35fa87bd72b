//! `steady`: one client that keeps calling, one call every `every`, to the nodes in turn.
//!
//! Calls are planned from the first one on; one that is late does not move those after it. Nothing
//! overlaps while the store answers within `every`: what is tried is time, not a race.

use tokio::time::{MissedTickBehavior, interval};

use crate::model::scenario::{Shape, WorkloadPlan};
use crate::model::units::{Cost, NodeId};
use crate::ports::BoxFuture;
use crate::ports::workload::{Offer, Workload, call};

pub struct Steady;

impl Workload for Steady {
    fn shape(&self) -> Shape {
        Shape::Steady
    }

    fn summary(&self) -> &'static str {
        "one client that keeps calling, one call every `every`, to the nodes in turn"
    }

    fn concurrent(&self, _plan: &WorkloadPlan) -> bool {
        false
    }

    fn drive<'a>(&'a self, offer: Offer<'a>) -> BoxFuture<'a, ()> {
        Box::pin(drive(offer))
    }
}

async fn drive(offer: Offer<'_>) {
    let every = offer.plan.every.expect("validated with the scenario").duration();
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for n in 0..offer.plan.requests.get() {
        ticks.tick().await;
        if offer.record.stopped() {
            return;
        }
        let node = n as usize % offer.nodes.len();
        let id = NodeId(u16::try_from(node).expect("at most 1,000 nodes"));
        call(&*offer.record, &*offer.nodes[node], (id, 0), &offer.key, Cost::ONE).await;
    }
}
