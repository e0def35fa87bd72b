//! Who watches the checkers: limiters that are known to be good, each broken in one place, must be
//! convicted by some check that clears the whole one.

mod catalogue;
mod store;

use std::collections::BTreeSet;
use std::net::SocketAddr;

use rl_lab::clients::Profile;
use rl_lab::model::history::{CellHeader, Event, RunHeader};
use rl_lab::model::report::{CellHonesty, CellReport, ServerInfo};
use rl_lab::model::scenario::LimiterRef;
use rl_lab::model::units::Seed;
use rl_lab::model::verdict::Verdict;
use rl_lab::ports::route::Configured;
use rl_lab::runner::drive::{self, Drive};
use rl_lab::runner::plan::{self, Overrides};
use rl_lab::runner::record::{Recorder, Stop};
use rl_lab::runner::{execute, judge, scenarios};

use crate::ground::Ground;
use catalogue::{MUTANTS, SURVIVORS};

/// What each of them is put through: the scenario, its variation, and rounds.
const TRIALS: &[(&str, Option<&str>, Option<u32>)] = &[
    ("race-all", None, Some(2)),
    ("promises", None, None),
    ("polling", None, None),
    ("retry-after", None, None),
    ("equivalence", Some("mixed costs"), None),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_good_limiter_broken_in_one_place_is_convicted() {
    let Some(ground) = Ground::start("mutants").await else { return };
    let mut limiters: Vec<&str> = MUTANTS.iter().map(|m| m.limiter).collect();
    limiters.dedup();
    assert!(limiters.len() >= 8, "{limiters:?}");
    let mut survivors = Vec::new();
    for limiter in limiters {
        store::mutate(None);
        let whole = convictions(ground.address, limiter).await;
        for mutant in MUTANTS.iter().filter(|m| m.limiter == limiter) {
            store::mutate(Some(&mutant.what));
            let broken = convictions(ground.address, limiter).await;
            assert!(store::struck(), "{limiter}, {}: nothing of it was ever changed", mutant.name);
            let by: Vec<&String> = broken.difference(&whole).collect();
            println!("{limiter}, {}: {by:?}", mutant.name);
            if by.is_empty() {
                survivors.push((limiter, mutant.name));
            }
        }
    }
    let known: Vec<(&str, &str)> = SURVIVORS.iter().map(|s| (s.0, s.1)).collect();
    assert_eq!(survivors, known, "of {} mutants", MUTANTS.len());
    assert!(survivors.len() * 20 <= MUTANTS.len(), "{} of {} survive", survivors.len(), MUTANTS.len());
    ground.end().await;
}

/// The checks that convict, with their scenarios.
async fn convictions(address: SocketAddr, limiter: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for trial in TRIALS {
        let report = tried(address, limiter, trial).await;
        let fails = report.checks.iter().filter(|c| c.verdict == Verdict::Fail);
        all.extend(fails.map(|c| format!("{} {}", trial.0, c.check)));
    }
    all
}

async fn tried(address: SocketAddr, limiter: &str, trial: &(&str, Option<&str>, Option<u32>)) -> CellReport {
    let (scenario, variation, rounds) = *trial;
    let limiter: LimiterRef = limiter.parse().unwrap();
    let changes = Overrides {
        limiters: vec![limiter],
        variations: variation.into_iter().map(str::to_owned).collect(),
        rounds: rounds.and_then(std::num::NonZeroU32::new),
        ..Overrides::default()
    };
    let mut plan = plan::plan(scenarios::find(scenario).unwrap(), &changes, Seed(1)).unwrap();
    let profile: &'static Profile = &store::PROFILE;
    plan.cells[0].client = profile;
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
    let server = ServerInfo { flavour: "redis".to_owned(), version: "7.0.15".to_owned() };
    let header: CellHeader = execute::header(&plan, cell, &server, "local");
    recorder.event(Event::Cell(Box::new(header)));
    let prefix = format!("rl-lab:it:{}", store::fresh());
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
        hook: None,
        workers: None,
        round_done: &|_| (),
    };
    drive::drive(driving).await.unwrap();
    judge::judge(&recorder.take_cell(CellHonesty::default()).unwrap())
}
