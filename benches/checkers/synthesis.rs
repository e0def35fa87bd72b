//! Histories as a store would have made them: call n is applied at a moment of its own, one after the
//! other, and its interval reaches to both sides of it, so that as many are open at a time as asked for.

use std::collections::VecDeque;

use rl_lab::model::algorithms::Algorithm;
use rl_lab::model::contract::{Bound, Contract, DecidingClock, Denials, OnOutage, Requirement, Scope};
use rl_lab::model::history::{Cell, CellHeader, Probe, Round};
use rl_lab::model::op::{KeyId, Op, Outcome, Source};
use rl_lab::model::report::ServerInfo;
use rl_lab::model::units::{Cost, Limit, Nanos, NodeId, OpId, Window};

pub struct Case {
    pub name: &'static str,
    pub rule: Rule,
    pub keys: u32,
    pub in_flight: i64,
    /// Whether the limiter lets a few too many through, near the end.
    pub violated: bool,
}

#[derive(Clone, Copy)]
pub enum Rule {
    Fixed,
    /// One window holds the whole round.
    OneWindow,
    Aligned,
    Sliding,
    Weighted,
    Bucket,
}

const fn case(name: &'static str, rule: Rule, keys: u32, in_flight: i64, violated: bool) -> Case {
    Case { name, rule, keys, in_flight, violated }
}

pub static CASES: &[Case] = &[
    case("fixed, one key, clean", Rule::Fixed, 1, 200, false),
    case("fixed, one key, violated", Rule::Fixed, 1, 200, true),
    case("fixed, 10,000 keys, clean", Rule::Fixed, 10_000, 200, false),
    case("one window, one key, clean", Rule::OneWindow, 1, 200, false),
    case("one window, one key, violated", Rule::OneWindow, 1, 200, true),
    case("one window, 10,000 keys, clean", Rule::OneWindow, 10_000, 200, false),
    case("aligned, one key, clean", Rule::Aligned, 1, 200, false),
    case("aligned, 10,000 keys, clean", Rule::Aligned, 10_000, 200, false),
    case("sliding, one key, saturated", Rule::Sliding, 1, 200, false),
    case("sliding, one key, one in flight", Rule::Sliding, 1, 1, false),
    case("sliding, one key, violated", Rule::Sliding, 1, 200, true),
    case("sliding, 10,000 keys, saturated", Rule::Sliding, 10_000, 200, false),
    case("sliding, 10,000 keys, violated", Rule::Sliding, 10_000, 200, true),
    case("weighted, one key, saturated", Rule::Weighted, 1, 200, false),
    case("weighted, one key, violated", Rule::Weighted, 1, 200, true),
    case("weighted, 10,000 keys, saturated", Rule::Weighted, 10_000, 200, false),
    case("bucket, one key, saturated", Rule::Bucket, 1, 200, false),
    case("bucket, one key, one in flight", Rule::Bucket, 1, 1, false),
    case("bucket, one key, 100,000 in flight", Rule::Bucket, 1, 100_000, false),
    case("bucket, one key, violated", Rule::Bucket, 1, 200, true),
    case("bucket, 10,000 keys, saturated", Rule::Bucket, 10_000, 200, false),
    case("bucket, 10,000 keys, violated", Rule::Bucket, 10_000, 200, true),
];

/// A call is applied every microsecond.
const STEP_NS: i64 = 1_000;

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

/// One round of `ops` calls.
pub fn cell(case: &Case, ops: usize) -> Cell {
    let (limit, window) = scale(case, ops);
    let mut random = Random(7);
    let mut limiters: Vec<Limiter> = (0..case.keys).map(|_| Limiter::new(case.rule, limit, window)).collect();
    let reach = case.in_flight * STEP_NS;
    let mut round = Round::starting(1, Nanos(0), None);
    (round.complete, round.probes_complete) = (true, true);
    for k in 0..case.keys {
        let key = format!("rl-lab:bench:{k}");
        round.probes.push(Probe {
            key: key.clone(),
            pttl: 1,
            at: Nanos(0),
            holds: None,
            kind: None,
            bytes: Some(96),
        });
        round.key(&key);
    }
    round.ops.reserve_exact(ops);
    for n in 0..ops as i64 {
        let at = 2 * reach + n * STEP_NS;
        let key = KeyId(if case.keys == 1 { 0 } else { random.below(i64::from(case.keys)) as u32 });
        // Everybody is let in near the end: what convicts is found last.
        let leaks = case.violated && n > ops as i64 / 100 * 97;
        let allowed = limiters[key.0 as usize].admits(at) || leaks;
        let invoke = Nanos(at - random.below(reach.max(2)));
        let mut op = Op::new(OpId(0), NodeId((n % 2) as u16), key, Cost::ONE, invoke);
        op.complete =
            Nanos(at + random.below(reach.max(2)).min(if case.in_flight == 1 { 1 } else { i64::MAX }));
        if case.in_flight == 1 {
            op.invoke = Nanos(at - 1);
        }
        op.outcome = if allowed { Outcome::Admitted } else { Outcome::Denied };
        op.source = Some(Source::Store);
        round.ops.push(op);
    }
    round.ops.sort_by_key(|o| o.invoke);
    for (n, op) in round.ops.iter_mut().enumerate() {
        op.id = OpId(n as u32);
    }
    (round.trips, round.most_trips) = (ops as u64, 1);
    let bound = case.rule.bound(limit, window);
    let algorithm = match case.rule {
        Rule::Fixed | Rule::OneWindow => {
            Some(Algorithm::FixedWindow { limit, window, denials: Denials::Free })
        }
        _ => None,
    };
    Cell {
        header: header(bound, limit, algorithm, case.in_flight > 1),
        epoch_ns_at_zero: 0,
        rounds: vec![round],
        honesty: None,
    }
}

fn header(bound: Bound, limit: Limit, algorithm: Option<Algorithm>, concurrent: bool) -> CellHeader {
    CellHeader {
        scenario: "bench".to_owned(),
        limiter: "bench".to_owned(),
        params: Default::default(),
        variation: None,
        policy: None,
        client: "bench".to_owned(),
        backend: "none".to_owned(),
        server: ServerInfo::default(),
        limit,
        nodes: 2,
        rounds: 1,
        concurrent,
        time: Default::default(),
        not_run: None,
        replay: String::new(),
        contract: Contract {
            bound,
            scope: Scope::Global,
            clock: DecidingClock::Server,
            clock_resolution_ms: 0,
            denials: Denials::Free,
            on_outage: OnOutage::Error,
            key_ttl_at_most: bound.window(),
            lockout: None,
            across_keys: None,
            algorithm,
            round_trips_at_most: Some(1),
        },
        requirement: Some(Requirement { bound, scope: Scope::Global }),
        checks: Vec::new(),
    }
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
}

/// A limiter that keeps its bound to the nanosecond, and no more than it must.
struct Limiter {
    rule: Rule,
    limit: i64,
    window: i64,
    log: VecDeque<i64>,
    /// When the open window began, what it and the one before counted.
    open: (i64, i64, i64),
    /// What a bucket lacks, in parts of a window, and since when.
    lacks: (i128, i64),
}

impl Limiter {
    fn new(rule: Rule, limit: Limit, window: Window) -> Self {
        let far = i64::MIN / 4;
        let limit = limit.get() as i64;
        Self { rule, limit, window: window.nanos(), log: VecDeque::new(), open: (far, 0, 0), lacks: (0, 0) }
    }

    fn admits(&mut self, at: i64) -> bool {
        match self.rule {
            Rule::Fixed | Rule::OneWindow => {
                if at - self.open.0 >= self.window {
                    self.open = (at, 0, 0);
                }
                self.count(self.limit)
            }
            Rule::Aligned | Rule::Weighted => {
                let began = at.div_euclid(self.window) * self.window;
                if began != self.open.0 {
                    let before = if began - self.open.0 == self.window { self.open.1 } else { 0 };
                    self.open = (began, 0, before);
                }
                if matches!(self.rule, Rule::Aligned) {
                    return self.count(self.limit);
                }
                let weight = i128::from(self.open.2) * i128::from(self.window - (at - began));
                let left = i128::from(self.limit) * i128::from(self.window) - weight;
                self.count(i64::try_from(left.div_euclid(i128::from(self.window))).unwrap_or(0))
            }
            Rule::Sliding => {
                while self.log.front().is_some_and(|t| at - t >= self.window) {
                    self.log.pop_front();
                }
                let room = (self.log.len() as i64) < self.limit;
                if room {
                    self.log.push_back(at);
                }
                room
            }
            Rule::Bucket => {
                let (window, limit) = (i128::from(self.window), i128::from(self.limit));
                let lacks = (self.lacks.0 - limit * i128::from(at - self.lacks.1)).max(0);
                let room = lacks + window <= limit * window;
                self.lacks = (if room { lacks + window } else { lacks }, at);
                room
            }
        }
    }

    fn count(&mut self, limit: i64) -> bool {
        let room = self.open.1 < limit;
        self.open.1 += i64::from(room);
        room
    }
}
