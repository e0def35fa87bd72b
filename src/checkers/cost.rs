//! `cost`: a decision takes no more round trips than the contract says, and what it takes besides.
//!
//! The promise is one of a warm connection, with scripts loaded and nothing to retry, so the best round
//! counts: every round has the connections and the scripts of those before it. Proves, when it fails,
//! that in each of several rounds some call took more exchanges than promised. A single round may have
//! been the cold one, and convicts nobody. A pass says that in some round no call took more; it says
//! nothing about time, nor about a server that is slow. O(rounds + calls + keys).
//!
//! Told besides: commands and round trips per decision, and the memory of a round's keys by its
//! identities, where the server was asked for it.

use std::fmt::Write as _;

use crate::model::history::{Cell, Round};
use crate::model::op::{Op, Outcome, Source};
use crate::model::verdict::Finding;
use crate::ports::checker::Checker;

pub struct CostChecker;

impl Checker for CostChecker {
    fn name(&self) -> &'static str {
        "cost"
    }

    fn proves(&self) -> &'static str {
        "a decision takes no more round trips than the contract says, on a warm connection"
    }

    fn judge(&self, cell: &Cell) -> Finding {
        let instead =
            cell.rounds.iter().flat_map(|r| &r.ops).filter(|o| decided(o) && !by_limiter(o)).count();
        let rounds: Vec<&Round> =
            cell.rounds.iter().filter(|r| r.complete && r.ops.iter().any(by_limiter)).collect();
        let figures = figures(cell, &rounds);
        let Some(most) = cell.header.contract.round_trips_at_most else {
            return Finding::not_applicable(format!(
                "its contract names no number of round trips; {figures}"
            ));
        };
        if instead > 0 {
            return Finding::unknown(format!(
                "{instead} calls were decided by a policy instead of the store, of which this check knows nothing"
            ));
        }
        let Some(best) = rounds.iter().map(|r| r.most_trips).min() else {
            return Finding::unknown("no call of a whole round was decided");
        };
        let by_store = |r: &&&Round| r.ops.iter().any(|o| decided(o) && o.source == Some(Source::Store));
        if rounds.iter().filter(by_store).any(|r| r.trips == 0) {
            return Finding::unknown(
                "the store decided, and the history does not say in how many round trips",
            );
        }
        if best <= most {
            return Finding::pass(format!(
                "{figures}; at most {best} for one call in the best round, {most} promised"
            ));
        }
        if rounds.len() == 1 {
            return Finding::unknown(format!(
                "{figures}; up to {best} for one call and {most} promised, but connections and scripts may have \
                 been cold in the only round"
            ));
        }
        Finding::fail(format!(
            "each of {} rounds has a call that took more than {most} round trips, {best} in the best of them; {figures}",
            rounds.len()
        ))
    }
}

/// Decided by the limiter, and not by a policy because the store did not.
fn by_limiter(op: &Op) -> bool {
    decided(op) && !op.source.is_some_and(Source::is_instead_of_store)
}

fn decided(op: &Op) -> bool {
    matches!(op.outcome, Outcome::Admitted | Outcome::Denied)
}

fn figures(cell: &Cell, rounds: &[&Round]) -> String {
    let calls: usize = rounds.iter().map(|r| r.ops.iter().filter(|o| by_limiter(o)).count()).sum();
    let trips: u64 = rounds.iter().map(|r| r.trips).sum();
    let each = |n: u64, of: usize| n as f64 / of.max(1) as f64;
    let mut text = format!("{:.2} round trips per decision", each(trips, calls));
    // Commands are counted over the whole cell, so only a cell that was recorded whole can tell.
    if let Some(honesty) = cell.honesty
        && rounds.len() == cell.rounds.len()
        && honesty.commands > 0
    {
        let sent: usize = cell.rounds.iter().map(|r| r.ops.len()).sum();
        let _ = write!(text, ", {:.2} commands per call", each(honesty.commands, sent));
    }
    match rounds.iter().filter_map(|r| bytes_per_identity(r)).max() {
        Some(bytes) => {
            let _ = write!(text, ", up to {bytes} bytes per identity");
        }
        None => text.push_str(", key sizes not recorded"),
    }
    text
}

/// What the server says a round's keys take, by the keys that were asked for.
fn bytes_per_identity(round: &Round) -> Option<u64> {
    let sizes = || round.probes.iter().filter_map(|p| p.bytes);
    let identities = round.keys.len() as u64;
    (round.probes_complete && sizes().next().is_some() && identities > 0)
        .then(|| sizes().sum::<u64>().div_ceil(identities))
}
