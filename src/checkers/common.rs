//! What the checkers share that follow single calls: whose calls count together, what each may have
//! taken out of the limit, and how a witness speaks of them.

use std::borrow::Cow;

use crate::model::contract::{Denials, Scope};
use crate::model::groups::{Group, Groups};
use crate::model::history::{Cell, Preset, Round};
use crate::model::indexed::IndexedRound;
use crate::model::op::{KeyId, Op, Outcome, Source};
use crate::model::room::{TimeContext, Use};
use crate::model::units::{Nanos, NodeId};
use crate::model::verdict::Finding;

/// The calls of a round that count together, in parts, each with what was used before.
pub struct Parts<'a> {
    round: &'a Round,
    groups: &'a Groups,
    /// By key.
    presets: Vec<Preset>,
}

/// One of them: the calls of one key (or of all keys) on one node (or on all nodes), in order of
/// invocation.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    pub round: &'a Round,
    pub key: Option<KeyId>,
    pub node: Option<NodeId>,
    pub ops: &'a [Op],
    /// By place, calls that take nothing out of the limit whatever was answered; empty if there is none.
    pub left_out: &'a [bool],
    presets: &'a [Preset],
}

impl<'a> Parts<'a> {
    /// Each key by itself, and each node where the scope is the node.
    pub fn by_key(round: &'a IndexedRound, scope: Scope) -> Self {
        Self::of(round, scope, true)
    }

    /// All keys together.
    pub fn together(round: &'a IndexedRound, scope: Scope) -> Self {
        Self::of(round, scope, false)
    }

    fn of(round: &'a IndexedRound, scope: Scope, apart: bool) -> Self {
        let mut presets = round.presets.clone();
        presets.sort_by_key(|p| p.key);
        Self { round: round.round(), groups: round.groups(scope, apart), presets }
    }

    /// Visits part after part.
    pub fn each(&self, mut visit: impl FnMut(Part)) {
        let visited = self.try_each(|part| {
            visit(part);
            Ok(())
        });
        debug_assert_eq!(visited, Ok(()));
    }

    /// The same, up to the first witness.
    pub fn try_each(&self, mut visit: impl FnMut(Part) -> Result<(), String>) -> Result<(), String> {
        self.groups.try_each(self.round, |Group { key, node }, ops| {
            let (round, presets) = (self.round, self.presets_of(key));
            visit(Part { round, key, node, ops, left_out: &[], presets })
        })
    }

    fn presets_of(&self, key: Option<KeyId>) -> &[Preset] {
        let Some(key) = key else { return &self.presets };
        let first = self.presets.partition_point(|p| p.key < key);
        let end = self.presets.partition_point(|p| p.key <= key);
        &self.presets[first..end]
    }
}

impl<'a> Part<'a> {
    pub fn presets(&self) -> impl Iterator<Item = &'a Preset> + Clone + use<'a> {
        let node = self.node;
        self.presets.iter().filter(move |p| node.is_none_or(|n| n == p.node))
    }

    /// Everything that may have been taken out of the limit, refusals included or not.
    pub fn uses(&self, denials: Denials) -> impl Iterator<Item = Use> + use<'a> {
        let before = self.presets().map(|p| Use { invoke: p.invoke, complete: p.complete, cost: p.used });
        before.chain(self.counted().filter_map(move |op| use_of(op, denials)))
    }

    /// The calls that are not left out.
    pub fn counted(&self) -> impl Iterator<Item = &'a Op> + use<'a> {
        let left_out = self.left_out;
        let counts = move |place| !left_out.get(place).is_some_and(|out| *out);
        self.ops.iter().enumerate().filter(move |(place, _)| counts(*place)).map(|(_, op)| op)
    }

    /// The same calls, of which some take nothing: by place, or nobody if it is empty.
    pub fn leaving_out<'b>(self, left_out: &'b [bool]) -> Part<'b>
    where
        'a: 'b,
    {
        Part { left_out, ..self }
    }

    /// The first few calls, at most so many.
    pub fn first(self, most: usize) -> Self {
        Self { ops: &self.ops[..most.min(self.ops.len())], ..self }
    }

    /// When the part's first call was made, or its preset.
    pub fn first_touch(&self) -> Nanos {
        let preset = self.presets().map(|p| p.invoke).min();
        let call = self.ops.first().map(|op| op.invoke);
        preset.into_iter().chain(call).min().unwrap_or_default()
    }

    /// The same calls under the name of the one key that is meant.
    pub fn named(self, key: KeyId) -> Self {
        Self { key: Some(key), ..self }
    }

    /// `round 3 on node 1, key user:42`.
    pub fn in_words(&self) -> String {
        let node = self.node.map(|n| format!(" on node {n}")).unwrap_or_default();
        let key = match self.key {
            Some(key) => format!("key {}", self.round.keys.get(key.0 as usize).map_or("?", String::as_str)),
            None => "all keys".to_owned(),
        };
        format!("round {}{node}, {key}", self.round.index)
    }
}

/// Visits each two calls of one key that came one right after the other: nothing else of the part was open
/// from the beginning of the first to the end of the second, and both have ended.
///
/// Everything before A had ended when A began, and A when B began; a step of the clock is waited out, or A may
/// not have seen a call before it that was counted under a later time. Calls that end and begin within one tick
/// of the recorder's clock may have been open together.
pub fn neighbours<'a>(
    part: &Part<'a>,
    mut visit: impl FnMut(&'a Op, &'a Op) -> Result<(), String>,
) -> Result<(), String> {
    let step = step_ns(part.round);
    let after = |end: Nanos, begin: Nanos| begin.0 > end.0.saturating_add(step);
    let mut open_until = part.presets().map(|p| p.complete).max().unwrap_or(Nanos(i64::MIN));
    let mut calls = part.ops.iter().peekable();
    let mut before: Option<&Op> = None;
    while let Some(b) = calls.next() {
        let alone = calls.peek().is_none_or(|next| next.invoke > b.complete);
        let ends = if open_ended(b) { Op::NEVER } else { b.complete };
        if let Some(a) = before.replace(b) {
            let apart = after(open_until, a.invoke) && after(a.complete, b.invoke);
            open_until = open_until.max(if open_ended(a) { Op::NEVER } else { a.complete });
            if apart && alone && ends != Op::NEVER && a.key == b.key {
                visit(a, b)?;
            }
        }
    }
    Ok(())
}

/// By place in a part what is known of calls by their number; empty if nothing is.
pub fn left_out_of<'a>(part: &Part, unexplained: &'a [bool]) -> Cow<'a, [bool]> {
    if unexplained.is_empty() || std::ptr::eq(part.ops, part.round.ops.as_slice()) {
        return Cow::Borrowed(unexplained);
    }
    part.ops.iter().map(|op| unexplained[op.id.0 as usize]).collect()
}

/// What a call may have taken out of the limit, and when.
///
/// A failed call took nothing. One without an answer may have taken its cost at any later time, and so
/// may one that a policy answered when the store did not: its command may still be on its way.
#[inline]
pub fn use_of(op: &Op, denials: Denials) -> Option<Use> {
    let complete = if open_ended(op) { Op::NEVER } else { op.complete };
    match op.outcome {
        Outcome::Failed => return None,
        Outcome::Denied if denials == Denials::Free && !stood_in(op) => return None,
        _ => {}
    }
    Some(Use { invoke: op.invoke, complete, cost: op.cost.get().into() })
}

/// Whether what a call does in the store may happen after its end. What a node did that died, it had done.
#[inline]
pub fn open_ended(op: &Op) -> bool {
    (op.outcome == Outcome::Unknown && op.complete == Op::NEVER) || stood_in(op)
}

/// Whether a policy decided, because the store did not or it was not heeded. Such an answer says nothing about
/// the limit; whether it is the declared one is another question.
#[inline]
fn stood_in(op: &Op) -> bool {
    op.source.is_some_and(Source::is_of_a_policy)
}

/// Whether the limiter itself decided.
#[inline]
pub fn decided(op: &Op) -> bool {
    matches!(op.outcome, Outcome::Admitted | Outcome::Denied) && !stood_in(op)
}

#[inline]
pub fn denied(op: &Op) -> bool {
    op.outcome == Outcome::Denied && decided(op)
}

#[inline]
pub fn admitted(op: &Op) -> bool {
    op.outcome == Outcome::Admitted && decided(op)
}

/// How far the wall clock was set in a round.
pub fn step_ns(round: &Round) -> i64 {
    round.clock_step_ns.saturating_abs()
}

pub fn time_of(cell: &Cell, round: &Round) -> TimeContext {
    let contract = &cell.header.contract;
    let resolution =
        i64::try_from(contract.clock_resolution_ms).unwrap_or(i64::MAX).saturating_mul(1_000_000);
    TimeContext {
        slack_ns: resolution.saturating_add(step_ns(round)),
        lockout_ns: contract.lockout.map_or(0, |l| l.nanos()),
        // The wall clock as it stood in this round: earlier steps are in it.
        epoch_ns_at_zero: round.epoch_ns_at_zero.unwrap_or(cell.epoch_ns_at_zero),
    }
}

/// What is left of a clean record if it does not reach to the planned end: nothing.
pub fn cut_short(cell: &Cell) -> Option<Finding> {
    let whole = cell.rounds.iter().filter(|r| r.complete).count();
    (whole < cell.header.rounds as usize).then(|| {
        Finding::unknown(format!(
            "the history is cut short: {whole} of {} rounds are whole, and nothing is wrong in what there is",
            cell.header.rounds
        ))
    })
}

/// `op 13 of node 1 (cost 2), open 0.349 ms to 1.414 ms of the round,`: with a comma to go on from.
pub fn op_in_words(round: &Round, op: &Op) -> String {
    let at = |t: Nanos| Nanos(t.0.saturating_sub(round.began.0));
    let open = match op.complete {
        Op::NEVER => format!("open from {} of the round on", at(op.invoke)),
        complete => {
            let (from, to) = (at(op.invoke), at(complete));
            format!("open {} to {} of the round", from.beside(to), to.beside(from))
        }
    };
    format!("op {} of node {} (cost {}), {open},", op.id, op.node, op.cost.get())
}

/// `0 3 7 … 199 (200 in all)`: the first few and the last.
pub fn ids<'o>(ops: impl Iterator<Item = &'o Op>) -> String {
    const SHOWN: usize = 12;
    let all: Vec<String> = ops.map(|op| op.id.to_string()).collect();
    match all.len() {
        0 => "none".to_owned(),
        n if n <= SHOWN => all.join(" "),
        n => format!("{} … {} ({n} in all)", all[..SHOWN - 1].join(" "), all[n - 1]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::units::{Cost, OpId};

    fn round(calls: &[(&str, u16, i64)]) -> Round {
        let mut round = Round::default();
        for (n, (key, node, at)) in calls.iter().enumerate() {
            let key = round.key(key);
            round.ops.push(Op::new(OpId(n as u32), NodeId(*node), key, Cost::ONE, Nanos(*at)));
        }
        round
    }

    fn of_each<T>(parts: &Parts, what: impl Fn(Part) -> T) -> Vec<T> {
        let mut all = Vec::new();
        parts.each(|part| all.push(what(part)));
        all
    }

    fn ids_of(parts: &Parts) -> Vec<Vec<u32>> {
        of_each(parts, |p| p.ops.iter().map(|o| o.id.0).collect())
    }

    #[test]
    fn calls_are_parted_by_key_and_by_node_and_stay_in_order() {
        let round = round(&[("a", 1, 0), ("b", 0, 1), ("a", 0, 3), ("a", 1, 2), ("b", 0, 4)]);
        let round = IndexedRound::of(&round);
        assert_eq!(ids_of(&Parts::by_key(&round, Scope::Global)), [vec![0, 3, 2], vec![1, 4]]);
        assert_eq!(ids_of(&Parts::by_key(&round, Scope::Node)), [vec![2], vec![0, 3], vec![1, 4]]);
        assert_eq!(ids_of(&Parts::together(&round, Scope::Global)), [vec![0, 1, 3, 2, 4]]);
        assert_eq!(ids_of(&Parts::together(&round, Scope::Node)), [vec![1, 2, 4], vec![0, 3]]);
        for empty in [Scope::Node, Scope::Global] {
            let round = Round::default();
            assert_eq!(ids_of(&Parts::together(&IndexedRound::of(&round), empty)), Vec::<Vec<u32>>::new());
        }
    }

    #[test]
    fn a_preset_belongs_to_its_key_and_node() {
        let mut round = round(&[("a", 0, 5), ("a", 1, 6), ("b", 0, 7)]);
        let (invoke, complete) = (Nanos(1), Nanos(2));
        for (key, node) in [(1, 0), (0, 1), (0, 0)] {
            round.presets.push(Preset { key: KeyId(key), node: NodeId(node), used: 3, invoke, complete });
        }
        let round = IndexedRound::of(&round);
        let count = |parts: Parts| of_each(&parts, |p| p.presets().count());
        assert_eq!(count(Parts::by_key(&round, Scope::Global)), [2, 1]);
        assert_eq!(count(Parts::by_key(&round, Scope::Node)), [1, 1, 1]);
        assert_eq!(count(Parts::together(&round, Scope::Global)), [3]);
    }

    #[test]
    fn an_answer_that_a_policy_gave_may_still_be_charged_and_a_failed_call_never() {
        let mut op = round(&[("a", 0, 5)]).ops[0];
        op.complete = Nanos(9);
        let mut uses = |outcome, source, denials| {
            (op.outcome, op.source) = (outcome, source);
            use_of(&op, denials).map(|u| u.complete)
        };
        use Outcome::{Admitted, Denied, Failed, Unknown};
        assert_eq!(uses(Admitted, Some(Source::Store), Denials::Free), Some(Nanos(9)));
        assert_eq!(uses(Denied, Some(Source::Store), Denials::Free), None);
        assert_eq!(uses(Denied, Some(Source::Store), Denials::Charged), Some(Nanos(9)));
        assert_eq!(uses(Denied, Some(Source::FailClosed), Denials::Free), Some(Op::NEVER));
        assert_eq!(uses(Admitted, Some(Source::FailOpen), Denials::Free), Some(Op::NEVER));
        assert_eq!(uses(Failed, None, Denials::Charged), None);
        assert_eq!(uses(Unknown, None, Denials::Free), Some(Nanos(9)), "its node died then");
        op.complete = Op::NEVER;
        op.outcome = Unknown;
        assert_eq!(use_of(&op, Denials::Free).map(|u| u.complete), Some(Op::NEVER));
    }
}
