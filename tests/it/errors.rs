//! Whatever goes wrong: the exit code, words that help, and stdout that can still be read.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use rl_lab::model::report::Report;
use rl_lab::model::verdict::Verdict;

use crate::support::{Done, Lab, usable};

const RACE: &str = include_str!("../../scenarios/race.toml");

/// One limiter on local servers: the shortest run that measures something.
const SHORT: [&str; 5] = ["race", "--backend", "local", "--limiters", "fixed-window-lua"];

fn short(more: &[&'static str]) -> Vec<&'static str> {
    SHORT.iter().chain(more).copied().collect()
}

/// Runs the race with something in its file changed.
fn with_change(from: &str, to: &str) -> Done {
    assert!(RACE.contains(from), "{from}");
    let lab = Lab::with_nothing();
    lab.file("mine.toml", &RACE.replace(from, to));
    lab.run(&["run", "mine.toml"])
}

fn line_of(text: &str) -> usize {
    RACE[..RACE.find(text).unwrap()].lines().count() + 1
}

#[test]
fn without_engine_and_server_both_ways_out_are_named() {
    let other_way = [
        ("auto", ["start a Docker engine", "--redis-server PATH"]),
        ("docker", ["start a Docker engine", "--backend local"]),
        ("local", ["--redis-server PATH", "--backend docker"]),
    ];
    for (backend, ways) in other_way {
        let lab = Lab::with_nothing();
        let done = lab.run(&["race", "--backend", backend, "--format", "json"]).exits(3);
        let report = done.says(&ways).says(&["scripts/setup"]).report();
        assert_eq!((report.exit, report.verdict, report.cells.len()), (3, Verdict::Unknown, 0));
        assert!(report.error.is_some_and(|e| ways.iter().all(|way| e.contains(way))), "{backend}");
    }
    Lab::with_nothing().run(&["race"]).exits(3).says(&["no Docker engine answers", "--redis-server PATH"]);
}

#[test]
fn an_unknown_name_is_told_with_the_nearest_one() {
    for (args, nearest) in [
        (vec!["race", "--limiters", "fixed-windw-lua"], "did you mean 'fixed-window-lua'"),
        (vec!["race", "--limiters", "gcra-lua:clok=app"], "did you mean 'clock'"),
        (vec!["race", "--backend", "dokcer"], "'docker'"),
        (vec!["race", "--conections", "3"], "--connections"),
        (vec!["race", "--format", "jsn"], "json"),
        (vec!["raec"], "race"),
        (vec!["run", "raec"], "did you mean 'race'"),
        (vec!["sync", "--limiters", "local-sync"], "no variation of sync is for local-sync"),
        (vec!["lst"], "list"),
    ] {
        Lab::with_nothing().run(&args).exits(2).says(&[nearest]);
    }
}

#[test]
fn an_impossible_flag_is_told_with_what_is_possible() {
    for (args, expected) in [
        (["--window", "60"], "such as 500ms"),
        (["--limit", "0"], "from 1"),
        (["--requests", "-3"], "--requests"),
        (["--connections", "1"], "each node needs one"),
        (["--start-timeout", "soon"], "such as 500ms"),
    ] {
        let args = ["race", &format!("{}={}", args[0], args[1])];
        Lab::with_nothing().run(&args).exits(2).says(&[expected]);
    }
}

#[test]
fn a_bad_file_is_told_with_its_place_and_what_was_expected() {
    for (from, to, column, expected) in [
        ("kind = \"single\"", "kind = \"single", 15, "invalid basic string"),
        ("connections = 20", "conections = 20", 1, "did you mean `connections`?"),
        ("requests = 200", "requests = \"many\"", 12, "expected"),
        ("rounds = 5", "rounds = 0", 10, "nonzero"),
        ("limit = 10", "limit = 0", 9, "from 1"),
        ("window = \"60s\"", "window = \"60\"", 10, "such as 500ms"),
        ("shape = \"burst\"", "shape = \"brust\"", 9, "did you mean `burst`?"),
        ("[require]", "[requires]", 2, "did you mean `require`?"),
        ("bound = \"fixed-window\"", "bound = \"fixed\"", 9, "did you mean `fixed-window`?"),
        ("limiter = \"get-then-incr\"", "limiter = \"get-then-icnr\"", 11, "did you mean 'get-then-incr'"),
        ("kind = \"single\"", "kind = \"singel\"", 8, "did you mean 'single'"),
        (
            "checks = [\"never-over-limit\", ",
            "checks = [\"never-over-limit\", \"every-key-expire\", ",
            31,
            "did you mean 'every-key-expires'",
        ),
    ] {
        let place = format!("mine.toml:{}:{column}: ", line_of(from));
        with_change(from, to).exits(2).says(&[&place, expected]);
    }
}

/// What cannot be broken is told before anything starts.
#[test]
fn a_fault_that_cannot_be_is_refused_with_its_place() {
    const WORKERS: &str = include_str!("../../scenarios/outage-workers.toml");
    for (from, to, says) in [
        ("do = \"freeze\"", "do = \"freze\"", "did you mean 'freeze'"),
        (
            "do = \"freeze\"",
            "do = \"freeze\"\non = \"replica-1\"",
            "unknown server 'replica-1' (known: primary)",
        ),
        ("do = \"freeze\"", "do = \"hold-link\"", "hold-link is on a replica"),
        ("for = \"1s\"", "for = \"1s\"\nby = \"3ms\"", "freeze takes no by"),
        ("do = \"freeze\"", "do = \"slow\"", "slow needs by"),
        ("for = \"1s\"", "for = \"1s\"\ntimes = 3", "needs every, longer than for"),
        ("shape = \"open\"", "shape = \"open\"\nrounds = 2", "a fault belongs to one round"),
        ("policy = \"fail-open\"", "policy = \"fail-opne\"", "did you mean 'fail-open'"),
        (
            "client = \"fail-fast\"",
            "client = \"pooled\"",
            "an expectation for a variant that is not listed: fail-fast",
        ),
        (
            "client = \"redis-rs-multiplexed\"",
            "client = \"redis-rs-multiplexd\"",
            "did you mean 'redis-rs-multiplexed'",
        ),
    ] {
        assert!(WORKERS.contains(from), "{from}");
        let lab = Lab::with_nothing();
        lab.file("mine.toml", &WORKERS.replacen(from, to, 1));
        lab.run(&["run", "mine.toml"]).exits(2).says(&["mine.toml:", says]);
    }
}

#[test]
fn json_is_one_document_also_when_the_input_is_bad() {
    for args in [
        vec!["race", "--limiters", "nobody", "--format", "json"],
        vec!["run", "nowhere.toml", "--format", "json"],
        vec!["race", "--window", "60", "--format", "json"],
        vec!["race", "--format=json", "--backend", "moon"],
        vec!["race", "-f", "json", "--no-such-flag"],
        vec!["analyze", "nowhere", "--format", "json"],
    ] {
        let report = Lab::with_nothing().run(&args).exits(2).report();
        assert_eq!((report.exit, report.passed, report.verdict), (2, false, Verdict::Unknown), "{args:?}");
        assert!(report.error.is_some(), "{args:?}");
    }
}

#[test]
fn a_dry_run_starts_nothing_and_writes_nothing() {
    let lab = Lab::with_nothing();
    lab.run(&["race", "--dry-run"]).exits(0).prints(&["nothing is started", "200 calls", "get-then-incr"]);
    let plan = lab.run(&["race", "--dry-run", "--format", "json"]).exits(0);
    let plan: serde_json::Value = serde_json::from_str(&plan.stdout).unwrap();
    assert_eq!(plan["scenarios"][0]["cells"].as_array().map(Vec::len), Some(10));
    assert!(!lab.out().exists());
    for folder in ["state", "tmp"] {
        assert_eq!(std::fs::read_dir(lab.path(folder)).unwrap().count(), 0, "{folder}");
    }
}

#[tokio::test]
async fn results_that_cannot_be_written_are_still_printed() {
    if !usable("local").await {
        return;
    }
    let lab = Lab::new();
    lab.file("out", "a file where the folder should be");
    let done = lab.run(&short(&["--format", "json"])).exits(3).says(&["cannot write to", "--out"]);
    let report = done.report();
    assert_eq!((report.exit, report.out, report.cells[0].rounds[4].admitted), (3, None, 10));
    lab.run(&short(&[])).exits(3).prints(&["fixed-window-lua", "never-over-limit"]);
    lab.assert_nothing_is_left("local").await;
}

#[tokio::test]
async fn a_disk_that_fills_up_in_mid_run_keeps_the_results_on_stdout() {
    if !usable("local").await {
        return;
    }
    let lab = Lab::new();
    // No file may grow beyond 32 KiB: the history does. SIGXFSZ ends whoever does not ignore it.
    let call =
        format!("ulimit -f 32; exec {} {} --format json", env!("CARGO_BIN_EXE_rl-lab"), SHORT.join(" "));
    let done = Done::from(lab.program("bash").args(["-c", &call]).output().unwrap()).exits(3);
    let done = done.says(&["cannot write the history"]);
    let report: Report = done.report();
    assert_eq!((report.exit, report.cells[0].rounds[4].admitted), (3, 10));
    lab.assert_nothing_is_left("local").await;
}

#[tokio::test]
async fn a_reader_that_goes_away_is_no_crash() {
    if !usable("local").await {
        return;
    }
    let lab = Lab::new();
    let mut child = lab
        .command(&["race", "--backend", "local", "--format", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // More than a pipe holds, so that the lab is still writing when its reader goes.
    let mut line = String::new();
    BufReader::with_capacity(16, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "{\n");
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    let status = child.wait().unwrap();
    assert_eq!((status.code(), status.signal()), (Some(0), None), "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");

    for args in [["list"], ["--help"], ["man"]] {
        let piped = lab.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut piped = piped;
        drop(piped.stdout.take());
        let done = Done::from(piped.wait_with_output().unwrap()).exits(0);
        assert_eq!(done.stderr, "", "{args:?}");
    }
}

#[tokio::test]
async fn a_run_whose_chatter_nobody_can_read_goes_on() {
    if !usable("local").await {
        return;
    }
    let lab = Lab::new();
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut gone = lab.program("true").stdin(Stdio::piped()).spawn().unwrap();
    let pipe = gone.stdin.take().unwrap();
    gone.wait().unwrap();
    for stderr in [Stdio::from(full()), Stdio::from(pipe)] {
        let done = lab.command(&short(&["--format", "json", "-v"])).stderr(stderr).output().unwrap();
        assert_eq!(Done::from(done).exits(0).report().cells[0].rounds[4].admitted, 10);
    }
    let bad = lab.command(&["raec"]).stderr(full()).output().unwrap();
    Done::from(bad).exits(2);
    lab.assert_nothing_is_left("local").await;
}

#[tokio::test]
async fn a_pipe_gets_no_escape_codes() {
    if !usable("local").await {
        return;
    }
    for lab in [Lab::new(), Lab::new().env("NO_COLOR", "1"), Lab::new().env("TERM", "xterm-256color")] {
        let done = lab.run(&["race", "--backend", "local", "--rounds", "1", "-v"]).exits(1);
        assert!(done.stdout.contains("FAIL") && done.stderr.contains("get-then-incr"));
        assert!(!done.stdout.contains('\x1b') && !done.stderr.contains('\x1b'), "{done:?}");
    }
}
