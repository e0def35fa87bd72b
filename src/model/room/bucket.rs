//! Buckets: how full one is at least, and at most.

use super::{Call, Count, Ledger, Room, Use, div_ceil};
use crate::model::contract::Bound;
use crate::model::units::Nanos;

/// A bucket followed through its uses in order of invocation, for questions in that order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Walk {
    /// Uses so far, and when it would be full again after them.
    done: usize,
    full: i128,
    /// Where the last question was.
    pub place: usize,
}

impl Walk {
    pub const START: Self = Self { done: 0, full: i128::MIN, place: 0 };
}

/// Of so many uses the state of a bucket after one is kept.
const APART: usize = 64;

/// How fast a bucket refills, in whole numbers: one call's worth takes `token` units, and a
/// nanosecond brings `per_ns`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    pub token: i128,
    pub per_ns: i128,
}

impl Pace {
    /// No faster than any limiter that keeps to this rate: see "Rounding" above. A rate of more than one a
    /// microsecond cannot be kept in whole microseconds and is taken as it is.
    pub fn of(refill: u64, window_ns: i64) -> Self {
        let window_us = u64::try_from(window_ns).unwrap_or(0) / 1000;
        if refill <= window_us {
            Self { token: i128::from(window_us.div_ceil(refill)) * 1000, per_ns: 1 }
        } else {
            Self { token: window_ns.into(), per_ns: refill.into() }
        }
    }

    pub fn of_calls(self, cost: u64) -> i128 {
        self.token.saturating_mul(cost.into())
    }

    /// When the bucket is full again after one more use.
    fn after(self, full_at: i128, at: i64, cost: u64) -> i128 {
        full_at.max(i128::from(at) * self.per_ns).saturating_add(self.of_calls(cost))
    }
}

impl Ledger {
    /// Follows a bucket up to the uses invoked before this. `None` if it is further already.
    fn walk(&self, mut walk: Walk, until: i64, pace: Pace, applied: impl Fn(Use) -> Nanos) -> Option<Walk> {
        walk.place = self.usage.begun_before(Nanos(until), walk.place);
        if walk.done > walk.place {
            return None;
        }
        for place in walk.done..walk.place {
            let one = self.usage.begun(place);
            walk.full = pace.after(walk.full, applied(one).0, one.cost);
        }
        walk.done = walk.place;
        Some(walk)
    }

    /// Whether a bucket is too empty for a call even if each use was applied as early as it can have been.
    pub(super) fn surely_empty(&mut self, call: Call, earliest: i64, capacity: u64, pace: Pace) -> bool {
        let Some(walk) = self.walk(self.early, call.invoke.0, pace, |u| u.invoke) else { return false };
        self.early = walk;
        let backlog = walk.full.saturating_sub(i128::from(earliest) * pace.per_ns).max(0);
        backlog.saturating_add(pace.of_calls(call.cost)) > pace.of_calls(capacity)
    }

    pub(super) fn bucket(
        &mut self,
        call: Call,
        earliest: i64,
        capacity: u64,
        pace: Pace,
        count: Count,
    ) -> Room {
        let open = self.others(call, earliest, call.complete.0, count);
        let full_at = match count {
            Count::Exact => {
                let done = self.usage.completed_before(Nanos(earliest));
                self.full_after(done, pace)
            }
            // In any other order than that of completion a bucket is full no earlier: of the uses from some
            // completion on, one comes first, and all the others after it.
            Count::AtMost => match self.walk(self.late, earliest, pace, |u| u.complete) {
                Some(walk) => {
                    self.late = walk;
                    walk.full
                }
                None => i128::MAX,
            },
        };
        // A use that overlaps the call may have read a later time than the call itself.
        let latest = if open > 0 { call.complete.0 } else { earliest };
        let full_at = full_at.max(i128::from(latest) * pace.per_ns);
        let backlog = full_at.saturating_sub(i128::from(earliest) * pace.per_ns).max(0);
        let wanted = pace.of_calls(open.saturating_add(call.cost));
        let in_use = u64::try_from(div_ceil(backlog, pace.token)).unwrap_or(u64::MAX);
        Room {
            fits: backlog.saturating_add(wanted) <= pace.of_calls(capacity),
            in_use: in_use.saturating_add(open),
            limit: capacity,
            from: Nanos(earliest),
            to: call.complete,
        }
    }

    /// When the bucket would be full again after the first so many uses by completion. It is kept for every
    /// [`APART`]-th use; what lies between is followed from there, or from the last answer where that is nearer.
    fn full_after(&mut self, done: usize, pace: Pace) -> i128 {
        if self.full_at.is_empty() {
            let completions = self.usage.completions();
            let count = completions.len().div_ceil(APART);
            let (mut full, mut marks) = (i128::MIN, Vec::with_capacity(count));
            for (place, (at, cost)) in completions.enumerate() {
                if place.is_multiple_of(APART) {
                    marks.push(full);
                }
                full = pace.after(full, at, cost);
            }
            self.full_at = marks;
        }
        let (mut place, mut full) = self.full_last;
        if place > done || done - place > APART {
            // Past the last use stands nothing where their number is a multiple.
            let mark = (done / APART).min(self.full_at.len().saturating_sub(1));
            (place, full) = (mark * APART, self.full_at.get(mark).copied().unwrap_or(i128::MIN));
        }
        for place in place..done {
            let (at, cost) = self.usage.ended(place);
            full = pace.after(full, at, cost);
        }
        self.full_last = (done, full);
        full
    }

    /// The first use that took room from a call: a bucket may not have recovered from uses long
    /// before it. Linear in those; for witnesses.
    pub fn taken_since(&mut self, room: Room) -> Nanos {
        let Bound::Bucket { refill, window, .. } = self.bound else { return room.from };
        let pace = Pace::of(refill.get(), window.nanos());
        let mut since = room.from;
        for place in (0..self.usage.completed_before(room.from)).rev() {
            if self.full_after(place + 1, pace) <= i128::from(since.0) * pace.per_ns {
                break;
            }
            since = self.usage.completion(place);
        }
        since
    }
}
