//! Histories as a store would have made them: call n is applied at a moment of its own, one after the
//! other, and its interval reaches to both sides of it, so that as many are open at a time as asked for.

use std::time::Duration;

use rl_lab::model::algorithms::Algorithm;
use rl_lab::model::contract::{Bound, Contract, DecidingClock, Denials, OnOutage, Requirement, Scope};
use rl_lab::model::history::{Cell, CellHeader, Probe, Round, Touch, complete};
use rl_lab::model::op::{Completion, Decision, KeyId, Maybe, Op, Outcome, Source};
use rl_lab::model::pages;
use rl_lab::model::report::ServerInfo;
use rl_lab::model::units::{Cost, Limit, Nanos, NodeId, OpId, Window};

use super::cases::{Case, Rule, Twist};
use super::limiter::Limiter;

/// A call is applied every microsecond.
const STEP_NS: i64 = 1_000;
const NODES: u16 = 2;

/// SplitMix64: the same history tomorrow.
struct Random(u64);

impl Random {
    fn below(&mut self, n: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % n as u64) as i64
    }
}

/// A history of so many calls.
pub fn cell(case: &Case, ops: usize) -> Cell {
    let rounds = if case.twist == Twist::Trips { 2 } else { 1 };
    let scale = scale(case, ops);
    let rounds: Vec<Round> = (1..=rounds).map(|n| round(case, scale, n, ops / rounds as usize)).collect();
    Cell { header: header(case, scale, &rounds), epoch_ns_at_zero: 0, rounds, honesty: None }
}

/// About a third of the calls find room, so that two windows' worth is less than what one is asked for.
fn scale(case: &Case, ops: usize) -> (Limit, Window) {
    let keys = i64::from(case.keys);
    let per_window = match case.rule {
        Rule::OneWindow => 2 * (ops as i64 / keys).max(2),
        _ if keys == 1 => 10_000,
        _ => 20,
    };
    let limit = Limit::new(per_window as u64 / 3);
    let window = Window::from_millis((per_window * keys * STEP_NS / 1_000_000).max(1) as u64);
    (limit.expect("from 1"), window.expect("from 1 ms"))
}

fn round(case: &Case, (limit, window): (Limit, Window), index: u32, ops: usize) -> Round {
    let mut random = Random(7);
    let limiter =
        || Limiter::new(case.rule, limit.get() as i64, window.nanos(), case.twist == Twist::Charges);
    let scopes = if case.twist == Twist::PerNode { usize::from(NODES) } else { 1 };
    let mut limiters: Vec<Limiter> = (0..case.keys as usize * scopes).map(|_| limiter()).collect();
    let reach = case.in_flight * STEP_NS;
    let mut round = Round::starting(index, Nanos(0), None);
    (round.complete, round.probes_complete) = (true, true);
    for k in 0..case.keys {
        let key = format!("rl-lab:bench:{k}");
        round.probes.push(probe(&key, if case.twist == Twist::Stays && k + 1 == case.keys { -1 } else { 1 }));
        round.key(&key);
    }
    pages::reserve_exact(&mut round.ops, ops);
    // Many keys are kept out for long, so that each of them is for longer than a window.
    let percent = if case.twist == Twist::Starves && case.keys > 1 { 60 } else { 97 };
    let late = ops as i64 / 100 * percent;
    let mut forgotten = vec![case.twist == Twist::Forgets; case.keys as usize];
    for n in 0..ops as i64 {
        let silence = if case.twist == Twist::Forgets && n > late { 3 * window.nanos() } else { 0 };
        let at = 2 * reach + n * STEP_NS + silence;
        let key = if case.keys == 1 { 0 } else { random.below(i64::from(case.keys)) as u32 };
        let node = (n % i64::from(NODES)) as u16;
        let cost = if case.twist == Twist::Costs { 1 + random.below(3) } else { 1 };
        let mut answer = limiters[key as usize * scopes + usize::from(node) % scopes].acquire(at, cost);
        let mut wait_ms = (answer.wait_ns.cast_unsigned()).div_ceil(1_000_000);
        if n > late {
            match case.twist {
                Twist::Leaks => answer.allowed = true,
                Twist::Starves => answer.allowed = false,
                Twist::Boasts => answer.remaining += 1,
                Twist::Hurries => wait_ms = 1,
                Twist::Forgets => answer.allowed &= !std::mem::take(&mut forgotten[key as usize]),
                _ => {}
            }
        }
        let cost = Cost::new(cost as u32).expect("at least 1");
        let mut op = Op::new(OpId(0), NodeId(node), KeyId(key), cost, Nanos(at - 1));
        op.complete = Nanos(at + 1);
        if case.in_flight > 1 {
            (op.invoke, op.complete) = (Nanos(at - random.below(reach)), Nanos(at + random.below(reach)));
        }
        op.outcome = if answer.allowed { Outcome::Admitted } else { Outcome::Denied };
        op.source = Some(Source::Store);
        op.remaining = Some(answer.remaining).into();
        op.retry_after_ms = if answer.allowed { Maybe::NONE } else { Some(wait_ms).into() };
        op.clock_us = Some((at / 1_000).cast_unsigned()).into();
        round.ops.push(op);
    }
    round.ops.sort_by_key(|o| o.invoke);
    for (n, op) in round.ops.iter_mut().enumerate() {
        op.id = OpId(n as u32);
    }
    answer(&mut round, limit);
    if matches!(case.twist, Twist::Watched | Twist::Spreads) {
        watch(&mut round, case.twist == Twist::Spreads);
    }
    (round.trips, round.most_trips) = (ops as u64, if case.twist == Twist::Trips { 2 } else { 1 });
    round
}

/// Completes each call the way a record does: only then is a round settled.
fn answer(round: &mut Round, limit: Limit) {
    for n in 0..round.ops.len() {
        let told = round.ops[n];
        let decision = Decision {
            allowed: told.outcome == Outcome::Admitted,
            remaining: told.remaining.get(),
            limit,
            retry_after: told.retry_after_ms.get().map(Duration::from_millis),
            reset: None,
            source: Source::Store,
        };
        round.ops[n].complete = Op::NEVER;
        complete(round, told.id, told.complete, &Completion::Ok(decision)).expect("it completes once");
    }
}

fn probe(key: &str, pttl: i64) -> Probe {
    Probe { key: key.to_owned(), pttl, at: Nanos(0), holds: None, kind: None, bytes: Some(96) }
}

/// One exchange per call, of two keys in one slot; of the last one in two.
fn watch(round: &mut Round, spreads: bool) {
    let last = round.ops.last().map(|op| op.id);
    let touch = |op: &Op| {
        let key = &round.keys[op.key.0 as usize];
        let keys = if spreads && Some(op.id) == last {
            vec![format!("{key}:n"), format!("{key}:t")]
        } else {
            vec![format!("{{{key}}}:n"), format!("{{{key}}}:t")]
        };
        Touch { op: op.id, keys, refused: None, at: op.invoke }
    };
    round.touches = round.ops.iter().map(touch).collect();
}

fn header(case: &Case, (limit, window): (Limit, Window), rounds: &[Round]) -> CellHeader {
    let bound = case.rule.bound(limit, window);
    let scope = if case.twist == Twist::PerNode { Scope::Node } else { Scope::Global };
    let alone = case.in_flight == 1;
    let algorithm = case.rule.algorithm(limit, window, alone);
    let app = alone && !matches!(case.rule, Rule::Fixed | Rule::OneWindow);
    CellHeader {
        scenario: "bench".to_owned(),
        limiter: "bench".to_owned(),
        params: Default::default(),
        variation: None,
        policy: None,
        client: "bench".to_owned(),
        client_named: false,
        backend: "none".to_owned(),
        server: ServerInfo::default(),
        http: false,
        foreign: false,
        topology: None,
        limit,
        nodes: NODES,
        versions: 0,
        rounds: rounds.len() as u32,
        concurrent: !alone,
        time: Default::default(),
        not_run: None,
        place: None,
        replay: String::new(),
        contract: Contract {
            bound,
            scope,
            clock: if app { DecidingClock::App } else { DecidingClock::Server },
            clock_resolution_ms: 0,
            denials: Denials::Free,
            on_outage: OnOutage::Error,
            fallback: None,
            key_ttl_at_most: bound.window(),
            lockout: None,
            across_keys: (case.twist == Twist::AcrossKeys).then(|| across(window)),
            algorithm,
            round_trips_at_most: Some(1),
            in_background: false,
        },
        requirement: Some(Requirement { bound, scope }),
        outage: None,
        clocks: Vec::new(),
        checks: Vec::new(),
    }
}

/// Half of what is asked for, and more than is admitted.
fn across(window: Window) -> Bound {
    let limit = Limit::new((window.nanos() / STEP_NS / 2).cast_unsigned()).expect("from 1");
    Bound::SlidingWindow { limit, window }
}

impl Rule {
    fn bound(self, limit: Limit, window: Window) -> Bound {
        match self {
            Self::Fixed | Self::OneWindow => Bound::FixedWindow { limit, window },
            Self::Aligned => Bound::AlignedWindow { limit, window },
            Self::Sliding => Bound::SlidingWindow { limit, window },
            Self::Weighted => Bound::WeightedTwoWindow { limit, window },
            Self::Bucket => Bound::Bucket { capacity: limit, refill: limit, window },
        }
    }

    /// The model that decides as the limiter does, where it can be compared.
    fn algorithm(self, limit: Limit, window: Window, alone: bool) -> Option<Algorithm> {
        let denials = Denials::Free;
        match self {
            Self::Fixed | Self::OneWindow => Some(Algorithm::FixedWindow { limit, window, denials }),
            Self::Sliding if alone => Some(Algorithm::SlidingLog { limit, window, denials }),
            _ => None,
        }
    }
}
