//! The planted bugs: `race` convicts who leaks and clears who does not, on both backends.

use rl_lab::model::contract::Bound;
use rl_lab::model::report::{CellReport, Report};
use rl_lab::model::verdict::{Standing, Verdict};
use rl_lab::runner::analyze;

use crate::support::{Lab, cell, check, on_both};

on_both! {
    race_convicts_the_leaks_and_clears_the_rest
    every_limiter_races_as_it_is_known_to
    the_incident_is_told_in_words_and_by_a_command_that_repeats_it
}

/// Exactly the limit, whatever the interleaving: the count decides.
const EXACT: [&str; 3] = ["incr-then-expire", "multi-incr-expire-nx", "fixed-window-lua"];
const BUCKETS: [&str; 4] =
    ["gcra-lua", "gcra-lua:clock=server", "token-bucket-lua", "token-bucket-lua:clock=server"];
const LEAKS: [&str; 2] = ["get-then-incr", "token-bucket-read-write"];

fn admitted(cell: &CellReport) -> Vec<u64> {
    cell.rounds.iter().map(|r| r.admitted).collect()
}

/// For each round, how long its admitted calls took as a whole, in ms: from the first submission
/// to the last answer, so never less than what the limiter saw.
fn spans(lab: &Lab, limiter: &str) -> Vec<f64> {
    let history = analyze::read(&lab.runs()[0].join("history.jsonl")).unwrap();
    let cell = history.cells.iter().find(|c| c.header.limiter == limiter).unwrap();
    let span = |ops: &[rl_lab::model::op::Op]| {
        let first = ops.iter().map(|o| o.invoke.0).min().unwrap();
        let last = ops.iter().map(|o| o.complete.0).filter(|at| *at != i64::MAX).max().unwrap();
        (last - first) as f64 / 1e6
    };
    cell.rounds.iter().map(|r| span(&r.ops)).collect()
}

/// What a bucket may admit over a span: its capacity and what flows in, by the clock's resolution.
fn bucket_allows(cell: &CellReport, span_ms: f64) -> u64 {
    let Bound::Bucket { capacity, refill, window } = cell.contract.bound else {
        panic!("{:?}", cell.contract)
    };
    let refill = refill.get() as f64 * (span_ms + 1.0) / window.millis() as f64;
    capacity.get() + refill as u64
}

/// Every conviction names the key, the round and the calls, and how to see it again.
fn assert_witnesses(report: &Report, lab: &Lab) {
    let run = crate::support::run_id(&lab.runs()[0]);
    let failed =
        |c: &CellReport| c.checks.iter().filter(|k| k.verdict == Verdict::Fail).cloned().collect::<Vec<_>>();
    for cell in &report.cells {
        for check in failed(cell) {
            let witness = check.witness.unwrap();
            let key = format!("key rl-lab:{run}:");
            let ops = check.check == "every-key-expires" || witness.contains("; admitted ops: ");
            assert!(witness.starts_with("round ") && witness.contains(&key) && ops, "{witness}");
            assert!(check.replay.unwrap().contains(&format!("--limiters {}", cell.limiter)));
        }
    }
}

mod cases {
    use super::*;

    pub async fn every_limiter_races_as_it_is_known_to(backend: &str) {
        let lab = Lab::new();
        let report = lab.run(&["race-all", "--backend", backend, "--format", "json"]).exits(0).report();
        let raced = |name: &str| report.cells.iter().any(|c| c.limiter.split(':').next() == Some(name));
        for spec in rl_lab::limiters::ALL {
            assert!(raced(spec.name), "{} is not in race-all", spec.name);
        }
        assert!(report.cells.iter().flat_map(|c| &c.checks).all(|c| c.expected.is_some()));
    }

    pub async fn race_convicts_the_leaks_and_clears_the_rest(backend: &str) {
        let lab = Lab::new();
        let done = lab.run(&["race", "--backend", backend, "--format", "json"]).exits(0);
        let report = done.report();
        assert_eq!((report.exit, report.passed, report.verdict), (0, true, Verdict::Pass));
        assert_eq!(report.cells.len(), LEAKS.len() + EXACT.len() + BUCKETS.len() + 1);
        for cell in &report.cells {
            assert_eq!((cell.backend.as_str(), cell.rounds.len()), (backend, 5), "{}", cell.limiter);
            for round in &cell.rounds {
                assert_eq!((round.offered, round.failed, round.unknown), (200, 0, 0), "{}", cell.limiter);
            }
            for check in &cell.checks {
                assert_eq!(check.outcome, Standing::AsExpected, "{} {}", cell.limiter, check.check);
            }
        }
        let verdict = |limiter, name| check(cell(&report, limiter), name).verdict;

        let counter = cell(&report, "get-then-incr");
        assert!(admitted(counter).iter().all(|n| *n > 10), "{:?}", admitted(counter));
        let bucket = cell(&report, "token-bucket-read-write");
        for (n, span) in admitted(bucket).iter().zip(spans(&lab, "token-bucket-read-write")) {
            assert!(*n > bucket_allows(bucket, span), "{n} in {span} ms");
        }
        for limiter in LEAKS {
            assert_eq!(verdict(limiter, "never-over-limit"), Verdict::Fail, "{limiter}");
            assert_eq!(verdict(limiter, "meets-requirement"), Verdict::Fail, "{limiter}");
        }
        for limiter in EXACT {
            assert_eq!(admitted(cell(&report, limiter)), [10; 5], "{limiter}");
            assert_eq!(verdict(limiter, "never-over-limit"), Verdict::Pass, "{limiter}");
        }
        for limiter in BUCKETS {
            let cell = cell(&report, limiter);
            for (n, span) in admitted(cell).iter().zip(spans(&lab, limiter)) {
                assert!((10..=bucket_allows(cell, span)).contains(n), "{limiter}: {n} in {span} ms");
            }
            assert_eq!(verdict(limiter, "never-over-limit"), Verdict::Pass, "{limiter}");
        }
        assert_eq!(admitted(cell(&report, "in-memory")), [20; 5], "the limit on each of two nodes");
        assert_eq!(verdict("in-memory", "never-over-limit"), Verdict::Pass);
        assert_eq!(verdict("in-memory", "meets-requirement"), Verdict::Fail);
        assert_eq!(verdict("token-bucket-read-write", "every-key-expires"), Verdict::Fail);

        assert_witnesses(&report, &lab);
        lab.run(&["analyze"]).exits(0).prints(&["FAIL (expected)"]);
        lab.assert_nothing_is_left(backend).await;
    }

    pub async fn the_incident_is_told_in_words_and_by_a_command_that_repeats_it(backend: &str) {
        let lab = Lab::new();
        let incident = "race --preset 998 --limit 1000 --connections 50 --in-flight 50 --requests 50 \
                        --limiters get-then-incr,fixed-window-lua --format json";
        let args: Vec<&str> = incident.split_whitespace().chain(["--backend", backend]).collect();
        let report = lab.run(&args).exits(1).report();
        assert_eq!((report.exit, report.verdict), (1, Verdict::Fail));

        let exact = cell(&report, "fixed-window-lua");
        assert_eq!(admitted(exact), [2; 5]);
        assert_eq!(check(exact, "never-over-limit").verdict, Verdict::Pass);
        let leaks = cell(&report, "get-then-incr");
        let convicted = check(leaks, "never-over-limit");
        assert_eq!((convicted.verdict, convicted.outcome), (Verdict::Fail, Standing::Judged));
        let witness = convicted.witness.as_deref().unwrap();
        for part in ["admitted where 1000 may be", "998 used before the round", "window", "admitted ops: "] {
            assert!(witness.contains(part), "{part}: {witness}");
        }
        assert_witnesses(&report, &lab);

        // As printed, in a shell that finds rl-lab on its path.
        let replay = convicted.replay.as_deref().unwrap();
        let folder = std::path::Path::new(env!("CARGO_BIN_EXE_rl-lab")).parent().unwrap().to_str().unwrap();
        let path = format!("{folder}:{}", std::env::var("PATH").unwrap());
        let again =
            lab.program("sh").env("PATH", path).args(["-c", &format!("{replay} --format json")]).output();
        let again = crate::support::Done::from(again.unwrap()).exits(1).report();
        assert_eq!((again.seed, again.cells.len()), (report.seed, 1));
        assert_eq!(check(cell(&again, "get-then-incr"), "never-over-limit").verdict, Verdict::Fail);
        lab.assert_nothing_is_left(backend).await;
    }
}
