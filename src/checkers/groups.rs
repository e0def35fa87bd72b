//! The calls of a round by what they count against: one key, and one node where the scope is the node.
//! And what else is known of such a group: its preset, its first touch, its slack.
//!
//! Grouped once, by two passes of a counting sort: O(ops + keys), 4 bytes per op, and nothing at all
//! where there is one group.

use std::ops::Range;

use crate::model::contract::Scope;
use crate::model::history::{Cell, Round};
use crate::model::op::{KeyId, Op};
use crate::model::units::{Nanos, NodeId};

/// One key, and one node where the scope is the node.
pub type Group = (KeyId, Option<NodeId>);

pub struct Groups<'a> {
    round: &'a Round,
    scope: Scope,
    /// Places of the ops, group by group, in order of invocation; empty if they are one group.
    order: Vec<u32>,
    /// Where in that order each group ends.
    ends: Vec<u32>,
}

impl<'a> Groups<'a> {
    pub fn of(round: &'a Round, scope: Scope) -> Self {
        let ops = &round.ops;
        let count = u32::try_from(ops.len()).expect("fewer than 2^32 ops in a round");
        let same = |a: &Op, b: &Op| group(a, scope) == group(b, scope);
        if ops.windows(2).all(|pair| same(&pair[0], &pair[1])) {
            let ends = if ops.is_empty() { Vec::new() } else { vec![count] };
            return Self { round, scope, order: Vec::new(), ends };
        }
        let places: Vec<u32> = (0..count).collect();
        let by_key = |places: &[u32]| sorted(places, |at| ops[at as usize].key.0);
        let (order, ends) = match scope {
            Scope::Global => by_key(&places),
            Scope::Node => {
                let (by_node, _) = sorted(&places, |at| ops[at as usize].node.0.into());
                drop(places);
                let (order, _) = by_key(&by_node);
                let runs = order.chunk_by(|a, b| same(&ops[*a as usize], &ops[*b as usize]));
                let lengths = runs.map(|run| u32::try_from(run.len()).unwrap_or(u32::MAX));
                let ends = lengths.scan(0, |end, length| {
                    *end += length;
                    Some(*end)
                });
                let ends = ends.collect();
                (order, ends)
            }
        };
        Self { round, scope, order, ends }
    }

    /// The groups by key and node, each with its calls in order of invocation.
    pub fn iter(&self) -> impl Iterator<Item = (Group, Members<'_>)> {
        let mut from = 0;
        self.ends.iter().filter_map(move |end| {
            let range = from..*end as usize;
            from = range.end;
            let members = Members { groups: self, range };
            let first = members.iter().next()?;
            Some((group(first, self.scope), members))
        })
    }
}

/// The calls of one group.
#[derive(Clone)]
pub struct Members<'a> {
    groups: &'a Groups<'a>,
    range: Range<usize>,
}

impl<'a> Members<'a> {
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// The first few of them, at most so many.
    pub fn first(&self, most: usize) -> Self {
        let end = self.range.end.min(self.range.start.saturating_add(most));
        Self { groups: self.groups, range: self.range.start..end }
    }

    pub fn iter(&self) -> impl Iterator<Item = &'a Op> + Clone + use<'a> {
        let Groups { round, order, .. } = self.groups;
        self.range.clone().map(move |n| &round.ops[order.get(n).map_or(n, |at| *at as usize)])
    }
}

fn group(op: &Op, scope: Scope) -> Group {
    (op.key, (scope == Scope::Node).then_some(op.node))
}

/// What a preset says was used, once: a preset of every node is the same statement made to each.
pub fn preset(round: &Round, group: &Group) -> Option<(u64, Nanos, Nanos)> {
    round
        .presets
        .iter()
        .filter(|p| p.key == group.0 && group.1.is_none_or(|n| n == p.node))
        .map(|p| (p.used, p.invoke, p.complete))
        .max_by_key(|(used, ..)| *used)
}

/// When each key was first touched, by place in the round's table. Any op may have opened its window,
/// refused and unknown ones too, whichever node sent it.
pub fn first_touches(round: &Round) -> Vec<Nanos> {
    let mut first = vec![Nanos(i64::MAX); round.keys.len()];
    let mut touch = |key: KeyId, at: Nanos| {
        if let Some(first) = first.get_mut(key.0 as usize) {
            *first = at.min(*first);
        }
    };
    round.ops.iter().for_each(|o| touch(o.key, o.invoke));
    round.presets.iter().for_each(|p| touch(p.key, p.invoke));
    first
}

/// By how much two readings of the limiter's clock may differ from the time that passed: the clock's
/// resolution and any step seen in the round.
pub fn slack_ns(cell: &Cell, round: &Round) -> i64 {
    let resolution = i64::try_from(cell.header.contract.clock_resolution_ms).unwrap_or(i64::MAX);
    resolution.saturating_mul(1_000_000).saturating_add(round.clock_step_ns.saturating_abs())
}

/// Unix time at the run's anchor. The wall clock as it stood in this round: earlier steps are in it.
pub fn epoch_ns(cell: &Cell, round: &Round) -> i64 {
    round.epoch_ns_at_zero.unwrap_or(cell.epoch_ns_at_zero)
}

/// Sorted by a small number, those of the same number as they were; and where each number ends.
fn sorted(places: &[u32], number: impl Fn(u32) -> u32) -> (Vec<u32>, Vec<u32>) {
    let most = places.iter().map(|at| number(*at)).max().unwrap_or(0) as usize;
    let mut next = vec![0u32; most + 2];
    for at in places {
        next[number(*at) as usize + 1] += 1;
    }
    for n in 1..next.len() {
        next[n] += next[n - 1];
    }
    let mut sorted = vec![0; places.len()];
    for at in places {
        let place = &mut next[number(*at) as usize];
        sorted[*place as usize] = *at;
        *place += 1;
    }
    // Each number's place has moved on to where it ends.
    next.truncate(most + 1);
    (sorted, next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::units::{Cost, Nanos, OpId};

    fn round(calls: &[(u32, u16)]) -> Round {
        let mut round = Round::default();
        for (n, (key, node)) in calls.iter().enumerate() {
            let key = round.key(&format!("k{key}"));
            let (id, at) = (OpId(n as u32), Nanos(n as i64));
            round.ops.push(Op::new(id, NodeId(*node), key, Cost::ONE, at));
        }
        round
    }

    fn groups(round: &Round, scope: Scope) -> Vec<(u32, Option<u16>, Vec<u32>)> {
        let groups = Groups::of(round, scope);
        let one = |((key, node), ops): (Group, Members<'_>)| {
            assert_eq!(ops.len(), ops.iter().count());
            (key.0, node.map(|n| n.0), ops.iter().map(|o| o.id.0).collect())
        };
        groups.iter().map(one).collect()
    }

    #[test]
    fn calls_are_grouped_by_key_and_by_node_only_where_the_node_counts() {
        let round = round(&[(0, 0), (1, 1), (0, 1), (1, 1), (0, 0)]);
        let global = [(0, None, vec![0, 2, 4]), (1, None, vec![1, 3])];
        assert_eq!(groups(&round, Scope::Global), global);
        let by_node = [(0, Some(0), vec![0, 4]), (0, Some(1), vec![2]), (1, Some(1), vec![1, 3])];
        assert_eq!(groups(&round, Scope::Node), by_node);
    }

    #[test]
    fn one_key_is_one_group_and_no_call_is_none() {
        assert_eq!(groups(&round(&[(0, 0), (0, 1)]), Scope::Global), [(0, None, vec![0, 1])]);
        assert_eq!(groups(&round(&[]), Scope::Global), []);
    }
}
