//! `mixed`: calls one after the other, with gaps, costs, keys and nodes drawn from the seed.
//!
//! A gap is up to twice `every`, so that some calls follow at once and some after a while; a cost is
//! from 1 up to `cost`.
//!
//! What must not be left to chance comes first. On each key a call of cost 1, which a fresh key has room
//! for; then calls at once of the highest cost, until one is refused; then nobody calls for two windows, in
//! which everything comes back, and the next call costs 1. So each key sees calls admitted and refused
//! whatever the seed. A limit that half of the calls would not reach is not tried to be reached.

use super::agenda::{self, Agenda, Due};
use crate::model::op::Completion;
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
        "calls one after the other: each key used up first, then gaps, costs and keys drawn from the seed"
    }

    fn concurrent(&self, _plan: &WorkloadPlan) -> bool {
        false
    }

    fn drive<'a>(&'a self, offer: Offer<'a>) -> BoxFuture<'a, ()> {
        Box::pin(drive(offer))
    }
}

/// What a call is for.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// Using up the limit of the n-th key, after so many calls.
    Opening {
        key: u32,
        made: u64,
    },
    Drawn,
}

async fn drive(offer: Offer<'_>) {
    let begin = agenda::begin(&offer).await;
    let mut agenda = Agenda::new(&offer, begin);
    let mut left = offer.plan.requests();
    let most = most_to_open(offer.plan, offer.limit.get());
    match most {
        Some(_) => {
            left -= 1;
            agenda.add(begin, opening(&offer, 0, 0));
        }
        None => draw(&offer, &mut agenda, begin, left),
    }
    agenda::follow(&offer, agenda, |agenda, due, now, completion| {
        let Part::Opening { key, made } = due.what else { return };
        let refused = matches!(completion, Completion::Ok(decision) if !decision.allowed);
        let next = match () {
            () if !refused && most.is_some_and(|most| made < most) => Some((key, made + 1)),
            () if key + 1 < offer.plan.keys.get() => Some((key + 1, 0)),
            () => None,
        };
        match next {
            Some((key, made)) => {
                left -= 1;
                agenda.add(now, opening(&offer, key, made));
            }
            None => {
                let all_back = offer.window.nanos().saturating_mul(2);
                draw(&offer, agenda, Nanos(now.0.saturating_add(all_back)), left);
            }
        }
    })
    .await;
}

/// How many calls of the highest cost a key may take to be used up; `None` if the limit is out of reach
/// for half of all calls.
fn most_to_open(plan: &WorkloadPlan, limit: u64) -> Option<u64> {
    let each = (plan.requests() / 2 / u64::from(plan.keys.get())).checked_sub(1)?;
    (limit.div_ceil(plan.cost.get().into()) <= each).then_some(each)
}

fn opening(offer: &Offer<'_>, key: u32, made: u64) -> Due<Part> {
    let cost = if made == 0 { Cost::ONE } else { offer.plan.cost };
    let node = agenda::in_turn(offer, key.into());
    Due { node, key: offer.key(key), cost, what: Part::Opening { key, made } }
}

/// So many calls, the first of them then and of cost 1.
fn draw<'a>(offer: &Offer<'a>, agenda: &mut Agenda<'a, Part>, from: Nanos, calls: u64) {
    let plan = offer.plan;
    let every = plan.every.expect("validated with the scenario");
    let mut random = Random::new(offer.seed);
    let mut at = from;
    for n in 0..calls {
        let drawn = u32::try_from(1 + random.below(u64::from(plan.cost.get()))).unwrap_or(1);
        let cost = if n == 0 { Cost::ONE } else { Cost::new(drawn).expect("at least 1") };
        let key = u32::try_from(random.below(plan.keys.get().into())).unwrap_or(0);
        let node = agenda::in_turn(offer, random.below(offer.nodes.len() as u64));
        agenda.add(at, Due { node, key: offer.key(key), cost, what: Part::Drawn });
        let gap = random.below(2 * every.millis() + 1) * 1_000_000;
        at = Nanos(at.0.saturating_add(i64::try_from(gap).unwrap_or(i64::MAX)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::scenario::Scenario;

    fn plan(requests: u64, cost: u32, keys: u32) -> WorkloadPlan {
        let text = format!(
            "schema = 1\ntitle = \"t\"\nshows = \"s\"\nchecks = [\"c\"]\n[limit]\nlimit = 1\nwindow = \"1s\"\n\
             [workload]\nshape = \"mixed\"\nevery = \"1s\"\nrequests = {requests}\ncost = {cost}\nkeys = {keys}\n\
             connections = 1\nin_flight = 1\n[[variant]]\nlimiter = \"a\"\n"
        );
        Scenario::parse("mixed.toml", &text).unwrap().workload
    }

    #[test]
    fn a_limit_is_used_up_first_where_half_of_the_calls_are_enough() {
        assert_eq!(most_to_open(&plan(60, 2, 1), 5), Some(29));
        assert_eq!(most_to_open(&plan(60, 1, 1), 29), Some(29));
        assert_eq!(most_to_open(&plan(60, 1, 1), 30), None);
        assert_eq!(most_to_open(&plan(60, 1, 3), 9), Some(9));
        assert_eq!(most_to_open(&plan(60, 1, 40), 1), None);
        assert_eq!(most_to_open(&plan(20, u32::MAX, 1), 5), Some(9));
        assert_eq!(most_to_open(&plan(60, 2, 1), (1 << 53) - 1), None);
    }
}
