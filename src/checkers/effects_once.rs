//! `effects-once`: the store applied no call more often than it was made.
//!
//! What a call did in the store is read back from its counter when nothing is under way any more. A call
//! without an answer may have been applied or not; never twice.
//!
//! Proves, when it fails, that a counter holds more than all calls on its key can have put there, each taken
//! once: some call was applied again, by a client that sent it twice. A pass needs a counter that was looked
//! at, on whose key a call went without an answer of the store. It can speak only of limiters that keep one
//! counter, a string, under the key they were given; and a counter that expired, or died with its server,
//! tells less, never more. O(n log n).

use std::collections::BTreeMap;

use super::common;
use crate::model::contract::Denials;
use crate::model::history::{Cell, Round};
use crate::model::op::{Op, Outcome, Source};
use crate::model::verdict::Finding;
use crate::ports::checker::Checker;

pub struct EffectsOnce;

/// What the calls on one key may have put into its counter, and what it held in the end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Effects {
    /// Calls of any outcome.
    pub calls: u64,
    /// By calls that the store answered.
    pub certain: u64,
    /// By calls of which nobody knows.
    pub doubtful: u64,
    pub held: u64,
}

impl Checker for EffectsOnce {
    fn name(&self) -> &'static str {
        "effects-once"
    }

    fn proves(&self) -> &'static str {
        "the store applies no call twice, whoever sent it again"
    }

    fn judge(&self, cell: &Cell) -> Finding {
        let (mut doubtful, mut looked) = (0, false);
        for round in cell.rounds.iter().filter(|r| r.complete) {
            let effects = of(cell, round);
            looked |= !effects.is_empty();
            let twice: Vec<_> =
                effects.iter().filter(|(_, e)| e.held > e.certain.saturating_add(e.doubtful)).collect();
            if let Some((key, e)) = twice.first() {
                let others = match twice.len() - 1 {
                    0 => String::new(),
                    n => format!("; so do the counters of {n} other keys"),
                };
                return Finding::fail(format!(
                    "the counter of '{key}' holds {}, and {} put at most {} there, each applied once{others}",
                    e.held,
                    if e.calls == 1 { "1 call".to_owned() } else { format!("{} calls", e.calls) },
                    e.certain + e.doubtful
                ));
            }
            doubtful += effects.values().filter(|e| e.doubtful > 0).count();
        }
        if let Some(cut) = common::cut_short(cell) {
            return cut;
        }
        if !looked {
            return Finding::unknown("no counter was left to be looked at (observe memory = true)");
        }
        if doubtful == 0 {
            return Finding::unknown("the store answered every call, so none was in doubt");
        }
        Finding::pass(format!(
            "{doubtful} counters of calls without an answer hold no more than was called for"
        ))
    }
}

/// The counters of a round, by key, beside what was called for on it.
pub fn of<'r>(cell: &Cell, round: &'r Round) -> BTreeMap<&'r str, Effects> {
    let mut effects: BTreeMap<&str, Effects> = BTreeMap::new();
    if !round.probes_complete {
        return effects;
    }
    for probe in &round.probes {
        if let Some(held) = probe.counted().and_then(|n| u64::try_from(n).ok()) {
            effects.insert(&probe.key, Effects { held, ..Effects::default() });
        }
    }
    let presets = round.presets.iter().map(|p| (p.key, p.used));
    for (key, used) in presets {
        if let Some(of_key) = effects.get_mut(round.keys[key.0 as usize].as_str()) {
            of_key.certain += used;
        }
    }
    let charged = cell.header.contract.denials == Denials::Charged;
    for op in &round.ops {
        let Some(of_key) = effects.get_mut(round.keys[op.key.0 as usize].as_str()) else { continue };
        let cost = u64::from(op.cost.get());
        of_key.calls += 1;
        match op.outcome {
            _ if in_doubt(op) => of_key.doubtful += cost,
            Outcome::Admitted => of_key.certain += cost,
            Outcome::Denied if charged => of_key.certain += cost,
            _ => {}
        }
    }
    // What nobody called for by that name says nothing.
    effects.retain(|_, e| e.calls > 0);
    effects
}

/// Whether nobody knows what the store did for this call.
pub fn in_doubt(op: &Op) -> bool {
    op.outcome == Outcome::Unknown
        || matches!(op.source, Some(Source::FailOpen | Source::FailClosed | Source::Fallback))
}
