//! Limiters that keep to their model are never convicted, whatever the intervals around their decisions;
//! limiters with one thing wrong are, as soon as it shows.

use super::*;
use crate::model::contract::Denials;
use crate::model::units::{Limit, NodeId, OpId, Window};
use crate::model::verdict::Verdict;

const MS: i64 = 1_000_000;

/// SplitMix64: a failure is the same failure tomorrow.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> i64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % n) as i64
    }
}

fn limit(n: u64) -> Limit {
    Limit::new(n).unwrap()
}

fn window(ms: u64) -> Window {
    Window::from_millis(ms).unwrap()
}

/// A cell of one round, with a contract of these.
fn cell(bound: &str, algorithm: Algorithm, clock: DecidingClock, concurrent: bool, ops: Vec<Op>) -> Cell {
    let text = format!(
        r#"{{"scenario":"s","limiter":"l","client":"c","backend":"b","server":{{"flavour":"","version":""}},
            "limit":1,"nodes":1,"rounds":1,"concurrent":{concurrent},"requirement":null,"checks":[],
            "contract":{{"bound":{bound},"scope":"global","clock":"app","clock_resolution_ms":1,
            "denials":"free","on_outage":"error","key_ttl_at_most":null}}}}"#
    );
    let mut header: crate::model::history::CellHeader = serde_json::from_str(&text).unwrap();
    header.contract.algorithm = Some(algorithm);
    header.contract.clock = clock;
    let mut round = Round::starting(1, Nanos(0), None);
    round.key("k");
    round.ops = ops;
    round.complete = true;
    Cell { header, epoch_ns_at_zero: 0, rounds: vec![round], honesty: None }
}

fn op(ops: &[Op], invoke: i64, complete: i64, cost: i64, allowed: bool) -> Op {
    let id = OpId(ops.len() as u32);
    let cost = Cost::new(cost as u32).unwrap();
    let mut op = Op::new(id, NodeId(0), crate::model::op::KeyId(0), cost, Nanos(invoke));
    op.complete = Nanos(complete);
    op.outcome = if allowed { Outcome::Admitted } else { Outcome::Denied };
    op.source = Some(Source::Store);
    op
}

fn verdict(cell: &Cell) -> Finding {
    MatchesModel.judge(cell)
}

/// What is wrong with a counter in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Nothing,
    /// Every call pushes the expiry back.
    Refreshes,
    LimitOneShort,
    ChargesTheRefused,
    /// The window never opens anew.
    NeverExpires,
}

/// A counter whose key expires as the store lets it: times to live in whole milliseconds, gone in the
/// millisecond after the last.
fn counter_by_expiry(random: &mut Random, wrong: Wrong) -> Cell {
    let (most, ms) = (1 + random.below(4) as u64, 40 + random.below(100) as u64);
    let charged = wrong != Wrong::ChargesTheRefused && random.below(2) == 0;
    let denials = if charged { Denials::Charged } else { Denials::Free };
    let tells = random.below(2) == 0;
    let longest_cost = 1 + random.below(3) as u64;
    let mut ops: Vec<Op> = Vec::new();
    let (mut now, mut until, mut counted) = (MS, i64::MIN, 0);
    for _ in 0..40 {
        let invoke = now + random.below(20 * MS as u64);
        let applied = invoke + random.below(4 * MS as u64);
        let complete = applied + random.below(4 * MS as u64);
        now = complete + 1;
        let cost = 1 + random.below(longest_cost);
        if applied.div_euclid(MS) > until {
            (until, counted) = (i64::MIN, 0);
        }
        let limit = most - u64::from(wrong == Wrong::LimitOneShort);
        let allowed = counted + cost as u64 <= limit;
        if allowed || charged || wrong == Wrong::ChargesTheRefused {
            counted += cost as u64;
            if until == i64::MIN || wrong == Wrong::Refreshes {
                let never = if wrong == Wrong::NeverExpires { 1_000_000 } else { 0 };
                until = applied.div_euclid(MS) + ms as i64 + never;
            }
        }
        let mut op = op(&ops, invoke, complete, cost, allowed);
        if tells {
            op.remaining = Some(limit.saturating_sub(counted)).into();
        }
        ops.push(op);
    }
    let algorithm = Algorithm::FixedWindow { limit: limit(most), window: window(ms), denials };
    let bound = format!(r#"{{"kind":"fixed-window","limit":{most},"window":"{ms}ms"}}"#);
    cell(&bound, algorithm, DecidingClock::Expiry, false, ops)
}

#[test]
fn a_window_that_expires_as_promised_is_never_convicted() {
    let mut random = Random(1);
    let mut passed = 0;
    for _ in 0..5_000 {
        let cell = counter_by_expiry(&mut random, Wrong::Nothing);
        let found = verdict(&cell);
        assert_ne!(found.verdict, Verdict::Fail, "{}: {:?}", found.because, cell.rounds[0].ops);
        passed += u32::from(found.verdict == Verdict::Pass);
    }
    assert!(passed > 4_500, "{passed} of 5,000 passed");
}

#[test]
fn a_window_that_does_not_is_convicted_when_it_shows() {
    for (wrong, at_least) in [
        (Wrong::Refreshes, 3_000),
        (Wrong::LimitOneShort, 4_000),
        (Wrong::ChargesTheRefused, 1_000),
        (Wrong::NeverExpires, 4_500),
    ] {
        let mut random = Random(2);
        let convicted =
            (0..5_000).filter(|_| verdict(&counter_by_expiry(&mut random, wrong)).verdict == Verdict::Fail);
        let convicted = convicted.count();
        assert!(convicted >= at_least, "{wrong:?}: {convicted} of 5,000");
    }
}

/// One call after the other at times that are told, decided by the model itself.
fn by_the_clock(random: &mut Random, algorithm: Algorithm, bound: &str) -> Cell {
    let mut model = algorithm.start();
    let mut ops: Vec<Op> = Vec::new();
    let mut now = MS;
    for _ in 0..60 {
        let invoke = now + random.below(300 * MS as u64);
        let applied = invoke + random.below(MS as u64);
        now = applied + random.below(MS as u64) + 1;
        let cost = 1 + random.below(2);
        let at_us = applied / 1000;
        let step = model.acquire(at_us, Cost::new(cost as u32).unwrap());
        let mut op = op(&ops, invoke, now, cost, step.allowed);
        now += 1;
        op.clock_us = Some(at_us as u64).into();
        op.remaining = Some(step.remaining).into();
        op.retry_after_ms = step.retry_after_ms.filter(|_| !step.allowed).into();
        ops.push(op);
    }
    cell(bound, algorithm, DecidingClock::App, false, ops)
}

#[test]
fn the_model_at_the_times_that_were_told_matches_itself_and_nothing_else() {
    let bucket = r#"{"kind":"bucket","capacity":5,"refill":3,"window":"1s"}"#;
    let fixed = r#"{"kind":"fixed-window","limit":5,"window":"1s"}"#;
    let second = window(1000);
    let algorithms = [
        (Algorithm::Gcra { burst: limit(5), limit: limit(3), window: second }, bucket),
        (Algorithm::TokenBucket { capacity: limit(5), refill: limit(3), window: second }, bucket),
        (Algorithm::FixedWindow { limit: limit(5), window: second, denials: Denials::Free }, fixed),
    ];
    let mut random = Random(3);
    for (algorithm, bound) in algorithms {
        for _ in 0..500 {
            let mut cell = by_the_clock(&mut random, algorithm, bound);
            let found = verdict(&cell);
            assert_eq!(found.verdict, Verdict::Pass, "{}", found.because);
            // Anything that was told, told otherwise.
            let refused = cell.rounds[0].ops.iter().position(|o| o.outcome == Outcome::Denied).unwrap();
            let op = &mut cell.rounds[0].ops[refused];
            match random.below(3) {
                0 => op.outcome = Outcome::Admitted,
                1 => op.remaining = op.remaining.get().map(|r| r + 1).into(),
                _ => op.retry_after_ms = Some(op.retry_after_ms.get().unwrap_or(0) + 1).into(),
            }
            assert_eq!(verdict(&cell).verdict, Verdict::Fail);
        }
    }
}

/// Calls at once within one window, decided in one step each, or in two with others between them.
fn at_once(random: &mut Random, atomic: bool, costs: u64, denials: Denials) -> Cell {
    let most = 1 + random.below(4) as u64;
    let calls = 4 + random.below(12) as usize;
    let mut ops: Vec<Op> = Vec::new();
    let mut steps: Vec<(i64, usize, bool)> = Vec::new();
    for n in 0..calls {
        let invoke = MS + random.below(20) * MS / 4;
        let first = invoke + random.below(8) * MS / 4;
        let second = if atomic { first } else { first + random.below(8) * MS / 4 };
        ops.push(op(&ops, invoke, second + random.below(4) * MS / 4, 1 + random.below(costs), false));
        steps.extend([(first, n, false), (second, n, true)]);
    }
    steps.sort_unstable();
    let (mut counted, mut seen) = (0, vec![0; calls]);
    for (_, n, write) in steps {
        if !write {
            seen[n] = counted;
            // In one step: nobody comes between.
            if !atomic {
                continue;
            }
        } else if atomic {
            continue;
        }
        let cost = u64::from(ops[n].cost.get());
        let allowed = seen[n] + cost <= most;
        counted += if allowed || denials == Denials::Charged { cost } else { 0 };
        ops[n].outcome = if allowed { Outcome::Admitted } else { Outcome::Denied };
        if random.below(10) == 0 {
            (ops[n].outcome, ops[n].source, ops[n].complete) = (Outcome::Unknown, None, Op::NEVER);
        }
    }
    ops.sort_by_key(|o| o.invoke);
    (0..).zip(&mut ops).for_each(|(n, op)| op.id = OpId(n));
    let algorithm = Algorithm::FixedWindow { limit: limit(most), window: window(60_000), denials };
    let bound = format!(r#"{{"kind":"fixed-window","limit":{most},"window":"60s"}}"#);
    cell(&bound, algorithm, DecidingClock::Expiry, true, ops)
}

#[test]
fn calls_at_once_that_are_decided_in_one_step_are_never_convicted_and_others_are() {
    let mut random = Random(4);
    for costs in [1, 3] {
        for denials in [Denials::Charged, Denials::Free] {
            for _ in 0..2_500 {
                let cell = at_once(&mut random, true, costs, denials);
                let found = verdict(&cell);
                assert_ne!(found.verdict, Verdict::Fail, "{}: {:?}", found.because, cell.rounds[0].ops);
            }
            let racing = (0..2_500)
                .filter(|_| verdict(&at_once(&mut random, false, costs, denials)).verdict == Verdict::Fail);
            let racing = racing.count();
            assert!(racing > 700, "{racing} of 2,500 with costs up to {costs}, {denials:?}");
        }
    }
}

#[test]
fn what_no_model_can_say_is_not_applicable() {
    let fixed = r#"{"kind":"fixed-window","limit":1,"window":"10ms"}"#;
    let algorithm = Algorithm::FixedWindow { limit: limit(1), window: window(10), denials: Denials::Free };
    let mut ops: Vec<Op> = Vec::new();
    for n in 0..4 {
        ops.push(op(&ops, n * 8 * MS, n * 8 * MS + 1, 1, n % 2 == 0));
    }
    let by = |clock, ops: &[Op]| verdict(&cell(fixed, algorithm, clock, false, ops.to_vec()));
    assert_eq!(by(DecidingClock::Expiry, &ops).verdict, Verdict::Pass);
    for clock in [DecidingClock::App, DecidingClock::Server] {
        let found = by(clock, &ops);
        assert_eq!(found.verdict, Verdict::NotApplicable, "{found:?}");
        assert!(found.because.contains("not in the history"), "{found:?}");
    }
    // Over several windows and overlapping.
    ops[1].complete = Nanos(17 * MS);
    assert_eq!(by(DecidingClock::Expiry, &ops).verdict, Verdict::NotApplicable);
    // A decision that a policy made in the store's stead is none of the model's.
    let mut open = vec![op(&[], 0, 1, 1, true), op(&[], 2, 3, 1, true)];
    open[1].id = OpId(1);
    assert_eq!(by(DecidingClock::Expiry, &open).verdict, Verdict::Fail);
    open[1].source = Some(Source::FailOpen);
    assert_eq!(by(DecidingClock::Expiry, &open).verdict, Verdict::Unknown);
}
