//! Speed, as ratios against a peer measured in the same run: never as an absolute claim.
//!
//! `make bench`, or `cargo bench --bench throughput -- [memory|closed-loop|container|race]`.
//! Exits 1 if a ratio misses its bound.

#![expect(clippy::disallowed_methods, reason = "a bench measures time, and its exit code is its answer")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rl_lab::backends::{self, journal::Journal};
use rl_lab::model::history::{Event, RunHeader};
use rl_lab::model::units::Seed;
use rl_lab::ports::backend::{Backend, BackendOptions, ServerSpec};
use rl_lab::ports::route::Configured;
use rl_lab::runner::drive::{Drive, drive};
use rl_lab::runner::plan::{self, Overrides};
use rl_lab::runner::record::{Recorder, Stop};
use rl_lab::runner::scenarios;

const PAIRS: usize = 5;
const OPS: u32 = 200_000;

/// Whether the bound was kept, or why it cannot be measured here.
type Bench = fn() -> Result<bool, String>;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let benches: [(&str, Bench); 4] =
        [("memory", memory), ("closed-loop", closed_loop), ("container", container), ("race", race)];
    let mut fine = true;
    // Memory first: a child's peak is never told below what its parent had when it was made.
    for (name, bench) in benches {
        if !wanted.is_empty() && !wanted.iter().any(|w| w == name) {
            continue;
        }
        match bench() {
            Ok(kept) => fine &= kept,
            Err(why) => {
                println!("{name}: cannot be measured here: {why}");
                fine = false;
            }
        }
    }
    std::process::exit(i32::from(!fine));
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

fn say(name: &str, kept: bool, text: &str) -> Result<bool, String> {
    println!("{name}: {text}: {}", if kept { "ok" } else { "MISSED" });
    Ok(kept)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The whole path at 50 connections, one call in flight on each, with the history written.
const SCENARIO: &str = r#"
schema = 1
title = "bench"
shows = "bench"
checks = ["never-over-limit"]
[limit]
limit = 10
window = "60s"
[workload]
shape = "burst"
requests = 200000
connections = 50
in_flight = 50
[[variant]]
limiter = "fixed-window-lua"
"#;

/// Calls per second of the lab against requests per second of redis-benchmark: the same script,
/// the same server, the same number of connections, in turns.
fn closed_loop() -> Result<bool, String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let runtime = runtime();
    let journal = Arc::new(Journal::open_in(folder.path(), "bench").map_err(|e| e.to_string())?);
    let options = BackendOptions::default();
    let ratios = runtime.block_on(async {
        let backend = backends::open("local", &options, Arc::clone(&journal), &mut |_| ())
            .await
            .map_err(|e| e.to_string())?;
        let ratios = pairs(&*backend, folder.path()).await;
        backend.shutdown().await.map_err(|e| e.to_string())?;
        ratios
    })?;
    let shown: Vec<String> = ratios.iter().map(|(lab, peer)| format!("{:.2}", lab / peer)).collect();
    let (lab, peer) = ratios[0];
    let ratio = median(ratios.iter().map(|(lab, peer)| lab / peer).collect());
    let text = format!(
        "median {ratio:.2} of redis-benchmark (pairs {}; first pair {lab:.0} and {peer:.0} calls/s), at least 0.9",
        shown.join(" ")
    );
    say("closed loop, 50 connections, history on", ratio >= 0.9, &text)
}

async fn pairs(backend: &dyn Backend, folder: &Path) -> Result<Vec<(f64, f64)>, String> {
    let spec = ServerSpec { name: "bench".to_owned(), ..ServerSpec::default() };
    let server = backend.start(spec).await.map_err(|e| e.to_string())?;
    let address = server.address();
    let file = folder.join("bench.toml");
    std::fs::write(&file, SCENARIO).map_err(|e| e.to_string())?;
    let named = scenarios::load(file.to_str().ok_or("a path that is not UTF-8")?)?;
    let plan = plan::plan(named, &Overrides::default(), Seed(1))?;
    let mut results = Vec::new();
    for pair in 0..PAIRS {
        let recorder = Recorder::start(Some(folder.join("history.jsonl")), Stop::default());
        recorder.event(Event::Run(RunHeader {
            schema: 1,
            lab: "bench".to_owned(),
            id: "bench".to_owned(),
            seed: Seed(1),
            command: vec![],
            started: String::new(),
            epoch_ns_at_zero: recorder.epoch_ns_at_zero(),
            columns: None,
            claims: None,
            gate: None,
        }));
        recorder.event(Event::Cell(Box::new(rl_lab::runner::execute::header(
            &plan,
            &plan.cells[0],
            &Default::default(),
            "local",
        ))));
        let honesty = drive(Drive {
            plan: &plan,
            cell: &plan.cells[0],
            address,
            route: Configured::at(address),
            seeds: Vec::new(),
            regions: Vec::new(),
            faults: None,
            prefix: format!("rl-lab:bench:{pair}"),
            seed: Seed(1),
            recorder: &recorder,
            hook: None,
            workers: None,
            round_done: &|_| (),
        })
        .await
        .map_err(|e| format!("{e:#}"))?;
        recorder.close()?;
        let lab = f64::from(OPS) / (honesty.busy_ms / 1e3);
        results.push((lab, redis_benchmark(address.port())?));
    }
    Ok(results)
}

/// Requests per second of redis-benchmark with the script of `fixed-window-lua`.
fn redis_benchmark(port: u16) -> Result<f64, String> {
    let port = port.to_string();
    let run = |program: &str, args: &[&str]| -> Result<String, String> {
        let out = Command::new(program)
            .args(args)
            .output()
            .map_err(|e| format!("{program}: {e} (package redis-tools)"))?;
        Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
    };
    let body = include_str!("../src/limiters/fixed_window.lua");
    let sha = run("redis-cli", &["-p", &port, "SCRIPT", "LOAD", body])?;
    let ops = OPS.to_string();
    let text = run(
        "redis-benchmark",
        &[
            "-p",
            &port,
            "-c",
            "50",
            "-n",
            &ops,
            "--csv",
            "EVALSHA",
            &sha,
            "1",
            "rl-lab:bench:peer",
            "1",
            "60000",
        ],
    )?;
    // The last line: "name","requests per second",…
    let field = text.lines().last().and_then(|l| l.rsplit("\",\"").nth(6).map(str::to_owned));
    let field = field.or_else(|| text.lines().last()?.split("\",\"").nth(1).map(str::to_owned));
    field
        .and_then(|f| f.trim_matches('"').parse().ok())
        .ok_or_else(|| format!("redis-benchmark answered: {text}"))
}

/// Peak memory of a run that records a million calls.
fn memory() -> Result<bool, String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let status = Command::new(env!("CARGO_BIN_EXE_rl-lab"))
        .args(["race", "--backend", "local", "--quiet", "--format", "csv", "--limiters", "fixed-window-lua"])
        .args(["--requests", "1000000", "--connections", "50", "--in-flight", "50", "--rounds", "1"])
        .arg("--out")
        .arg(folder.path())
        .stdout(Stdio::null())
        .status()
        .map_err(|e| e.to_string())?;
    if !status.success() {
        return Err(format!("the run ended with {status}"));
    }
    // SAFETY: an rusage is plain integers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to an rusage of this frame.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    let mb = usage.ru_maxrss as f64 / 1024.0;
    say("a million calls recorded and judged", mb < 150.0, &format!("peak {mb:.0} MB, below 150"))
}

/// Time to the first PONG of a container, against `docker run` of the same image alone.
fn container() -> Result<bool, String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let runtime = runtime();
    let journal = Arc::new(Journal::open_in(folder.path(), "bench-docker").map_err(|e| e.to_string())?);
    let options = BackendOptions::default();
    runtime.block_on(async {
        let backend = backends::open("docker", &options, Arc::clone(&journal), &mut |_| ())
            .await
            .map_err(|e| e.to_string())?;
        let outcome = starts(&*backend).await;
        backend.shutdown().await.map_err(|e| e.to_string())?;
        outcome
    })
}

async fn starts(backend: &dyn Backend) -> Result<bool, String> {
    let mut honesty = Default::default();
    backend.describe(&mut honesty);
    let image = honesty.image.ok_or("the backend names no image")?;
    let mut ratios = Vec::new();
    for n in 0..PAIRS {
        let began = Instant::now();
        let server = backend
            .start(ServerSpec { name: format!("b{n}"), ..ServerSpec::default() })
            .await
            .map_err(|e| e.to_string())?;
        let lab = began.elapsed();
        server.stop().await.map_err(|e| e.to_string())?;
        ratios.push(lab.as_secs_f64() / docker_run(&image)?.as_secs_f64());
    }
    let ratio = median(ratios);
    say("container to its first PONG", ratio <= 1.5, &format!("{ratio:.2} × docker run alone, at most 1.5"))
}

fn docker_run(image: &str) -> Result<Duration, String> {
    let began = Instant::now();
    let out = Command::new("docker")
        .args(["run", "--detach", "--rm", image, "redis-server", "--port", "6379"])
        .output()
        .map_err(|e| e.to_string())?;
    let took = began.elapsed();
    let id = String::from_utf8_lossy(&out.stdout).trim().to_owned();
    if !out.status.success() || id.is_empty() {
        return Err(String::from_utf8_lossy(&out.stderr).into_owned());
    }
    Command::new("docker").args(["kill", &id]).output().map_err(|e| e.to_string())?;
    Ok(took)
}

/// The whole default race on Docker, from call to exit.
fn race() -> Result<bool, String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let began = Instant::now();
    let status = Command::new(env!("CARGO_BIN_EXE_rl-lab"))
        .args(["race", "--backend", "docker", "--quiet", "--out"])
        .arg(folder.path())
        .stdout(Stdio::null())
        .status()
        .map_err(|e| e.to_string())?;
    let took = began.elapsed().as_secs_f64();
    if !status.success() {
        return Err(format!("the run ended with {status}"));
    }
    say("the whole default race on docker", took <= 6.0, &format!("{took:.1} s, at most 6"))
}
