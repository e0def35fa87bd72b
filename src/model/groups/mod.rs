//! The calls of a round by what they count against: one key (or all of them together), and one node where
//! the scope is the node.
//!
//! Grouped by counting: O(ops + keys), 4 bytes per op, and nothing at all where there is one group. Where the
//! calls of a group lie far apart they may be kept in a row, packed: 36 bytes per op, and each pass over them
//! reads one stretch of memory.

mod counted;
mod dealt;
mod packed;
mod piles;
mod row;

use std::ops::Range;

use crate::model::contract::Scope;
use crate::model::history::Round;
use crate::model::op::{KeyId, Op};
use crate::model::units::NodeId;

use dealt::{deal_out, run};
use piles::Piles;
use row::Row;

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

/// The groups of a round by key and node.
#[derive(Debug)]
pub struct Groups {
    calls: Calls,
    groups: Vec<(Group, Range<usize>)>,
}

/// The ops, group by group, in order of invocation.
#[derive(Debug)]
enum Calls {
    /// As they were recorded.
    Recorded,
    /// Their places.
    Places(Vec<u32>),
    Piles(Piles),
    Packed(Row),
}

impl Groups {
    /// Each key apart, or all of them together.
    pub fn of(round: &Round, scope: Scope, apart: bool) -> Self {
        let ops = &round.ops;
        let per_node = scope == Scope::Node;
        let of = |op: &Op| Group { key: apart.then_some(op.key), node: per_node.then_some(op.node) };
        let Some(first) = ops.first().map(of) else {
            return Self { calls: Calls::Recorded, groups: Vec::new() };
        };
        let in_order = ops.is_sorted_by_key(|op| op.invoke);
        if in_order && (!apart || round.keys.len() == 1) && (!per_node || ops.iter().all(|o| of(o) == first))
        {
            return Self { calls: Calls::Recorded, groups: vec![(first, 0..ops.len())] };
        }
        if apart && let Some(piles) = Piles::of(round, scope, |longest| far_apart(longest, ops)) {
            return piles;
        }
        let mut order: Vec<u32> = (0..count(ops.len())).collect();
        if !in_order {
            order.sort_by_key(|at| ops[*at as usize].invoke);
        }
        if per_node {
            deal_out(&mut order, |at| ops[at as usize].node.0.into());
        }
        if apart {
            deal_out(&mut order, |at| ops[at as usize].key.0);
        }
        let mut groups = Vec::new();
        let mut begin = 0;
        while let Some(group) = order.get(begin).map(|at| of(&ops[*at as usize])) {
            let end = begin + run(&order[begin..], |at| of(&ops[*at as usize]) == group);
            groups.push((group, begin..end));
            begin = end;
        }
        Self { calls: Calls::Places(order), groups }
    }

    /// Each key apart, and its calls kept in a row where that is worth it.
    pub fn in_rows(round: &Round, scope: Scope) -> Self {
        let row = Row::of(round, scope, |longest| far_apart(longest, &round.ops));
        row.unwrap_or_else(|| Self::of(round, scope, true))
    }

    /// Visits group after group, each with its calls in order of invocation, up to the first error. The
    /// calls of one are gathered first: one after the other they lie far apart where there are many keys.
    pub fn try_each<E>(
        &self,
        round: &Round,
        mut visit: impl FnMut(Group, &[Op]) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Calls::Piles(piles) = &self.calls {
            return piles.try_each(&round.ops, &self.groups, visit);
        }
        let mut gathered = Vec::new();
        for (group, range) in &self.groups {
            if matches!(self.calls, Calls::Recorded) {
                visit(*group, &round.ops[range.clone()])?;
                continue;
            }
            gathered.clear();
            // Exactly: a vector that grows by doubling takes three times what it holds.
            gathered.reserve_exact(range.len());
            match (&self.calls, group.key) {
                (Calls::Packed(row), Some(key)) => {
                    gathered.extend(row.calls(&round.ops, key, range.clone()));
                }
                (Calls::Places(order), _) => {
                    gathered.extend(ahead(&round.ops, order, range.clone()).copied());
                }
                _ => {}
            }
            visit(*group, &gathered)?;
        }
        Ok(())
    }
}

/// Calls of a group lie far apart if at least so many groups' lie between them.
const FAR_APART: usize = 64;

fn far_apart(longest: usize, ops: &[Op]) -> bool {
    longest.saturating_mul(FAR_APART) <= ops.len()
}

/// How many ops ahead memory is told what comes next: about as many as it can bring at a time.
const AHEAD: usize = 24;

/// The ops at these places of an order. One after the other they lie far apart, and who
/// copies them writes so much that few would be under way at a time.
fn ahead<'a>(ops: &'a [Op], order: &'a [u32], range: Range<usize>) -> impl Iterator<Item = &'a Op> {
    let next = order.get(range.start + AHEAD..).unwrap_or_default().iter().chain(std::iter::repeat(&0));
    order[range].iter().zip(next).map(|(at, next)| {
        soon_read(&ops[*next as usize]);
        &ops[*at as usize]
    })
}

/// An op spans two lines of the cache or one.
#[inline]
fn soon_read(op: &Op) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let first: *const i8 = std::ptr::from_ref(op).cast();
        // SAFETY: a hint, which reads nothing; both ends are of the op.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(first);
            _mm_prefetch::<_MM_HINT_T0>(first.add(size_of::<Op>() - 1));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = op;
}

fn count(ops: usize) -> u32 {
    u32::try_from(ops).expect("fewer than 2^32 ops in a round")
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

    fn told(round: &Round, groups: &Groups) -> Vec<(Group, Vec<Op>)> {
        let mut found = Vec::new();
        let visited = groups.try_each(round, |group, ops| {
            found.push((group, ops.to_vec()));
            Ok::<(), ()>(())
        });
        assert_eq!(visited, Ok(()));
        found
    }

    /// By the numbers of their calls, which are the same however they are kept.
    fn groups(round: &Round, scope: Scope, apart: bool) -> Vec<(Group, Vec<u32>)> {
        let groups = Groups::of(round, scope, apart);
        let found = told(round, &groups);
        let others = [Row::of(round, scope, |_| true), Piles::of(round, scope, |_| true)];
        for other in others.into_iter().flatten().filter(|_| apart) {
            assert_eq!(told(round, &other), found);
        }
        found.into_iter().map(|(group, ops)| (group, ops.iter().map(|o| o.id.0).collect())).collect()
    }

    fn by_key(round: &Round, scope: Scope) -> Vec<(u32, Option<u16>, Vec<u32>)> {
        let named = |(Group { key, node }, ops): (Group, _)| (key.unwrap().0, node.map(|n| n.0), ops);
        groups(round, scope, true).into_iter().map(named).collect()
    }

    #[test]
    fn calls_are_grouped_by_key_and_by_node_only_where_the_node_counts() {
        let round = round(&[(0, 0), (1, 1), (0, 1), (1, 1), (0, 0)]);
        let global = [(0, None, vec![0, 2, 4]), (1, None, vec![1, 3])];
        assert_eq!(by_key(&round, Scope::Global), global);
        let by_node = [(0, Some(0), vec![0, 4]), (0, Some(1), vec![2]), (1, Some(1), vec![1, 3])];
        assert_eq!(by_key(&round, Scope::Node), by_node);
    }

    #[test]
    fn one_key_is_one_group_and_no_call_is_none() {
        assert_eq!(by_key(&round(&[(0, 0), (0, 1)]), Scope::Global), [(0, None, vec![0, 1])]);
        assert_eq!(by_key(&round(&[]), Scope::Global), []);
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
            prop_assert_eq!(groups(&round, scope, apart), expected);
        }
    }
}
