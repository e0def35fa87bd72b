//! Was there room for a call, whatever really happened between the timestamps?
//!
//! The mirror image of [`super::bounds`]. There an op counts in a span only if its whole interval
//! lies inside; here it counts as soon as any moment of it may. So what is found is the most that
//! can have been in use when the limiter decided. If the call fits beside that, it fits under every
//! reading, and a refusal of it was wrong under every reading.
//!
//! A call D was decided at some moment T of [invoke, complete]. A use X was applied at some moment
//! of its own interval, and before D only if X.invoke ≤ D.complete. Let `earliest` be D.invoke less
//! the slack (two readings of the limiter's clock may differ by that much more or less than the time
//! between them) and less a lockout (who used up its limit at any moment since then may still be
//! refused).
//!
//! * **Fixed window, sliding window.** The window that D met began after T − window, whatever its
//!   phase, so X is in it only if X.complete ≥ earliest − window.
//! * **Aligned window.** X counts in window n if any of its moments, widened by the slack, is in n. D
//!   is held against each n that it may lie in.
//! * **Two weighted windows.** The same, and what can only be in n − 1 weighs (window − elapsed) /
//!   window, where `elapsed` is that of the earliest moment of D in n: it only gets lighter. What may
//!   be in n as well weighs 1.
//! * **Bucket.** The level before T is `capacity + min over s ≤ T of (refill × (T − s) / window − costs
//!   applied in [s, T])`, with s = T for a full bucket: it starts full and is cut off at full. Each term
//!   falls when a use moves from before s into [s, T], so the level is lowest if every use was applied as
//!   late as it can have been: at its completion, or at D if the two overlap. That is one pass over the
//!   completions, kept as a backlog of time as GCRA keeps its arrival time. A level below zero is not
//!   cut off: who admitted too much may be made to earn it back. One thing GCRA adds: a call that was
//!   told the time, overtaken and only then applied measures the backlog from its own old time, and what
//!   lies between that and the time of a use before it counts as taken. So uses that overlap D begin
//!   their backlog at D.complete, though D is decided as of `earliest`.
//! * A call that costs more than the bound admits at once never has room.
//!
//! Rounding. A GCRA rounds the time that one call takes to earn up to whole microseconds, and so
//! refills a little more slowly than it says; the backlog is kept at that pace. Limiters that count
//! whole milliseconds lose less than one between a full bucket and T, however many calls lie between:
//! the slack holds it. A weighted sum in doubles is exact while it is whole and monotone otherwise; who
//! multiplies in another order may be off by a few units in the last place, so 2^-50 of the limit is
//! left in doubt.
//!
//! Cost: O(n log n) to prepare, an answer O(log n) at worst. [`Ledger::fits`] looks first at what was
//! invoked before D, each use as early as it can have been: where that leaves no room already, as it
//! mostly does for a refusal that is right, it needs nothing sorted and is O(1) for questions in order. So
//! it is where there is room by a rough count from above. 32 bytes per use, 44 (bucket: 45) where only the
//! exact count tells.

mod bucket;
mod regain;
mod usage;

#[cfg(test)]
mod tests;

pub use regain::Regain;
pub use usage::{Usage, Use, gallop};

use bucket::{Pace, Walk};

use super::contract::Bound;
use super::units::Nanos;

/// What else is known about the time of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeContext {
    /// Two readings of the limiter's clock may differ by this much more, or less, than the time
    /// that passed: its resolution plus any step seen in the round.
    pub slack_ns: i64,
    /// How long a caller that used up its limit may be refused; 0 if it gets back what the bound
    /// gives back.
    pub lockout_ns: i64,
    /// Unix time, in nanoseconds, at the run's anchor. Needed for aligned windows only.
    pub epoch_ns_at_zero: i64,
}

/// The call that is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    pub invoke: Nanos,
    pub complete: Nanos,
    pub cost: u64,
    /// How much of it stands in the ledger: no call is in its own way.
    pub entered: u64,
}

/// The answer for one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Whether the call fits under every reading.
    pub fits: bool,
    /// The most that can have been in use at any moment of the call, rounded up.
    pub in_use: u64,
    pub limit: u64,
    /// Uses that completed before this, or were invoked after `to`, take no room. (A bucket may not have
    /// recovered from older ones: [`Ledger::taken_since`].)
    pub from: Nanos,
    pub to: Nanos,
}

/// All uses of one key, or of one group of keys, under one bound.
#[derive(Debug, Clone)]
pub struct Ledger {
    bound: Bound,
    time: TimeContext,
    usage: Usage,
    /// Buckets: before some of the uses, in order of completion, the moment at which the bucket would be full
    /// again, in the units of [`Pace`]. Made when it is first asked for.
    full_at: Vec<i128>,
    /// The last answer: after how many uses, and when.
    full_last: (usize, i128),
    early: Walk,
    late: Walk,
    /// Where the beginnings of spans were found last.
    from: usize,
    before: usize,
}

/// How much is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Count {
    Exact,
    /// No less, and nothing needs to be sorted.
    AtMost,
}

/// Windows that a call may lie in and that are looked at one by one. Most meet one or two; what
/// stays open for longer is held against all of them together, which only finds less room.
const WINDOWS_APART: i64 = 3;

impl Ledger {
    pub fn new(bound: &Bound, time: TimeContext, uses: impl IntoIterator<Item = Use>) -> Self {
        Self {
            bound: *bound,
            time,
            usage: Usage::new(uses),
            full_at: Vec::new(),
            full_last: (0, i128::MIN),
            early: Walk::START,
            late: Walk::START,
            from: 0,
            before: 0,
        }
    }

    /// Whether there was room for a decided call under every reading.
    pub fn fits(&mut self, call: Call) -> bool {
        // Once completions are in order the exact answer costs no more than a rough one.
        let roughly =
            |ledger: &mut Self| !ledger.usage.is_in_order() && ledger.weigh(call, Count::AtMost).fits;
        !self.surely_full(call) && (roughly(self) || self.room(call).fits)
    }

    /// How much room there was for a decided call.
    pub fn room(&mut self, call: Call) -> Room {
        self.weigh(call, Count::Exact)
    }

    /// Whether what was invoked before the call leaves it no room, if each use was applied as early as
    /// it can have been: never more than [`Self::room`] finds in use.
    fn surely_full(&mut self, call: Call) -> bool {
        let earliest = self.earliest(call);
        match self.bound {
            Bound::None => false,
            Bound::FixedWindow { limit, window } | Bound::SlidingWindow { limit, window } => {
                let used = self.begun_since(earliest.saturating_sub(window.nanos()), call);
                used.saturating_add(call.cost) > limit.get()
            }
            Bound::AlignedWindow { limit, window } => {
                let edge = self.edge(self.number(call.invoke.0, window.nanos()), window.nanos());
                self.begun_since(edge, call).saturating_add(call.cost) > limit.get()
            }
            Bound::WeightedTwoWindow { limit, window } => {
                let window = window.nanos();
                let edge = self.edge(self.number(call.invoke.0, window), window);
                let current = self.begun_since(edge, call);
                self.before = self.usage.begun_before(Nanos(edge.saturating_sub(window)), self.before);
                let before = self.usage.sum(self.from) - self.usage.sum(self.before);
                let left = i128::from(window - earliest.saturating_sub(edge).clamp(0, window));
                let window = i128::from(window);
                let parts =
                    (i128::from(current) + i128::from(call.cost)) * window + i128::from(before) * left;
                parts > i128::from(limit.get()) * window
            }
            Bound::Bucket { capacity, refill, window } => {
                let pace = Pace::of(refill.get(), window.nanos());
                self.surely_empty(call, earliest, capacity.get(), pace)
            }
        }
    }

    /// What was invoked from here on and before the call.
    #[inline]
    fn begun_since(&mut self, from: i64, call: Call) -> u64 {
        self.from = self.usage.begun_before(Nanos(from), self.from);
        self.early.place = self.usage.begun_before(call.invoke, self.early.place);
        self.usage.sum(self.early.place) - self.usage.sum(self.from)
    }

    #[inline]
    fn earliest(&self, call: Call) -> i64 {
        call.invoke.0.saturating_sub(self.time.slack_ns).saturating_sub(self.time.lockout_ns)
    }

    fn weigh(&mut self, call: Call, count: Count) -> Room {
        let earliest = self.earliest(call);
        match self.bound {
            Bound::None => {
                Room { fits: true, in_use: 0, limit: u64::MAX, from: call.invoke, to: call.complete }
            }
            Bound::FixedWindow { limit, window } | Bound::SlidingWindow { limit, window } => self.span(
                call,
                limit.get(),
                (earliest.saturating_sub(window.nanos()), call.complete.0),
                count,
            ),
            Bound::AlignedWindow { limit, window } => {
                self.per_window(call, earliest, (window.nanos(), count), |ledger, n| {
                    let (from, to) = ledger.window(n, window.nanos());
                    ledger.span(call, limit.get(), (from, to.min(call.complete.0)), count)
                })
            }
            Bound::WeightedTwoWindow { limit, window } => {
                self.per_window(call, earliest, (window.nanos(), count), |ledger, n| {
                    ledger.weighted(call, earliest, n, (limit.get(), window.nanos()), count)
                })
            }
            Bound::Bucket { capacity, refill, window } => {
                self.bucket(call, earliest, capacity.get(), Pace::of(refill.get(), window.nanos()), count)
            }
        }
    }

    /// The most that can lie in a span, at full weight.
    #[inline]
    fn span(&mut self, call: Call, limit: u64, (from, to): (i64, i64), count: Count) -> Room {
        let in_use = self.others(call, from, to, count);
        Room {
            fits: in_use.saturating_add(call.cost) <= limit,
            in_use,
            limit,
            from: Nanos(from),
            to: Nanos(to),
        }
    }

    /// What others than the call may have applied in `[from, to]`.
    #[inline]
    fn others(&mut self, call: Call, from: i64, to: i64, count: Count) -> u64 {
        let itself = call.invoke.0 <= to && call.complete.0 >= from;
        let all = match count {
            Count::Exact => self.usage.between(Nanos(from), Nanos(to)),
            Count::AtMost => self.usage.between_at_most(Nanos(from), Nanos(to)),
        };
        all.saturating_sub(if itself { call.entered } else { 0 })
    }

    fn number(&self, at: i64, window: i64) -> i64 {
        at.saturating_add(self.time.epoch_ns_at_zero).div_euclid(window)
    }

    /// When aligned window n begins.
    fn edge(&self, n: i64, window: i64) -> i64 {
        n.saturating_mul(window).saturating_sub(self.time.epoch_ns_at_zero)
    }

    /// What completed before the first, or was invoked after the second, cannot be in window n.
    fn window(&self, n: i64, window: i64) -> (i64, i64) {
        let slack = self.time.slack_ns;
        let end = self.edge(n.saturating_add(1), window);
        (self.edge(n, window).saturating_sub(slack), end.saturating_add(slack).saturating_sub(1))
    }

    /// The tightest of the windows that the call may lie in.
    fn per_window(
        &mut self,
        call: Call,
        earliest: i64,
        (window, count): (i64, Count),
        room_in: impl Fn(&mut Self, i64) -> Room,
    ) -> Room {
        let first = self.number(earliest, window);
        let last = self.number(call.complete.0.saturating_add(self.time.slack_ns), window);
        if last.saturating_sub(first) < WINDOWS_APART {
            let rooms = (first..=last).map(|n| room_in(self, n));
            return rooms.max_by_key(|r| (!r.fits, r.in_use)).expect("the first window is one");
        }
        let limit = self.bound.burst().unwrap_or(u64::MAX);
        // The window before the first one may weigh, if it weighs at all.
        let (from, _) = self.window(first.saturating_sub(1), window);
        self.span(call, limit, (from, call.complete.0), count)
    }

    fn weighted(
        &mut self,
        call: Call,
        earliest: i64,
        n: i64,
        (limit, window): (u64, i64),
        count: Count,
    ) -> Room {
        let (begin, end) = self.window(n, window);
        let (begin_before, end_before) = self.window(n.saturating_sub(1), window);
        let current = self.others(call, begin, end.min(call.complete.0), count);
        // Only what cannot be in n: it weighs less.
        let until = end_before.min(call.complete.0);
        let both = if count == Count::Exact { self.others(call, begin, until, count) } else { 0 };
        let before = self.others(call, begin_before, until, count).saturating_sub(both);
        let elapsed = earliest.saturating_sub(self.edge(n, window)).clamp(0, window);
        let (limit_parts, window) = (i128::from(limit) * i128::from(window), i128::from(window));
        let parts = i128::from(current) * window + i128::from(before) * (window - i128::from(elapsed));
        let doubt = if before > 0 { (limit_parts >> 50) + 1 } else { 0 };
        Room {
            fits: parts + i128::from(call.cost) * window + doubt <= limit_parts,
            in_use: u64::try_from(div_ceil(parts, window)).unwrap_or(u64::MAX),
            limit,
            from: Nanos(if before > 0 { begin_before } else { begin }),
            to: Nanos(end.min(call.complete.0)),
        }
    }
}

/// For parts ≥ 0.
fn div_ceil(parts: i128, whole: i128) -> i128 {
    parts.saturating_add(whole - 1) / whole
}

/// After how long a silence a limiter that keeps to the bound has room for a call of this cost, whatever
/// it admitted before; `None` if it never has.
///
/// [`Bound::gives_back_within_ns`] speaks of calls of cost 1. Windows give everything back in that time;
/// a bucket that was emptied needs to earn the call.
pub fn recovers_within_ns(bound: &Bound, cost: u64) -> Option<i64> {
    let within = bound.gives_back_within_ns().filter(|_| bound.burst().is_some_and(|most| cost <= most))?;
    let Bound::Bucket { refill, window, .. } = bound else { return Some(within) };
    let pace = Pace::of(refill.get(), window.nanos());
    let earned = div_ceil(pace.of_calls(cost), pace.per_ns);
    Some(within.max(i64::try_from(earned).unwrap_or(i64::MAX)))
}
