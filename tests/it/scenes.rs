//! Scenarios that show figures: who is convicted, and what is measured beside it.

use rl_lab::model::figures::Figure;
use rl_lab::model::history::{Cell, Round};
use rl_lab::model::report::{CellReport, Report};
use rl_lab::model::verdict::{Standing, Verdict};
use rl_lab::runner::analyze;

use crate::support::{Lab, cell, check, on_both, usable};

on_both! {
    a_burst_on_either_side_of_an_edge_convicts_whoever_counts_windows
    a_log_takes_a_thousand_times_what_a_counter_takes
    round_trips_are_what_a_decision_costs
    a_forgotten_script_costs_one_round_trip_and_no_answer
}

/// A run as written, of some of its limiters.
pub fn run(lab: &Lab, scenario: &str, backend: &str, limiters: &str, more: &[&str]) -> Report {
    let args = [&[scenario, "--backend", backend, "--format", "json", "--limiters", limiters], more].concat();
    let report = lab.run(&args).exits(0).report();
    for check in report.cells.iter().flat_map(|c| &c.checks) {
        assert_eq!(check.outcome, Standing::AsExpected, "{scenario}: {check:?}");
    }
    report
}

#[track_caller]
pub fn figure(cell: &CellReport, figure: Figure) -> f64 {
    let told = cell.figures.get(&figure).copied();
    told.unwrap_or_else(|| panic!("{} of {}: {:?}", figure.name(), cell.limiter, cell.figures))
}

pub fn varied<'a>(report: &'a Report, limiter: &str, variation: &str) -> &'a CellReport {
    let of = |c: &&CellReport| c.limiter == limiter && c.variation.as_deref() == Some(variation);
    report.cells.iter().find(of).unwrap_or_else(|| panic!("no {limiter} ({variation})"))
}

/// The cells of the lab's one run, as recorded.
fn recorded(lab: &Lab) -> Vec<Cell> {
    analyze::read(&lab.runs()[0].join("history.jsonl")).unwrap().cells
}

mod cases {
    use super::*;

    pub async fn a_burst_on_either_side_of_an_edge_convicts_whoever_counts_windows(backend: &str) {
        let lab = Lab::new();
        let all =
            "fixed-window-lua,fixed-window-numbered,sliding-log-lua,sliding-counter-lua,token-bucket-lua";
        let report = run(&lab, "boundary", backend, all, &[]);
        let most = |limiter: &str| figure(cell(&report, limiter), Figure::MostInWindow);
        let found = |limiter: &str, name: &str| check(cell(&report, limiter), name).verdict;
        for limiter in all.split(',') {
            assert_eq!(found(limiter, "never-over-limit"), Verdict::Pass, "{limiter} keeps its promise");
        }
        for limiter in ["fixed-window-lua", "fixed-window-numbered"] {
            assert_eq!(cell(&report, limiter).rounds[0].admitted, 200, "{limiter}");
            assert_eq!(most(limiter), 199.0, "all but the call that opened the first window");
            assert_eq!(found(limiter, "meets-requirement"), Verdict::Fail, "{limiter}");
        }
        assert_eq!(most("sliding-log-lua"), 100.0);
        assert_eq!(found("sliding-log-lua", "meets-requirement"), Verdict::Pass);
        // 99 and the three that the weight has given back, and one more for each 50 ms that it took.
        assert!((102.0..120.0).contains(&most("sliding-counter-lua")));
        assert_eq!(found("sliding-counter-lua", "meets-requirement"), Verdict::Fail);
        // 99, and 33 that flowed in since, or somewhat more.
        assert!((132.0..150.0).contains(&most("token-bucket-lua")));
        lab.run(&["analyze"]).exits(0).prints(&["most admitted in one window", "199"]);
        lab.assert_nothing_is_left(backend).await;
    }

    pub async fn a_log_takes_a_thousand_times_what_a_counter_takes(backend: &str) {
        let lab = Lab::new();
        let all = "sliding-log-lua,sliding-log-pipeline,sliding-counter-lua,in-memory";
        let report = run(&lab, "memory", backend, all, &[]);
        let of = |limiter, limit, what| figure(varied(&report, limiter, limit), what);
        let log = of("sliding-log-lua", "limit 10000", Figure::BytesPerIdentity);
        let counter = of("sliding-counter-lua", "limit 10000", Figure::BytesPerIdentity);
        assert!(log > 1000.0 * counter, "{log} for the log, {counter} for the counter");
        // Two thousand are refused: one log leaves them out, one holds them as well.
        for (limiter, entries) in [("sliding-log-lua", 8_000.0), ("sliding-log-pipeline", 10_000.0)] {
            assert_eq!(of(limiter, "limit 8000", Figure::EntriesPerIdentity), entries, "{limiter}");
            assert_eq!(of(limiter, "limit 8000", Figure::DeniedPercent), 20.0, "{limiter}");
        }
        assert_eq!(of("sliding-counter-lua", "limit 8000", Figure::EntriesPerIdentity), 2.0, "two windows");
        assert_eq!(of("in-memory", "limit 8000", Figure::BytesPerIdentity), 0.0);
    }

    pub async fn round_trips_are_what_a_decision_costs(backend: &str) {
        let lab = Lab::new();
        let limiters = [
            ("in-memory", 0.0),
            ("fixed-window-lua", 1.0),
            ("get-then-incr", 2.0),
            ("laravel-throttle", 4.0),
        ];
        let all = limiters.map(|(name, _)| name).join(",");
        let report =
            run(&lab, "cost", backend, &all, &["--variation", "next door", "--variation", "100 ms away"]);
        for (limiter, trips) in limiters {
            let near = varied(&report, limiter, "next door");
            // One more in two thousand calls: the script that is loaded, the expiry that is set.
            let measured = figure(near, Figure::RoundTripsPerDecision);
            assert!((trips..=trips + 0.002).contains(&measured), "{limiter}: {measured}");
            let most = figure(near, Figure::MostRoundTrips);
            assert!((trips..=trips + 1.0).contains(&most), "{limiter}: {most}");
            // What the distance adds cannot be less than it is.
            let far = figure(varied(&report, limiter, "100 ms away"), Figure::P50Ms);
            assert!(far >= 100.0 * trips, "{limiter}: {far}");
        }
        lab.run(&["analyze", "--format", "csv"])
            .exits(0)
            .prints(&[",variation,", ",round-trips-per-decision,"]);
    }

    pub async fn a_forgotten_script_costs_one_round_trip_and_no_answer(backend: &str) {
        let lab = Lab::new();
        let report =
            run(&lab, "noscript", backend, "gcra-lua,sliding-counter-lua,laravel-throttle-redis", &[]);
        assert!(report.cells.iter().all(|c| figure(c, Figure::Undecided) == 0.0));
        for cell in recorded(&lab) {
            let limiter = &cell.header.limiter;
            // Ten pass and five are refused; Laravel looks and counts, or only looks.
            let (calls, one) = if limiter == "laravel-throttle-redis" { (25, 2) } else { (15, 1) };
            for round in &cell.rounds {
                assert_eq!((round.acts.len(), between(round)), (3, true), "{limiter}");
                assert_eq!((round.trips, round.most_trips), (calls + 3, one + 1), "{limiter}");
            }
        }
    }
}

/// Whether no call was open while somebody else acted.
fn between(round: &Round) -> bool {
    round.acts.iter().all(|a| round.ops.iter().all(|o| o.complete <= a.invoke || o.invoke >= a.complete))
}

#[tokio::test]
async fn the_share_that_is_refused_is_what_the_limit_implies() {
    if !usable("local").await {
        return;
    }
    let report = run(&Lab::new(), "steady", "local", "fixed-window-lua,fixed-window-numbered,gcra-lua", &[]);
    // Derived in the scenario's file. A machine that stands still moves a call or two of 120.
    for (limiter, share) in [("fixed-window-lua", 50.0), ("fixed-window-numbered", 49.0), ("gcra-lua", 33.3)]
    {
        let measured = figure(cell(&report, limiter), Figure::DeniedPercent);
        assert!((measured - share).abs() < 1.0, "{limiter}: {measured} where {share} is implied");
    }
}

/// Drawn costs may all be above the limit, or none: with these seeds some limiters admitted nobody.
#[tokio::test]
async fn calls_drawn_from_any_seed_are_admitted_and_refused() {
    if !usable("local").await {
        return;
    }
    let some = "fixed-window-lua,sliding-log-pipeline,token-bucket-lua:capacity=3";
    let dear = ["--variation", "cost above the limit", "--variation", "cost 2^32 - 1"];
    for seed in ["4", "5"] {
        let report = run(&Lab::new(), "sweep", "local", some, &[&dear[..], &["--seed", seed]].concat());
        assert_eq!(report.cells.len(), 6);
        for cell in &report.cells {
            let round = &cell.rounds[0];
            assert!(round.admitted > 0 && round.denied > 0, "seed {seed}, {}: {round:?}", cell.limiter);
        }
    }
}

#[tokio::test]
async fn a_busy_script_goes_on_beside_the_calls() {
    if !usable("local").await {
        return;
    }
    let lab = Lab::new();
    run(&lab, "long-script", "local", "fixed-window-lua,in-memory", &[]);
    let cells = recorded(&lab);
    // What was begun is over before anybody connects for what comes next.
    for pair in cells.windows(2) {
        let ends = pair[0].rounds[0].acts.iter().map(|act| act.complete);
        assert!(ends.max() < Some(pair[1].rounds[0].began), "{:?}", pair[1].header.variation);
    }
    let acts = |name: &str| {
        let cell = cells.iter().find(|c| c.header.variation.as_deref() == Some(name)).unwrap();
        (cell.rounds[0].acts.len(), between(&cell.rounds[0]))
    };
    assert_eq!(acts("alone"), (0, true));
    let (times, between) = acts("beside a 10 ms script");
    assert!((1..=150).contains(&times) && !between, "{times} times, {between}");
}

#[tokio::test]
async fn a_pool_that_runs_dry_fails_calls_and_admits_no_more_than_the_limit() {
    if !usable("local").await {
        return;
    }
    let lab = Lab::new();
    let both = ["--variation", "10 ms away", "--variation", "100 ms away"];
    let report = run(&lab, "pool", "local", "fixed-window-lua,get-then-incr", &both);
    let of = |limiter, away| varied(&report, limiter, away);
    let dry = of("fixed-window-lua", "100 ms away");
    assert_eq!(dry.rounds[0].admitted, 10);
    assert!(figure(dry, Figure::Undecided) > 0.0);
    assert!(dry.errors.keys().all(|e| e.starts_with("not connected: pool timed out")), "{:?}", dry.errors);
    // One call at a time on each of twenty connections: the tenth is counted before the thirtieth asks.
    let leaked = of("get-then-incr", "10 ms away").rounds[0].admitted;
    assert!((11..=29).contains(&leaked), "{leaked}");
}

#[tokio::test]
async fn a_wait_that_is_always_the_whole_window_is_convicted_by_whoever_is_refused_late_in_it() {
    if !usable("local").await {
        return;
    }
    let lab = Lab::new();
    let all = ["case-hint-whole-window", "case-hint-what-is-left", "fixed-window-lua"];
    for window in ["2s", "60s"] {
        let limiters = all.join(",");
        let args = ["retry-after", "--backend", "local", "--strict", "--format", "json", "--window", window];
        let report = lab.run(&[&args[..], &["--limiters", &limiters]].concat()).exits(1).report();
        let verdict = |limiter: &str| check(cell(&report, limiter), "retry-after-honest").verdict;
        assert_eq!(all.map(verdict), [Verdict::Fail, Verdict::Pass, Verdict::Pass], "{window}");
    }
}
