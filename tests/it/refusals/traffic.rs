//! Random histories of a limiter whose true decisions are known: calls that come alone, in crowds, after a
//! rest, at a hint; recorded with wider intervals than they took, some never answered, some late.

use std::collections::BTreeMap;

use rl_lab::checkers;
use rl_lab::model::contract::{Contract, DecidingClock, OnOutage, Scope};
use rl_lab::model::history::{self, Cell, CellHeader, Event, Round};
use rl_lab::model::op::Source;
use rl_lab::model::report::ServerInfo;
use rl_lab::model::units::{Cost, Nanos, NodeId, OpId};
use rl_lab::model::verdict::Finding;

use super::limiters::{Fault, Settings, Subject, limit};

const MS: i64 = 1_000_000;

/// SplitMix64, so that a failure is the same failure tomorrow.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From `low` to `high`, both included.
    pub fn within(&mut self, low: i64, high: i64) -> i64 {
        low + (self.next() % ((high - low).max(0) as u64 + 1)) as i64
    }

    pub fn percent(&mut self, chance: u64) -> bool {
        self.next() % 100 < chance
    }
}

/// What the traffic is like, apart from the limiter.
#[derive(Debug, Clone, Copy)]
pub struct Weather {
    pub costs_up_to: i64,
    /// Chance of a call that comes when nothing else is open.
    pub alone: u64,
    /// Chance of a call that gets no answer, or one of a policy, or fails.
    pub lost: u64,
}

/// A call as it went.
struct Made {
    node: u16,
    key: usize,
    cost: u32,
    invoke: i64,
    end: Event,
}

/// The last refusal with a hint.
#[derive(Clone, Copy)]
struct Refused {
    key: usize,
    node: u16,
    cost: u32,
    complete: i64,
    hint: i64,
}

struct Traffic<'a> {
    random: &'a mut Random,
    settings: Settings,
    weather: Weather,
    subject: Subject,
    scope: Scope,
    nodes: i64,
    keys: i64,
    /// Whether the app's clock decides: then the time of a call is read before it is applied.
    app: bool,
    epoch: i64,
    /// The wall clock is set by so much at that time.
    step: (i64, i64),
    /// When the last call was applied, and the last of all was over.
    now: i64,
    over: i64,
    refused: Option<Refused>,
}

/// A cell of one round of a limiter with this fault.
pub fn cell(seed: u64, settings: Settings, fault: Fault, weather: Weather) -> Cell {
    let mut random = Random(seed);
    let shared = settings.across().is_some();
    let scope = if !shared && random.percent(20) { Scope::Node } else { Scope::Global };
    let step = if random.percent(25) { random.within(-30 * MS, 30 * MS) } else { random.within(-900, 900) };
    let window = settings.window_ms * MS;
    let mut traffic = Traffic {
        settings,
        weather,
        subject: Subject::new(settings, fault),
        scope,
        nodes: random.within(1, 2),
        keys: random.within(1, if shared { 4 } else { 2 }),
        app: random.percent(50),
        epoch: 1_700_000_000_000_000_000 + random.within(0, 10 * window),
        step: (random.within(0, 6 * window), step),
        now: 0,
        over: 0,
        refused: None,
        random: &mut random,
    };
    let round = traffic.round();
    let (scope, epoch_ns_at_zero) = (traffic.scope, traffic.epoch);
    Cell { header: header(settings, scope), epoch_ns_at_zero, rounds: vec![round], honesty: None }
}

fn header(settings: Settings, scope: Scope) -> CellHeader {
    CellHeader {
        scenario: "traffic".to_owned(),
        limiter: "subject".to_owned(),
        params: BTreeMap::new(),
        variation: None,
        policy: None,
        client: String::new(),
        client_named: false,
        backend: String::new(),
        server: ServerInfo::default(),
        http: false,
        foreign: false,
        topology: None,
        limit: limit(settings.limit),
        nodes: 2,
        versions: 0,
        rounds: 1,
        concurrent: false,
        time: Default::default(),
        not_run: None,
        place: None,
        replay: String::new(),
        contract: Contract {
            bound: settings.bound(),
            scope,
            clock: DecidingClock::App,
            clock_resolution_ms: 1,
            denials: settings.denials(),
            on_outage: OnOutage::Error,
            fallback: None,
            key_ttl_at_most: None,
            lockout: settings.lockout(),
            across_keys: settings.across(),
            algorithm: None,
            round_trips_at_most: None,
            in_background: false,
        },
        requirement: None,
        outage: None,
        clocks: Vec::new(),
        checks: Vec::new(),
    }
}

pub fn judge(cell: &Cell, check: &str) -> Finding {
    checkers::find(check).unwrap().judge(cell)
}

impl Traffic<'_> {
    fn round(&mut self) -> Round {
        let limit = limit(self.settings.limit);
        let mut round = Round::starting(1, Nanos(0), Some(self.epoch));
        let mut add = |event| history::apply(&mut round, limit, event).unwrap();
        if self.random.percent(20) {
            let used = self.random.within(1, self.settings.burst() as i64) as u64;
            let (invoke, at) = (self.now, self.now + self.random.within(0, MS));
            for _ in 0..used {
                self.subject.acquire(0, 0, self.wall_us(at), Cost::ONE);
            }
            (self.now, self.over) = (at, at + self.random.within(0, MS));
            let (invoke, complete) = (Nanos(invoke), Nanos(self.over));
            add(Event::Preset { key: "k0".to_owned(), used, node: NodeId(0), invoke, complete });
        }
        let calls = self.random.within(15, 60);
        let mut made: Vec<Made> = (0..calls).map(|_| self.call()).collect();
        made.sort_by_key(|call| call.invoke);
        for (n, call) in made.iter().enumerate() {
            add(Event::Invoke {
                op: OpId(n as u32),
                node: NodeId(call.node),
                key: format!("k{}", call.key),
                cost: Cost::new(call.cost).unwrap(),
                at: Nanos(call.invoke),
            });
        }
        for (n, call) in made.into_iter().enumerate() {
            add(numbered(call.end, OpId(n as u32)));
        }
        let clock_step_ns = self.step.1;
        add(Event::RoundEnd {
            at: Nanos(self.over),
            ops: calls as u32,
            clock_step_ns,
            trips: 0,
            most_trips: 0,
        });
        round
    }

    fn wall_us(&self, at: i64) -> i64 {
        (self.epoch + at + if at >= self.step.0 { self.step.1 } else { 0 }).div_euclid(1000)
    }

    fn call(&mut self) -> Made {
        let (burst, window) = (self.settings.burst() as i64, self.settings.window_ms * MS);
        let mut key = self.random.within(0, self.keys - 1) as usize;
        let mut node = self.random.within(0, self.nodes - 1) as u16;
        let mut cost = self.random.within(1, self.weather.costs_up_to) as u32;
        if self.weather.costs_up_to > 1 && self.random.percent(3) {
            cost = (burst + self.random.within(1, 3)) as u32;
        }
        // When to come, counted from the last call or from when everything was over.
        let alone = self.random.percent(self.weather.alone);
        let from = if alone { self.over.max(self.now) } else { self.now };
        let mut gap = match self.random.within(0, 9) {
            0..=1 => 0,
            2..=3 => self.random.within(0, MS),
            4..=6 => self.random.within(0, 2 * window / burst),
            7 => self.random.within(0, window),
            8 => self.random.within(window / 2, 2 * window),
            _ => window * self.random.within(1, 3) + self.random.within(0, 40 * MS),
        };
        if let Some(hint) = self.refused.filter(|_| alone && self.random.percent(50)) {
            (key, node, cost) = (hint.key, hint.node, hint.cost);
            let wait = match self.random.within(0, 3) {
                0 => hint.hint + MS + self.step.1.abs() + self.random.within(0, MS),
                1 => hint.hint / 2 + self.random.within(0, hint.hint / 2),
                2 => hint.hint / 2 - self.random.within(0, hint.hint / 4),
                _ => self.random.within(0, 2 * hint.hint),
            };
            gap = (hint.complete + wait - from).max(0);
        }
        let (back, on) = if alone {
            (self.random.within(0, MS / 5), self.random.within(0, MS / 5))
        } else {
            (self.length(), self.length())
        };
        let invoke = if alone { from + gap } else { (from + gap - back).max(0) };
        let applied = if alone { invoke + back } else { from + gap };
        self.now = applied;
        let complete = applied + on;
        let (end, decided) = self.end(node, key, cost, (invoke, applied, complete));
        if decided {
            self.over = self.over.max(complete);
        }
        Made { node, key, cost, invoke, end }
    }

    /// How long a call may have been open before or after it was applied.
    fn length(&mut self) -> i64 {
        match self.random.within(0, 3) {
            0 => 0,
            1..=2 => self.random.within(0, 3 * MS),
            _ => self.random.within(0, self.settings.window_ms * MS),
        }
    }

    /// What comes of a call, and whether its end is known.
    fn end(&mut self, node: u16, key: usize, cost: u32, at: (i64, i64, i64)) -> (Event, bool) {
        let (invoke, applied, complete) = at;
        let lost = self.random.percent(self.weather.lost).then(|| self.random.within(0, 3));
        let op = OpId(0);
        let reaches = lost.is_none() || (lost != Some(0) && self.random.percent(50));
        let read = if self.app { self.random.within(invoke, applied) } else { applied };
        let place = if self.scope == Scope::Node { node } else { 0 };
        let now = self.wall_us(read);
        let step = reaches.then(|| self.subject.acquire(key, place, now, Cost::new(cost).unwrap()));
        let ok = |allowed, source, remaining, retry_after_ms| {
            let at = Nanos(complete);
            Event::Ok {
                op,
                allowed,
                remaining,
                retry_after_ms,
                source,
                at,
                clock_us: None,
                contact: None,
                near: false,
            }
        };
        match (lost, step) {
            (Some(0), _) => (Event::Fail { op, error: "refused".to_owned(), at: Nanos(complete) }, true),
            (Some(1), _) => (Event::Info { op, error: "timed out".to_owned(), at: Nanos(complete) }, false),
            // A policy answers, before or after the store has done its part.
            (Some(2), _) => (policy(ok(true, Source::FailOpen, None, None), invoke), true),
            (Some(_), _) => (policy(ok(false, Source::FailClosed, None, None), invoke), true),
            (None, Some(step)) => {
                let hint = step.retry_after_ms.filter(|_| !step.allowed);
                if let Some(ms) = hint {
                    self.refused = Some(Refused { key, node, cost, complete, hint: ms as i64 * MS });
                }
                (ok(step.allowed, Source::Store, Some(step.remaining), hint), true)
            }
            (None, None) => unreachable!("a call that is not lost reaches its limiter"),
        }
    }
}

/// Moves the answer to when the policy lost patience.
fn policy(mut event: Event, invoke: i64) -> Event {
    if let Event::Ok { at, .. } = &mut event {
        *at = Nanos(invoke);
    }
    event
}

fn numbered(mut event: Event, id: OpId) -> Event {
    if let Event::Ok { op, .. } | Event::Fail { op, .. } | Event::Info { op, .. } = &mut event {
        *op = id;
    }
    event
}
