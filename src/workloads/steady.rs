//! `steady`: clients that keep calling, one call every `every`, to the keys in turn and to the nodes in turn or by their
//! shares.
//!
//! Calls are planned from the first one on; one that is late does not move those after it. With several in
//! flight there are as many callers, who take the calls in turn and do not wait for each other: a call is
//! made late only where its own caller's last one is still open.

use std::sync::Arc;

use super::agenda::{self, Agenda, Due};
use super::calls::call;
use crate::model::scenario::{Deal, Shape, WorkloadPlan};
use crate::model::units::{Cost, Nanos, Window};
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
    if offer.plan.in_flight.get() > 1 {
        return beside_each_other(offer, begin, every, &keys).await;
    }
    let mut agenda = Agenda::new(&offer, begin);
    let mut deal = Deal::new(offer.plan);
    for n in 0..offer.plan.requests() {
        let key = keys[usize::try_from(n).unwrap_or(0) % keys.len()].clone();
        let at = agenda::nth(begin, every, n);
        let (node, new) = deal.next(at.0 - begin.0);
        if let Some(nodes) = new {
            agenda.scale(at, nodes);
        }
        agenda.add(at, Due { node, key, cost: Cost::ONE, what: () });
    }
    agenda::follow(&offer, agenda, |_, _, _, _| {}).await;
}

async fn beside_each_other(offer: Offer<'_>, begin: Nanos, every: Window, keys: &[Arc<str>]) {
    let callers = offer.plan.in_flight.get();
    let mut deal = Deal::new(offer.plan);
    let dealt = (0..offer.plan.requests()).map(|n| {
        let key = keys[usize::try_from(n).unwrap_or(0) % keys.len()].clone();
        let at = agenda::nth(begin, every, n);
        let (node, new) = deal.next(at.0 - begin.0);
        (at, node, key, new)
    });
    let dealt: Vec<_> = dealt.collect();
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let calls: Vec<_> =
                dealt.iter().skip(caller as usize).step_by(callers as usize).cloned().collect();
            let fleet = Arc::clone(&offer.fleet);
            let (nodes, record, time) =
                (offer.nodes.clone(), Arc::clone(&offer.record), Arc::clone(&offer.time));
            tokio::spawn(async move {
                for (at, node, key, new) in calls {
                    if !time.until(at).await || record.stopped() {
                        return;
                    }
                    if let Some(nodes) = new {
                        agenda::scaled(&fleet, &*record, nodes);
                    }
                    call(&*record, &*nodes[usize::from(node.0)], (node, caller), &key, Cost::ONE).await;
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
