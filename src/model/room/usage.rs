//! Uses of a limit, prepared for one question: how much of them may lie in this span?
//!
//! What was invoked after the span completed after its beginning: the two kinds that lie outside have
//! no use in common, and two running sums answer exactly. The one over completions needs them sorted,
//! and is made when it is first asked for. Before that two rougher answers are at hand: at least what
//! was invoked in the span, and at most what was invoked after the last use before which all had ended
//! when the span began.

use crate::model::order::by_end;
use crate::model::units::Nanos;

/// One use of the limit, applied at some moment of its interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    pub invoke: Nanos,
    /// [`crate::model::op::Op::NEVER`] if nobody knows when it was applied, or whether.
    pub complete: Nanos,
    pub cost: u64,
}

#[derive(Debug, Clone, Default)]
pub struct Usage {
    /// In order of invocation.
    begun: Vec<Begun>,
    /// Places of the uses in order of completion, and the sum of what each and those before it cost. Made
    /// when it is first asked for.
    ended: Vec<u32>,
    sums: Vec<u64>,
    places: Places,
}

/// A use, and what can be said of it and those invoked before it together.
#[derive(Debug, Clone, Copy)]
struct Begun {
    invoke: i64,
    complete: i64,
    /// The sum of their costs.
    sum: u64,
    /// Their latest completion.
    latest: i64,
}

/// Where questions of a kind were answered last: the next one is mostly close by.
#[derive(Debug, Clone, Copy, Default)]
struct Places {
    from: usize,
    to: usize,
    ended: usize,
    over: usize,
}

impl Usage {
    pub fn new(uses: impl IntoIterator<Item = Use>) -> Self {
        let uses = uses.into_iter();
        let mut begun = Vec::with_capacity(uses.size_hint().1.unwrap_or(0));
        begun.extend(uses.map(|u| Begun {
            invoke: u.invoke.0,
            complete: u.complete.0,
            sum: u.cost,
            latest: u.complete.0,
        }));
        if !begun.is_sorted_by_key(|b| b.invoke) {
            begun.sort_unstable_by_key(|b| b.invoke);
        }
        let (mut sum, mut latest) = (0u64, i64::MIN);
        for one in &mut begun {
            sum = sum.saturating_add(one.sum);
            latest = latest.max(one.complete);
            (one.sum, one.latest) = (sum, latest);
        }
        Self { begun, ..Self::default() }
    }

    /// The costs of all uses that may have been applied in `[from, to]`, together. With `from` just
    /// after `to`: of those that may have been applied on either side.
    pub fn between(&mut self, from: Nanos, to: Nanos) -> u64 {
        debug_assert!(from.0 <= to.0.saturating_add(1), "{from} is after {to}");
        let ended = self.completed_before(from);
        let ended = ended.checked_sub(1).map_or(0, |last| self.sums[last]);
        self.begun_until(to).saturating_sub(ended)
    }

    /// No less than [`Self::between`], without sorting anything.
    #[inline]
    pub fn between_at_most(&mut self, from: Nanos, to: Nanos) -> u64 {
        let over = |place: usize| self.begun[place].latest < from.0;
        self.places.over = gallop(self.places.over, self.begun.len(), over);
        self.begun_until(to).saturating_sub(self.sum(self.places.over))
    }

    /// Whether uses that cost `theirs` together, and were invoked in `[from, to]`, are all that may have
    /// been applied in it.
    #[inline]
    pub fn holds_only(&mut self, theirs: u64, from: Nanos, to: Nanos) -> bool {
        self.is_over_by(from) && self.begun_until(to).saturating_sub(self.sum(self.places.from)) == theirs
    }

    /// Whether all that was invoked before this had also completed before it.
    #[inline]
    pub fn is_over_by(&mut self, at: Nanos) -> bool {
        self.places.from = self.seek(at.0, self.places.from);
        self.places.from.checked_sub(1).is_none_or(|last| self.begun[last].latest < at.0)
    }

    /// How many uses were invoked before this; `near` is a number thought to be close.
    #[inline]
    pub fn begun_before(&self, at: Nanos, near: usize) -> usize {
        self.seek(at.0, near)
    }

    /// What the first so many uses by invocation cost together.
    #[inline]
    pub fn sum(&self, count: usize) -> u64 {
        count.checked_sub(1).map_or(0, |last| self.begun[last].sum)
    }

    /// The use at this place in the order of invocation.
    #[inline]
    pub fn begun(&self, place: usize) -> Use {
        let Begun { invoke, complete, sum, .. } = self.begun[place];
        Use { invoke: Nanos(invoke), complete: Nanos(complete), cost: sum - self.sum(place) }
    }

    /// How many uses completed before this.
    pub fn completed_before(&mut self, at: Nanos) -> usize {
        self.sort();
        self.places.ended = gallop(self.places.ended, self.ended.len(), |place| self.ends(place) < at.0);
        self.places.ended
    }

    /// Completion and cost of each use, in order of completion.
    pub fn completions(&mut self) -> impl ExactSizeIterator<Item = (i64, u64)> {
        self.sort();
        let (begun, each) = (&self.begun, self.ended.iter().zip(&self.sums));
        let mut before = 0;
        each.map(move |(at, sum)| (begun[*at as usize].complete, sum - std::mem::replace(&mut before, *sum)))
    }

    /// Completion and cost of the use at this place in the order of completion.
    #[inline]
    pub fn ended(&self, place: usize) -> (i64, u64) {
        let before = place.checked_sub(1).map_or(0, |last| self.sums[last]);
        (self.ends(place), self.sums[place] - before)
    }

    /// The completion at this place in their order.
    pub fn completion(&mut self, place: usize) -> Nanos {
        self.sort();
        Nanos(self.ends(place))
    }

    #[inline]
    fn begun_until(&mut self, to: Nanos) -> u64 {
        self.places.to = self.seek(to.0.saturating_add(1), self.places.to);
        self.sum(self.places.to)
    }

    #[inline]
    fn seek(&self, at: i64, near: usize) -> usize {
        gallop(near, self.begun.len(), |place| self.begun[place].invoke < at)
    }

    /// Whether the completions have been put in order.
    pub fn is_in_order(&self) -> bool {
        self.ended.len() == self.begun.len()
    }

    fn sort(&mut self) {
        if self.is_in_order() {
            return;
        }
        let count = u32::try_from(self.begun.len()).expect("fewer than 2^32 uses");
        let ends = |at: &u32| Nanos(self.begun[*at as usize].complete);
        let mut ended: Vec<u32> = (0..count).collect();
        by_end(&mut ended, |n| Nanos(self.begun[n].invoke), ends);
        if !ended.is_sorted_by_key(ends) {
            // Some use ended before it began: nobody should record that.
            ended.sort_unstable_by_key(ends);
        }
        let mut sum = 0u64;
        let sums = ended.iter().map(|at| {
            sum = sum.saturating_add(self.begun(*at as usize).cost);
            sum
        });
        self.sums = sums.collect();
        self.ended = ended;
    }

    fn ends(&self, place: usize) -> i64 {
        self.begun[self.ended[place] as usize].complete
    }
}

/// How many of `count` places in order come earlier, asked from a place that is thought to be near:
/// O(log of the distance).
#[inline]
pub fn gallop(near: usize, count: usize, earlier: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high, mut stride) = (near, near, 1);
    while high < count && earlier(high) {
        low = high + 1;
        high += stride;
        stride *= 2;
    }
    if high == near {
        while low > 0 && !earlier(low - 1) {
            high = low - 1;
            low = low.saturating_sub(stride);
            stride *= 2;
        }
    }
    high = high.min(count);
    while low < high {
        let middle = usize::midpoint(low, high);
        if earlier(middle) { low = middle + 1 } else { high = middle }
    }
    low
}
