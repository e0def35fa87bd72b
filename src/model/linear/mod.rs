//! Linearizability: can what the callers were told be explained by calls that took effect one at a
//! time, each at some moment between its invocation and its completion?
//!
//! A search after Wing and Gong ("Testing and verifying concurrent objects", 1993) with Lowe's memory
//! of what was tried ("Testing for linearizability", 2017): of the calls that may come next one is
//! taken, the call that must be over soonest first, and a set of calls taken is not tried again in the
//! same state. A call may come next unless one that is not taken yet had ended before it began.
//!
//! Exact for any object that [`Sequential`] describes, and exponential at worst: the search asks its
//! caller whether to give up. One thing makes limiters bearable that otherwise explode. Of two calls
//! that ask for the same and were told the same, the one that ended first may as well come first, for
//! in any order that has them the other way round the two can change places. So among any number of
//! equal calls only one is tried.

pub mod counter;
pub mod one_window;
pub mod register;
mod search;

use std::hash::Hash;

use super::units::Nanos;

/// An object that is used by one call at a time.
pub trait Sequential {
    type State: Clone + Eq + Hash;
    /// What was asked, with what the caller was told.
    type Call: Eq + Hash;

    fn start(&self) -> Self::State;

    /// The state after the call took effect in `state`; `None` if it cannot have: the object would have
    /// told its caller something else. A call whose caller was told nothing fits whatever it does.
    fn apply(&self, state: &Self::State, call: &Self::Call) -> Option<Self::State>;
}

/// A call and when it was open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timed<C> {
    pub invoke: Nanos,
    /// `None` if nobody knows whether it took effect: it may have at any time from its invocation on,
    /// or never. An interval includes both its ends: of calls that only touch either may come first.
    pub complete: Option<Nanos>,
    pub call: C,
}

/// What a search found. Numbers are places in the calls that were given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// An order in which they may have taken effect. Calls without an answer that need not have are not in
    /// it.
    Linearizable(Vec<usize>),
    Not(Stuck),
    /// The search was told to stop, or would have taken too much memory.
    GaveUp,
}

/// Where no order leads on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stuck {
    /// The first call that cannot be explained when it ends: what had happened before its end can be, and
    /// that together with its end cannot.
    pub at: usize,
    /// What else was open at that moment.
    pub open: Vec<usize>,
    /// An order that explains everything that had ended before, if there was time to find it again.
    pub before: Option<Vec<usize>>,
}

/// Whether the calls can be explained. `give_up` is asked at every step.
pub fn search<M: Sequential>(
    model: &M,
    calls: &[Timed<M::Call>],
    mut give_up: impl FnMut() -> bool,
) -> Answer {
    let ends: Vec<Option<Nanos>> = calls.iter().map(|c| c.complete).collect();
    match search::run(model, calls, &ends, &mut give_up) {
        search::Found::Order(order) => Answer::Linearizable(order),
        search::Found::GaveUp => Answer::GaveUp,
        search::Found::StuckAt(at) => Answer::Not(stuck(model, calls, at, &mut give_up)),
    }
}

fn stuck<M: Sequential>(
    model: &M,
    calls: &[Timed<M::Call>],
    at: usize,
    give_up: &mut impl FnMut() -> bool,
) -> Stuck {
    let end = calls[at].complete;
    // Of calls that end together the search takes the later one as the last.
    let ended = |n: usize| calls[n].complete.is_some_and(|c| (Some(c), n) < (end, at));
    let begun = |n: &usize| Some(calls[*n].invoke) <= end;
    let open = (0..calls.len()).filter(|n| *n != at && begun(n) && !ended(*n)).collect();
    // The same calls, of which only those must be explained that had ended before.
    let ends: Vec<Option<Nanos>> = (0..calls.len()).map(|n| calls[n].complete.filter(|_| ended(n))).collect();
    let before = match search::run(model, calls, &ends, give_up) {
        search::Found::Order(order) => Some(order),
        search::Found::StuckAt(_) | search::Found::GaveUp => None,
    };
    Stuck { at, open, before }
}

#[cfg(test)]
mod tests;
