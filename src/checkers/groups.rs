//! The calls of a round by what they count against: one key (or all of them together), and one node where
//! the scope is the node. And what else is known of such a group: its preset, its first touch, its slack.
//!
//! Grouped by counting: O(ops + keys), 4 bytes per op, and nothing at all where there is one group.

use std::ops::Range;

use crate::model::contract::Scope;
use crate::model::history::{Cell, Round};
use crate::model::op::{KeyId, Op};
use crate::model::units::{Nanos, NodeId};

/// One key, or all of them, and one node where the scope is the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    pub key: Option<KeyId>,
    pub node: Option<NodeId>,
}

impl Group {
    pub fn has(&self, key: KeyId, node: NodeId) -> bool {
        self.key.is_none_or(|k| k == key) && self.node.is_none_or(|n| n == node)
    }

    /// `user:42`, as the round names it.
    pub fn name<'r>(&self, round: &'r Round) -> &'r str {
        let of = |key: KeyId| round.keys.get(key.0 as usize).map_or("?", String::as_str);
        self.key.map_or("all keys together", of)
    }
}

pub struct Groups<'a> {
    pub round: &'a Round,
    /// Places of the ops, group by group, in order of invocation; empty if they are one group in that
    /// order.
    order: Vec<u32>,
    groups: Vec<(Group, Range<usize>)>,
}

impl<'a> Groups<'a> {
    /// Each key by itself.
    pub fn by_key(round: &'a Round, scope: Scope) -> Self {
        Self::new(round, scope, true)
    }

    /// All keys together.
    pub fn together(round: &'a Round, scope: Scope) -> Self {
        Self::new(round, scope, false)
    }

    fn new(round: &'a Round, scope: Scope, apart: bool) -> Self {
        let ops = &round.ops;
        let per_node = scope == Scope::Node;
        let of = |op: &Op| Group { key: apart.then_some(op.key), node: per_node.then_some(op.node) };
        let in_order = ops.is_sorted_by_key(|op| op.invoke);
        let Some(first) = ops.first().map(of) else {
            return Self { round, order: Vec::new(), groups: Vec::new() };
        };
        if in_order && (!apart || round.keys.len() == 1) && (!per_node || ops.iter().all(|o| of(o) == first))
        {
            return Self { round, order: Vec::new(), groups: vec![(first, 0..ops.len())] };
        }
        let mut order = Vec::new();
        if !in_order {
            order = (0..count(ops.len())).collect();
            order.sort_by_key(|at| ops[*at as usize].invoke);
        }
        let mut ends = vec![count(ops.len())];
        if per_node {
            (order, ends) = dealt_out(ops, &order, |op| op.node.0.into());
        }
        if apart {
            (order, ends) = dealt_out(ops, &order, |op| op.key.0);
        }
        let mut groups = Vec::new();
        let mut begin = 0;
        for end in ends.into_iter().map(|end| end as usize) {
            let pile = order.get(begin..end).unwrap_or_default();
            // A pile is one group but for the nodes of a key.
            let alone = !(apart && per_node);
            for group in pile.chunk_by(|a, b| alone || of(&ops[*a as usize]) == of(&ops[*b as usize])) {
                groups.push((of(&ops[group[0] as usize]), begin..begin + group.len()));
                begin += group.len();
            }
        }
        Self { round, order, groups }
    }

    /// The groups by key and node, each with its calls in order of invocation.
    pub fn iter(&self) -> impl Iterator<Item = (Group, Members<'_>)> {
        self.groups.iter().map(|(group, range)| (*group, Members { groups: self, range: range.clone() }))
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

    /// Them in a row, where they already are.
    pub fn in_a_row(&self) -> Option<&'a [Op]> {
        self.groups.order.is_empty().then(|| &self.groups.round.ops[self.range.clone()])
    }
}

fn count(ops: usize) -> u32 {
    u32::try_from(ops).expect("fewer than 2^32 ops in a round")
}

/// A counting sort by a small number, of ops in this order, or as they come if it is empty: those of the
/// same number stay as they were. And where each number ends.
fn dealt_out(ops: &[Op], order: &[u32], number: impl Fn(&Op) -> u32) -> (Vec<u32>, Vec<u32>) {
    let mut next: Vec<u32> = Vec::new();
    for op in ops {
        let n = number(op) as usize;
        if n >= next.len() {
            next.resize(n + 1, 0);
        }
        next[n] += 1;
    }
    let mut sum = 0;
    for place in &mut next {
        sum += std::mem::replace(place, sum);
    }
    let mut dealt = vec![0; ops.len()];
    let mut deal = |at: u32| {
        let place = &mut next[number(&ops[at as usize]) as usize];
        dealt[*place as usize] = at;
        *place += 1;
    };
    if order.is_empty() {
        (0..count(ops.len())).for_each(&mut deal);
    } else {
        order.iter().copied().for_each(&mut deal);
    }
    // Each number's place has moved on to where it ends.
    (dealt, next)
}

/// What a preset says was used, once: a preset of every node is the same statement made to each.
pub fn preset(round: &Round, group: &Group) -> Option<(u64, Nanos, Nanos)> {
    round
        .presets
        .iter()
        .filter(|p| group.has(p.key, p.node))
        .map(|p| (p.used, p.invoke, p.complete))
        .max_by_key(|(used, ..)| *used)
}

/// When a group's keys were first touched, of all that is known of each key.
pub fn first_touch(touches: &[Nanos], group: &Group) -> Nanos {
    match group.key {
        Some(key) => touches[key.0 as usize],
        None => touches.iter().min().copied().unwrap_or_default(),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::units::{Cost, Nanos, OpId};
    use proptest::prelude::*;

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
        let groups = Groups::by_key(round, scope);
        let one = |(Group { key, node }, ops): (Group, Members<'_>)| {
            assert_eq!(ops.len(), ops.iter().count());
            (key.unwrap().0, node.map(|n| n.0), ops.iter().map(|o| o.id.0).collect())
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

    proptest! {
        /// Against a table of all pairs of key and node, whatever order the calls were recorded in.
        #[test]
        fn groups_are_those_of_a_table(
            calls in prop::collection::vec((0u32..6, 0u16..4, 0i64..40), 0..60),
            per_node in any::<bool>(), apart in any::<bool>(), recorded_in_order in any::<bool>(),
        ) {
            let mut calls = calls;
            if recorded_in_order {
                calls.sort_by_key(|(.., at)| *at);
            }
            let mut round = round(&calls.iter().map(|(key, node, _)| (*key, *node)).collect::<Vec<_>>());
            round.ops.iter_mut().zip(&calls).for_each(|(op, (.., at))| op.invoke = Nanos(*at));
            let scope = if per_node { Scope::Node } else { Scope::Global };
            let found = if apart { Groups::by_key(&round, scope) } else { Groups::together(&round, scope) };
            let found: Vec<_> =
                found.iter().map(|(g, ops)| (g, ops.iter().map(|o| o.id.0).collect::<Vec<_>>())).collect();
            let mut table = std::collections::BTreeMap::<_, Vec<(i64, u32)>>::new();
            for op in &round.ops {
                let of = (apart.then_some(op.key), per_node.then_some(op.node));
                table.entry(of).or_default().push((op.invoke.0, op.id.0));
            }
            let expected: Vec<_> = table
                .into_iter()
                .map(|((key, node), mut ops)| {
                    ops.sort_unstable();
                    (Group { key, node }, ops.into_iter().map(|(_, id)| id).collect::<Vec<_>>())
                })
                .collect();
            prop_assert_eq!(found, expected);
        }
    }
}
