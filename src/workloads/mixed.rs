//! `mixed`: calls one after the other, with gaps, costs, keys and nodes drawn from the seed.
//!
//! A gap is up to twice `every`, so that some calls follow at once and some after a while; a cost is
//! from 1 up to `cost`.

use super::agenda::{self, Agenda, Due};
use crate::model::random::Random;
use crate::model::scenario::{Shape, WorkloadPlan};
use crate::model::units::{Cost, Nanos};
use crate::ports::BoxFuture;
use crate::ports::workload::{Offer, Workload};

pub struct Mixed;

impl Workload for Mixed {
    fn shape(&self) -> Shape {
        Shape::Mixed
    }

    fn summary(&self) -> &'static str {
        "calls one after the other, with gaps, costs and keys drawn from the seed"
    }

    fn concurrent(&self, _plan: &WorkloadPlan) -> bool {
        false
    }

    fn drive<'a>(&'a self, offer: Offer<'a>) -> BoxFuture<'a, ()> {
        Box::pin(drive(offer))
    }
}

async fn drive(offer: Offer<'_>) {
    let plan = offer.plan;
    let every = plan.every.expect("validated with the scenario");
    let keys: Vec<_> = (0..plan.keys.get()).map(|k| offer.key(k)).collect();
    let mut random = Random::new(offer.seed);
    let mut at = agenda::begin(&offer).await;
    let mut agenda = Agenda::new(&offer, at);
    for _ in 0..plan.requests() {
        let cost = u32::try_from(1 + random.below(u64::from(plan.cost.get()))).unwrap_or(1);
        let cost = Cost::new(cost).expect("at least 1");
        let key = keys[usize::try_from(random.below(keys.len() as u64)).unwrap_or(0)].clone();
        let node = agenda::in_turn(&offer, random.below(offer.nodes.len() as u64));
        agenda.add(at, Due { node, key, cost, what: () });
        let gap = random.below(2 * every.millis() + 1) * 1_000_000;
        at = Nanos(at.0.saturating_add(i64::try_from(gap).unwrap_or(i64::MAX)));
    }
    agenda::follow(&offer, agenda, |_, _, _, _| {}).await;
}
