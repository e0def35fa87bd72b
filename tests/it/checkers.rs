//! Recorded histories that each checker must tell apart. Verdicts are typed by hand: what the
//! calls in the file mean, not what the lab once said about them.

use std::net::SocketAddr;
use std::path::Path;

use rl_lab::checkers;
use rl_lab::model::contract::Bound;
use rl_lab::model::figures::Figure;
use rl_lab::model::history::{Cell, CellHeader, Event, PlannedCheck, RunHeader};
use rl_lab::model::indexed::IndexedCell;
use rl_lab::model::op::{KeyId, Outcome, Source};
use rl_lab::model::report::{CellHonesty, Report, ServerInfo};
use rl_lab::model::scenario::PlannedClock;
use rl_lab::model::units::{Limit, Nanos, Seed};
use rl_lab::model::verdict::Finding;
use rl_lab::model::verdict::Verdict::{self, Fail, NotApplicable, Pass, Unknown};
use rl_lab::ports::route::Configured;
use rl_lab::ports::store::SharedHook;
use rl_lab::runner::drive::{self, Drive};
use rl_lab::runner::plan::{self, Overrides};
use rl_lab::runner::record::{Recorder, Stop};
use rl_lab::runner::{analyze, judge, scenarios};

use crate::support::{Lab, usable};

/// Each file, a limiter in it, and what a check must find there. Limit 2, or 1000 with 998 used
/// before; two nodes; six calls at once.
const TYPED_BY_HAND: &[(&str, &str, &str, Verdict)] = &[
    // Two of six, and six of six.
    ("never-over-limit.good", "fixed-window-lua", "never-over-limit", Pass),
    ("never-over-limit.good", "token-bucket-lua", "never-over-limit", Pass),
    ("never-over-limit.bad", "get-then-incr", "never-over-limit", Fail),
    ("never-over-limit.bad", "token-bucket-read-write", "never-over-limit", Fail),
    // 998 and two, 998 and six.
    ("never-over-limit.preset.good", "fixed-window-lua", "never-over-limit", Pass),
    ("never-over-limit.preset.bad", "get-then-incr", "never-over-limit", Fail),
    // Two on each node; three on one of them.
    ("never-over-limit.per-node.good", "in-memory", "never-over-limit", Pass),
    ("never-over-limit.per-node.bad", "in-memory", "never-over-limit", Fail),
    // Three, but one was open until after the window: it may belong to the next one.
    ("never-over-limit.excused.good", "get-then-incr", "never-over-limit", Pass),
    // Two, and one that nobody knows about.
    ("never-over-limit.info.good", "get-then-incr", "never-over-limit", Pass),
    // Cut in the middle of a round: what is there is within the limit, the rest nobody saw.
    ("never-over-limit.cut", "fixed-window-lua", "never-over-limit", Unknown),
    ("never-over-limit.cut", "fixed-window-lua", "meets-requirement", Unknown),
    ("never-over-limit.cut", "fixed-window-lua", "every-key-expires", Unknown),
    // Cut as well, but the six admitted calls are on record.
    ("never-over-limit.cut.bad", "get-then-incr", "never-over-limit", Fail),
    // The limit over all nodes together is what the scenario needs.
    ("meets-requirement.good", "fixed-window-lua", "meets-requirement", Pass),
    ("meets-requirement.bad", "in-memory", "meets-requirement", Fail),
    ("meets-requirement.bad", "in-memory", "never-over-limit", Pass),
    // An expiry within the window; none; one beyond the window; no keys in the store at all.
    ("every-key-expires.good", "fixed-window-lua", "every-key-expires", Pass),
    ("every-key-expires.bad", "token-bucket-read-write", "every-key-expires", Fail),
    ("every-key-expires.too-long.bad", "fixed-window-lua", "every-key-expires", Fail),
    ("every-key-expires.no-keys.good", "in-memory", "every-key-expires", NotApplicable),
    // A call every 40 ms at 2 per 200 ms: let in again each window, or never.
    ("steady-client-served.good", "fixed-window-lua", "steady-client-served", Pass),
    ("steady-client-served.bad", "incr-expire-pipeline", "steady-client-served", Fail),
    ("steady-client-served.bad", "incr-expire-pipeline", "never-over-limit", Pass),
    // Two keys with one tag; without one; and with one, but the script reached for a third.
    ("keys-declared-and-one-slot.good", "two-key-bucket", "keys-declared-and-one-slot", Pass),
    ("keys-declared-and-one-slot.bad", "two-key-bucket", "keys-declared-and-one-slot", Fail),
    ("keys-declared-and-one-slot.undeclared.bad", "two-key-bucket", "keys-declared-and-one-slot", Fail),
    // Two of six, refusals that may all have come last, and one that nobody knows about.
    ("matches-model.good", "fixed-window-lua", "matches-model", Pass),
    // Refused, and when that was over one more was let in: two in all.
    ("matches-model.bad", "two-counters", "matches-model", Fail),
    ("matches-model.bad", "two-counters", "never-over-limit", Pass),
    // Refused when one of two was used; or when the other may have gone to a call without an answer.
    ("matches-model.room.bad", "two-counters", "matches-model", Fail),
    ("matches-model.info.good", "fixed-window-lua", "matches-model", Pass),
    // Two at once and one each 500 ms, by the app's clock: at 200 ms the wait is 300 ms, not 800.
    ("matches-model.clock.good", "gcra-lua", "matches-model", Pass),
    ("matches-model.clock.bad", "gcra-lua", "matches-model", Fail),
    // The same by the server's clock, which nobody recorded.
    ("matches-model.server.good", "gcra-lua:clock=server", "matches-model", NotApplicable),
    // Two per 200 ms from the first hit at 0, until the key expires: a call that is open from 198 to
    // 204 ms may be refused, one at 240 ms may not.
    ("matches-model.expiry.good", "fixed-window-lua", "matches-model", Pass),
    ("matches-model.expiry.bad", "incr-expire-pipeline", "matches-model", Fail),
    ("matches-model.expiry.bad", "incr-expire-pipeline", "never-over-limit", Pass),
    // Three of five, three more refused, then two: they fit unless the refusal was charged.
    ("matches-model.costs.good", "cost-based", "matches-model", Pass),
    ("matches-model.costs.bad", "fixed-window-lua", "matches-model", Fail),
    ("matches-model.costs.bad", "fixed-window-lua", "never-over-limit", Pass),
    // One round trip is promised: two in the first round and one in the second; two in both; two in
    // the only one, whose script may not have been loaded.
    ("cost.good", "fixed-window-lua", "cost", Pass),
    ("cost.bad", "incr-then-expire", "cost", Fail),
    ("cost.cold", "fixed-window-lua", "cost", Unknown),
    // Written by hand from here on: calls of half a millisecond, a few to a key.
    // Used up, refused, admitted a window later. Beside a call that nobody answered. A bucket that is not
    // full yet. A lockout. Nobody refused. Refused by a policy, because the store was away.
    ("no-false-denial.good", "fixed-window-lua", "no-false-denial", Pass),
    ("no-false-denial.good", "fixed-window-lua", "no-lost-permit", Pass),
    ("no-false-denial.good", "get-then-incr", "no-false-denial", Pass),
    ("no-false-denial.good", "token-bucket-lua", "no-false-denial", Pass),
    ("no-false-denial.good", "login-guard", "no-false-denial", Pass),
    ("no-false-denial.good", "cost-based", "no-false-denial", Unknown),
    ("no-false-denial.good", "gcra-lua", "no-false-denial", Unknown),
    // One of two in the last window. One back in the bucket. The lockout is over. Two of four over all keys.
    ("no-false-denial.bad", "incr-expire-pipeline", "no-false-denial", Fail),
    ("no-false-denial.bad", "token-bucket-lua", "no-false-denial", Fail),
    ("no-false-denial.bad", "login-guard", "no-false-denial", Fail),
    ("no-false-denial.bad", "multi-limit", "no-false-denial", Fail),
    // Four of five; three are refused; one gets in, or does not, because they were charged: by its word.
    ("no-lost-permit.good", "cost-based", "no-lost-permit", Pass),
    ("no-lost-permit.good", "cost-based", "no-false-denial", Pass),
    ("no-lost-permit.bad", "fixed-window-lua", "no-lost-permit", Fail),
    ("no-lost-permit.bad", "fixed-window-lua", "no-false-denial", Pass),
    ("no-lost-permit.bad", "fixed-window-lua", "denial-changes-nothing", NotApplicable),
    // The same against its word; on one key, and on what all keys share.
    ("denial-changes-nothing.good", "cost-based", "denial-changes-nothing", Pass),
    ("denial-changes-nothing.good", "multi-limit", "denial-changes-nothing", Pass),
    ("denial-changes-nothing.good", "gcra-lua", "denial-changes-nothing", Unknown),
    ("denial-changes-nothing.bad", "cost-based", "denial-changes-nothing", Fail),
    ("denial-changes-nothing.bad", "multi-limit", "denial-changes-nothing", Fail),
    // One of five used, and two refusals are too few to explain the second.
    ("denial-changes-nothing.bad", "gcra-lua", "denial-changes-nothing", Unknown),
    ("denial-changes-nothing.bad", "gcra-lua", "no-false-denial", Fail),
    // Refused, then silent for longer than a window. Five of a bucket take half a second to earn. Another key
    // of the same address breaks the silence.
    ("recovers.good", "fixed-window-lua", "recovers", Pass),
    ("recovers.good", "token-bucket-lua", "recovers", Pass),
    ("recovers.good", "multi-limit", "recovers", Pass),
    ("recovers.good", "fixed-window-lua", "remaining-consistent", NotApplicable),
    ("recovers.good", "fixed-window-lua", "retry-after-honest", NotApplicable),
    ("recovers.bad", "incr-then-expire", "recovers", Fail),
    ("recovers.bad", "token-bucket-lua", "recovers", Fail),
    // Whole calls are told of one and a half. Told beside an open call: no pair.
    ("remaining-consistent.good", "fixed-window-lua", "remaining-consistent", Pass),
    ("remaining-consistent.good", "token-bucket-lua", "remaining-consistent", Pass),
    ("remaining-consistent.good", "get-then-incr", "remaining-consistent", Unknown),
    // 1 left, and refused. 0 left, and admitted at once. 3 left of 2. 3 left, one taken, 1 left.
    ("remaining-consistent.bad", "fixed-window-lua", "remaining-consistent", Fail),
    ("remaining-consistent.bad", "sliding-log-time-argv", "remaining-consistent", Fail),
    ("remaining-consistent.bad", "get-then-incr", "remaining-consistent", Fail),
    ("remaining-consistent.bad", "gcra-lua", "remaining-consistent", Fail),
    // Half of a wait is too short, all of it is not. A whole second for a tenth of one is the least that a
    // header of seconds can say; nobody tried half of it.
    ("retry-after-honest.good", "fixed-window-lua", "retry-after-honest", Pass),
    ("retry-after-honest.good", "atomic-throttle", "retry-after-honest", Unknown),
    // 1.4 s to wait, told as 1. The whole window, of which a tenth is left. Now.
    ("retry-after-honest.bad", "atomic-throttle", "retry-after-honest", Fail),
    ("retry-after-honest.bad", "fixed-window-lua", "retry-after-honest", Fail),
    ("retry-after-honest.bad", "sliding-log-lua", "retry-after-honest", Fail),
    // Cut before the end of its round: nothing is wrong in what there is.
    ("refusals.cut", "cost-based", "no-false-denial", Unknown),
    ("refusals.cut", "cost-based", "no-lost-permit", Unknown),
    ("refusals.cut", "cost-based", "denial-changes-nothing", Unknown),
    ("refusals.cut", "cost-based", "recovers", Unknown),
    ("refusals.cut", "cost-based", "remaining-consistent", Unknown),
    ("refusals.cut", "cost-based", "retry-after-honest", Unknown),
    ("bounded-latency.good", "fixed-window-lua", "bounded-latency", Pass),
    ("bounded-latency.bad", "fixed-window-lua", "bounded-latency", Fail),
    ("bounded-latency.bad", "fixed-window-lua", "declared-outage-policy", Unknown),
    ("declared-outage-policy.good", "fixed-window-lua", "declared-outage-policy", Pass),
    ("declared-outage-policy.bad", "fixed-window-lua", "declared-outage-policy", Fail),
    ("declared-outage-policy.silent.bad", "fixed-window-lua", "declared-outage-policy", Fail),
    ("recovers.outage.good", "fixed-window-lua", "recovers", Pass),
    ("recovers.outage.bad", "fixed-window-lua", "recovers", Fail),
    ("effects-once.good", "fixed-window-lua", "effects-once", Pass),
    ("effects-once.bad", "fixed-window-lua", "effects-once", Fail),
    ("clock-independent.good", "sliding-log-lua:clock=server", "clock-independent", Pass),
    ("clock-independent.bad", "sliding-log-lua", "clock-independent", Fail),
    ("clock-independent.bad", "sliding-log-lua", "never-over-limit", Fail),
    // Two of two, a refusal, the counter removed, and two more: had nobody lifted the limit, four of two.
    ("lift-takes-effect.good", "fixed-window-lua", "lift-takes-effect", Pass),
    ("lift-takes-effect.good", "fixed-window-lua", "never-over-limit", Unknown),
    // Refused after it, where two calls that nobody knows about may have been counted after it.
    ("lift-takes-effect.good", "incr-then-expire", "lift-takes-effect", Unknown),
    // Refused after it at once; or when one of two was used.
    ("lift-takes-effect.bad", "exceeded-cache", "lift-takes-effect", Fail),
    ("lift-takes-effect.bad", "cost-based", "lift-takes-effect", Fail),
    // Three seconds told and waited out. A service of which nothing is known, asked before the end of its wait
    // and at it. A date. Nobody refused. Not over HTTP.
    ("headers-honest.good", "fixed-window-lua", "headers-honest", Pass),
    ("headers-honest.good", "token-bucket-lua", "headers-honest", Pass),
    ("headers-honest.good", "gcra-lua", "headers-honest", Pass),
    ("headers-honest.good", "get-then-incr", "headers-honest", Unknown),
    ("headers-honest.good", "in-memory", "headers-honest", NotApplicable),
    // A refusal that is answered 200; each other rule has a limiter in `front.rs`.
    ("headers-honest.bad", "fixed-window-lua", "headers-honest", Fail),
    // Twelve of twelve without a connection: each says so, or that the store decided.
    ("fail-open-is-reported.good", "fixed-window-lua", "fail-open-is-reported", Pass),
    ("fail-open-is-reported.bad", "fixed-window-lua", "fail-open-is-reported", Fail),
    ("fail-open-is-reported.bad", "fixed-window-lua", "declared-outage-policy", Unknown),
    // Four of six by the store, then two of three on each node without it; on one of them three. Eight of four.
    ("never-over-limit.fallback.good", "fixed-window-lua", "never-over-limit", Pass),
    ("never-over-limit.fallback.good", "fixed-window-lua", "meets-requirement", Fail),
    ("never-over-limit.fallback.good", "fixed-window-lua", "declared-outage-policy", Pass),
    ("never-over-limit.fallback.good", "fixed-window-lua", "fail-open-is-reported", Pass),
    ("never-over-limit.fallback.bad", "fixed-window-lua", "never-over-limit", Fail),
    ("keys-declared-and-one-slot.cluster.bad", "two-key-bucket:tag=no", "keys-declared-and-one-slot", Fail),
];

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/histories")
}

fn judged(file: &str) -> Report {
    analyze::report(&analyze::read(&folder().join(format!("{file}.jsonl"))).unwrap())
}

#[test]
fn the_checkers_tell_recorded_histories_apart() {
    let mut wrong = Vec::new();
    for (file, limiter, check, verdict) in TYPED_BY_HAND {
        let report = judged(file);
        let found = crate::support::check(crate::support::cell(&report, limiter), check);
        if found.verdict != *verdict {
            wrong.push(format!(
                "{file}: {limiter} {check} is {:?}, typed {verdict:?}: {found:?}",
                found.verdict
            ));
        }
        assert_eq!(found.witness.is_some(), found.verdict == Fail, "{file}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_clock_that_is_wrong_for_no_call_tries_nothing() {
    let good = analyze::read(&folder().join("clock-independent.good.jsonl")).unwrap().cells.remove(0);
    let judged = |cell: &Cell| checkers::find("clock-independent").unwrap().judge(cell).verdict;
    assert_eq!(judged(&good), Pass);
    let with = |change: &dyn Fn(&mut PlannedClock)| {
        let mut cell = good.clone();
        cell.header.clocks.iter_mut().for_each(change);
        judged(&cell)
    };
    let right = |c: &mut PlannedClock| c.offset = "+0s".parse().unwrap();
    assert_eq!(with(&right), Unknown, "an offset of nothing");
    assert_eq!(with(&|c| c.node = 999), Unknown, "a node that no call went to");
    let set_after_the_last_call = |c: &mut PlannedClock| {
        right(c);
        (c.jump_at, c.jump) = (Some("1d".parse().unwrap()), "+50s".parse().unwrap());
    };
    assert_eq!(with(&set_after_the_last_call), Unknown);
    let by_less_than_it_can_tell = |c: &mut PlannedClock| {
        right(c);
        c.drift_ppm = 1;
    };
    assert_eq!(with(&by_less_than_it_can_tell), Unknown);
}

#[test]
fn what_a_policy_decided_tells_nothing_of_what_a_limiter_costs() {
    let mut cell = analyze::read(&folder().join("cost.good.jsonl")).unwrap().cells.remove(0);
    let judged = |cell: &Cell| checkers::find("cost").unwrap().judge(cell).verdict;
    assert_eq!(judged(&cell), Pass);
    cell.rounds.last_mut().unwrap().ops[0].source = Some(Source::FailClosed);
    assert_eq!(judged(&cell), Unknown);
}

#[tokio::test]
async fn exchanges_that_a_policy_stood_in_for_are_no_round_trips() {
    if !usable("local").await {
        return;
    }
    let call = ["round-trips", "--backend", "local", "--client", "not-configured", "--policy", "fail-closed"];
    let report = Lab::new()
        .run(&[&call[..], &["--limiters", "fixed-window-lua", "--format", "json"]].concat())
        .exits(4)
        .report();
    let cell = &report.cells[0];
    assert_eq!(crate::support::check(cell, "cost").verdict, Unknown);
    assert!(!cell.figures.contains_key(&Figure::RoundTripsPerDecision), "{:?}", cell.figures);
}

/// Two calls a millisecond and a half behind an edge are over by what was recorded. That the limiter's clock may have
/// read the millisecond before excuses them, and is no reason to clear anybody.
#[test]
fn what_only_the_slack_at_an_edge_excuses_is_unknown_and_no_pass() {
    let mut cell = analyze::read(&folder().join("never-over-limit.cut.bad.jsonl")).unwrap().cells.remove(0);
    let edge = 1_700_000_000_000_000_000i64;
    let (limit, window) = (Limit::new(1).unwrap(), "10s".parse().unwrap());
    cell.header.contract.bound = Bound::AlignedWindow { limit, window };
    (cell.header.limit, cell.header.rounds, cell.header.concurrent) = (limit, 1, false);
    cell.header.clocks.clear();
    cell.rounds.truncate(1);
    cell.rounds[0].complete = true;
    cell.rounds[0].presets.clear();
    cell.rounds[0].epoch_ns_at_zero = Some(edge);
    let mut ops = cell.rounds[0].ops.iter().take(3).cloned().collect::<Vec<_>>();
    let mut judged = |at_us: [i64; 3]| {
        for (op, us) in ops.iter_mut().zip(at_us) {
            (op.invoke, op.complete, op.key) = (Nanos(us * 1000), Nanos(us * 1000 + 100_000), KeyId(0));
            op.outcome = Outcome::Admitted;
        }
        cell.rounds[0].ops = ops.clone();
        checkers::find("never-over-limit").unwrap().judge(&cell).verdict
    };
    // One in each of three windows, the second of them close to its edge.
    assert_eq!(judged([5_000_000, 10_000_300, 25_000_000]), Unknown, "never put to the test");
    assert_eq!(judged([500, 700, 25_000_000]), Unknown, "over by what was recorded");
    assert_eq!(judged([5_000_000, 6_000_000, 25_000_000]), Fail);
}

/// What one checker has grouped, the next one finds: whoever comes first.
#[test]
fn a_finding_is_the_same_word_for_word_whatever_was_asked_before() {
    for entry in std::fs::read_dir(folder()).unwrap().flatten() {
        let history = analyze::read(&entry.path()).unwrap();
        for cell in &history.cells {
            let (forth, back) = (IndexedCell::of(cell), IndexedCell::of(cell));
            let alone: Vec<Finding> = checkers::ALL.iter().map(|c| c.judge(cell)).collect();
            let then: Vec<Finding> = checkers::ALL.iter().map(|c| c.judge_indexed(&forth)).collect();
            let mut before: Vec<Finding> =
                checkers::ALL.iter().rev().map(|c| c.judge_indexed(&back)).collect();
            before.reverse();
            assert_eq!(alone, then, "{:?}", entry.path());
            assert_eq!(alone, before, "{:?}", entry.path());
        }
    }
}

#[test]
fn every_checker_has_a_good_and_a_bad_history_and_every_history_a_verdict() {
    for checker in checkers::ALL {
        for (ending, verdict) in [("good", Pass), ("bad", Fail)] {
            let file = format!("{}.{ending}", checker.name());
            let typed =
                |t: &&(&str, &str, &str, Verdict)| t.0 == file && t.2 == checker.name() && t.3 == verdict;
            assert!(TYPED_BY_HAND.iter().any(|t| typed(&t)), "{file}: no {verdict:?} is typed for it");
        }
    }
    for entry in std::fs::read_dir(folder()).unwrap().flatten() {
        let file = entry.file_name().into_string().unwrap();
        let typed = TYPED_BY_HAND.iter().any(|t| format!("{}.jsonl", t.0) == file);
        assert!(typed, "{file} has no verdict");
    }
}

#[test]
fn a_history_that_was_cut_never_passes_as_a_whole() {
    for file in ["never-over-limit.cut", "never-over-limit.cut.bad"] {
        let report = judged(file);
        assert!(!report.passed && report.verdict >= Unknown && report.exit != 0, "{file}");
        assert!(report.error.unwrap().contains("cut short"));
    }
}

#[test]
fn a_history_cut_anywhere_never_passes() {
    let whole = std::fs::read_to_string(folder().join("never-over-limit.good.jsonl")).unwrap();
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("history.jsonl");
    for (end, _) in whole.char_indices().filter(|(i, _)| i % 7 == 3 && *i < whole.trim_end().len()) {
        std::fs::write(&path, &whole[..end]).unwrap();
        let Ok(history) = analyze::read(&path) else { continue };
        let report = analyze::report(&history);
        assert!(!report.passed && report.verdict != Pass, "cut after {end} bytes it passes");
    }
}

#[tokio::test]
async fn analyze_judges_a_finished_run_as_the_run_did() {
    if !usable("local").await {
        return;
    }
    let lab = Lab::new();
    let mut ran = lab.run(&["race", "--backend", "local", "--format", "json"]).exits(0).report();
    let mut again = lab.run(&["analyze", "--format", "json"]).exits(0).report();
    // What only the run knows: its folder, and the command for one cell alone.
    ran.out = None;
    for report in [&mut ran, &mut again] {
        report.cells.iter_mut().flat_map(|c| &mut c.checks).for_each(|c| c.replay = None);
    }
    assert_eq!(ran, again);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_of_a_living_node_is_not_convicted() {
    let Some(server) = crate::ground::Ground::start("lives").await else { return };
    let cell = drive_one_call(server.address, "incr-then-expire", None).await;
    let report = judge::judge(&cell);
    assert_eq!(crate::support::check(&report, "every-key-expires").verdict, Pass);
    server.end().await;
}

/// One call of a limiter, driven by the runner with a hook in its store.
pub async fn drive_one_call(address: SocketAddr, limiter: &str, hook: Option<SharedHook>) -> Cell {
    let one = std::num::NonZeroU32::new(1);
    let changes = Overrides {
        limiters: vec![limiter.parse().unwrap()],
        requests: one,
        connections: one,
        in_flight: one,
        nodes: one,
        rounds: one,
        ..Overrides::default()
    };
    let plan = plan::plan(scenarios::find("race").unwrap(), &changes, Seed(1)).unwrap();
    let cell = &plan.cells[0];
    let recorder = Recorder::start(None, Stop::default());
    recorder.event(Event::Run(RunHeader {
        schema: 1,
        lab: String::new(),
        id: "it".to_owned(),
        seed: Seed(1),
        command: Vec::new(),
        started: String::new(),
        epoch_ns_at_zero: recorder.epoch_ns_at_zero(),
        columns: None,
        claims: None,
        gate: None,
    }));
    recorder.event(Event::Cell(Box::new(CellHeader {
        scenario: plan.name.clone(),
        limiter: limiter.to_owned(),
        params: Default::default(),
        variation: None,
        policy: None,
        client: cell.client.name.to_owned(),
        client_named: false,
        backend: "local".to_owned(),
        server: ServerInfo::default(),
        http: false,
        foreign: false,
        topology: None,
        limit: plan.scenario.limit.limit,
        nodes: 1,
        versions: 0,
        rounds: 1,
        concurrent: plan.concurrent(),
        time: Default::default(),
        not_run: None,
        place: None,
        replay: String::new(),
        contract: (cell.spec.contract)(&cell.settings),
        requirement: None,
        outage: None,
        clocks: Vec::new(),
        checks: checkers::ALL
            .iter()
            .map(|c| PlannedCheck { check: c.name().to_owned(), expected: None })
            .collect(),
    })));
    let prefix = format!("rl-lab:it:{limiter}");
    let round_done = |_| ();
    let driving = Drive {
        plan: &plan,
        cell,
        address,
        route: Configured::at(address),
        seeds: Vec::new(),
        regions: Vec::new(),
        faults: None,
        prefix,
        seed: Seed(1),
        recorder: &recorder,
        hook,
        workers: None,
        round_done: &round_done,
    };
    drive::drive(driving).await.unwrap();
    recorder.take_cell(CellHonesty::default()).unwrap()
}

/// The check fails, and its witness has these parts.
#[track_caller]
pub fn assert_convicted(cell: &Cell, name: &str, parts: &[&str]) {
    let report = judge::judge(cell);
    let found = crate::support::check(&report, name);
    assert_eq!(found.verdict, Fail, "{found:?}");
    let witness = found.witness.as_deref().unwrap();
    assert!(parts.iter().all(|part| witness.contains(part)), "{witness}");
}
