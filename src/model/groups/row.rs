//! The calls of a round in a row, group by group, packed.
//!
//! Sorted in two passes that each write to few places at a time: first into piles of 128 groups, as they
//! come, then pile by pile, each small enough for a cache. No list of places is made.

use std::ops::Range;

use super::packed::{Packed, Packer};
use super::{Calls, Group, Groups};
use crate::model::contract::Scope;
use crate::model::history::Round;
use crate::model::op::{KeyId, Op};
use crate::model::units::NodeId;

#[derive(Debug)]
pub struct Row {
    packer: Packer,
    calls: Vec<Packed>,
}

impl Row {
    /// The groups of a round, each key apart. `None` if the calls were not recorded in order, there are fewer of
    /// them than there may be groups, or the longest group makes it not worth it.
    pub fn of(round: &Round, scope: Scope, worth_it: impl Fn(usize) -> bool) -> Option<Groups> {
        let ops = &round.ops;
        let per_node = scope == Scope::Node;
        let nodes = if per_node { ops.iter().map(|op| usize::from(op.node.0) + 1).max()? } else { 1 };
        let numbers = round.keys.len().checked_mul(nodes).filter(|numbers| *numbers <= ops.len())?;
        u32::try_from(ops.len()).ok()?;
        // No group is longer than the longest.
        if numbers == 0 || !worth_it(ops.len().div_ceil(numbers)) {
            return None;
        }
        let number = |op: &Op| op.key.0 as usize * nodes + if per_node { op.node.0.into() } else { 0 };
        let mut next = vec![0u32; numbers];
        let mut last = ops.first()?.invoke;
        for op in ops {
            *next.get_mut(number(op))? += 1;
            if op.invoke < last {
                return None;
            }
            last = op.invoke;
        }
        if !worth_it(next.iter().max().copied()? as usize) {
            return None;
        }
        let mut groups = Vec::new();
        let mut begin = 0;
        for (number, place) in next.iter_mut().enumerate() {
            let count = std::mem::replace(place, begin);
            if count > 0 {
                let key = u32::try_from(number / nodes).ok().map(KeyId);
                let node = u16::try_from(number % nodes).ok().filter(|_| per_node).map(NodeId);
                groups.push((Group { key, node }, begin as usize..(begin + count) as usize));
            }
            begin += count;
        }
        let row = Self { packer: Packer::of(ops), calls: vec![Packed::NOTHING; ops.len()] };
        Some(Groups { calls: Calls::Packed(row.sorted(ops, number, next)), groups })
    }

    /// Where each number's calls begin is known.
    fn sorted(mut self, ops: &[Op], number: impl Fn(&Op) -> usize, mut next: Vec<u32>) -> Self {
        let mut piles: Vec<u32> = next.iter().step_by(PILE).copied().collect();
        for (at, op) in (0..).zip(ops) {
            let number = number(op);
            let place = &mut piles[number / PILE];
            let mut packed = self.packer.pack(op, at);
            packed.digit = (number % PILE) as u8;
            self.calls[*place as usize] = packed;
            *place += 1;
        }
        // Each pile's place has moved on to where it ends.
        let mut pile = Vec::new();
        let mut begin = 0;
        for (next, end) in next.chunks_mut(PILE).zip(piles) {
            pile.clear();
            pile.extend_from_slice(&self.calls[begin as usize..end as usize]);
            for one in &pile {
                let place = &mut next[usize::from(one.digit)];
                self.calls[*place as usize] = *one;
                *place += 1;
            }
            begin = end;
        }
        self
    }

    /// The calls of a key that lie there, as they were recorded.
    pub fn calls(&self, ops: &[Op], key: KeyId, range: Range<usize>) -> impl Iterator<Item = Op> {
        self.calls[range].iter().map(move |one| self.packer.unpack(*one, key, ops))
    }
}

/// Numbers to a pile: of ten thousand keys it makes as many piles as there are groups in one.
const PILE: usize = 128;
