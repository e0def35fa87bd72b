//! `matches-model`: every decision is the one that the limiter's exact model makes.
//!
//! A contract may name its [`Algorithm`]: what it decides when nothing runs at the same time. How that
//! is compared depends on what the history can tell of time, for each key (and node, where the scope is
//! the node) by itself:
//!
//! | calls | whose clock | compared | by | cost |
//! |---|---|---|---|---|
//! | none overlap | the app's, told with each call | admitted, `remaining`, `retry_after` | [`timed`]: the model at those times | O(n) |
//! | none overlap, a fixed window | the store's expiry | admitted, `remaining` | [`expiry`]: every state the window may be in | O(n) for a few states |
//! | of cost 1, all surely in one window | any | admitted | [`window`]: an exact rule | O(n) |
//! | of mixed costs, all surely in one window | any | admitted | [`window`]: a search for an order | exponential at worst; gives up |
//!
//! Proves, when it fails, that no order of the calls that their times allow, and no moment at which a
//! window may have ended, makes the model answer what the callers were told. A pass says that there is
//! one, and that calls were both admitted and refused; where calls were meant to overlap, that they did.
//!
//! Cannot prove: anything where the server's clock decides over several windows, for its readings are
//! not in the history; anything of calls that overlap and spread over several windows; what a call
//! without an answer did. A bound over all keys together and a lockout are in no model. A decision that
//! was made without the store (fail-open and the like) is its policy's, and counts as a call without an
//! answer.

mod expiry;
mod timed;
mod window;

use super::bound::overlap_shown;
use super::groups::{first_touch, preset};
use crate::model::algorithms::Algorithm;
use crate::model::contract::{Contract, DecidingClock};
use crate::model::groups::Group;
use crate::model::history::{Cell, Round};
use crate::model::indexed::IndexedCell;
use crate::model::op::{Op, Outcome, Source};
use crate::model::units::{Cost, Nanos};
use crate::model::verdict::Finding;
use crate::ports::checker::Checker;

pub struct MatchesModel;

impl Checker for MatchesModel {
    fn name(&self) -> &'static str {
        "matches-model"
    }

    fn proves(&self) -> &'static str {
        "every decision is the one that the limiter's exact model makes"
    }

    fn judge(&self, cell: &Cell) -> Finding {
        self.judge_indexed(&IndexedCell::of(cell))
    }

    fn judge_indexed(&self, cell: &IndexedCell) -> Finding {
        match model_of(&cell.header.contract) {
            Ok(algorithm) => judge(cell, algorithm),
            Err(why) => Finding::not_applicable(why),
        }
    }
}

fn model_of(contract: &Contract) -> Result<Algorithm, &'static str> {
    let algorithm = contract.algorithm.ok_or("its contract names no exact model")?;
    if contract.across_keys.is_some() {
        return Err("a bound over all keys decides with it, and no model says how");
    }
    if contract.lockout.is_some() {
        return Err("it locks callers out, which no model says");
    }
    Ok(algorithm)
}

/// What the calls of one group say.
enum Said {
    /// So many decisions are the model's.
    Agrees { decisions: u64, how: &'static str },
    /// In words, from the call on that differs.
    Differs(String),
    /// The model says nothing about such calls.
    NoModel(String),
    /// It might, and it could not be found out.
    Unclear(String),
}

/// One group of a round, with what is known about it.
struct Case<'a> {
    cell: &'a Cell,
    round: &'a Round,
    group: Group,
    ops: &'a [Op],
    algorithm: Algorithm,
    first_touch: Nanos,
}

/// What the groups came to.
#[derive(Default)]
struct Tally {
    decisions: u64,
    how: Option<&'static str>,
    agreeing: u64,
    /// Groups that agree and in which somebody was admitted and somebody refused, with overlap where
    /// it was meant to be.
    tried: u64,
    no_model: Option<String>,
    unclear: Option<String>,
    left_out: u64,
}

fn judge(cell: &IndexedCell, algorithm: Algorithm) -> Finding {
    let mut tally = Tally::default();
    let mut convicted: Option<(String, u32)> = None;
    for indexed in cell.rounds() {
        let (round, touches) = (indexed.round(), indexed.first_touches());
        let overlapped = overlap_shown(cell, indexed.overlap());
        let groups = indexed.groups(cell.header.contract.scope, true);
        // The first that differs ends a round.
        let _ = groups.try_each(round, |group, ops| {
            let first_touch = first_touch(touches, &group);
            let case = Case { cell, round, group, ops, algorithm, first_touch };
            match case.say() {
                Said::Differs(what) => {
                    let (_, rounds) = convicted.get_or_insert_with(|| (case.witness(&what), 0));
                    *rounds += 1;
                    return Err(());
                }
                said => tally.add(said, overlapped && case.admits_and_refuses()),
            }
            Ok(())
        });
    }
    match convicted {
        Some((witness, rounds)) if cell.rounds.len() > 1 => {
            Finding::fail(format!("{witness}; so in {rounds} of {} rounds", cell.rounds.len()))
        }
        Some((witness, _)) => Finding::fail(witness),
        None => tally.evidence(cell),
    }
}

impl Tally {
    fn add(&mut self, said: Said, tried: bool) {
        match said {
            Said::Agrees { decisions, how } => {
                self.decisions += decisions;
                self.how.get_or_insert(how);
                self.agreeing += 1;
                self.tried += u64::from(tried);
            }
            Said::NoModel(why) => {
                self.no_model.get_or_insert(why);
                self.left_out += 1;
            }
            Said::Unclear(why) => {
                self.unclear.get_or_insert(why);
                self.left_out += 1;
            }
            Said::Differs(_) => {}
        }
    }

    /// Nothing differs: how much that is worth.
    fn evidence(self, cell: &Cell) -> Finding {
        let whole = cell.rounds.iter().filter(|r| r.complete).count();
        if whole < cell.header.rounds as usize {
            return Finding::unknown("the history is cut short, and nothing differs in what there is");
        }
        match (self.agreeing, self.unclear.or(self.no_model.clone())) {
            (0, None) => Finding::unknown("no call was made"),
            (0, Some(why)) if self.no_model.as_ref() == Some(&why) => Finding::not_applicable(why),
            (0, Some(why)) => Finding::unknown(why),
            (n, Some(why)) => {
                let all = n + self.left_out;
                Finding::unknown(format!("{} of {all} could not be compared: {why}", self.left_out))
            }
            (_, None) if self.tried == 0 => {
                let overlap = if cell.header.concurrent { ", or none while others were open" } else { "" };
                Finding::unknown(format!(
                    "nothing differs, but no key saw calls both admitted and refused{overlap}: a model that \
                     always answers the same would match"
                ))
            }
            (_, None) => {
                let how = self.how.unwrap_or_default();
                Finding::pass(format!("{} decisions are those of its model, {how}", self.decisions))
            }
        }
    }
}

impl Case<'_> {
    fn say(&self) -> Said {
        let contract = &self.cell.header.contract;
        let alone = self.one_after_the_other();
        let preset = preset(self.round, &self.group).is_some();
        let fixed = matches!(self.algorithm, Algorithm::FixedWindow { .. });
        match contract.clock {
            DecidingClock::App if alone && !preset && self.clock_is_told() => timed::say(self),
            DecidingClock::Expiry if alone && fixed => expiry::say(self),
            _ => window::say(self).unwrap_or_else(|| Said::NoModel(self.why_not(alone, preset).to_owned())),
        }
    }

    /// Why neither time nor order tells enough.
    fn why_not(&self, alone: bool, preset: bool) -> &'static str {
        if !alone {
            return "calls overlap or got no answer, and not all of them are surely in one window";
        }
        match self.cell.header.contract.clock {
            DecidingClock::Server => "the server's clock decides, and what it said is not in the history",
            DecidingClock::App if preset => "when the state before the round was made is not in the history",
            DecidingClock::App => "what the app's clock said is not in the history",
            DecidingClock::Expiry => "no model says what the expiry of its keys decides",
        }
    }

    /// Calls that may have had an effect, in order of invocation.
    fn calls(&self) -> impl Iterator<Item = &Op> + Clone {
        self.ops.iter().filter(|op| op.outcome != Outcome::Failed)
    }

    /// Whether each call had surely ended before the next one began.
    fn one_after_the_other(&self) -> bool {
        let mut calls = self.calls();
        let Some(first) = calls.next() else { return true };
        let mut end = until(first);
        calls.all(|op| {
            let apart = end < op.invoke;
            end = until(op);
            apart
        })
    }

    fn clock_is_told(&self) -> bool {
        self.calls().all(|op| told(op).is_none() || op.clock_us.get().is_some())
    }

    fn admits_and_refuses(&self) -> bool {
        let any = |allowed| self.calls().any(|op| told(op) == Some(allowed));
        any(true) && any(false)
    }

    fn decisions(&self) -> u64 {
        self.calls().filter(|op| told(op).is_some()).count() as u64
    }

    /// Since the beginning of the round.
    fn at(&self, t: Nanos) -> Nanos {
        Nanos(t.0.saturating_sub(self.round.began.0))
    }

    fn describe(&self, op: &Op) -> String {
        let cost = if op.cost == Cost::ONE { String::new() } else { format!(" of cost {}", op.cost.get()) };
        let what = match told(op) {
            Some(true) => "admitted",
            Some(false) => "refused",
            None => "without an answer of the store",
        };
        let (id, node) = (op.id, op.node);
        if until(op) == Op::NEVER {
            return format!("op {id}{cost} of node {node}, {what}, invoked at {}", self.at(op.invoke));
        }
        let (from, to) = (self.at(op.invoke), self.at(op.complete));
        format!("op {id}{cost} of node {node}, {what}, open {} to {}", from.beside(to), to.beside(from))
    }

    fn witness(&self, what: &str) -> String {
        let key = self.group.name(self.round);
        let of_node = self.group.node.map(|n| format!(" on node {n}")).unwrap_or_default();
        format!("round {}{of_node}, key {key}: {what}", self.round.index)
    }
}

/// What the model is held to. A policy that decides in the store's stead says nothing about the store.
fn told(op: &Op) -> Option<bool> {
    let by_policy = op.source.is_some_and(Source::is_of_a_policy);
    match op.outcome {
        Outcome::Admitted if !by_policy => Some(true),
        Outcome::Denied if !by_policy => Some(false),
        _ => None,
    }
}

/// When the call can have had its effect at the latest.
fn until(op: &Op) -> Nanos {
    if told(op).is_some() { op.complete } else { Op::NEVER }
}

#[cfg(test)]
mod tests;
