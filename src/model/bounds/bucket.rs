//! The span that is furthest above what a bucket can have paid out.
//!
//! In a span of length L at most capacity + refill × (L + slack) / window can be admitted. Multiplied
//! out and in integers: a span `[a, b]` with costs C wholly inside is over if
//!
//! ```text
//! C × window + refill × a − refill × b > capacity × window + refill × slack
//! ```

use super::{Admitted, Over, Rule, Span, by_completion};
use crate::model::units::Nanos;

#[derive(Debug, Clone, Copy)]
pub struct Rate {
    pub capacity: u64,
    pub refill: u64,
    /// Nanoseconds.
    pub window: i64,
}

impl Rate {
    /// What a call takes, in parts: a nanosecond brings `refill` of them.
    #[inline]
    fn takes(self, cost: u64) -> i128 {
        i128::from(cost) * i128::from(self.window)
    }

    /// What a span may hold beside what is refilled in it.
    fn most(self, slack_ns: i64) -> i128 {
        self.takes(self.capacity) + self.brings(0, slack_ns)
    }

    #[inline]
    fn brings(self, from: i64, to: i64) -> i128 {
        i128::from(self.refill) * (i128::from(to) - i128::from(from))
    }
}

/// The first span that is over, by its end. Ops come in order of invocation.
///
/// Ops are added in order of completion. An op adds its cost to every `a` at or before its invocation,
/// so what counts for `a` is a sum over the ops from there on, and the best `a` is the root of a tree of
/// such sums: O(log n) an op.
pub fn over(ops: &[Admitted], rate: Rate, slack_ns: i64) -> Option<Over> {
    let most = rate.most(slack_ns);
    if !may_be_over(ops, rate, slack_ns) {
        return None;
    }
    let mut tree = Tree::new(ops, rate);
    for at in by_completion(ops) {
        let b = ops[at as usize].complete.0;
        tree.completed(at as usize, b);
        if tree.best() - rate.brings(tree.zero, b) > most {
            return Some(found(ops, rate, slack_ns, b));
        }
    }
    None
}

/// Whether the level of a bucket into which every op is poured when it is invoked, and which nobody
/// refuses, is ever too high when an op completes. Everything wholly inside a span was invoked inside it, and the
/// last of it that was invoked completed before its end: so that level is never below the truth.
fn may_be_over(ops: &[Admitted], rate: Rate, slack_ns: i64) -> bool {
    let mut may = MayBeOver::new(rate, slack_ns);
    ops.iter().any(|op| may.with(op))
}

/// The same, told op by op in order of invocation.
pub struct MayBeOver {
    rate: Rate,
    most: i128,
    last: Option<i64>,
    level: i128,
}

impl MayBeOver {
    pub fn new(rate: Rate, slack_ns: i64) -> Self {
        Self { rate, most: rate.most(slack_ns), last: None, level: 0 }
    }

    /// Whether a span that ends with this op, the next, could be over.
    #[inline]
    pub fn with(&mut self, op: &Admitted) -> bool {
        let last = self.last.replace(op.invoke.0).unwrap_or(op.invoke.0);
        self.level = (self.level - self.rate.brings(last, op.invoke.0)).max(0) + self.rate.takes(op.cost);
        self.level - self.rate.brings(op.invoke.0, op.complete.0) > self.most
    }
}

/// The best beginning for an end that is known to be over; of equal ones the earliest.
fn found(ops: &[Admitted], rate: Rate, slack_ns: i64, b: i64) -> Over {
    let mut sum = 0u64;
    let mut best: Option<(i128, Span)> = None;
    for op in ops.iter().rev().filter(|op| op.complete.0 <= b) {
        sum = sum.saturating_add(op.cost);
        let weight = rate.takes(sum) - rate.brings(op.invoke.0, b);
        if best.is_none_or(|(most, _)| weight >= most) {
            best = Some((weight, Span { from: op.invoke, to: Nanos(b), admitted: sum }));
        }
    }
    let (_, span) = best.expect("the op that completed at b is one");
    let parts = rate.brings(span.from.0, b) + rate.brings(0, slack_ns);
    let refilled = u64::try_from(parts / i128::from(rate.window)).unwrap_or(u64::MAX);
    span.of(Rule::Refilled(refilled), rate.capacity.saturating_add(refilled))
}

/// Completed ops in a row of [`BLOCK`] or a multiple: their sum, and the best weight of an `a` among
/// them with what follows `a` in the row.
#[derive(Debug, Clone, Copy)]
struct Node {
    sum: i128,
    best: i128,
}

impl Node {
    /// Far below every weight, and far from overflowing.
    const NONE: Self = Self { sum: 0, best: i128::MIN / 4 };

    fn of(left: Self, right: Self) -> Self {
        Self { sum: left.sum + right.sum, best: right.best.max(left.best + right.sum) }
    }
}

/// Ops to a leaf. What is in a leaf is told by the ops themselves, so the tree costs 4 bytes an op and
/// a neighbour's completion is in the cache.
const BLOCK: usize = 16;

struct Tree<'a> {
    ops: &'a [Admitted],
    rate: Rate,
    /// Times are counted from here.
    zero: i64,
    /// The root is at 1, the leaves are the second half.
    nodes: Vec<Node>,
}

impl<'a> Tree<'a> {
    fn new(ops: &'a [Admitted], rate: Rate) -> Self {
        let leaves = ops.len().div_ceil(BLOCK).next_power_of_two();
        let zero = ops.first().map_or(0, |o| o.invoke.0);
        Self { ops, rate, zero, nodes: vec![Node::NONE; 2 * leaves] }
    }

    /// Takes in that the op at this place completed at `b`, and nothing later.
    fn completed(&mut self, at: usize, b: i64) {
        let block = at / BLOCK;
        let end = self.ops.len().min((block + 1) * BLOCK);
        let mut node = Node::NONE;
        for op in self.ops[block * BLOCK..end].iter().rev().filter(|op| op.complete.0 <= b) {
            node.sum += self.rate.takes(op.cost);
            node.best = node.best.max(node.sum + self.rate.brings(self.zero, op.invoke.0));
        }
        let mut place = self.nodes.len() / 2 + block;
        self.nodes[place] = node;
        while place > 1 {
            place /= 2;
            self.nodes[place] = Node::of(self.nodes[2 * place], self.nodes[2 * place + 1]);
        }
    }

    fn best(&self) -> i128 {
        self.nodes[1].best
    }
}
