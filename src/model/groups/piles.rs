//! The places of a round's calls in piles of groups that follow each other, within a pile as they were recorded.
//!
//! Whoever reads the calls of one group after the other finds each in another page; who reads those of a pile goes
//! once through the record, and sorts what it read in a cache.

use std::ops::Range;

use super::counted::{Counted, Numbers};
use super::{Calls, Group, Groups, ahead};
use crate::model::contract::Scope;
use crate::model::history::Round;
use crate::model::op::Op;

#[derive(Debug)]
pub struct Piles {
    places: Vec<u32>,
    numbers: Numbers,
    /// Groups to a pile.
    each: usize,
}

/// Calls of a pile, about: as many as a cache holds.
const CALLS: usize = 1 << 13;
const MOST: usize = 128;

impl Piles {
    /// As [`super::row::Row::of`], in 4 bytes per op.
    pub fn of(round: &Round, scope: Scope, worth_it: impl Fn(usize) -> bool) -> Option<Groups> {
        let Counted { groups, numbers, begins } = Counted::of(round, scope, worth_it)?;
        let each = (CALLS * begins.len() / round.ops.len()).clamp(1, MOST);
        let mut next: Vec<u32> = begins.iter().step_by(each).copied().collect();
        let mut places = vec![0; round.ops.len()];
        for (at, op) in (0..).zip(&round.ops) {
            let place = &mut next[numbers.of(op) / each];
            places[*place as usize] = at;
            *place += 1;
        }
        Some(Groups { calls: Calls::Piles(Self { places, numbers, each }), groups })
    }

    /// Visits group after group, up to the first error.
    pub fn try_each<E>(
        &self,
        ops: &[Op],
        groups: &[(Group, Range<usize>)],
        mut visit: impl FnMut(Group, &[Op]) -> Result<(), E>,
    ) -> Result<(), E> {
        let pile_of = |group: &Group| self.numbers.of_group(*group) / self.each;
        let mut gathered: Vec<Op> = Vec::new();
        for pile in groups.chunk_by(|(a, _), (b, _)| pile_of(a) == pile_of(b)) {
            let (Some((_, first)), Some((_, last)), Some(any)) = (pile.first(), pile.last(), ops.first())
            else {
                continue;
            };
            let (begin, end) = (first.start, last.end);
            // Exactly: a vector that grows by doubling takes three times what it holds.
            gathered.reserve_exact((end - begin).saturating_sub(gathered.len()));
            gathered.resize(gathered.len().max(end - begin), *any);
            let mut next = [0; MOST];
            for (group, range) in pile {
                next[self.numbers.of_group(*group) % self.each] = range.start - begin;
            }
            for op in ahead(ops, &self.places, begin..end) {
                let place = &mut next[self.numbers.of(op) % self.each];
                gathered[*place] = *op;
                *place += 1;
            }
            for (group, range) in pile {
                visit(*group, &gathered[range.start - begin..range.end - begin])?;
            }
        }
        Ok(())
    }
}
