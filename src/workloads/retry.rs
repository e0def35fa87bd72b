//! `retry`: clients that need a number of calls admitted, and what they do when one is not.
//!
//! Each has a key of its own, one call open at a time, and makes the next one at once, unless its `behaviour`
//! says otherwise:
//!
//! * `at-once`: a refusal changes nothing;
//! * `fixed`: a refused client waits `every`;
//! * `retry-after`: it waits as long as it was told, in whole seconds rounded up, as the header says it;
//! * `retry-after-ms`: it waits as long as it was told, to the millisecond;
//! * `pace`: an admitted client waits, too: the share of one call's part of the window that is already used of
//!   the limit. With nothing left that is all of it, so it hardly ever is refused; if it is, it waits as it is told.
//!
//! Who is told no wait calls again at once. `requests` is the most calls of a round, all clients together: who
//! has not got what it needs by then goes without.

use super::agenda::{self, Agenda, Due, READ_IN_WHOLE_MS};
use crate::model::op::{Completion, Decision};
use crate::model::scenario::{Behaviour, Shape, WorkloadPlan};
use crate::model::units::{Cost, Nanos, Window};
use crate::ports::BoxFuture;
use crate::ports::workload::{Offer, Workload};

pub struct Retry;

impl Workload for Retry {
    fn shape(&self) -> Shape {
        Shape::Retry
    }

    fn summary(&self) -> &'static str {
        "clients that need so many calls admitted, and retry at once, after a pause, as told, or pace themselves"
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
    let needed = plan.successes.expect("validated with the scenario").get();
    let behaviour = plan.behaviour.expect("validated with the scenario");
    let begin = agenda::begin(&offer).await;
    let mut agenda = Agenda::new(&offer, begin);
    for client in 0..plan.keys.get() {
        let node = agenda::in_turn(&offer, client.into());
        agenda.add(begin, Due { node, key: offer.key(client), cost: Cost::ONE, what: needed });
    }
    let mut left = plan.requests().saturating_sub(plan.keys.get().into());
    let window = offer.window;
    agenda::follow(&offer, agenda, |agenda, due, now, completion| {
        let decision = match completion {
            Completion::Ok(decision) => Some(decision),
            Completion::Fail(_) | Completion::Info(_) => None,
        };
        let missing = due.what - u32::from(decision.is_some_and(|d| d.allowed));
        if missing == 0 || left == 0 {
            return;
        }
        left -= 1;
        let pause = decision.map_or(0, |d| pause_ns(behaviour, d, window, plan.every));
        agenda.add(Nanos(now.0.saturating_add(pause)), Due { what: missing, ..due });
    })
    .await;
}

/// How long a client waits after this answer, in ns.
fn pause_ns(behaviour: Behaviour, told: &Decision, window: Window, every: Option<Window>) -> i64 {
    let wait = || told.retry_after.map_or(0, |w| i64::try_from(w.as_nanos()).unwrap_or(i64::MAX));
    let exactly = || told.retry_after.map_or(0, |_| wait().saturating_add(READ_IN_WHOLE_MS));
    match (behaviour, told.allowed) {
        (Behaviour::Pace, true) => paced_ns(told, window),
        (_, true) | (Behaviour::AtOnce, false) => 0,
        (Behaviour::Fixed, false) => every.map_or(0, Window::nanos),
        (Behaviour::RetryAfter, false) => {
            let seconds = wait().saturating_add(999_999_999) / 1_000_000_000;
            seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(seconds > 0) * READ_IN_WHOLE_MS)
        }
        (Behaviour::RetryAfterMs | Behaviour::Pace, false) => exactly(),
    }
}

/// The share of the limit that is used, of the time in which one call comes back; and a millisecond, in which
/// clocks are read.
fn paced_ns(told: &Decision, window: Window) -> i64 {
    let limit = i128::from(told.limit.get());
    let used = limit - i128::from(told.remaining.unwrap_or(told.limit.get())).min(limit);
    let share = i128::from(window.nanos()) * used / limit / limit;
    let read = if used > 0 { READ_IN_WHOLE_MS / 2 } else { 0 };
    i64::try_from(share).unwrap_or(i64::MAX).saturating_add(read)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::op::Source;
    use crate::model::units::Limit;

    const MS: i64 = 1_000_000;

    fn told(wait_ms: Option<u64>, remaining: u64) -> Decision {
        Decision {
            allowed: wait_ms.is_none(),
            remaining: Some(remaining),
            limit: Limit::new(20).unwrap(),
            retry_after: wait_ms.map(Duration::from_millis),
            reset: None,
            source: Source::Store,
        }
    }

    #[test]
    fn each_behaviour_waits_its_own_time_after_a_refusal_and_after_an_admission() {
        let second = Window::from_millis(1000).unwrap();
        let pauses =
            |told: &Decision| Behaviour::ALL.map(|b| pause_ns(b, told, second, Window::from_millis(50).ok()));
        // At once, fixed, whole seconds, milliseconds, paced.
        assert_eq!(pauses(&told(Some(48), 0)), [0, 50 * MS, 1002 * MS, 50 * MS, 50 * MS]);
        assert_eq!(pauses(&told(Some(1000), 0)), [0, 50 * MS, 1002 * MS, 1002 * MS, 1002 * MS]);
        // A quarter of the limit is used: a quarter of 50 ms.
        assert_eq!(pauses(&told(None, 15)), [0, 0, 0, 0, 12_500_000 + MS]);
        assert_eq!(pauses(&told(None, 0))[4], 51 * MS);
        assert_eq!(pauses(&told(None, 20))[4], 0);
        let silent = Decision { retry_after: None, ..told(Some(1), 0) };
        assert_eq!(pauses(&silent), [0, 50 * MS, 0, 0, 0], "who is told nothing does not wait");
    }
}
