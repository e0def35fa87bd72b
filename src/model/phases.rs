//! A round before, during and after what broke: who decided the calls, and how long callers waited.
//!
//! A call belongs to the phase in which it was made. Times are those of the caller: from the request's arrival
//! to its answer, whatever the store did.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::history::{Cell, Round};
use super::op::{Op, Outcome};
use super::units::Nanos;

/// One phase of a round.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// `before`, the fault's name, `after`.
    pub name: String,
    /// From the beginning of the round, in ms.
    pub from_ms: f64,
    pub to_ms: f64,
    pub offered: u64,
    pub by_store: u64,
    pub by_policy: u64,
    /// Calls that ended in an error, or in none at all.
    pub undecided: u64,
    /// How long callers waited; absent where nobody called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ms: Option<f64>,
}

/// A stretch of a round for a picture: the calls that were made in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    pub from_ms: f64,
    pub by_store: u32,
    pub by_policy: u32,
    pub undecided: u32,
    pub max_ms: f64,
}

/// Who decided a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decider {
    Store,
    Policy,
    Nobody,
}

pub fn decider(op: &Op) -> Decider {
    match (op.outcome, op.source) {
        (Outcome::Failed | Outcome::Unknown, _) => Decider::Nobody,
        (_, Some(source)) if source.is_instead_of_store() => Decider::Policy,
        _ => Decider::Store,
    }
}

/// How long the caller waited, in ns; `None` if it got no answer at all.
pub fn waited(round: &Round, op: &Op) -> Option<i64> {
    let end = round.answered_at(op.id).unwrap_or(op.complete);
    (end != Op::NEVER).then(|| end.0.saturating_sub(op.invoke.0))
}

/// The phases of a round; none where nothing broke.
pub fn of(round: &Round) -> Vec<Phase> {
    let end = round.ops.iter().map(|o| o.invoke).max().unwrap_or(round.began);
    let mut spans: Vec<(String, Nanos, Nanos)> = Vec::new();
    for fault in &round.faults {
        // What is done at once lasts from then on.
        let over = fault.over.unwrap_or(end).max(fault.asked);
        match spans.last_mut() {
            // Times of the same fault are one phase, with what lies between them.
            Some((name, _, to)) if *name == fault.fault => *to = over.max(*to),
            Some((_, _, to)) if fault.asked < *to => *to = fault.asked,
            _ => {}
        }
        if spans.last().is_none_or(|(name, ..)| *name != fault.fault) {
            spans.push((fault.fault.clone(), fault.asked, over));
        }
    }
    let Some(first) = spans.first().map(|s| s.1) else { return Vec::new() };
    let mut phases = vec![phase(round, "before", round.began, first)];
    for (place, (name, from, to)) in spans.iter().enumerate() {
        phases.push(phase(round, name, *from, *to));
        let next = spans.get(place + 1).map_or(end, |s| s.1);
        if next > *to {
            phases.push(phase(round, "after", *to, next));
        }
    }
    phases
}

/// When a call counts: as it was made, or as something broke that it was still open in.
fn met(round: &Round, op: &Op) -> Nanos {
    let end = waited(round, op).map_or(Op::NEVER, |waited| Nanos(op.invoke.0.saturating_add(waited)));
    let broke = round.faults.iter().map(|f| f.asked).filter(|asked| op.invoke < *asked && *asked < end);
    broke.min().unwrap_or(op.invoke)
}

fn phase(round: &Round, name: &str, from: Nanos, to: Nanos) -> Phase {
    let at = |t: Nanos| rounded(t.0.saturating_sub(round.began.0));
    let mut phase = Phase { name: name.to_owned(), from_ms: at(from), to_ms: at(to), ..Phase::default() };
    let last = round.ops.iter().map(|o| met(round, o)).max();
    let inside = |op: &&Op| {
        let at = met(round, op);
        at >= from && (at < to || (Some(at) == last && at == to))
    };
    let mut took = Vec::new();
    for op in round.ops.iter().filter(inside) {
        phase.offered += 1;
        match decider(op) {
            Decider::Store => phase.by_store += 1,
            Decider::Policy => phase.by_policy += 1,
            Decider::Nobody => phase.undecided += 1,
        }
        took.extend(waited(round, op));
    }
    took.sort_unstable();
    phase.p50_ms = took.len().checked_sub(1).map(|last| rounded(took[last / 2]));
    phase.max_ms = took.last().copied().map(rounded);
    phase
}

/// The round in slices of a tenth of a second; none where nothing broke.
pub fn slices(round: &Round) -> Vec<Slice> {
    const LONG_NS: i64 = 100_000_000;
    if round.faults.is_empty() {
        return Vec::new();
    }
    let mut slices: Vec<Slice> = Vec::new();
    for op in &round.ops {
        let place = usize::try_from(op.invoke.0.saturating_sub(round.began.0) / LONG_NS).unwrap_or(0);
        while slices.len() <= place {
            let from_ms = slices.len() as f64 * LONG_NS as f64 / 1e6;
            slices.push(Slice { from_ms, ..Slice::default() });
        }
        let slice = &mut slices[place];
        match decider(op) {
            Decider::Store => slice.by_store += 1,
            Decider::Policy => slice.by_policy += 1,
            Decider::Nobody => slice.undecided += 1,
        }
        slice.max_ms = slice.max_ms.max(waited(round, op).map_or(0.0, rounded));
    }
    slices
}

/// From the end of the last fault to the first answer of the store that came after it, in ms.
pub fn back_after_ms(cell: &Cell) -> Option<f64> {
    let of = |round: &Round| {
        let over = round.faults.iter().filter_map(|f| f.over).max()?;
        let after = |op: &&Op| decider(op) == Decider::Store && op.invoke >= over;
        let first = round.ops.iter().filter(after).map(|op| op.complete).min()?;
        Some(rounded(first.0.saturating_sub(over.0)))
    };
    cell.rounds.iter().filter_map(of).max_by(f64::total_cmp)
}

/// How long after its thaw a frozen primary was found to be none any more, by the node that found out last, in
/// ms; and how many calls it admitted until then. `None` where nobody did.
pub fn noticed(round: &Round) -> Option<(f64, u64)> {
    let thawed = round.faults.iter().rfind(|f| f.fault == "freeze")?.over?;
    let nodes: BTreeSet<_> = round.ops.iter().map(|op| op.node).collect();
    let (mut last, mut admitted) = (0_i64, 0);
    for node in nodes {
        let after = || round.ops.iter().filter(|op| op.node == node && op.invoke >= thawed);
        let told = after().find(|op| decider(op) != Decider::Store)?.invoke;
        last = last.max(told.0.saturating_sub(thawed.0));
        admitted += after().filter(|op| op.invoke < told && op.outcome == Outcome::Admitted).count() as u64;
    }
    (last > 0).then(|| (rounded(last), admitted))
}

fn rounded(ns: i64) -> f64 {
    (ns as f64 / 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::super::history::Faulted;
    use super::super::op::{KeyId, Source};
    use super::super::units::{Cost, NodeId, OpId};
    use super::*;

    fn round(faults: &[(&str, i64, i64)], calls: &[(i64, i64)]) -> Round {
        let mut round = Round::default();
        for (id, (fault, from, to)) in (1..).zip(faults) {
            round.faults.push(Faulted {
                id,
                fault: (*fault).to_owned(),
                on: "primary".to_owned(),
                asked: Nanos(*from),
                from: Nanos(*from),
                lifted: Some(Nanos(*to)),
                over: Some(Nanos(*to)),
                told: None,
            });
        }
        for (n, (at, took)) in (0..).zip(calls) {
            let mut op = Op::new(OpId(n), NodeId(0), KeyId(0), Cost::ONE, Nanos(*at));
            (op.complete, op.outcome, op.source) = (Nanos(at + took), Outcome::Admitted, Some(Source::Store));
            round.ops.push(op);
        }
        round
    }

    #[test]
    fn a_call_belongs_to_the_phase_in_which_it_was_made_or_struck() {
        // The second one was open when the server froze, and waited for it.
        let round = round(&[("freeze", 100, 200)], &[(0, 5), (99, 50), (150, 60), (200, 1), (300, 1)]);
        let told: Vec<_> = of(&round).iter().map(|p| (p.name.clone(), p.offered)).collect();
        assert_eq!(told, [("before".into(), 1), ("freeze".into(), 2), ("after".into(), 2)]);
    }

    #[test]
    fn times_of_one_fault_are_one_phase() {
        let round =
            round(&[("cut", 100, 110), ("cut", 120, 130), ("cut", 140, 150)], &[(0, 1), (125, 1), (160, 1)]);
        let told: Vec<_> = of(&round).iter().map(|p| (p.name.clone(), p.offered)).collect();
        assert_eq!(told, [("before".into(), 1), ("cut".into(), 1), ("after".into(), 1)]);
    }
}
