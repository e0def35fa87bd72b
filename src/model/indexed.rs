//! A cell with what several checkers ask of it and what takes a pass over all calls to tell: made when it
//! is first asked for, and kept while the cell is judged.
//!
//! The cell is borrowed all that time, so what is kept cannot come to differ from it.

use std::cell::OnceCell;
use std::ops::Deref;

use super::contract::Scope;
use super::groups::Groups;
use super::history::{Cell, Round};
use super::op::KeyId;
use super::units::Nanos;

pub struct IndexedCell<'a> {
    cell: &'a Cell,
    rounds: Vec<IndexedRound<'a>>,
}

impl<'a> IndexedCell<'a> {
    pub fn of(cell: &'a Cell) -> Self {
        let contract = &cell.header.contract;
        // A bound over all keys takes memory for all of them at once: there is none to spare.
        let packed = contract.across_keys.is_none().then_some(contract.scope);
        let round = |round| IndexedRound { packed, ..IndexedRound::of(round) };
        Self { cell, rounds: cell.rounds.iter().map(round).collect() }
    }

    pub fn cell(&self) -> &'a Cell {
        self.cell
    }

    pub fn rounds(&self) -> &[IndexedRound<'a>] {
        &self.rounds
    }
}

impl Deref for IndexedCell<'_> {
    type Target = Cell;

    fn deref(&self) -> &Cell {
        self.cell
    }
}

pub struct IndexedRound<'a> {
    round: &'a Round,
    /// Groups by key of this scope are kept packed: one copy of the calls, and no more.
    packed: Option<Scope>,
    /// By key and all keys together, each for the scope of the node or not.
    groups: [OnceCell<Groups>; 4],
    overlap: OnceCell<usize>,
    first_touches: OnceCell<Vec<Nanos>>,
}

impl<'a> IndexedRound<'a> {
    pub fn of(round: &'a Round) -> Self {
        let (groups, overlap, first_touches) = Default::default();
        Self { round, packed: None, groups, overlap, first_touches }
    }

    pub fn round(&self) -> &'a Round {
        self.round
    }

    /// Each key apart, or all of them together.
    pub fn groups(&self, scope: Scope, apart: bool) -> &Groups {
        let place = usize::from(scope == Scope::Node) + 2 * usize::from(apart);
        self.groups[place].get_or_init(|| match self.packed {
            Some(packed) if apart && packed == scope => Groups::in_rows(self.round, scope),
            _ => Groups::of(self.round, scope, apart),
        })
    }

    /// As [`Round::overlap`].
    pub fn overlap(&self) -> usize {
        *self.overlap.get_or_init(|| self.round.overlap())
    }

    /// When each key was first touched, by place in the round's table. Any op may have opened its window,
    /// refused and unknown ones too, whichever node sent it.
    pub fn first_touches(&self) -> &[Nanos] {
        self.first_touches.get_or_init(|| {
            let mut first = vec![Nanos(i64::MAX); self.round.keys.len()];
            let mut touch = |key: KeyId, at: Nanos| {
                if let Some(first) = first.get_mut(key.0 as usize) {
                    *first = at.min(*first);
                }
            };
            self.round.ops.iter().for_each(|o| touch(o.key, o.invoke));
            self.round.presets.iter().for_each(|p| touch(p.key, p.invoke));
            first
        })
    }
}

impl Deref for IndexedRound<'_> {
    type Target = Round;

    fn deref(&self) -> &Round {
        self.round
    }
}
