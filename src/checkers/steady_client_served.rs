//! `steady-client-served`: a client that was refused and keeps calling gets in again within the time
//! in which its limiter must have something to give, one window for most
//! ([`crate::model::contract::Contract::gives_back_within_ns`]).
//!
//! A key on which calls of cost 1 are still refused after that, with nothing admitted in between, is
//! held back by something else than its bound, such as an expiry that refused calls push back.
//!
//! Proves, when it fails, that such a stretch was seen: from the completion of its first refusal to
//! the invocation of its last, both of which only shorten it. A pass needs a client that was refused
//! and then admitted. O(n), whatever the number of keys.

use crate::model::contract::Bound;
use crate::model::history::{Cell, Round};
use crate::model::op::{Op, Outcome};
use crate::model::units::{Cost, Nanos};
use crate::model::verdict::Finding;
use crate::ports::checker::Checker;

pub struct SteadyClientServed;

impl Checker for SteadyClientServed {
    fn name(&self) -> &'static str {
        "steady-client-served"
    }

    fn proves(&self) -> &'static str {
        "a client that was refused and keeps calling gets in again within a window"
    }

    fn judge(&self, cell: &Cell) -> Finding {
        let bound = &cell.header.contract.bound;
        let Some(within) = cell.header.contract.gives_back_within_ns() else {
            return Finding::unknown("the limiter promises no bound, so nothing says when it must let go");
        };
        let mut released = 0;
        for round in &cell.rounds {
            let resolution = i64::try_from(cell.header.contract.clock_resolution_ms).unwrap_or(i64::MAX);
            let slack =
                resolution.saturating_mul(1_000_000).saturating_add(round.clock_step_ns.saturating_abs());
            let most = within.saturating_add(slack);
            let seen = follow(round);
            let held = |seen: &Seen| seen.longest.filter(|h| h.length() > most);
            if let Some((key, held)) = seen.iter().enumerate().find_map(|(key, s)| Some((key, held(s)?))) {
                return Finding::fail(witness(round, key, &held, bound));
            }
            released += seen.iter().map(|s| u64::from(s.released)).sum::<u64>();
        }
        let whole = cell.rounds.iter().filter(|r| r.complete).count();
        if whole < cell.header.rounds as usize {
            return Finding::unknown("the history is cut short, and nobody was held back in what there is");
        }
        if released == 0 {
            return Finding::unknown("no client was refused and then admitted again, so nothing was tried");
        }
        Finding::pass(format!(
            "{released} times a refused client was admitted again within {}",
            Nanos(within)
        ))
    }
}

/// Calls refused one after the other, with nothing admitted or unknown in between.
#[derive(Clone, Copy)]
struct Held {
    /// When the first of them had completed, and the last was invoked.
    from: Nanos,
    to: Nanos,
    calls: u32,
}

impl Held {
    fn length(&self) -> i64 {
        self.to.0.saturating_sub(self.from.0)
    }
}

/// What happened to the calls of a key so far.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// The stretch that goes on, and the longest.
    open: Option<Held>,
    longest: Option<Held>,
    /// How often an admission followed a refusal.
    released: u32,
}

/// Follows every key of a round at once.
fn follow(round: &Round) -> Vec<Seen> {
    let mut keys = vec![Seen::default(); round.keys.len()];
    // Ops are recorded in the order of their invocation. A call without a decision may have been
    // admitted for all anybody knows: it ends a stretch as an admission does. A refusal of a larger
    // cost says nothing: what is left may be too little for it and enough for others.
    let telling = |o: &&Op| o.cost == Cost::ONE || o.outcome != Outcome::Denied;
    for op in round.ops.iter().filter(telling) {
        let Some(seen) = keys.get_mut(op.key.0 as usize) else { continue };
        seen.open = match (seen.open, op.outcome) {
            (None, Outcome::Denied) => Some(Held { from: op.complete, to: op.invoke, calls: 1 }),
            (Some(held), Outcome::Denied) => Some(longer(held, op)),
            (held, outcome) => {
                seen.released += u32::from(held.is_some() && outcome == Outcome::Admitted);
                None
            }
        };
        if let Some(held) = seen.open
            && seen.longest.is_none_or(|h| h.length() < held.length())
        {
            seen.longest = Some(held);
        }
    }
    keys
}

fn longer(held: Held, op: &Op) -> Held {
    Held { to: op.invoke, calls: held.calls + 1, ..held }
}

fn witness(round: &Round, key: usize, held: &Held, bound: &Bound) -> String {
    let at = |t: Nanos| Nanos(t.0.saturating_sub(round.began.0));
    let (from, to) = (at(held.from), at(held.to));
    format!(
        "round {}, key {}: {} calls in a row were refused from {} to {} of the round, {} long, and none admitted; \
         by its promise ({}) something must have come back by then",
        round.index,
        round.keys[key],
        held.calls,
        from.beside(to),
        to.beside(from),
        Nanos(held.length()),
        bound.in_words()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::units::{NodeId, OpId};

    fn round(calls: &[(i64, Outcome, u32)]) -> Round {
        let mut round = Round::default();
        let key = round.key("k");
        for (n, (ms, outcome, cost)) in calls.iter().enumerate() {
            let (id, at) = (OpId(n as u32), Nanos(ms * 1_000_000));
            let mut op = Op::new(id, NodeId(0), key, Cost::new(*cost).unwrap(), at);
            (op.outcome, op.complete) = (*outcome, Nanos(at.0 + 1));
            round.ops.push(op);
        }
        round
    }

    #[test]
    fn a_stretch_ends_with_an_admission_or_with_a_call_nobody_knows_about() {
        use Outcome::{Admitted, Denied, Unknown};
        let held = |calls: &[(i64, Outcome, u32)]| {
            let seen = follow(&round(calls))[0];
            (seen.longest.map_or(0, |h| (h.length() + 1) / 1_000_000), seen.released)
        };
        assert_eq!(held(&[(0, Admitted, 1), (10, Denied, 1), (60, Denied, 1)]), (50, 0));
        assert_eq!(held(&[(10, Denied, 1), (20, Admitted, 1), (60, Denied, 1), (70, Denied, 1)]), (10, 1));
        assert_eq!(held(&[(10, Denied, 1), (20, Unknown, 1), (60, Denied, 1)]), (0, 0));
        // A large call that is refused all the time holds nobody back.
        assert_eq!(held(&[(10, Denied, 9), (60, Denied, 9), (110, Denied, 9)]), (0, 0));
    }
}
