//! What `never-over-limit` and `meets-requirement` share: a bound judged over the rounds of a cell.

use std::fmt::Write as _;

use super::groups::{epoch_ns, first_touch, preset, slack_ns};
use crate::model::bounds::{Admitted, Excess, Glance, TimeContext, glance, over};
use crate::model::contract::{Bound, OnOutage, Scope};
use crate::model::groups::Group;
use crate::model::history::{Cell, Round};
use crate::model::indexed::IndexedCell;
use crate::model::op::{Op, Outcome, Source};
use crate::model::scene::{Counted, Place};
use crate::model::units::Nanos;
use crate::model::verdict::Finding;

/// Whose decisions a bound speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    Everybody,
    /// Whoever decides but the local limiter of an outage, which has a bound of its own.
    ButFallback,
    /// That local limiter alone: it knows nothing of what was used before it was first asked.
    Fallback,
}

impl Whose {
    fn has(self, op: &Op) -> bool {
        match self {
            Self::Everybody => true,
            Self::ButFallback => op.source != Some(Source::Fallback),
            Self::Fallback => op.source == Some(Source::Fallback),
        }
    }
}

/// A bound for each key. Any round convicts. A pass needs rounds in which more was asked for than the bound
/// allows and, where calls were meant to overlap, in which they did.
pub fn judge(cell: &IndexedCell, bound: &Bound, scope: Scope, whose: Whose) -> Finding {
    judge_groups(cell, bound, scope, true, whose)
}

/// The same for a bound over all keys together.
pub fn judge_across(cell: &IndexedCell, bound: &Bound, scope: Scope, whose: Whose) -> Finding {
    judge_groups(cell, bound, scope, false, whose)
}

fn judge_groups(cell: &IndexedCell, bound: &Bound, scope: Scope, apart: bool, whose: Whose) -> Finding {
    let mut first: Option<(&Round, Group, Excess, Vec<Admitted>)> = None;
    let mut convicted = 0;
    let mut power = Power::default();
    for indexed in cell.rounds() {
        let (round, touches, overlap) = (indexed.round(), indexed.first_touches(), indexed.overlap());
        // Of the calls of one group at a time those that a glance does not clear.
        let mut counted = Vec::new();
        let (mut pressed, mut spent) = (false, false);
        // The first that is over ends a round.
        let _ = indexed.groups(scope, apart).try_each(round, |group, ops| {
            let first_touched = match whose {
                // Whoever touches what it counts is told its decision.
                Whose::Fallback => ops.iter().filter(|op| whose.has(op)).map(|op| op.invoke).min(),
                _ => Some(first_touch(touches, &group)),
            };
            let time = time_of(cell, round, first_touched.unwrap_or_default());
            let admitted = |op: &Op| op.outcome == Outcome::Admitted;
            let calls = || count(round, &group, ops, bound, whose, admitted);
            power.most = power.most.max(calls().map(|a| a.cost).sum());
            if glance(bound, calls(), time) != Glance::Clear {
                keep(&mut counted, calls());
                if let Some(found) = over(bound, &counted, time) {
                    convicted += 1;
                    if first.is_none() {
                        let counted = std::mem::take(&mut counted);
                        first = Some((round, group, found.explain(bound, &counted), counted));
                    }
                    return Err(());
                }
            }
            power.unclear |= over_as_told(cell, &mut counted, calls(), bound, time);
            if !pressed && would_convict(&mut counted, round, &group, ops, (bound, whose), time) {
                // Calls race for what is left: where nothing was, whoever looks first sees that as well.
                let raced = !cell.header.concurrent || ops.iter().any(|op| admitted(op) && whose.has(op));
                pressed = raced;
                spent = spent || !raced;
            }
            Ok(())
        });
        power.overlap = power.overlap.max(overlap);
        let unanswered = |o: &&Op| matches!(o.outcome, Outcome::Failed | Outcome::Unknown);
        power.unanswered += round.ops.iter().filter(unanswered).count() as u64;
        power.pressed += u32::from(pressed);
        power.spent = power.spent || (spent && !pressed);
        power.tried += u32::from(pressed && round.complete && overlap_shown(cell, overlap));
    }
    if let Some((round, group, found, admitted)) = first {
        let members = || found.members.iter().map(|i| &admitted[*i]);
        let before = members().filter(|m| m.op.is_none()).map(|m| m.cost).sum();
        let counted = Counted { before, with_all: found.admitted, allowed: found.allowed };
        let seen = Place::of(round, members().filter_map(|m| m.op)).counting(counted);
        let witness = witness(round, group, &admitted, &found, convicted, cell.rounds.len());
        return Finding::fail(witness).seen_at(seen);
    }
    evidence(cell, bound, &power)
}

/// Whether an aligned window holds too much by the times as they were recorded, and is excused by the slack at its edges
/// alone: neither a witness nor a reason to clear anybody.
fn over_as_told(
    cell: &Cell,
    counted: &mut Vec<Admitted>,
    calls: impl Iterator<Item = Admitted> + Clone,
    bound: &Bound,
    time: TimeContext,
) -> bool {
    // Which window a wrong clock means is not told by the true time.
    if !matches!(bound, Bound::AlignedWindow { .. }) || !cell.header.clocks.is_empty() {
        return false;
    }
    let told = TimeContext { slack_ns: 0, ..time };
    if glance(bound, calls.clone(), told) == Glance::Clear {
        return false;
    }
    keep(counted, calls);
    over(bound, counted, told).is_some()
}

/// How hard the rounds tried.
#[derive(Default)]
struct Power {
    /// Whether some window is over by the times as recorded, and excused by their slack.
    unclear: bool,
    /// Rounds that would have convicted had every decided call been admitted.
    pressed: u32,
    /// Those of them that were recorded whole and whose calls overlapped.
    tried: u32,
    /// Whether in some round nothing was admitted of what would have been too much.
    spent: bool,
    /// Most counted in a round, a preset included.
    most: u64,
    /// Most decided calls open at once.
    overlap: usize,
    unanswered: u64,
}

/// No round convicts: how much that is worth.
fn evidence(cell: &Cell, bound: &Bound, power: &Power) -> Finding {
    let recorded = u32::try_from(cell.rounds.iter().filter(|r| r.complete).count()).unwrap_or(u32::MAX);
    if recorded < cell.header.rounds {
        return Finding::unknown(format!(
            "the history is cut short: {recorded} of {} rounds are whole, and none of them is over",
            cell.header.rounds
        ));
    }
    if power.unclear {
        return Finding::unknown(format!(
            "more than the bound ({}) was admitted in a window by the times as recorded, but some of it so close to an edge \
             that it may belong to the window beside it",
            bound.in_words()
        ));
    }
    if power.tried == 0 && power.pressed > 0 {
        return Finding::unknown(
            "no two decided calls were open at once, so a race could not show; more in flight would tell",
        );
    }
    if power.tried == 0 && power.spent {
        return Finding::unknown(format!(
            "nothing was admitted while calls were open together: where nothing is left there is nothing to race \
             for{}",
            unanswered(power)
        ));
    }
    if power.tried == 0 {
        let decided = |r: &Round| r.count(Outcome::Admitted) + r.count(Outcome::Denied);
        let most = cell.rounds.iter().map(decided).max().unwrap_or(0);
        return Finding::unknown(format!(
            "the bound ({}) was never put to the test: had all of the up to {most} decided calls of a round been \
             admitted, no span would have shown it{}",
            bound.in_words(),
            unanswered(power)
        ));
    }
    let Power { tried, most, overlap, .. } = power;
    let mut because = format!("0 of {tried} rounds over; at most {most} counted ({})", bound.in_words());
    if decides_alone(cell) {
        because.push_str("; it decides without a store, so no call can come between");
    } else if cell.header.concurrent {
        let _ = write!(
            because,
            "; up to {overlap} calls open at once; a leak in {} of such rounds or more would have shown (95 %)",
            percent_up(missed_rate(*tried))
        );
    }
    because.push_str(&unanswered(power));
    Finding::pass(because)
}

/// Calls without a decision say nothing about the bound, and are not passed over in silence.
fn unanswered(power: &Power) -> String {
    match power.unanswered {
        0 => String::new(),
        n => format!("; {n} calls got no decision and are not counted"),
    }
}

/// The rate p at which n rounds would all miss with 5 % probability: (1 − p)^n = 0.05. For large n
/// this is the "rule of three", p ≈ 3 / n; the exact form also holds for small n.
fn missed_rate(rounds: u32) -> f64 {
    1.0 - 0.05f64.powf(1.0 / f64::from(rounds))
}

/// Two significant digits of a percentage, rounded up: never more power than there was.
fn percent_up(rate: f64) -> String {
    let percent = rate * 100.0;
    let digits = if percent >= 10.0 { 0 } else { (1.0 - percent.max(1e-9).log10().floor()) as usize };
    let scale = 10f64.powi(i32::try_from(digits).unwrap_or(0));
    format!("{:.digits$} %", (percent * scale).ceil() / scale)
}

pub fn overlap_shown(cell: &Cell, overlap: usize) -> bool {
    !cell.header.concurrent || overlap >= 2 || decides_alone(cell)
}

/// A limiter without a store decides within one step of its node: nothing can come in between,
/// and its calls have no length that could overlap.
fn decides_alone(cell: &Cell) -> bool {
    cell.header.contract.on_outage == OnOutage::Unaffected
}

/// The calls of a group that count, and its preset. A preset above the bound breaks nothing by
/// itself: it counts for as much as the bound allows, so that any call admitted on top of it does.
fn count<'a, C: Fn(&Op) -> bool + Clone>(
    round: &Round,
    group: &Group,
    ops: &'a [Op],
    bound: &Bound,
    whose: Whose,
    counts: C,
) -> impl Iterator<Item = Admitted> + Clone + use<'a, C> {
    let before = preset(round, group).filter(|_| whose != Whose::Fallback).map(|(used, invoke, complete)| {
        Admitted { op: None, invoke, complete, cost: used.min(bound.burst().unwrap_or(0)) }
    });
    let calls = ops.iter().filter(move |o| counts(o) && whose.has(o)).map(|o| Admitted {
        op: Some(o.id),
        invoke: o.invoke,
        complete: o.complete,
        cost: o.cost.get().into(),
    });
    before.into_iter().chain(calls)
}

fn keep(into: &mut Vec<Admitted>, calls: impl Iterator<Item = Admitted> + Clone) {
    into.clear();
    // Exactly: a vector that grows by doubling takes three times what it holds.
    into.reserve_exact(calls.clone().count());
    into.extend(calls);
}

/// Whether the bound would have been broken had every decided call been admitted. Only that puts the
/// bound to the test: it takes in the window, the refill and the slack.
///
/// More calls only add to what a span holds, so the first few that convict are enough.
fn would_convict(
    counted: &mut Vec<Admitted>,
    round: &Round,
    group: &Group,
    ops: &[Op],
    (bound, whose): (&Bound, Whose),
    time: TimeContext,
) -> bool {
    // A refusal that a policy made says nothing about the limiter.
    let decided = |op: &Op| op.outcome.is_decided() && op.source != Some(Source::FailClosed);
    let calls = |most: usize| count(round, group, &ops[..most.min(ops.len())], bound, whose, decided);
    match glance(bound, calls(ops.len()), time) {
        Glance::Clear => return false,
        Glance::Over => return true,
        Glance::Unclear => {}
    }
    let mut tried = 1 << 12;
    loop {
        keep(counted, calls(tried));
        if over(bound, counted, time).is_some() {
            return true;
        }
        if tried >= ops.len() {
            return false;
        }
        tried *= 8;
    }
}

fn time_of(cell: &Cell, round: &Round, first_touch: Nanos) -> TimeContext {
    TimeContext { first_touch, slack_ns: slack_ns(cell, round), epoch_ns_at_zero: epoch_ns(cell, round) }
}

fn witness(
    round: &Round,
    group: Group,
    ops: &[Admitted],
    found: &Excess,
    convicted: usize,
    rounds: usize,
) -> String {
    let origin = round.began.0;
    let at = |t: Nanos| Nanos(t.0.saturating_sub(origin));
    let key = group.name(round);
    let of_node = group.node.map(|n| format!(" on node {n}")).unwrap_or_default();
    let members: Vec<&Admitted> = found.members.iter().map(|i| &ops[*i]).collect();
    let before: u64 = members.iter().filter(|m| m.op.is_none()).map(|m| m.cost).sum();
    let calls: Vec<&Admitted> = members.iter().copied().filter(|m| m.op.is_some()).collect();
    let mut text = format!(
        "round {}{of_node}, key {key}: {} admitted where {} may be",
        round.index, found.admitted, found.allowed
    );
    if before > 0 {
        let _ =
            write!(text, " ({before} used before the round and {} admitted in it)", found.admitted - before);
    }
    let first = members.iter().map(|m| m.invoke).min().unwrap_or(found.from);
    let last = members.iter().map(|m| m.complete).max().unwrap_or(found.to);
    let (from, to) = (at(first), at(last));
    let _ = write!(text, ", from {} to {} of the round; {}", from.beside(to), to.beside(from), found.rule);
    // The call with which the count first passes the bound, in order of completion.
    let mut sum = 0u64;
    let first_over = members.iter().find(|m| {
        sum = sum.saturating_add(m.cost);
        sum > found.allowed
    });
    if let Some(over) = first_over
        && let Some(op) = over.op
    {
        let node = round.ops.get(op.0 as usize).map(|o| o.node.to_string()).unwrap_or_default();
        let (from, to) = (at(over.invoke), at(over.complete));
        let _ = write!(
            text,
            "; the first too many is op {op} of node {node}, open {} to {}",
            from.beside(to),
            to.beside(from)
        );
    }
    let _ = write!(text, "; admitted ops: {}", ids(&calls));
    let whole: u64 = ops.iter().filter(|o| o.op.is_some()).map(|o| o.cost).sum();
    if whole > found.admitted - before {
        let _ = write!(text, "; of all its calls in the round {whole} were admitted");
    }
    if rounds > 1 {
        let _ = write!(text, "; so in {convicted} of {rounds} rounds");
    }
    text
}

/// `0 3 7 … 199 (200 in all)`: the first few and the last, in order of completion.
fn ids(calls: &[&Admitted]) -> String {
    const SHOWN: usize = 12;
    let told = |calls: &[&Admitted]| {
        calls.iter().filter_map(|m| m.op).map(|op| op.to_string()).collect::<Vec<_>>().join(" ")
    };
    match calls {
        [head @ .., last] if calls.len() > SHOWN => {
            format!("{} … {} ({} in all)", told(&head[..SHOWN - 1]), told(&[*last]), calls.len())
        }
        few => told(few),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_power_of_a_pass_follows_the_rule_of_three_for_many_rounds() {
        assert!((missed_rate(300) - 0.01).abs() < 0.0005);
        assert!((missed_rate(1) - 0.95).abs() < 1e-9);
    }

    #[test]
    fn the_power_of_a_pass_is_never_rounded_in_its_favour() {
        assert_eq!(percent_up(0.4507), "46 %");
        assert_eq!(percent_up(missed_rate(2000)), "0.15 %");
        assert_eq!(percent_up(0.0561), "5.7 %");
        assert_eq!(percent_up(0.95), "95 %");
    }
}
