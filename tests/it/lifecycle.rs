//! Every way a run can end leaves nothing running and keeps what was measured.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use rl_lab::backends::journal;
use rl_lab::model::history::Event;
use rl_lab::model::report::{CellReport, Report};
use rl_lab::model::units::Seed;
use rl_lab::model::verdict::Verdict;
use rl_lab::ports::backend::BackendOptions;
use rl_lab::runner::execute::{self, Progress, Request};
use rl_lab::runner::plan::{self, Overrides, Plan};
use rl_lab::runner::record::Stop;
use rl_lab::runner::scenarios;

use crate::support::{Done, Lab, Living, engine_traces, on_both, run_id, until};

on_both! {
    a_run_that_ends_by_itself_leaves_nothing
    ctrl_c_keeps_what_was_measured_and_leaves_nothing
    sigterm_keeps_what_was_measured_and_leaves_nothing
    a_run_stopped_while_its_ground_is_made_leaves_nothing
    a_run_killed_while_its_ground_is_made_is_removed_by_a_gc_at_once
    a_panic_is_reported_as_the_labs_own_and_leaves_nothing
    a_server_that_starts_too_slowly_leaves_nothing
    a_killed_run_is_read_and_removed_and_a_living_one_untouched
}

/// Far more rounds than any test waits for.
fn long_run<'a>(backend: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["race", "--backend", backend, "--rounds", "10000"];
    args.extend(["--limiters", "fixed-window-lua,gcra-lua", "--format", "json"]);
    args.extend(more);
    args
}

/// Starts a long run and waits until calls are on its record. Answers with its folder, too.
async fn in_mid_run(lab: &Lab, backend: &str, out: &str) -> (Living, PathBuf) {
    let out = lab.path(out);
    let mut living = lab.start(&long_run(backend, &["--out", out.to_str().unwrap()]));
    let folder = until("calls in the history", || {
        let folder = std::fs::read_link(out.join("latest")).map(|name| out.join(name)).ok();
        let recorded =
            |f: &PathBuf| Some(std::fs::read_to_string(f.join("history.jsonl")).ok()?.contains(OK));
        let found = folder.filter(|f| recorded(f) == Some(true));
        (found.is_some() || !living.is_running()).then_some(found)
    });
    match folder.await {
        Some(folder) => (living, folder),
        None => panic!("it ended by itself: {:?}", living.wait()),
    }
}

const OK: &str = r#""type":"ok""#;

/// Whether something is journalled, so being made right now: the network, or the servers' folder.
fn begun(lab: &Lab) -> Option<()> {
    let texts = journal::all_in(&lab.state()).into_iter().map(std::fs::read_to_string);
    texts.flatten().any(|text| text.contains("\"made\"")).then_some(())
}

/// A signal's exit code, one JSON document that says so, the same on disk, and nothing left.
async fn assert_stopped_by(signal: i32, code: i32, backend: &str) {
    let lab = Lab::new();
    let (living, folder) = in_mid_run(&lab, backend, "out").await;
    living.signal(signal);
    let done = living.wait().exits(code).says(&["stopping"]);
    let report = done.report();
    assert_eq!(i32::from(report.exit), code);
    assert!(!report.passed && report.verdict == Verdict::Unknown, "a run that was cut is not a pass");
    assert!(report.error.as_deref().unwrap().contains("interrupted"), "{:?}", report.error);
    let measured = &report.cells[0].rounds[0];
    assert_eq!((report.cells.len(), measured.admitted), (1, 10));
    let kept: Report =
        serde_json::from_str(&std::fs::read_to_string(folder.join("results.json")).unwrap()).unwrap();
    assert_eq!(kept, report);
    lab.assert_nothing_is_left(backend).await;
}

mod cases {
    use super::*;

    pub async fn a_run_that_ends_by_itself_leaves_nothing(backend: &str) {
        let lab = Lab::new();
        lab.run(&["race", "--backend", backend, "--limiters", "gcra-lua"]).exits(0);
        assert_eq!(lab.runs().len(), 1);
        lab.assert_nothing_is_left(backend).await;
    }

    pub async fn ctrl_c_keeps_what_was_measured_and_leaves_nothing(backend: &str) {
        assert_stopped_by(libc::SIGINT, 130, backend).await;
    }

    pub async fn sigterm_keeps_what_was_measured_and_leaves_nothing(backend: &str) {
        assert_stopped_by(libc::SIGTERM, 143, backend).await;
    }

    pub async fn a_run_stopped_while_its_ground_is_made_leaves_nothing(backend: &str) {
        let lab = Lab::new();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP].repeat(2) {
            let living = lab.start(&long_run(backend, &[]));
            until("something in the journal", || begun(&lab)).await;
            living.signal(signal);
            let report = living.wait().exits(128 + signal).report();
            assert!(!report.passed && report.verdict == Verdict::Unknown);
        }
        // An engine may finish late what nobody waits for.
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        lab.assert_nothing_is_left(backend).await;
    }

    /// What an engine was asked for before the kill can appear after it, when a hasty gc has found
    /// nothing and forgotten the run.
    pub async fn a_run_killed_while_its_ground_is_made_is_removed_by_a_gc_at_once(backend: &str) {
        for _ in 0..3 {
            let lab = Lab::new();
            let living = lab.start(&long_run(backend, &[]));
            until("something in the journal", || begun(&lab)).await;
            living.signal(libc::SIGKILL);
            // At once: the lab's process may not be gone yet.
            let done = lab.run(&["gc"]).exits(0);
            assert!(!done.stdout.contains("going on"), "{}", done.stdout);
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            lab.assert_nothing_is_left(backend).await;
        }
    }

    pub async fn a_panic_is_reported_as_the_labs_own_and_leaves_nothing(backend: &str) {
        if std::env::var_os("LAB_PANICS_IN").is_some() {
            return lab_that_panics().await;
        }
        let this = "lifecycle::a_panic_is_reported_as_the_labs_own_and_leaves_nothing";
        for (place, kept) in [("round", 2), ("cell_done", 5)] {
            let lab = Lab::new();
            let written = lab.path("report.json");
            let done = lab
                .program(std::env::current_exe().unwrap())
                .args(["--exact", &format!("{this}::{backend}")])
                .envs([("LAB_BACKEND", backend), ("LAB_PANICS_IN", place)])
                .env("LAB_REPORT", &written)
                .output();
            Done::from(done.unwrap()).exits(0);
            let report: Report = serde_json::from_str(&std::fs::read_to_string(written).unwrap()).unwrap();
            assert_eq!((report.exit, report.passed), (70, false), "{place}");
            assert!(report.error.as_deref().unwrap().contains(&format!("planted in {place}")), "{report:?}");
            assert_eq!(report.cells.iter().map(|c| c.rounds.len()).sum::<usize>(), kept, "{place}");
            lab.assert_nothing_is_left(backend).await;
        }
    }

    pub async fn a_server_that_starts_too_slowly_leaves_nothing(backend: &str) {
        let lab = Lab::new();
        // It serves, but never answers PING: no machine is fast enough to pass.
        let slow = include_str!("../../scenarios/race.toml")
            .replace("kind = \"single\"", "kind = \"single\"\nconfig = { rename-command = \"PING gone\" }");
        lab.file("slow.toml", &slow);
        let args = ["run", "slow.toml", "--backend", backend, "--start-timeout", "1ms", "--format", "json"];
        let report = lab.run(&args).exits(3).says(&["did not answer within 1ms"]).report();
        assert_eq!((report.exit, report.verdict, report.cells.len()), (3, Verdict::Unknown, 0));
        lab.assert_nothing_is_left(backend).await;
    }

    pub async fn a_killed_run_is_read_and_removed_and_a_living_one_untouched(backend: &str) {
        let lab = Lab::new();
        let (alive, alive_folder) = in_mid_run(&lab, backend, "out").await;
        let (killed, folder) = in_mid_run(&lab, backend, "killed").await;
        killed.signal(libc::SIGKILL);
        let (dead_id, alive_id) = (run_id(&folder), run_id(&alive_folder));

        let history = folder.join("history.jsonl");
        let text = std::fs::read_to_string(&history).unwrap();
        let whole = text.rfind('\n').unwrap();
        let events: Vec<Event> = text[..whole].lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert!(events.iter().any(|e| matches!(e, Event::Ok { .. })));
        let judged = lab.run(&["analyze", history.to_str().unwrap(), "--format", "json"]).exits(4).report();
        assert_eq!((judged.verdict, judged.passed), (Verdict::Unknown, false));
        let bound = judged.cells[0].checks.iter().find(|c| c.check == "never-over-limit").unwrap();
        assert_eq!(bound.verdict, Verdict::Unknown);

        let done = lab.run(&["gc"]).exits(0);
        assert!(done.stdout.contains(&format!("run {alive_id} is going on: not touched")), "{done:?}");
        let removed: Vec<&str> = done.stdout.lines().filter(|l| l.starts_with("removed")).collect();
        assert!(!removed.is_empty() && removed.iter().all(|l| l.contains(&dead_id)), "{removed:?}");
        let outlived = removed.iter().any(|l| l.starts_with("removed process"));
        assert!(cfg!(not(target_os = "linux")) || !outlived, "the kernel ends a dead lab's servers");
        // Only now reaped: where nothing reaps it, a dead lab stays a zombie and is dead all the same.
        drop(killed);
        let left = lab.traces(backend).await;
        assert!(left.iter().all(|l| l.contains(&alive_id)) && !left.is_empty(), "{left:?}");
        assert_eq!(engine_traces_of(&dead_id, backend).await, Vec::<String>::new());

        // The living one still makes progress, and its store never failed it.
        let size = std::fs::metadata(alive_folder.join("history.jsonl")).unwrap().len();
        let grown = || {
            std::fs::metadata(alive_folder.join("history.jsonl")).ok().filter(|m| m.len() > size + 100_000)
        };
        until("more calls of the living run", grown).await;
        alive.signal(libc::SIGINT);
        let report = alive.wait().exits(130).report();
        assert!(report.cells[0].rounds.iter().all(|r| (r.failed, r.unknown) == (0, 0)), "{report:?}");
        lab.assert_nothing_is_left(backend).await;
    }
}

async fn engine_traces_of(run: &str, backend: &str) -> Vec<String> {
    if backend == "docker" { engine_traces(run).await } else { Vec::new() }
}

/// Panics where it is told to.
struct PanicsIn {
    place: String,
    rounds: AtomicU32,
}

impl Progress for PanicsIn {
    fn note(&self, _: &str) {}
    fn warn(&self, text: &str) {
        println!("warning: {text}");
    }
    fn cell(&self, _: &Plan, _: &str, _: usize, _: usize) {}
    fn round(&self, _: u32, _: u32) {
        // The second one: the first round is there to be kept.
        let done = self.rounds.fetch_add(1, Ordering::Relaxed) + 1;
        assert!(self.place != "round" || done < 2, "planted in round");
    }
    fn cell_done(&self, _: &CellReport) {
        assert!(self.place != "cell_done", "planted in cell_done");
    }
}

/// What the test runs in a process of its own, for the sake of its environment.
async fn lab_that_panics() {
    let variable = |name: &str| std::env::var(name).unwrap();
    let seed = Seed(1);
    let request = Request {
        plans: vec![plan::plan(scenarios::find("race").unwrap(), &Overrides::default(), seed).unwrap()],
        exploration: None,
        columns: None,
        claims: None,
        gate: None,
        seed,
        command: Vec::new(),
        backend: variable("LAB_BACKEND"),
        options: BackendOptions::default(),
        servers: None,
        ground: plan::Ground::default(),
        program: None,
        out: variable("RL_LAB_OUT").into(),
        stop: Stop::default(),
    };
    let progress = PanicsIn { place: variable("LAB_PANICS_IN"), rounds: AtomicU32::new(0) };
    let report = execute::execute(request, &progress).await;
    std::fs::write(variable("LAB_REPORT"), serde_json::to_string(&report).unwrap()).unwrap();
}
