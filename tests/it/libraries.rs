//! Real libraries on a real Redis, through the adapters of `scripts/adapters`: what is known of each comes out.

use std::path::{Path, PathBuf};

use rl_lab::model::figures::Figure;
use rl_lab::model::report::{CellReport, Report};
use rl_lab::model::verdict::Verdict::{self, Fail, Pass, Unknown};

use crate::scenes::figure;
use crate::support::{Lab, cell, check};

fn adapters() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/adapters")
}

/// Whether the libraries are there. Where they are not the test is skipped, unless this is where all must be.
fn installed(language: &str) -> bool {
    let sign = match language {
        "python" => adapters().join("python/.venv/bin/python"),
        "python-old" => adapters().join("python/.venv-old/bin/python"),
        "node" => adapters().join("node/node_modules/ioredis"),
        "cell" => adapters().join("cell/redis_cell.so"),
        _ => PathBuf::from("/usr/share/php/Illuminate/Redis"),
    };
    if sign.exists() {
        return true;
    }
    let required = std::env::var_os("RL_LAB_REQUIRE_ENGINES").is_some_and(|v| v == "1");
    assert!(!required, "the libraries for {language} are required: scripts/adapters/install");
    println!("skipped: scripts/adapters/install {language} was not run");
    false
}

fn run(lab: &Lab, what: &[&str], limiters: &str) -> Report {
    let args = [what, &["--backend", "local", "--strict", "--seed", "1", "--format", "json", "-l", limiters]]
        .concat();
    let done = lab.run(&args);
    let report = done.report();
    assert!(report.finished, "{:?}\n{}", report.error, done.stderr);
    report
}

fn lab() -> Lab {
    Lab::new().env("RL_LAB_CONFIG", adapters().join("libraries.toml").to_str().unwrap())
}

fn scenario(name: &str) -> String {
    adapters().join("scenarios").join(name).display().to_string()
}

#[track_caller]
fn found(cell: &CellReport, name: &str, expected: Verdict) {
    let check = check(cell, name);
    assert_eq!(check.verdict, expected, "{} {:?}: {check:?}", cell.limiter, cell.variation);
}

#[tokio::test]
async fn who_reads_and_then_writes_is_convicted_in_a_race_and_who_does_it_in_one_step_is_cleared() {
    let all = [
        ("node", "rate-limiter-flexible", Pass),
        ("node", "rate-limiter-flexible-non-atomic", Fail),
        ("node", "rate-limit-redis", Pass),
        ("node", "express-rate-limit", Pass),
        ("node", "fastify-rate-limit", Pass),
        ("node", "nestjs-throttler-old", Fail),
        ("python", "limits-fixed-window", Pass),
        ("python", "throttled-py-gcra", Pass),
        ("python-old", "pyrate-limiter-2", Fail),
        ("php", "laravel-cache", Fail),
        ("php", "laravel-redis", Pass),
    ];
    let there: Vec<_> = all.into_iter().filter(|(language, ..)| installed(language)).collect();
    if there.is_empty() {
        return;
    }
    let lab = lab();
    let names: Vec<&str> = there.iter().map(|(_, name, _)| *name).collect();
    let report = run(&lab, &["race", "--rounds", "8"], &names.join(","));
    for (_, name, expected) in there {
        found(cell(&report, name), "never-over-limit", expected);
        let told = &cell(&report, name).adapters;
        // A service says nothing of itself.
        let service = ["express-rate-limit", "fastify-rate-limit"].contains(&name);
        let versions = told.iter().filter(|t| t.contains(|c: char| c.is_ascii_digit())).count();
        assert_eq!(versions, usize::from(!service), "{name}: {told:?}");
    }
    lab.assert_nothing_is_left("local").await;
}

#[tokio::test]
async fn a_process_that_dies_between_two_commands_leaves_a_key_without_expiry() {
    if !installed("python") || !installed("node") {
        return;
    }
    let lab = lab();
    let all = "throttled-py-fixed-window,rate-limiter-flexible,limits-fixed-window";
    let report = run(&lab, &["run", &scenario("short-crash.toml")], all);
    found(cell(&report, "throttled-py-fixed-window"), "every-key-expires", Fail);
    for name in ["rate-limiter-flexible", "limits-fixed-window"] {
        found(cell(&report, name), "every-key-expires", Pass);
    }
    let rounds = &cell(&report, "throttled-py-fixed-window").rounds;
    let died: Vec<&str> = rounds.iter().filter_map(|r| Some(r.crash.as_ref()?.died.as_str())).collect();
    let steps = ["before INCRBY, step 1 of 2", "after INCRBY, step 1 of 2", "before EXPIRE, step 2 of 2"];
    assert_eq!(died[..3], steps, "its connection is made before");
    lab.assert_nothing_is_left("local").await;
}

#[tokio::test]
async fn a_library_that_goes_by_the_clock_of_its_process_admits_more_where_that_is_ahead() {
    if !installed("python") || !installed("node") {
        return;
    }
    let lab = lab();
    let all = "limits-moving-window,limits-fixed-window,rate-limiter-flexible";
    let report = run(&lab, &["run", &scenario("worker-skew.toml")], all);
    let of = |limiter: &str, variation: &str| of(&report, limiter, variation);
    found(of("limits-moving-window", "in step"), "never-over-limit", Pass);
    found(of("limits-moving-window", "5 s ahead"), "never-over-limit", Fail);
    for name in ["limits-fixed-window", "rate-limiter-flexible"] {
        found(of(name, "5 s ahead"), "never-over-limit", Pass);
        found(of(name, "5 s ahead"), "clock-independent", Pass);
    }
}

#[tokio::test]
async fn an_insurance_behind_a_client_that_waits_is_never_asked() {
    if !installed("node") {
        return;
    }
    let lab = lab();
    let all = "rate-limiter-flexible-insurance,rate-limiter-flexible-insurance-fail-fast";
    let report = run(&lab, &["run", &scenario("freeze.toml")], all);
    let [waits, fails_fast] = all.split(',').map(|n| cell(&report, n)).collect::<Vec<_>>()[..] else {
        panic!()
    };
    found(waits, "bounded-latency", Fail);
    found(waits, "declared-outage-policy", Unknown);
    assert_eq!(figure(waits, Figure::ByPolicy), 0.0);
    found(fails_fast, "bounded-latency", Pass);
    found(fails_fast, "declared-outage-policy", Pass);
    assert!(figure(fails_fast, Figure::ByPolicy) > 0.0);
}

#[tokio::test]
async fn who_does_not_send_a_lost_script_again_has_no_answer_for_ever() {
    if !installed("python") {
        return;
    }
    let lab = lab();
    let report = run(&lab, &["noscript"], "pyrate-limiter,limits-fixed-window");
    // Of fifteen calls in each of three rounds the scripts are lost after the fifth.
    assert_eq!(figure(cell(&report, "pyrate-limiter"), Figure::Undecided), 30.0);
    assert_eq!(figure(cell(&report, "limits-fixed-window"), Figure::Undecided), 0.0);
}

/// A library in a process of its own, held at every command that it sends.
#[tokio::test]
async fn the_search_finds_the_shortest_race_of_a_library_and_certifies_the_one_that_has_none() {
    if !installed("node") {
        return;
    }
    let lab = lab();
    let all = ["rate-limiter-flexible-non-atomic", "rate-limiter-flexible"];
    let more = ["--backend", "local", "--crashes", "0", "--ticks", "0", "--seed", "1", "--format", "json"];
    let report = lab.run(&[&["explore"], &all[..], &more[..]].concat()).exits(1).report();
    let [racy, atomic] = all.map(|name| cell(&report, name));
    found(racy, "never-over-limit", Fail);
    let witness = check(racy, "never-over-limit").witness.as_deref().unwrap();
    assert!(witness.contains("schedule 'a b b a'") && witness.contains("3 of 3 replays"), "{witness}");
    found(atomic, "never-over-limit", Pass);
    assert!(check(atomic, "never-over-limit").why.as_deref().unwrap().starts_with("certificate: 2 clients"));
    lab.assert_nothing_is_left("local").await;
}

/// A service of a few lines: it listens before it has connected and introduced itself, as services do.
const SERVICE: &str = r#"
import os, socket, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

host, port = os.environ["REDIS_URL"].removeprefix("redis://").split(":")
limit, window = int(os.environ["RL_LAB_LIMIT"]), os.environ["RL_LAB_WINDOW_MS"]
STEP = "local n = redis.call('INCR', KEYS[1]) if n == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end return n"
ready = threading.Event()

def ask(*words):
    parts = [f"*{len(words)}\r\n"] + [f"${len(str(w))}\r\n{w}\r\n" for w in words]
    wire.write("".join(parts).encode())
    wire.flush()
    line = wire.readline().decode().strip()
    if line[0] == "$" and line != "$-1":
        return wire.read(int(line[1:]) + 2).decode().strip()
    return {"$-1": 0}.get(line, line[1:])

def connect():
    global wire
    wire = socket.create_connection((host, int(port))).makefile("rwb")
    ask("INFO")
    ask("SCRIPT", "LOAD", STEP)
    ready.set()

class Service(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        ready.wait()
        key = "service:" + self.headers["X-User"]
        if sys.argv[1] == "reads":
            admitted = int(ask("GET", key)) < limit
            if admitted and int(ask("INCR", key)) == 1:
                ask("PEXPIRE", key, window)
        else:
            admitted = int(ask("EVAL", STEP, 1, key, window)) <= limit
        self.send_response(200 if admitted else 429)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass

threading.Timer(0.1, connect).start()
ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Service).serve_forever()
"#;

#[tokio::test]
async fn the_search_convicts_a_service_that_reads_first_and_certifies_one_that_does_not() {
    let python = std::process::Command::new("python3").arg("--version").output();
    if python.is_err() || !crate::support::usable("local").await {
        println!("skipped: there is no python3, or no server");
        return;
    }
    let lab = Lab::new();
    lab.file("service.py", SERVICE);
    let one = |name: &str| {
        format!(
            "[limiter.{name}]\ncommand = [\"python3\", \"service.py\", \"{name}\"]\nhttp = {{}}\nskips_time = true\n\
             [limiter.{name}.contract]\nbound = \"fixed-window\"\nclock = \"expiry\"\ndenials = \"charged\"\n"
        )
    };
    lab.file("rl-lab.toml", &format!("schema = 1\n{}{}", one("reads"), one("counts")));
    let args = ["explore", "reads", "counts", "--backend", "local", "--seed", "1", "--format", "json"];
    let report = lab.run(&[&args[..], &["--crashes", "0"]].concat()).exits(1).report();
    let (reads, counts) = (cell(&report, "reads"), cell(&report, "counts"));
    found(reads, "never-over-limit", Fail);
    let witness = check(reads, "never-over-limit").witness.as_deref().unwrap();
    assert!(witness.contains("schedule 'a b b b a'") && witness.contains("3 of 3 replays"), "{witness}");
    for name in ["never-over-limit", "every-key-expires", "recovers"] {
        found(counts, name, Pass);
        assert!(check(counts, name).why.as_deref().unwrap().starts_with("certificate: 2 clients"));
    }
    lab.assert_nothing_is_left("local").await;
}

#[tokio::test]
async fn the_search_certifies_middlewares_behind_http() {
    if !installed("node") {
        return;
    }
    let all = ["express-rate-limit", "fastify-rate-limit"];
    let more = ["--backend", "local", "--crashes", "0", "--seed", "1", "--format", "json"];
    let report = lab().run(&[&["explore"], &all[..], &more[..]].concat()).exits(0).report();
    for name in all {
        found(cell(&report, name), "never-over-limit", Pass);
    }
}

fn of<'a>(report: &'a Report, limiter: &str, variation: &str) -> &'a CellReport {
    let is = |c: &&CellReport| c.limiter == limiter && c.variation.as_deref() == Some(variation);
    report.cells.iter().find(is).unwrap()
}

/// A module that the servers load, asked by a script.
#[tokio::test]
async fn redis_cell_is_right_until_its_permits_are_less_than_a_nanosecond_apart() {
    if !installed("cell") || !crate::support::usable("local").await {
        return;
    }
    let lab = lab();
    let bucket = "token-bucket-lua";
    let report = run(&lab, &["race", "--rounds", "8"], "redis-cell,token-bucket-read-write");
    found(cell(&report, "redis-cell"), "never-over-limit", Pass);
    found(cell(&report, "token-bucket-read-write"), "never-over-limit", Fail);
    let report = run(&lab, &["run", &scenario("short-crash.toml")], "redis-cell");
    found(cell(&report, "redis-cell"), "every-key-expires", Pass);
    let report = run(&lab, &["skew", "--variation", "+1500 ms"], "redis-cell,token-bucket-lua");
    found(of(&report, "redis-cell", "+1500 ms"), "clock-independent", Pass);
    found(of(&report, bucket, "+1500 ms"), "clock-independent", Fail);
    let report = run(&lab, &["costs"], "redis-cell,token-bucket-lua");
    for variation in ["limit 10", "limit 4,000,000,000"] {
        found(of(&report, "redis-cell", variation), "never-over-limit", Pass);
    }
    let huge = "4,000,000,000 a second";
    found(of(&report, "redis-cell", huge), "never-over-limit", Fail);
    found(of(&report, bucket, huge), "never-over-limit", Pass);
    let report = run(&lab, &["retry-after"], "redis-cell,token-bucket-lua");
    found(cell(&report, "redis-cell"), "retry-after-honest", Fail);
    found(cell(&report, bucket), "retry-after-honest", Pass);
    let report =
        lab.run(&["explore", "redis-cell", "--backend", "local", "--format", "json"]).exits(4).report();
    let why = check(&report.cells[0], "never-over-limit").why.clone().unwrap();
    assert!(why.contains("its module reads the server's clock"), "{why}");
    lab.assert_nothing_is_left("local").await;
}

/// What the servers cannot be given is no verdict, and others are judged all the same.
#[tokio::test]
async fn a_module_that_cannot_be_loaded_is_told() {
    let lab = Lab::new();
    let one = "module = \"gone.so\"\nlua = { script = \"return redis.call('GONE')\", keys = [\"{key}\"], allowed = { is = 1 } }\n";
    let contract = "[limiter.gone.contract]\nbound = \"none\"\nclock = \"expiry\"\ndenials = \"free\"\n";
    lab.file("rl-lab.toml", &format!("schema = 1\n[limiter.gone]\n{one}{contract}"));
    for (backend, exit, told) in
        [("local", 3, "gone.so is not there"), ("docker", 0, "servers in containers are not given")]
    {
        if !crate::support::usable(backend).await {
            continue;
        }
        let args = ["race", "-l", "gone,fixed-window-lua", "--strict", "--rounds", "2", "--format", "json"];
        let done = lab.run(&[&args[..], &["--backend", backend]].concat()).exits(exit);
        let report = done.report();
        let gone = check(cell(&report, "gone"), "never-over-limit");
        assert_eq!(gone.verdict, Verdict::NotApplicable);
        assert!(gone.why.as_ref().unwrap().contains(told), "{gone:?}");
        found(cell(&report, "fixed-window-lua"), "never-over-limit", Pass);
    }
}

#[tokio::test]
async fn a_library_with_a_thread_of_its_own_is_not_killed_at_a_step() {
    if !installed("python") {
        return;
    }
    let lab = lab();
    let args = ["run", &scenario("short-crash.toml"), "-l", "pyrate-limiter,limits-fixed-window", "--strict"];
    let report =
        lab.run(&[&args[..], &["--backend", "local", "--format", "json"]].concat()).exits(0).report();
    found(cell(&report, "pyrate-limiter"), "every-key-expires", Verdict::NotApplicable);
    let why = check(cell(&report, "pyrate-limiter"), "every-key-expires").why.clone().unwrap();
    assert!(why.contains("it works behind its calls"), "{why}");
    found(cell(&report, "limits-fixed-window"), "every-key-expires", Pass);
}
