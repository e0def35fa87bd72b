//! `sequence`: the calls that the scenario lists, each at its time from the beginning of the round.
//!
//! Calls planned for the same moment follow each other as fast as they are answered.

use std::sync::Arc;

use super::agenda::{self, Agenda, Due};
use crate::model::scenario::{Shape, WorkloadPlan};
use crate::model::units::{Nanos, NodeId};
use crate::ports::BoxFuture;
use crate::ports::workload::{Offer, Workload};

pub struct Sequence;

impl Workload for Sequence {
    fn shape(&self) -> Shape {
        Shape::Sequence
    }

    fn summary(&self) -> &'static str {
        "the calls that the scenario lists, each at its time"
    }

    fn concurrent(&self, _plan: &WorkloadPlan) -> bool {
        false
    }

    fn drive<'a>(&'a self, offer: Offer<'a>) -> BoxFuture<'a, ()> {
        Box::pin(drive(offer))
    }
}

async fn drive(offer: Offer<'_>) {
    let begin = agenda::begin(&offer).await;
    let mut agenda = Agenda::new(&offer, begin);
    let mut turn = 0;
    for planned in &offer.plan.calls {
        let key: Arc<str> = format!("{}{}", offer.prefix, planned.key).into();
        for n in 0..i64::from(planned.times.get()) {
            let after = planned.at.nanos().saturating_add(planned.every.nanos().saturating_mul(n));
            let node = planned.node.map_or_else(|| agenda::in_turn(&offer, turn), NodeId);
            turn += 1;
            let due = Due { node, key: Arc::clone(&key), cost: planned.cost, what: () };
            agenda.add(Nanos(begin.0.saturating_add(after)), due);
        }
    }
    agenda::follow(&offer, agenda, |_, _, _, _| {}).await;
}
