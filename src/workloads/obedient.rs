//! `obedient`: clients that do as they are told.
//!
//! Each has a key of its own. At the beginning of the round all use up their limit. From then on
//! they call again, client n after (n + 1) × `every`, until they are refused: so refusals lie all over
//! the window. Told how long to wait, every other client waits that long and calls again; the ones
//! between wait two fifths of it only. `requests` is the most calls of a round, all clients together.
//!
//! Every fourth is refused when a tenth of the window is left, and waits a fifth of what it is told: whoever is told all
//! of the window finds that long enough, also where a hint in whole seconds may be one too long.
//!
//! A client waits two milliseconds longer than it was told: clocks are read in whole ones.

use super::agenda::{self, Agenda, Due, READ_IN_WHOLE_MS};
use crate::model::op::{Completion, Decision};
use crate::model::scenario::{Shape, WorkloadPlan};
use crate::model::units::{Cost, Nanos, Window};
use crate::ports::BoxFuture;
use crate::ports::workload::{Offer, Workload};

pub struct Obedient;

impl Workload for Obedient {
    fn shape(&self) -> Shape {
        Shape::Obedient
    }

    fn summary(&self) -> &'static str {
        "clients that use up their limit and then wait as long as they are told, or part of it"
    }

    fn concurrent(&self, _plan: &WorkloadPlan) -> bool {
        false
    }

    fn drive<'a>(&'a self, offer: Offer<'a>) -> BoxFuture<'a, ()> {
        Box::pin(drive(offer))
    }
}

/// What a client is about.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Using up its limit.
    Exhaust,
    /// Calling until it is refused and told to wait.
    Ask,
    /// Calling after the wait.
    Again,
}

async fn drive(offer: Offer<'_>) {
    let every = offer.plan.every.expect("validated with the scenario");
    let begin = agenda::begin(&offer).await;
    let mut agenda = Agenda::new(&offer, begin);
    for client in 0..offer.plan.keys.get() {
        let node = agenda::in_turn(&offer, client.into());
        let due = |what| Due { node, key: offer.key(client), cost: Cost::ONE, what };
        agenda.add(begin, due((client, Step::Exhaust)));
    }
    let mut left = offer.plan.requests().saturating_sub(offer.plan.keys.get().into());
    agenda::follow(&offer, agenda, |agenda, due, now, completion| {
        let (client, step) = due.what;
        let Completion::Ok(decision) = completion else { return };
        let next = match step {
            Step::Exhaust if decision.allowed => Some((now, Step::Exhaust)),
            Step::Exhaust if is_late(client) => Some((late(begin, offer.window), Step::Ask)),
            Step::Exhaust => Some((agenda::nth(begin, every, u64::from(client) + 1), Step::Ask)),
            Step::Ask if decision.allowed => Some((now, Step::Ask)),
            Step::Ask => told(decision).map(|wait| (after(now, wait, client), Step::Again)),
            Step::Again => None,
        };
        if let Some((at, step)) = next.filter(|_| left > 0) {
            left -= 1;
            agenda.add(at, Due { what: (client, step), ..due });
        }
    })
    .await;
}

/// The wait that a refusal tells, in ns.
fn told(decision: &Decision) -> Option<i64> {
    decision.retry_after.map(|wait| i64::try_from(wait.as_nanos()).unwrap_or(i64::MAX))
}

/// Whether a client is refused late in a window.
fn is_late(client: u32) -> bool {
    client % 4 == 3
}

/// When a tenth of the window is left that the round began with.
fn late(begin: Nanos, window: Window) -> Nanos {
    Nanos(begin.0.saturating_add(window.nanos() / 10 * 9))
}

fn after(now: Nanos, wait: i64, client: u32) -> Nanos {
    let wait = match client {
        client if is_late(client) => wait / 5,
        client if client.is_multiple_of(2) => wait.saturating_add(READ_IN_WHOLE_MS),
        _ => wait / 5 * 2,
    };
    Nanos(now.0.saturating_add(wait))
}
