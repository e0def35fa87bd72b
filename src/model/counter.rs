//! What the store said was used, call by call, beside what was admitted in truth: where the two part, counts were lost.
//!
//! Told by the limiter's own `remaining`: used is the limit less what it says is left. For a picture of a failover, so it
//! is kept only where there are servers that replicate, and thinned out.

use serde::{Deserialize, Serialize};

use super::history::Round;
use super::op::{Op, Outcome};
use super::phases::{Decider, decider};
use super::units::Limit;

/// Points of a round at most.
const MOST: usize = 150;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    pub points: Vec<Point>,
    /// What was broken, and before which call, from 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<(u32, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// The call, from 1, in order of completion.
    pub call: u32,
    /// Absent where the store did not decide, or the limiter does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<u64>,
    /// So far, all keys together.
    pub admitted: u64,
}

/// `None` where nobody told what is left, or calls went to several keys. O(n log n) in the calls.
pub fn of(limit: Limit, round: &Round) -> Option<Counter> {
    if round.keys.len() != 1 || round.ops.iter().all(|o| o.remaining.get().is_none()) {
        return None;
    }
    let mut ops: Vec<&Op> = round.ops.iter().filter(|o| o.complete != Op::NEVER).collect();
    ops.sort_by_key(|o| (o.complete, o.id));
    let mut admitted = 0;
    let mut all = Vec::with_capacity(ops.len());
    for (call, op) in (1..).zip(&ops) {
        if op.outcome == Outcome::Admitted {
            admitted += u64::from(op.cost.get());
        }
        let left = op.remaining.get().filter(|_| decider(op) == Decider::Store);
        let used = left.map(|left| limit.get().saturating_sub(left));
        all.push(Point { call, used, admitted });
    }
    let before = |at| 1 + ops.partition_point(|o| o.complete < at) as u32;
    let mut marks: Vec<(u32, String)> =
        round.faults.iter().map(|f| (before(f.asked), format!("{} {}", f.fault, f.on))).collect();
    marks.sort();
    Some(Counter { points: thinned(all), marks })
}

/// The first and the last, every turn of what is used, and of the rest one in so many.
fn thinned(all: Vec<Point>) -> Vec<Point> {
    let step = all.len().div_ceil(MOST).max(1);
    let last = all.len().saturating_sub(1);
    let fell = |i: usize| i > 0 && all[i].used < all[i - 1].used;
    let kept = |i: &usize| i.is_multiple_of(step) || *i == last || fell(*i) || (*i < last && fell(i + 1));
    (0..all.len()).filter(kept).map(|i| all[i]).take(2 * MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::op::{Maybe, Source};
    use crate::model::units::{Cost, Nanos, NodeId, OpId};

    /// Calls whose limiter says so much is used.
    fn round(used: &[u64]) -> Round {
        let mut round = Round::starting(1, Nanos(0), None);
        let key = round.key("user");
        for (n, used) in (0..).zip(used) {
            let at = Nanos(i64::from(n) * 1000);
            let mut op = Op::new(OpId(n), NodeId(0), key, Cost::ONE, at);
            op.complete = Nanos(at.0 + 500);
            op.outcome = Outcome::Admitted;
            op.source = Some(Source::Store);
            op.remaining = Maybe::from(Some(10 - used));
            round.ops.push(op);
        }
        round
    }

    #[test]
    fn lost_counts_show_as_a_fall_of_what_is_used_and_not_of_what_was_admitted() {
        let counter = of(Limit::new(10).unwrap(), &round(&[1, 2, 3, 4, 2, 3])).unwrap();
        let told: Vec<(Option<u64>, u64)> = counter.points.iter().map(|p| (p.used, p.admitted)).collect();
        assert_eq!(
            told,
            [(Some(1), 1), (Some(2), 2), (Some(3), 3), (Some(4), 4), (Some(2), 5), (Some(3), 6)]
        );
    }

    #[test]
    fn thinning_keeps_the_fall() {
        let used: Vec<u64> = (0..1000).map(|n| if n == 777 { 3 } else { 7 }).collect();
        let counter = of(Limit::new(10).unwrap(), &round(&used)).unwrap();
        assert!(counter.points.len() <= 2 * MOST);
        let at = counter.points.iter().position(|p| p.used == Some(3)).unwrap();
        assert_eq!(counter.points[at].call, 778);
        assert_eq!(counter.points[at - 1].call, 777);
        assert_eq!(counter.points.last().unwrap().admitted, 1000);
    }

    #[test]
    fn who_tells_nothing_has_no_counter() {
        let mut round = round(&[1, 2]);
        round.ops.iter_mut().for_each(|o| o.remaining = Maybe::NONE);
        assert_eq!(of(Limit::new(10).unwrap(), &round), None);
    }
}
