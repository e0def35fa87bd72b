//! Servers that are known by name: each convicts and clears as the others, and none is passed over in silence.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use rl_lab::backends::builds;
use rl_lab::model::claims::Found;
use rl_lab::model::figures::Figure;
use rl_lab::model::report::{CellReport, Report};
use rl_lab::model::servers::{self, Build};
use rl_lab::model::verdict::Verdict;

use crate::support::{Done, Lab, check, has_every_server, on_both, usable};

on_both! {
    every_server_convicts_the_leak_and_clears_the_script
}

/// Whether that is the server of a cell.
fn is_of(build: &Build, cell: &CellReport) -> bool {
    cell.server_flavour == build.flavour && cell.server.starts_with(build.series)
}

fn on<'a>(report: &'a Report, build: &Build, limiter: &str) -> &'a CellReport {
    let mut cells = report.cells.iter().filter(|c| is_of(build, c) && c.limiter == limiter);
    let cell = cells.next().unwrap_or_else(|| panic!("{} has no {limiter}", build.name));
    assert!(cells.next().is_none(), "{} has {limiter} twice", build.name);
    cell
}

mod cases {
    use super::*;

    pub async fn every_server_convicts_the_leak_and_clears_the_script(backend: &str) {
        if !has_every_server(backend).await {
            return;
        }
        let lab = Lab::new();
        let limiters = ["get-then-incr", "fixed-window-lua"];
        let call = ["race", "--server", "all", "--backend", backend, "--limiters", &limiters.join(",")];
        let report = lab.run(&[&call[..], &["--format", "json"]].concat()).exits(0).report();
        assert_eq!(report.cells.len(), servers::ALL.len() * limiters.len());
        assert_eq!(report.scenarios.len(), 1);
        for build in &servers::ALL {
            let leak = check(on(&report, build, limiters[0]), "never-over-limit");
            let script = check(on(&report, build, limiters[1]), "never-over-limit");
            assert_eq!((leak.verdict, script.verdict), (Verdict::Fail, Verdict::Pass), "{}", build.name);
            let replay = leak.replay.as_ref().unwrap();
            assert!(replay.contains(&format!(" --backend {backend} --server {} ", build.name)), "{replay}");
            assert!(report.honesty.builds.iter().any(|b| b.starts_with(&format!("{}: ", build.name))));
        }
        // Those of one limiter stand beside each other.
        let order: Vec<&str> = report.cells.iter().map(|c| c.limiter.as_str()).collect();
        assert!(order[..servers::ALL.len()].iter().all(|l| *l == limiters[0]), "{order:?}");
        let again = lab.run(&["analyze", "latest", "--format", "json"]).exits(0).report();
        assert_eq!((again.cells, again.honesty.builds), (report.cells, report.honesty.builds));
        lab.assert_nothing_is_left(backend).await;
    }
}

#[tokio::test]
async fn what_takes_a_newer_server_does_not_apply_to_an_old_one_whatever_the_scenario() {
    if !has_every_server("local").await {
        return;
    }
    let old = Build::find("6.2").unwrap();
    let lab = Lab::new();
    for scenario in ["race", "crash"] {
        let call = [scenario, "--server", "6.2", "--backend", "local", "--format", "json"];
        let limiters = ["--limiters", "multi-incr-expire-nx,fixed-window-lua"];
        let report = lab.run(&[&call[..], &limiters[..]].concat()).exits(0).report();
        let verdicts = |limiter: &str| -> Vec<Verdict> {
            on(&report, old, limiter).checks.iter().map(|c| c.verdict).collect()
        };
        assert!(verdicts("multi-incr-expire-nx").iter().all(|v| *v == Verdict::NotApplicable), "{scenario}");
        assert!(verdicts("fixed-window-lua").iter().all(|v| *v == Verdict::Pass), "{scenario}");
    }
}

/// A server before 7.0 tells in how long a key expires, and not when. Thousands of waits are skipped here; were a millisecond
/// lost in some of them, keys would live on, and a limiter that goes by their expiry would refuse calls that have room.
#[tokio::test]
async fn skipped_waits_are_exact_on_a_server_that_tells_no_moments() {
    if !has_every_server("local").await {
        return;
    }
    let old = Build::find("6.2").unwrap();
    let lab = Lab::new();
    let call = |scenario, limiter| {
        let call = [scenario, "--server", "6.2", "--backend", "local", "--format", "json"];
        lab.run(&[&call[..], &["--limiters", limiter]].concat()).exits(0).report()
    };
    for run in 1..=3 {
        let report = call("skew-window", "laravel-throttle,fixed-window-lua");
        let verdicts = report.cells.iter().filter(|c| is_of(old, c) && !c.clocks.is_empty());
        let verdicts: Vec<Verdict> = verdicts.map(|c| check(c, "clock-independent").verdict).collect();
        assert!(
            verdicts.len() == 8 && verdicts.iter().all(|v| *v == Verdict::Pass),
            "run {run}: {verdicts:?}"
        );
    }
    let report = call("equivalence", "fixed-window-lua");
    let models = report.cells.iter().map(|c| check(c, "matches-model"));
    assert!(models.clone().count() > 0 && models.clone().all(|m| m.verdict == Verdict::Pass));
}

/// A script that reaches for a key it does not declare is stopped by every server, each in its own words.
#[tokio::test]
async fn undeclared_keys_are_found_on_every_server() {
    if !has_every_server("local").await {
        return;
    }
    let call = ["cluster", "--server", "all", "--backend", "local", "--format", "json"];
    let watched = ["--limiters", "sliding-counter-lua,gcra-lua", "--variation", "one node, keys watched"];
    let report = Lab::new().run(&[&call[..], &watched[..]].concat()).exits(0).report();
    for build in &servers::ALL {
        let verdict = |limiter| check(on(&report, build, limiter), "keys-declared-and-one-slot").verdict;
        let found = (verdict("sliding-counter-lua"), verdict("gcra-lua"));
        assert_eq!(found, (Verdict::Fail, Verdict::Pass), "{}", build.name);
    }
}

/// On whatever server there is.
#[tokio::test]
async fn every_disputed_claim_comes_out_as_it_is_known_to() {
    if !usable("local").await {
        return;
    }
    let lab = Lab::new();
    let report = lab.run(&["disputed-claims", "--backend", "local", "--format", "json"]).exits(0).report();
    let claims = report.claims.unwrap();
    let numbers: BTreeSet<u32> = claims.rows.iter().filter_map(|r| r.case).collect();
    assert_eq!(numbers, (1..=8).collect(), "each dispute has a claim");
    for row in &claims.rows {
        assert_eq!(row.found, row.known, "{}", row.claim);
        let decided = row.trials.iter().any(|t| t.as_claimed.is_some());
        assert!(decided && row.found_on.is_empty(), "{}", row.claim);
        // What falls is felled by something that was measured.
        let felled = row.trials.iter().any(|t| t.as_claimed == Some(false));
        assert_eq!(felled, row.found == Found::Contradicted, "{}", row.claim);
    }
    lab.run(&["disputed-claims", "--only", "9"]).exits(2).says(&["the numbers go from 1 to 8"]);
}

/// What is disputed about TIME, on each of the servers.
#[tokio::test]
async fn time_stands_still_in_a_script_from_7_2_on_and_is_refused_nowhere() {
    if !has_every_server("local").await {
        return;
    }
    let lab = Lab::new();
    let call =
        ["disputed-claims", "--only", "1", "--server", "all", "--backend", "local", "--format", "json"];
    let report = lab.run(&call).exits(0).report();
    let claims = report.claims.unwrap();
    assert_eq!(claims.servers.len(), servers::ALL.len());
    let [refused, replica, moves] = claims.rows.as_slice() else { panic!("{:?}", claims.rows) };
    for row in [refused, replica] {
        assert_eq!(row.found_on, vec![Some(Found::Contradicted); servers::ALL.len()], "{}", row.claim);
    }
    assert_eq!(moves.found_on, vec![Some(Found::Holds); servers::ALL.len()]);
    let denied = |build: &Build| {
        let cells = report.cells.iter().filter(|c| is_of(build, c) && c.limiter == "claim-time-moves");
        cells.map(|c| c.figures[&Figure::DeniedPercent]).collect::<Vec<_>>()
    };
    let found: Vec<_> = servers::ALL.iter().map(denied).collect();
    assert_eq!(found, [[0.0], [0.0], [100.0], [100.0], [100.0]]);
}

/// A folder in place of the cache, with the server of one build under the name of another.
fn cache(lab: &Lab, named: &Build, of: &Build) -> String {
    let folder = lab.path("servers").join(named.name);
    std::fs::create_dir_all(&folder).unwrap();
    let (program, _) = builds::program(of).unwrap();
    std::os::unix::fs::symlink(program, folder.join(named.program())).unwrap();
    lab.path("servers").display().to_string()
}

#[tokio::test]
async fn a_server_that_is_not_there_is_never_passed_over_in_silence() {
    if !has_every_server("local").await {
        return;
    }
    let newest = Build::find("8.2").unwrap();
    let lab = Lab::new();
    let folder = cache(&lab, newest, newest);
    let lab = lab.env("RL_LAB_SERVERS", &folder).env("PATH", "/nonexistent");
    let race = |server: &str| -> Done {
        let flags = ["--backend", "local", "--limiters", "fixed-window-lua", "--format", "json"];
        lab.run(&[&["race", "--server", server], &flags[..]].concat())
    };
    assert_eq!(race("8.2").exits(0).report().cells.len(), 1);
    // Named, it has to be there, and nothing is run without it.
    let done = race("8.2,6.2,7.0").exits(3).says(&["`scripts/servers 6.2` fetches it", "server 7.0: "]);
    assert!(done.report().cells.is_empty());
    // Of all of them the rest is run, and what holds there is not taken for more.
    let told = ["server 6.2: ", "`scripts/servers valkey-9.1` fetches it"];
    let report = race("all").exits(4).says(&told).report();
    assert_eq!((report.cells.len(), report.verdict), (1, Verdict::Unknown));
    assert_eq!((report.honesty.missing.len(), report.finished), (servers::ALL.len() - 1, true));
    let again = lab.run(&["analyze", "latest", "--format", "json"]).exits(4).report();
    assert_eq!((again.verdict, again.honesty.missing), (report.verdict, report.honesty.missing));
    // None at all is an environment to mend.
    let bare = Lab::with_nothing().env("RL_LAB_SERVERS", "/nonexistent");
    bare.run(&["race", "--server", "all"]).exits(3).says(&["`scripts/servers 6.2` fetches it"]);
    bare.run(&["race", "--server", "8.2", "--backend", "docker"])
        .exits(3)
        .says(&["no Docker engine answers"]);
}

#[tokio::test]
async fn what_is_in_a_servers_place_and_is_another_is_not_run() {
    if !has_every_server("local").await {
        return;
    }
    let (old, new) = (Build::find("6.2").unwrap(), Build::find("8.2").unwrap());
    let lab = Lab::new();
    let folder = cache(&lab, old, new);
    let lab = lab.env("RL_LAB_SERVERS", &folder);
    let done = lab.run(&["race", "--server", "6.2", "--backend", "local"]).exits(3);
    let _ = done.says(&["server 6.2: ", " is 8.2.", "`scripts/servers 6.2` fetches it"]);
}

#[test]
fn a_server_by_name_beside_one_by_place_is_refused() {
    let lab = Lab::new().env("RL_LAB_IMAGE", "").env("RL_LAB_REDIS_SERVER", "");
    for other in [["--image", "redis:7"], ["--redis-server", "/usr/bin/redis-server"]] {
        lab.run(&[&["race", "--server", "8.2"], &other[..]].concat()).exits(2).says(&[other[0], "--server"]);
    }
    lab.run(&["race", "--server", "8.3"]).exits(2).says(&["unknown server '8.3'", "valkey-9.1"]);
    lab.run(&["race", "--server", "all,6.2"]).exits(2).says(&["unknown server 'all'"]);
    lab.run(&["explore", "L01", "--server", "6.2,7.0"]).exits(2).says(&["one server at a time"]);
    lab.file("rl-lab.toml", "schema = 1\nserver = \"8.2\"\nimage = \"redis:7\"\n");
    lab.run(&["race", "--dry-run"]).exits(2).says(&["rl-lab.toml:2:", "say one of them"]);
    lab.file(
        "rl-lab.toml",
        "schema = 1\nserver = \"6.2\"\n[profile.quick]\nscenarios = [\"race\"]\nlimiters = [\"L01\"]\n",
    );
    lab.run(&["gate", "--server", "all"]).exits(2).says(&["gate runs on one server at a time"]);
    lab.run(&["gate", "--dry-run"]).exits(0).prints(&["servers 6.2"]);
    lab.run(&["race", "--dry-run"]).exits(0).prints(&["servers 6.2"]);
    lab.run(&["race", "--dry-run", "--server", "7.0"]).exits(0).prints(&["servers 7.0"]);
    let asked = lab.run(&["race", "--dry-run", "--redis-server", "/x"]).exits(0);
    assert!(!asked.stdout.contains("servers 6.2"), "{}", asked.stdout);
    let lab = lab.env("RL_LAB_SERVER", "valkey-8.1");
    lab.run(&["race", "--dry-run"]).exits(0).prints(&["servers valkey-8.1"]);
}

#[tokio::test]
async fn a_gate_runs_on_the_server_of_its_file_and_says_so_where_it_is_repeated() {
    if !has_every_server("local").await {
        return;
    }
    let lab = Lab::new();
    lab.file(
        "rl-lab.toml",
        "schema = 1\nbackend = \"local\"\nserver = \"valkey-9.1\"\n[profile.quick]\nscenarios = [\"race\"]\nlimiters = [\"L01\"]\n",
    );
    let report = lab.run(&["gate", "--format", "json"]).exits(1).report();
    assert!(report.cells.iter().all(|c| is_of(Build::find("valkey-9.1").unwrap(), c)));
    let replay = report.gate.unwrap().results.into_iter().find_map(|r| r.replay).unwrap();
    assert!(replay.contains(" --server valkey-9.1 "), "{replay}");
    let words: Vec<&str> = replay.split(' ').skip(1).collect();
    let again = lab.run(&[&words[..], &["--format", "json"]].concat()).exits(1).report();
    assert_eq!(again.cells[0].server, report.cells[0].server);
}

#[tokio::test]
async fn a_server_in_the_cache_that_is_not_whole_is_missing_to_the_script() {
    if !has_every_server("local").await {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/servers");
    let build = Build::find("valkey-9.1").unwrap();
    let lab = Lab::new();
    let (program, _) = builds::program(build).unwrap();
    let folder = lab.path("servers").join(build.name);
    std::fs::create_dir_all(&folder).unwrap();
    for file in std::fs::read_dir(program.parent().unwrap()).unwrap().flatten() {
        std::fs::copy(file.path(), folder.join(file.file_name())).unwrap();
    }
    let check = |args: &[&str]| {
        let mut command: Command = lab.program(&script);
        command.env("RL_LAB_SERVERS", lab.path("servers")).args(args);
        Done::from(command.output().unwrap())
    };
    check(&["--check", build.name]).exits(0).prints(&["valkey-9.1: 9.1.", "in place"]);
    let copy = folder.join(build.program());
    let mut bytes = std::fs::read(&copy).unwrap();
    bytes.push(0);
    std::fs::write(&copy, bytes).unwrap();
    check(&["--check", build.name])
        .exits(1)
        .says(&["valkey-9.1: missing; scripts/servers valkey-9.1 fetches it"]);
    check(&["--check", "9.1"]).exits(2).says(&["there is no build '9.1'"]);
}
