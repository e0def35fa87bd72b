//! Reports built by hand, for the tests of the formats.

use std::collections::BTreeMap;

use crate::model::contract::{Bound, Contract, DecidingClock, Denials, OnOutage, Scope};
use crate::model::figures::Chart;
use crate::model::gate::{Gate, tests as gates};
use crate::model::report::{
    CellHonesty, CellReport, CheckReport, Honesty, Report, RoundCounts, SCHEMA, ScenarioSummary,
};
use crate::model::units::{Limit, Seed, Window};
use crate::model::verdict::{Verdict, standing};

/// Rounds of 200 calls with these admitted.
pub fn rounds(admitted: &[u64]) -> Vec<RoundCounts> {
    let of = |&n: &u64| RoundCounts {
        offered: n.max(200),
        admitted: n,
        denied: n.max(200) - n,
        ..RoundCounts::default()
    };
    admitted.iter().map(of).collect()
}

/// A cell at limit 10 that no checker has judged.
pub fn cell(limiter: &str, admitted: &[u64]) -> CellReport {
    let limit = Limit::new(10).unwrap();
    CellReport {
        scenario: "race".to_owned(),
        limiter: limiter.to_owned(),
        params: BTreeMap::new(),
        variation: None,
        policy: None,
        client: "waits-for-reconnect".to_owned(),
        backend: "local".to_owned(),
        server: "7.0.15".to_owned(),
        server_flavour: "redis".to_owned(),
        limit,
        contract: Contract {
            bound: Bound::FixedWindow { limit, window: Window::from_millis(60_000).unwrap() },
            scope: Scope::Global,
            clock: DecidingClock::Expiry,
            clock_resolution_ms: 1,
            denials: Denials::Charged,
            on_outage: OnOutage::Error,
            fallback: None,
            key_ttl_at_most: Some(Window::from_millis(60_000).unwrap()),
            lockout: None,
            across_keys: None,
            algorithm: None,
            round_trips_at_most: Some(1),
            in_background: false,
        },
        requirement: None,
        rounds: rounds(admitted),
        checks: Vec::new(),
        figures: Default::default(),
        search: None,
        adapters: Vec::new(),
        clocks: Vec::new(),
        place: None,
        told: Vec::new(),
        honesty: CellHonesty { generator_cpu: 0.61, overlap: 200, ..CellHonesty::default() },
        errors: BTreeMap::new(),
    }
}

pub fn check(name: &str, verdict: Verdict, expected: Option<Verdict>, text: &str) -> CheckReport {
    let fail = verdict == Verdict::Fail;
    CheckReport {
        check: name.to_owned(),
        verdict,
        expected,
        outcome: standing(verdict, expected),
        witness: fail.then(|| text.to_owned()),
        why: (!fail).then(|| text.to_owned()),
        replay: fail.then(|| "rl-lab race --seed 42 --limiters 'get-then-incr' --rounds 5".to_owned()),
        scene: None,
    }
}

/// Three checks as the race scenario has them; `over` is what was expected of the first.
pub fn judged(mut cell: CellReport, over: Option<Verdict>) -> CellReport {
    let most = cell.rounds.iter().map(|r| r.admitted).max().unwrap_or(0);
    let verdict = if most > cell.limit.get() { Verdict::Fail } else { Verdict::Pass };
    let text = match verdict {
        Verdict::Fail => format!(
            "round 1: {most} calls (#0 … #{}) admitted between 0.412 ms and 3.207 ms, \
             wholly inside one 60s window that allows {}",
            most - 1,
            cell.limit
        ),
        _ => "0 of 5 rounds over the limit, p ≤ 0.60 at 95 %; up to 200 calls open at once".to_owned(),
    };
    cell.checks = vec![
        check("never-over-limit", verdict, over, &text),
        check("meets-requirement", verdict, over, &text),
        check("every-key-expires", Verdict::Pass, None, "5 keys read back, each with 0 < PTTL ≤ 60s"),
    ];
    cell
}

/// As written: two known culprits, two limiters that hold.
pub fn race() -> Report {
    let fail = Some(Verdict::Fail);
    report(vec![
        judged(cell("get-then-incr", &[200, 200, 198, 200, 200]), fail),
        judged(cell("token-bucket-read-write", &[20, 50, 50, 48, 50]), fail),
        judged(cell("fixed-window-lua", &[10, 10, 10, 10, 10]), Some(Verdict::Pass)),
        judged(cell("gcra-lua:clock=server", &[10, 10, 10, 10, 10]), Some(Verdict::Pass)),
    ])
}

/// 998 of 1000 used, then 50 calls at once: one limiter leaks, one does not.
pub fn incident() -> Report {
    let mut cells = vec![cell("get-then-incr", &[50, 50, 50]), cell("fixed-window-lua", &[2, 2, 2])];
    for cell in &mut cells {
        cell.limit = Limit::new(1000).unwrap();
        let window = Window::from_millis(60_000).unwrap();
        cell.contract.bound = Bound::FixedWindow { limit: cell.limit, window };
        for round in &mut cell.rounds {
            *round = RoundCounts { offered: 50, denied: 50 - round.admitted, preset: 998, ..round.clone() };
        }
    }
    let witness = "round 1: 998 used before, 50 more admitted in 2.110 ms where 2 were left";
    cells[0].checks = vec![check("never-over-limit", Verdict::Fail, None, witness)];
    cells[1].checks = vec![check("never-over-limit", Verdict::Pass, None, "0 of 3 rounds over the limit")];
    let mut report = report(cells);
    report.scenarios[0].as_written = false;
    report.scenarios[0].terms =
        "parameters changed: verdicts are judged, expectations do not apply".to_owned();
    (report.verdict, report.passed, report.exit) = (Verdict::Fail, false, 1);
    report
}

/// A gate of these limiters under `race`, with what its one check says of each.
pub fn gate(verdicts: &[(&str, Verdict)]) -> Report {
    let names: Vec<&str> = verdicts.iter().map(|(name, _)| *name).collect();
    let cells: Vec<CellReport> = verdicts.iter().map(|(n, v)| gates::cell(n, *v, &[])).collect();
    let gate = Gate::of(&gates::plan(&names), &cells);
    Report { gate: Some(gate), verdict: Verdict::Fail, passed: false, exit: 1, ..report(cells) }
}

/// Ended before its first cell.
pub fn stillborn() -> Report {
    let error = "no engine answers at unix:///var/run/docker.sock; start Docker, or use --backend local";
    let mut report = report(Vec::new());
    (report.error, report.out) = (Some(error.to_owned()), None);
    (report.verdict, report.passed, report.exit) = (Verdict::Unknown, false, 3);
    report
}

pub fn report(cells: Vec<CellReport>) -> Report {
    Report {
        finished: true,
        schema: SCHEMA,
        passed: true,
        verdict: Verdict::Pass,
        exit: 0,
        error: None,
        run: "r7f3a".to_owned(),
        lab: "0.1.0".to_owned(),
        started: "2025-01-31T12:00:00Z".to_owned(),
        seed: Seed(42),
        command: ["rl-lab", "race", "--seed", "42"].map(str::to_owned).to_vec(),
        out: Some("out/20250131T120000-race-42".to_owned()),
        honesty: Honesty {
            backend: "local".to_owned(),
            chosen_because: "no container engine answers".to_owned(),
            network_path: Some("loopback".to_owned()),
            cores: 2,
            ..Honesty::default()
        },
        matrix: None,
        claims: None,
        gate: None,
        scenarios: vec![ScenarioSummary {
            name: "race".to_owned(),
            title: "Race: 200 calls at once".to_owned(),
            shows: "Check-then-act admits whoever reads before the first writer writes.".to_owned(),
            need: None,
            as_written: true,
            terms: "as written: verdicts are compared with what the scenario expects".to_owned(),
            plan: "burst of 200 calls, 200 in flight over 20 connections from 2 nodes, 5 rounds".to_owned(),
            requires: Some("at most 10 in each 60s window, all nodes together".to_owned()),
            figures: Vec::new(),
            chart: Chart::Admitted,
        }],
        cells,
    }
}
