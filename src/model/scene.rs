//! The part of a round that a conviction is about: the calls that convict, those beside them, and what was
//! broken meanwhile. For a picture, and for an account step by step.
//!
//! Times are in ms from the beginning of the round. What is kept is bounded, so that a report of many convictions
//! stays one that can be opened.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::history::Round;
use super::names::without_prefix;
use super::op::{Op, Outcome, Source};
use super::units::{Nanos, OpId};

/// Calls of a scene at most, those that convict first.
const MOST: usize = 48;

/// Where in a round a checker saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The round's number, from 1.
    pub round: u32,
    /// The calls that convict, in the order in which the witness counts them: the first, and the last one.
    pub ops: Vec<OpId>,
    /// Those between that are not named.
    pub left_out: usize,
    /// Where they are counted against a bound: what was used before the first of them, what it is with the last, and how
    /// much may be.
    pub counted: Option<Counted>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    pub before: u64,
    pub with_all: u64,
    pub allowed: u64,
}

impl Place {
    pub fn of(round: &Round, ops: impl IntoIterator<Item = OpId>) -> Self {
        let mut place =
            Self { round: round.index, ops: Vec::with_capacity(MOST), left_out: 0, counted: None };
        for op in ops {
            if place.ops.len() == MOST {
                place.left_out += 1;
                place.ops.pop();
            }
            place.ops.push(op);
        }
        place
    }

    /// Where calls are counted against a bound.
    pub fn counting(self, counted: Counted) -> Self {
        Self { counted: Some(counted), ..self }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scene {
    /// From 1.
    pub round: u32,
    /// How much may be admitted, where the calls are counted against a bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<u64>,
    /// In order of their beginning.
    pub calls: Vec<SceneCall>,
    /// Calls that convict and are not among them.
    #[serde(default, skip_serializing_if = "is_none")]
    pub left_out: usize,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<SceneFault>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SceneCall {
    pub op: u32,
    pub node: u16,
    pub key: String,
    pub from_ms: f64,
    /// Absent if it was never answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_ms: Option<f64>,
    pub outcome: Outcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    pub cost: u32,
    /// Whether the witness counts it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub convicts: bool,
    /// What has been admitted once it is, where that is held against a bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SceneFault {
    pub fault: String,
    pub on: String,
    pub from_ms: f64,
    /// Absent where it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_ms: Option<f64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_none(n: &usize) -> bool {
    *n == 0
}

/// The scene at a place; `None` where the place names no call of the round. O(n) in the round's calls.
pub fn of(round: &Round, place: &Place) -> Option<Scene> {
    let named: Vec<&Op> = place.ops.iter().filter_map(|id| round.ops.get(id.0 as usize)).collect();
    let from = named.iter().map(|o| o.invoke).min()?;
    let to = named.iter().map(|o| ended(o)).max()?;
    let counted = place.counted.unwrap_or(Counted { before: 0, with_all: 0, allowed: 0 });
    let mut sum = counted.before;
    let mut sums: BTreeMap<OpId, u64> = BTreeMap::new();
    for op in &named {
        sum = sum.saturating_add(op.cost.get().into());
        sums.insert(op.id, sum);
    }
    // The last one is what carries the count over the bound: it is always named, whatever was left out before it.
    sums.extend(named.last().filter(|_| place.left_out > 0).map(|last| (last.id, counted.with_all)));
    let keys: BTreeSet<_> = named.iter().map(|o| o.key).collect();
    let mut chosen: Vec<&Op> = named.clone();
    let beside = round
        .ops
        .iter()
        .filter(|o| keys.contains(&o.key) && !sums.contains_key(&o.id) && o.invoke <= to && ended(o) >= from);
    chosen.extend(beside.take(MOST - chosen.len()));
    chosen.sort_by_key(|o| (o.invoke, o.id));
    let at = |t: Nanos| Nanos(t.0.saturating_sub(round.began.0)).millis();
    let call = |o: &&Op| SceneCall {
        op: o.id.0,
        node: o.node.0,
        key: without_prefix(round.keys.get(o.key.0 as usize).map_or("", String::as_str)).into_owned(),
        from_ms: at(o.invoke),
        to_ms: (o.complete != Op::NEVER).then(|| at(o.complete)),
        outcome: o.outcome,
        source: o.source,
        cost: o.cost.get(),
        sum: sums.get(&o.id).copied().filter(|_| place.counted.is_some()),
        convicts: sums.contains_key(&o.id),
    };
    let faults = round.faults.iter().filter(|f| f.touches(from, to)).map(|f| SceneFault {
        fault: f.fault.clone(),
        on: f.on.clone(),
        from_ms: at(f.asked),
        to_ms: f.over.map(at),
    });
    Some(Scene {
        round: round.index,
        allowed: place.counted.map(|c| c.allowed),
        calls: chosen.iter().map(call).collect(),
        left_out: place.left_out,
        faults: faults.collect(),
    })
}

/// What was never answered is on its way for ever; for a picture it ends where it began.
fn ended(op: &Op) -> Nanos {
    if op.complete == Op::NEVER { op.invoke } else { op.complete }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::units::{Cost, NodeId};

    /// Calls of a millisecond each, one after the other, every second one admitted.
    fn round(calls: u32) -> Round {
        let mut round = Round::starting(2, Nanos(5_000_000), None);
        let key = round.key("rl-lab:x:user");
        for n in 0..calls {
            let at = Nanos(5_000_000 + i64::from(n) * 1_000_000);
            let mut op = Op::new(OpId(n), NodeId(0), key, Cost::ONE, at);
            op.complete = Nanos(at.0 + 1_000_000);
            op.outcome = if n % 2 == 0 { Outcome::Admitted } else { Outcome::Denied };
            round.ops.push(op);
        }
        round
    }

    #[test]
    fn a_scene_holds_who_convicts_and_who_was_there_beside() {
        let round = round(10);
        let scene = of(&round, &Place::of(&round, [OpId(2), OpId(6)])).unwrap();
        let seen: Vec<(u32, bool)> = scene.calls.iter().map(|c| (c.op, c.convicts)).collect();
        assert_eq!(scene.round, 2);
        // Those that only touch at their ends are shown as well.
        assert_eq!(seen, [(1, false), (2, true), (3, false), (4, false), (5, false), (6, true), (7, false)]);
        assert_eq!((scene.calls[1].from_ms, scene.calls[1].to_ms), (2.0, Some(3.0)));
    }

    #[test]
    fn a_scene_stays_small_and_keeps_the_last_that_convicts() {
        let round = round(1000);
        let all = (0..1000).step_by(2).map(OpId);
        let scene = of(&round, &Place::of(&round, all)).unwrap();
        assert_eq!((scene.calls.len(), scene.left_out), (MOST, 500 - MOST));
        assert_eq!(scene.calls.last().unwrap().op, 998);
        assert_eq!((scene.allowed, scene.calls[0].sum), (None, None), "nothing is counted");
    }

    #[test]
    fn calls_that_are_held_against_a_bound_are_counted_with_what_was_before() {
        let round = round(6);
        let counted = Counted { before: 7, with_all: 10, allowed: 9 };
        let place = Place::of(&round, [OpId(0), OpId(2), OpId(4)]).counting(counted);
        let scene = of(&round, &place).unwrap();
        let sums: Vec<Option<u64>> = scene.calls.iter().map(|c| c.sum).collect();
        assert_eq!(sums, [Some(8), None, Some(9), None, Some(10), None]);

        let round = self::round(1000);
        let counted = Counted { before: 0, with_all: 500, allowed: 10 };
        let place = Place::of(&round, (0..1000).step_by(2).map(OpId)).counting(counted);
        let scene = of(&round, &place).unwrap();
        let sums: Vec<Option<u64>> = scene.calls.iter().map(|c| c.sum).collect();
        assert_eq!((sums[0], sums[MOST - 2], sums[MOST - 1]), (Some(1), Some(MOST as u64 - 1), Some(500)));
    }

    #[test]
    fn no_call_no_scene() {
        let round = round(3);
        assert_eq!(of(&round, &Place::of(&round, [])), None);
        assert_eq!(of(&round, &Place::of(&round, [OpId(7)])), None);
    }
}
