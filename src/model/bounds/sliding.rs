//! The fullest span of a given length.

use super::{Admitted, Span, by_completion};
use crate::model::units::Nanos;

/// The first span `[a, b]`, `b − a < reach`, that holds more than `most`. Ops come in order of
/// invocation.
///
/// For a given `b` the fullest span is the longest, for costs only ever add: it begins with the first
/// invocation after `b − reach`. As `b` goes from completion to completion, that place only moves on,
/// and one sum follows it: O(n) once the completions are in order.
pub fn over(ops: &[Admitted], reach: i64, most: u64) -> Option<Span> {
    if reach <= 0 || !may_be_over(ops, reach, most) {
        return None;
    }
    let order = by_completion(ops);
    let mut sum = 0u128;
    let mut first = 0;
    let mut next = 0;
    while let Some(at) = order.get(next) {
        let b = ops[*at as usize].complete;
        while let Some(op) = ops.get(first).filter(|op| !within(op.invoke, b, reach)) {
            // Those that complete at `b` or later are not in the sum yet.
            sum -= if op.complete < b { u128::from(op.cost) } else { 0 };
            first += 1;
        }
        // Ops that complete together belong to the same span.
        while let Some(at) = order.get(next).filter(|at| ops[**at as usize].complete == b) {
            sum += if *at as usize >= first { u128::from(ops[*at as usize].cost) } else { 0 };
            next += 1;
        }
        if sum > u128::from(most) {
            let admitted = u64::try_from(sum).unwrap_or(u64::MAX);
            return Some(Span { from: ops[first].invoke, to: b, admitted });
        }
    }
    None
}

/// Whether so much was invoked within one span that it could be over: everything wholly inside a span
/// was invoked inside it.
fn may_be_over(ops: &[Admitted], reach: i64, most: u64) -> bool {
    let mut may = MayBeOver::new(ops.iter().copied(), reach, most);
    ops.iter().any(|op| may.with(op))
}

/// The same, told op by op in order of invocation.
pub struct MayBeOver<I> {
    /// The ops again, from the first that was invoked in the span.
    behind: I,
    first: Option<Admitted>,
    reach: i64,
    most: u64,
    sum: u128,
}

impl<I: Iterator<Item = Admitted>> MayBeOver<I> {
    pub fn new(mut ops: I, reach: i64, most: u64) -> Self {
        let first = ops.next();
        Self { behind: ops, first, reach, most, sum: 0 }
    }

    /// Whether a span that ends with this op, the next, could be over.
    #[inline]
    pub fn with(&mut self, op: &Admitted) -> bool {
        if self.reach <= 0 {
            return false;
        }
        self.sum += u128::from(op.cost);
        while let Some(first) = self.first.filter(|f| !within(f.invoke, op.invoke, self.reach)) {
            self.sum -= u128::from(first.cost);
            self.first = self.behind.next();
        }
        self.sum > u128::from(self.most)
    }
}

#[inline]
fn within(a: Nanos, b: Nanos, reach: i64) -> bool {
    i128::from(b.0) - i128::from(a.0) < i128::from(reach)
}
