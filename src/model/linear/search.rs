//! The search itself.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use super::{Sequential, Timed};
use crate::model::units::Nanos;

pub enum Found {
    Order(Vec<usize>),
    /// The call whose end no order came past.
    StuckAt(usize),
    GaveUp,
}

/// What was tried is remembered: about a hundred bytes each.
const MOST_REMEMBERED: usize = 4_000_000;

/// A step of the order: the state before it, what may come next and how much of that was tried.
struct Step<S> {
    state: S,
    choices: Vec<u32>,
    tried: usize,
}

/// Explains the calls that have an end in `ends`; the others may take effect or not.
pub fn run<M: Sequential>(
    model: &M,
    calls: &[Timed<M::Call>],
    ends: &[Option<Nanos>],
    give_up: &mut impl FnMut() -> bool,
) -> Found {
    let mut pending = Pending::of(calls, ends);
    let mut done = Done::new(calls.len());
    let mut remembered = HashSet::new();
    let mut order: Vec<usize> = Vec::new();
    let mut missing = ends.iter().flatten().count();
    if missing == 0 {
        return Found::Order(order);
    }
    let mut furthest = 0;
    let choices = pending.choices(&mut furthest);
    let mut steps = vec![Step { state: model.start(), choices, tried: 0 }];
    while let Some(step) = steps.last_mut() {
        if give_up() || remembered.len() >= MOST_REMEMBERED {
            return Found::GaveUp;
        }
        let Some(at) = step.choices.get(step.tried).map(|at| *at as usize) else {
            steps.pop();
            // The call that led here leads nowhere.
            if let Some(at) = order.pop() {
                done.set(at, false);
                pending.put_back(at);
                missing += usize::from(ends[at].is_some());
            }
            continue;
        };
        step.tried += 1;
        let Some(state) = model.apply(&step.state, &calls[at].call) else { continue };
        if ends[at].is_none() && state == step.state {
            // That it took effect changes nothing: as well it did not.
            continue;
        }
        done.set(at, true);
        if !remembered.insert((done.key(), state.clone())) {
            done.set(at, false);
            continue;
        }
        pending.take(at);
        order.push(at);
        missing -= usize::from(ends[at].is_some());
        if missing == 0 {
            return Found::Order(order);
        }
        let choices = pending.choices(&mut furthest);
        steps.push(Step { state, choices, tried: 0 });
    }
    Found::StuckAt(pending.call_of(furthest))
}

/// The calls that are not taken, as a list of their beginnings and ends in order of time: what may
/// come next stands before the first end.
struct Pending {
    /// The call of each entry, and whether the entry is its end.
    entries: Vec<(u32, bool)>,
    /// The entries of each call: its beginning, and its end if it has one.
    places: Vec<(u32, Option<u32>)>,
    /// Calls that ask for the same and were told the same have the same number.
    kinds: Vec<u32>,
    /// A list in both directions; the place after the last is its head.
    next: Vec<u32>,
    previous: Vec<u32>,
}

impl Pending {
    fn of<C: Eq + Hash>(calls: &[Timed<C>], ends: &[Option<Nanos>]) -> Self {
        let number = |n: usize| u32::try_from(n).expect("fewer than 2^31 calls");
        // An interval includes both its ends: what begins as another ends may come before it.
        let begins = calls.iter().enumerate().map(|(n, c)| (c.invoke, false, number(n)));
        let over = ends.iter().enumerate().filter_map(|(n, end)| Some(((*end)?, true, number(n))));
        let mut sorted: Vec<(Nanos, bool, u32)> = begins.chain(over).collect();
        sorted.sort_unstable();
        let mut places = vec![(0, None); calls.len()];
        for (place, (_, end, call)) in sorted.iter().enumerate() {
            let of_call = &mut places[*call as usize];
            if *end { of_call.1 = Some(number(place)) } else { of_call.0 = number(place) }
        }
        let mut known: HashMap<(&C, bool), u32> = HashMap::new();
        let kinds = calls.iter().zip(ends).map(|(c, end)| {
            let next = number(known.len());
            *known.entry((&c.call, end.is_some())).or_insert(next)
        });
        let kinds = kinds.collect();
        let size = number(sorted.len() + 1);
        Self {
            entries: sorted.into_iter().map(|(_, end, call)| (call, end)).collect(),
            places,
            kinds,
            next: (0..size).map(|n| (n + 1) % size).collect(),
            previous: (0..size).map(|n| (n + size - 1) % size).collect(),
        }
    }

    /// The calls that may come next, one of each kind: first those that must be over soonest, last
    /// those that need not have taken effect. Notes how far the search has come.
    fn choices(&self, furthest: &mut u32) -> Vec<u32> {
        let head = self.entries.len();
        let mut choices: Vec<u32> = Vec::new();
        let mut at = self.next[head] as usize;
        while at != head {
            let (call, end) = self.entries[at];
            if end {
                *furthest = (*furthest).max(at as u32);
                break;
            }
            let kind = self.kinds[call as usize];
            match choices.iter_mut().find(|c| self.kinds[**c as usize] == kind) {
                Some(known) if self.over(call) < self.over(*known) => *known = call,
                Some(_) => {}
                None => choices.push(call),
            }
            at = self.next[at] as usize;
        }
        choices.sort_unstable_by_key(|call| self.over(*call));
        choices
    }

    /// Where the call's end stands, after all others if it has none.
    fn over(&self, call: u32) -> (u32, u32) {
        (self.places[call as usize].1.unwrap_or(u32::MAX), call)
    }

    fn call_of(&self, entry: u32) -> usize {
        self.entries[entry as usize].0 as usize
    }

    fn take(&mut self, call: usize) {
        let (begin, end) = self.places[call];
        self.unlink(begin);
        if let Some(end) = end {
            self.unlink(end);
        }
    }

    /// Undoes the last [`Pending::take`] that was not undone.
    fn put_back(&mut self, call: usize) {
        let (begin, end) = self.places[call];
        if let Some(end) = end {
            self.link(end);
        }
        self.link(begin);
    }

    fn unlink(&mut self, entry: u32) {
        let (before, after) = (self.previous[entry as usize], self.next[entry as usize]);
        self.next[before as usize] = after;
        self.previous[after as usize] = before;
    }

    fn link(&mut self, entry: u32) {
        let (before, after) = (self.previous[entry as usize], self.next[entry as usize]);
        self.next[before as usize] = entry;
        self.previous[after as usize] = entry;
    }
}

/// Which calls are taken.
struct Done {
    bits: Vec<u64>,
    /// All words before the first are full, all from the end on are empty.
    first: usize,
    end: usize,
}

impl Done {
    fn new(calls: usize) -> Self {
        Self { bits: vec![0; calls / 64 + 1], first: 0, end: 0 }
    }

    fn set(&mut self, call: usize, taken: bool) {
        let (word, bit) = (call / 64, 1u64 << (call % 64));
        if taken {
            self.bits[word] |= bit;
            self.end = self.end.max(word + 1);
            while self.first < self.end && self.bits[self.first] == u64::MAX {
                self.first += 1;
            }
        } else {
            self.bits[word] &= !bit;
            self.first = self.first.min(word);
            while self.end > 0 && self.bits[self.end - 1] == 0 {
                self.end -= 1;
            }
        }
    }

    /// What is full needs no telling: calls in order of invocation make short keys.
    fn key(&self) -> Box<[u64]> {
        let rest = self.bits[self.first.min(self.end)..self.end].iter().copied();
        std::iter::once(self.first as u64).chain(rest).collect()
    }
}
