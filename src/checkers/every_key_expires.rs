//! `every-key-expires`: whenever no call is open, each key the round touched has an expiry no
//! further away than the contract says, or is gone.
//!
//! Proves, when it fails, that the store showed a key which will stay (PTTL −1) or will stay too
//! long. A pass covers the moments that were probed, at the end of each round. O(keys).

use crate::model::history::{Cell, Probe, Round};
use crate::model::units::{Nanos, millis_in_words};
use crate::model::verdict::Finding;
use crate::ports::checker::Checker;

pub struct EveryKeyExpires;

impl Checker for EveryKeyExpires {
    fn name(&self) -> &'static str {
        "every-key-expires"
    }

    fn proves(&self) -> &'static str {
        "each key a round touched has an expiry within the contract's, or is gone"
    }

    fn judge(&self, cell: &Cell) -> Finding {
        let at_most = cell.header.contract.key_ttl_at_most;
        // What a crash left is looked at before anybody can have mended it.
        let after_crash: Vec<(&Round, Probe)> = cell.rounds.iter().flat_map(left).collect();
        let probes = || {
            let last = cell.rounds.iter().flat_map(|r| r.probes.iter().map(move |p| (r, p)));
            after_crash.iter().map(|(r, p)| (*r, p)).chain(last)
        };
        let bad: Vec<(&Round, &Probe)> = probes()
            .filter(|(_, p)| {
                p.pttl == -1 || at_most.is_some_and(|w| p.pttl > 0 && p.pttl as u64 > w.millis())
            })
            .collect();
        // A command of a call that got no answer may still be on its way, the one that sets the
        // expiry too: such a round convicts nobody.
        let certain: Vec<&(&Round, &Probe)> = bad.iter().filter(|(r, _)| r.settled()).collect();
        if let Some((round, probe)) = certain.first() {
            return Finding::fail(witness(cell, round, probe, certain.len()));
        }
        if let Some((round, probe)) = bad.first() {
            return Finding::unknown(format!(
                "round {}: key {} has PTTL {}, but calls of that round got no answer and may still be at work",
                round.index, probe.key, probe.pttl
            ));
        }
        let whole = cell.rounds.iter().filter(|r| r.complete && r.probes_complete).count();
        if whole < cell.header.rounds as usize {
            return Finding::unknown(format!(
                "the keys were looked at after {whole} of {} rounds only",
                cell.header.rounds
            ));
        }
        let alive = probes().filter(|(_, p)| p.pttl != -2).count();
        match (at_most, alive) {
            (None, 0) => Finding::not_applicable("it keeps no keys in the store"),
            (None, n) => Finding::unknown(format!("it declares no keys, but {n} were found")),
            (Some(_), 0) => Finding::unknown("no key was seen in the store, so nothing was tried"),
            (Some(w), n) => {
                Finding::pass(format!("{n} keys seen after {whole} rounds, each with at most {w} to live"))
            }
        }
    }
}

/// The keys that a crash left, as if they had been looked at like any other.
fn left(round: &Round) -> impl Iterator<Item = (&Round, Probe)> {
    round.crash.iter().flat_map(move |crash| {
        crash.left.iter().map(move |k| {
            let (key, kind) = (k.key.clone(), Some(k.kind.clone()));
            (round, Probe { key, pttl: k.pttl, at: crash.at, holds: k.holds, bytes: None, kind })
        })
    })
}

fn witness(cell: &Cell, round: &Round, probe: &Probe, bad: usize) -> String {
    let at = Nanos(probe.at.0.saturating_sub(round.began.0));
    let what = if probe.pttl == -1 {
        "has no expiry (PTTL -1)".to_owned()
    } else {
        let most = cell.header.contract.key_ttl_at_most.map_or(0, |w| w.millis());
        let left = u64::try_from(probe.pttl).map_or_else(|_| format!("{} ms", probe.pttl), millis_in_words);
        format!("has {left} to live, the contract allows {}", millis_in_words(most))
    };
    let others =
        if bad > 1 { format!("; so {bad} keys in {} rounds", cell.rounds.len()) } else { String::new() };
    let died = round.crash.as_ref().map(|c| format!(", its first node dead {}", c.point.in_words()));
    format!(
        "round {}{}: {at} into it, with no call open, key {} {what}{others}",
        round.index,
        died.unwrap_or_default(),
        probe.key
    )
}
