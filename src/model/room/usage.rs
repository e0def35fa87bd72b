//! Uses of a limit, prepared for one question: how much of them may lie in this span?
//!
//! What was invoked after the span completed after its beginning: the two kinds that lie outside have
//! no use in common, and two running sums answer.

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
    begun: Tally,
    ended: Tally,
}

impl Usage {
    pub fn new(uses: impl IntoIterator<Item = Use>) -> Self {
        let (begun, ended) = uses.into_iter().map(|u| ((u.invoke.0, u.cost), (u.complete.0, u.cost))).unzip();
        Self { begun: Tally::new(begun), ended: Tally::new(ended) }
    }

    /// The costs of all uses that may have been applied in `[from, to]`, together. With `from` just
    /// after `to`: of those that may have been applied on either side.
    pub fn between(&mut self, from: Nanos, to: Nanos) -> u64 {
        debug_assert!(from.0 <= to.0.saturating_add(1), "{from} is after {to}");
        let begun = self.begun.before(to.0.saturating_add(1));
        begun.saturating_sub(self.ended.before(from.0))
    }

    /// How many uses completed before this.
    pub fn completed_before(&mut self, at: Nanos) -> usize {
        self.ended.seek(at.0)
    }

    /// Completion and cost of each use, in order of completion.
    pub fn completions(&self) -> impl Iterator<Item = (i64, u64)> {
        let mut before = 0;
        self.ended.steps.iter().map(move |(at, sum)| (*at, sum - std::mem::replace(&mut before, *sum)))
    }

    /// The completion at this place in their order.
    pub fn completion(&self, place: usize) -> Nanos {
        Nanos(self.ended.steps[place].0)
    }
}

/// Moments in order, each with the sum of what it and those before it bring.
#[derive(Debug, Clone, Default)]
struct Tally {
    steps: Vec<(i64, u64)>,
    /// Where the last question was answered: the next one is mostly close by.
    place: usize,
}

impl Tally {
    fn new(mut steps: Vec<(i64, u64)>) -> Self {
        // A stable sort is linear on what is in order, or nearly so, as recorded ops are.
        steps.sort_by_key(|(at, _)| *at);
        let mut sum = 0u64;
        for step in &mut steps {
            sum = sum.saturating_add(step.1);
            step.1 = sum;
        }
        Self { steps, place: 0 }
    }

    /// The sum of what lies before `at`.
    fn before(&mut self, at: i64) -> u64 {
        self.seek(at).checked_sub(1).map_or(0, |last| self.steps[last].1)
    }

    /// How many steps lie before `at`.
    fn seek(&mut self, at: i64) -> usize {
        self.place = gallop(self.place, self.steps.len(), |place| self.steps[place].0 < at);
        self.place
    }
}

/// How many of `count` places in order come earlier, asked from a place that is thought to be near:
/// O(log of the distance).
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
