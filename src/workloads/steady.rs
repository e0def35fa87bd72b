//! `steady`: clients that keep calling, one call every `every`, to the nodes and the keys in turn.
//!
//! Calls are planned from the first one on; one that is late does not move those after it.

use super::agenda::{self, Agenda, Due};
use crate::model::scenario::{Shape, WorkloadPlan};
use crate::model::units::Cost;
use crate::ports::BoxFuture;
use crate::ports::workload::{Offer, Workload};

pub struct Steady;

impl Workload for Steady {
    fn shape(&self) -> Shape {
        Shape::Steady
    }

    fn summary(&self) -> &'static str {
        "clients that keep calling, one call every `every`, to the nodes and the keys in turn"
    }

    fn concurrent(&self, _plan: &WorkloadPlan) -> bool {
        false
    }

    fn drive<'a>(&'a self, offer: Offer<'a>) -> BoxFuture<'a, ()> {
        Box::pin(drive(offer))
    }
}

async fn drive(offer: Offer<'_>) {
    let every = offer.plan.every.expect("validated with the scenario");
    let keys: Vec<_> = (0..offer.plan.keys.get()).map(|k| offer.key(k)).collect();
    let begin = agenda::begin(&offer).await;
    let mut agenda = Agenda::new();
    for n in 0..offer.plan.requests() {
        let key = keys[usize::try_from(n).unwrap_or(0) % keys.len()].clone();
        let node = agenda::in_turn(&offer, n);
        agenda.add(agenda::nth(begin, every, n), Due { node, key, cost: Cost::ONE, what: () });
    }
    agenda::follow(&offer, agenda, |_, _, _, _| {}).await;
}
