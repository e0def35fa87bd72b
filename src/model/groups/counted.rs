//! The groups of a round by number, where its calls were recorded in order, and where in a row each begins.

use std::ops::Range;

use super::Group;
use crate::model::contract::Scope;
use crate::model::history::Round;
use crate::model::op::{KeyId, Op};
use crate::model::units::NodeId;

/// How groups are numbered: by key, and by node where the node counts.
#[derive(Debug, Clone, Copy)]
pub struct Numbers {
    nodes: usize,
    per_node: bool,
}

impl Numbers {
    #[inline]
    pub fn of(self, op: &Op) -> usize {
        op.key.0 as usize * self.nodes + if self.per_node { op.node.0.into() } else { 0 }
    }

    pub fn of_group(self, group: Group) -> usize {
        let key = group.key.map_or(0, |key| key.0 as usize);
        key * self.nodes + group.node.map_or(0, |node| node.0.into())
    }
}

pub struct Counted {
    pub groups: Vec<(Group, Range<usize>)>,
    pub numbers: Numbers,
    /// Where the calls of each number begin, of those without calls as well.
    pub begins: Vec<u32>,
}

impl Counted {
    /// `None` if the calls were not recorded in order, there are fewer of them than there may be groups, or the
    /// longest group makes it not worth it.
    pub fn of(round: &Round, scope: Scope, worth_it: impl Fn(usize) -> bool) -> Option<Self> {
        let ops = &round.ops;
        let per_node = scope == Scope::Node;
        let nodes = if per_node { ops.iter().map(|op| usize::from(op.node.0) + 1).max()? } else { 1 };
        let count = round.keys.len().checked_mul(nodes).filter(|count| *count <= ops.len())?;
        u32::try_from(ops.len()).ok()?;
        // No group is longer than the longest.
        if count == 0 || !worth_it(ops.len().div_ceil(count)) {
            return None;
        }
        let numbers = Numbers { nodes, per_node };
        let mut begins = vec![0u32; count];
        let mut last = ops.first()?.invoke;
        for op in ops {
            *begins.get_mut(numbers.of(op))? += 1;
            if op.invoke < last {
                return None;
            }
            last = op.invoke;
        }
        if !worth_it(begins.iter().max().copied()? as usize) {
            return None;
        }
        let mut groups = Vec::new();
        let mut begin = 0;
        for (number, place) in begins.iter_mut().enumerate() {
            let count = std::mem::replace(place, begin);
            if count > 0 {
                let key = u32::try_from(number / nodes).ok().map(KeyId);
                let node = u16::try_from(number % nodes).ok().filter(|_| per_node).map(NodeId);
                groups.push((Group { key, node }, begin as usize..(begin + count) as usize));
            }
            begin += count;
        }
        Some(Self { groups, numbers, begins })
    }
}
