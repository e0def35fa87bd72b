//! The calls of a round in a row, group by group, packed.
//!
//! Sorted in two passes that each write to few places at a time: first into piles of 128 groups, as they
//! come, then pile by pile, each small enough for a cache. No list of places is made.

use std::ops::Range;

use super::counted::Counted;
use super::packed::{Packed, Packer};
use super::{Calls, Groups};
use crate::model::contract::Scope;
use crate::model::history::Round;
use crate::model::op::{KeyId, Op};

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
        let Counted { groups, numbers, begins } = Counted::of(round, scope, worth_it)?;
        let row = Self { packer: Packer::of(ops), calls: vec![Packed::NOTHING; ops.len()] };
        let calls = row.sorted(ops, |op| numbers.of(op), begins);
        Some(Groups { calls: Calls::Packed(calls), groups })
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
