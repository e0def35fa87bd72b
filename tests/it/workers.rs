//! App servers as processes: what they say, what becomes of their calls when they are killed, and that a node
//! is the same node whether it is a task or a process.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Stdio};

use rl_lab::model::op::NODE_DIED;
use rl_lab::model::protocol::{Answer, Hello, Ready, Request, VERSION, What};
use rl_lab::model::report::{CrashReport, Report};
use rl_lab::model::units::{Cost, Limit, NodeId, Seed, Window};
use rl_lab::model::verdict::Verdict;
use rl_lab::ports::backend::BackendOptions;
use rl_lab::runner::execute::{self, Progress, Request as Run};
use rl_lab::runner::plan::{self, Overrides, Plan};
use rl_lab::runner::record::Stop;
use rl_lab::runner::scenarios;

use crate::ground::Ground;
use crate::support::{Done, Lab, cell, check, on_both, processes_that_name, until, usable};

/// An app server that a test talks to by hand.
struct Served {
    child: Child,
    says: BufReader<ChildStdout>,
}

impl Served {
    fn start(lab: &Lab, args: &[&str]) -> Self {
        let mut command = lab.command(&[&["serve-limiter"], args].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let says = BufReader::new(child.stdout.take().unwrap());
        Self { child, says }
    }

    fn tell(&mut self, text: &str) {
        self.child.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).unwrap();
        line
    }

    fn greet(&mut self, hello: &Hello) -> Ready {
        self.tell(&line(hello));
        serde_json::from_str(&self.hear()).unwrap()
    }

    fn hear_answer(&mut self) -> Answer {
        let said = self.hear();
        serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"))
    }

    /// Ends what it hears: its exit code, and all that it said since.
    fn end(mut self) -> (Option<i32>, String) {
        drop(self.child.stdin.take());
        let mut rest = String::new();
        self.says.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

fn line(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap() + "\n"
}

fn hello(ground: &Ground, limit: u64) -> Hello {
    Hello {
        hello: VERSION,
        redis: format!("redis://{}", ground.address),
        limit: Limit::new(limit).unwrap(),
        window_ms: Window::from_millis(600_000).unwrap(),
        node: NodeId(0),
        nodes: std::num::NonZeroU32::MIN,
        clock_offset_ms: 0,
        connections: 2,
        cold_pool: false,
    }
}

fn acquire(id: u64, key: &str) -> String {
    let what = What::Acquire { key: key.to_owned(), cost: Cost::ONE, lane: None };
    line(&Request { id, what, skipped_us: 0 })
}

#[tokio::test]
async fn an_app_server_is_asked_by_hand_and_ends_with_what_it_hears() {
    let Some(ground) = Ground::start("serve").await else { return };
    let lab = Lab::new();
    let mut served = Served::start(&lab, &["incr-then-expire"]);
    let ready = served.greet(&hello(&ground, 2));
    assert!(ready.ready && ready.contract.is_some(), "{ready:?}");
    let mut told = Vec::new();
    for id in 1..=3 {
        served.tell(&acquire(id, "user:42"));
        let answer = served.hear_answer();
        told.push((answer.id, answer.allowed, answer.remaining, answer.round_trips));
    }
    // The first sets the expiry, too.
    let expected = [
        (1, Some(true), Some(1), Some(2)),
        (2, Some(true), Some(0), Some(1)),
        (3, Some(false), Some(0), Some(1)),
    ];
    assert_eq!(told, expected);
    served.tell("{\"id\":4,\"op\":\"forget\"}\n");
    assert!(served.hear_answer().error.unwrap().text.contains("forget"));
    // Whatever is open when its stdin ends is answered.
    served.tell(&acquire(5, "user:43"));
    let (code, rest) = served.end();
    let last: Answer = serde_json::from_str(&rest).unwrap();
    assert_eq!((code, last.id, last.allowed), (Some(0), 5, Some(true)));
    ground.end().await;
}

#[tokio::test]
async fn who_cannot_follow_a_hello_says_why_and_nothing_else() {
    let Some(ground) = Ground::start("unready").await else { return };
    let lab = Lab::new();
    let good = line(&hello(&ground, 2));
    let away = line(&Hello { redis: "redis://127.0.0.1:1".to_owned(), ..hello(&ground, 2) });
    let db = line(&Hello { redis: "redis://127.0.0.1:1/3".to_owned(), ..hello(&ground, 2) });
    let older = good.replace("\"hello\":1", "\"hello\":0");
    let huge = "x".repeat(2 << 20) + "\n";
    for (limiter, hello, why) in [
        ("nonesuch", good.as_str(), "unknown limiter 'nonesuch'"),
        ("gcra-lua", "{}\n", "no hello"),
        ("gcra-lua", older.as_str(), "hello 0 is not known"),
        ("gcra-lua", db.as_str(), "databases are not known"),
        ("gcra-lua", huge.as_str(), "more than 1048576 bytes"),
        ("gcra-lua", "", "ended before hello"),
        ("gcra-lua", away.as_str(), "cannot be reached"),
    ] {
        let mut served = Served::start(&lab, &[limiter]);
        // Who has heard enough reads no further.
        let _ = served.child.stdin.as_mut().unwrap().write_all(hello.as_bytes());
        let (code, said) = served.end();
        let ready: Ready = serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"));
        assert_eq!((code, ready.ready), (Some(2), false), "{limiter}");
        assert!(ready.error.as_ref().unwrap().contains(why), "{ready:?}");
    }
    ground.end().await;
}

#[tokio::test]
async fn a_thousand_calls_in_flight_are_answered_once_each() {
    let Some(ground) = Ground::start("thousand").await else { return };
    let lab = Lab::new();
    let mut served = Served::start(&lab, &["fixed-window-lua", "--policy", "fail-closed"]);
    assert!(served.greet(&hello(&ground, 10)).ready);
    let all: String = (1..=1000).map(|id| acquire(id, "k")).collect();
    served.tell(&all);
    let (code, said) = served.end();
    let answers: Vec<Answer> = said.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let ids: BTreeSet<u64> = answers.iter().map(|a| a.id).collect();
    assert_eq!((code, answers.len(), ids), (Some(0), 1000, (1..=1000).collect()));
    assert_eq!(answers.iter().filter(|a| a.allowed == Some(true)).count(), 10);
    ground.end().await;
}

/// The crash scenario, with app servers that are processes.
fn as_processes(text: &str) -> String {
    let processes = text.replacen("\nnodes = 2\n", "\nnodes = 2\nnodes_as = \"processes\"\n", 1);
    assert_ne!(processes, text);
    processes
}

/// The processes of a lab's app servers.
fn pids(lab: &Lab) -> Vec<i32> {
    let named = processes_that_name(&lab.path("tmp"));
    let served = named.iter().filter(|line| line.contains("serve-limiter"));
    served.filter_map(|line| line.strip_prefix("process /proc/")?.split(':').next()?.parse().ok()).collect()
}

/// Calls that take a minute, at a guarded route.
const SLOW: &str = r#"
schema = 1
title = "t"
shows = "s"
checks = ["never-over-limit"]
[limit]
limit = 10
window = "1h"
[workload]
shape = "burst"
requests = 8
connections = 2
in_flight = 8
nodes = 2
nodes_as = "processes"
[[variant]]
limiter = "laravel-attempt:callback=60s"
"#;

fn kill(pid: i32) {
    // SAFETY: kill(2) touches no memory; the process is a child of a lab of this test's own.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
}

/// Starts the slow calls and waits until all of them are open.
async fn in_mid_call(lab: &Lab) -> (crate::support::Living, Vec<i32>) {
    lab.file("slow.toml", SLOW);
    let living = lab.start(&["run", "slow.toml", "--backend", "local", "--format", "json"]);
    let open = || {
        let text = std::fs::read_to_string(lab.out().join("latest/history.jsonl")).ok()?;
        (text.matches("\"type\":\"invoke\"").count() == 8).then_some(())
    };
    until("eight open calls", open).await;
    let pids = pids(lab);
    assert_eq!(pids.len(), 2);
    (living, pids)
}

#[tokio::test]
async fn a_kill_in_mid_call_leaves_calls_that_nobody_can_decide() {
    if !usable("local").await {
        return;
    }
    let lab = Lab::new();
    let (living, pids) = in_mid_call(&lab).await;
    pids.into_iter().for_each(kill);
    let report = living.wait().exits(4).report();
    let [round] = report.cells[0].rounds.as_slice() else { panic!("{report:?}") };
    assert_eq!((round.offered, round.unknown), (8, 8));
    assert_eq!(report.cells[0].errors.get(NODE_DIED), Some(&8), "{:?}", report.cells[0].errors);
    assert_eq!(check(&report.cells[0], "never-over-limit").verdict, Verdict::Unknown);
    let again = lab.run(&["analyze", "--format", "json"]).report();
    assert_eq!(again.cells, report.cells, "the history tells the same");
    lab.assert_nothing_is_left("local").await;
}

#[tokio::test]
async fn app_servers_do_not_outlive_a_lab_that_is_killed() {
    if !usable("local").await {
        return;
    }
    let lab = Lab::new();
    let (living, _) = in_mid_call(&lab).await;
    living.signal(libc::SIGKILL);
    let gone = || pids(&lab).is_empty().then_some(());
    until("no app server", gone).await;
    lab.run(&["gc"]).exits(0);
    lab.assert_nothing_is_left("local").await;
}

/// Where no kernel ends them with their lab, and their stdin is held open by somebody else.
#[tokio::test]
async fn gc_ends_app_servers_that_outlive_their_lab() {
    if !usable("local").await {
        return;
    }
    let lab = Lab::new();
    let run = "it-orphans";
    let folder = lab.path("tmp").join(format!("rl-lab-{run}"));
    std::fs::create_dir_all(folder.join("workers")).unwrap();
    let mut orphan = Served::start(&lab, &["gcra-lua", "--dir", folder.join("workers").to_str().unwrap()]);
    until("the app server", || (pids(&lab).len() == 1).then_some(())).await;
    let header = rl_lab::backends::journal::Header {
        run: run.to_owned(),
        // No process has it.
        pid: u32::MAX - 1,
        pid_start: Some(1),
        boot: None,
        started_us: 0,
    };
    let journal = rl_lab::backends::journal::Journal::begin(&lab.state(), &header).unwrap();
    journal.note(&rl_lab::backends::journal::Made::Folder { path: folder }).unwrap();
    let pid = orphan.child.id();
    lab.run(&["gc"]).exits(0).prints(&[&format!("process {pid}")]);
    assert!(!orphan.child.wait().unwrap().success());
    lab.assert_nothing_is_left("local").await;
}

on_both! { a_process_that_is_killed_at_a_step_leaves_what_a_task_leaves }

mod cases {
    use super::*;

    /// What a crash came to, without times.
    fn told(crash: &CrashReport) -> (String, String, bool) {
        let is_time = |word: &str| word.strip_prefix('(').is_some_and(|n| n.parse::<u64>().is_ok());
        let words = crash.left.split(' ').map(|word| if is_time(word) { "(so many" } else { word });
        let left: Vec<&str> = words.collect();
        (crash.died.clone(), left.join(" "), crash.released)
    }

    pub async fn a_process_that_is_killed_at_a_step_leaves_what_a_task_leaves(backend: &str) {
        const LIMITERS: &str = "incr-then-expire,fixed-window-lua,multi-incr-expire-nx,set-nx-then-incr,\
                                token-bucket-read-write,token-bucket-read-write:expire=yes";
        let lab = Lab::new();
        lab.file("processes.toml", &as_processes(include_str!("../../scenarios/crash.toml")));
        let flags = ["--strict", "--backend", backend, "--format", "json", "--limiters", LIMITERS];
        let tables = [&["crash"][..], &["run", "processes.toml"]].map(|what| {
            let report: Report = lab.run(&[what, &flags].concat()).exits(1).report();
            let of = |c: &rl_lab::model::report::CellReport| {
                let crashes: Vec<_> = c.rounds.iter().map(|r| told(r.crash.as_ref().unwrap())).collect();
                let verdicts: Vec<_> = c.checks.iter().map(|k| (k.check.clone(), k.verdict)).collect();
                (c.limiter.clone(), crashes, verdicts)
            };
            report.cells.iter().map(of).collect::<Vec<_>>()
        });
        assert_eq!(tables[0], tables[1]);
        let steps: Vec<usize> = tables[1].iter().map(|(_, crashes, _)| crashes.len()).collect();
        assert_eq!(steps, [4, 2, 2, 4, 4, 6], "each step, before and after it");
        let stuck = tables[1][0].1.iter().map(|(_, left, released)| (left.contains("no expiry"), *released));
        assert!(stuck.eq([(false, true), (true, false), (true, false), (false, true)]));
        lab.assert_nothing_is_left(backend).await;
    }
}

#[tokio::test]
async fn a_process_whose_own_clock_is_ahead_admits_what_a_task_with_such_a_clock_does() {
    if !usable("local").await {
        return;
    }
    let lab = Lab::new();
    let text = as_processes(include_str!("../../scenarios/skew.toml"));
    // A process' clock neither drifts nor is set.
    let fits =
        |part: &&str| !["drift", "set forward", "resumed"].iter().any(|v| part.contains(&format!("\"{v}\"")));
    let parts: Vec<&str> = text.split("\n\n").filter(fits).collect();
    lab.file("processes.toml", &parts.join("\n\n"));
    let limiters = "sliding-log-lua,sliding-log-lua:clock=server";
    let flags = ["--variation", "+1500 ms", "--backend", "local", "--format", "json", "--limiters", limiters];
    let run = |what: &[&str]| lab.run(&[what, &flags].concat());
    let processes = run(&["run", "processes.toml"]);
    if processes.stdout.contains("was not built with this rl-lab") {
        println!("skipped: the library that sets a clock apart was not built");
        return;
    }
    let most = |report: &Report, limiter: &str| {
        let figures = &cell(report, limiter).figures;
        figures[&rl_lab::model::figures::Figure::MostInWindow]
    };
    let (processes, tasks) = (processes.exits(0).report(), run(&["skew"]).exits(0).report());
    for report in [&processes, &tasks] {
        let verdict = |limiter| check(cell(report, limiter), "never-over-limit").verdict;
        assert_eq!(verdict("sliding-log-lua"), Verdict::Fail);
        assert_eq!(verdict("sliding-log-lua:clock=server"), Verdict::Pass);
        // Two nodes of which each forgets what the other still counts.
        assert_eq!(most(report, "sliding-log-lua"), 20.0);
    }
    lab.assert_nothing_is_left("local").await;
}

struct Quiet;

impl Progress for Quiet {
    fn note(&self, _: &str) {}
    fn warn(&self, text: &str) {
        println!("warning: {text}");
    }
    fn cell(&self, _: &Plan, _: &str, _: usize, _: usize) {}
    fn round(&self, _: u32, _: u32) {}
    fn cell_done(&self, _: &rl_lab::model::report::CellReport) {}
}

/// Runs a race on another program than the lab; in a process of its own, for the sake of its environment.
async fn lab_of_another_program() {
    let variable = |name: &str| std::env::var(name).unwrap();
    let seed = Seed(1);
    let named = scenarios::load(&variable("LAB_SCENARIO")).unwrap();
    let request = Run {
        plans: vec![plan::plan(named, &Overrides::default(), seed).unwrap()],
        exploration: None,
        columns: None,
        claims: None,
        gate: None,
        seed,
        command: Vec::new(),
        backend: "local".to_owned(),
        options: BackendOptions::default(),
        servers: None,
        ground: Default::default(),
        program: Some(variable("LAB_PROGRAM").into()),
        out: variable("RL_LAB_OUT").into(),
        stop: Stop::default(),
    };
    let report = execute::execute(request, &Quiet).await;
    std::fs::write(variable("LAB_REPORT"), serde_json::to_string(&report).unwrap()).unwrap();
}

/// What the lab makes of this scenario with app servers that are this script: by the same test in a
/// process of its own.
fn on_another_program(lab: &Lab, this: &str, scenario: &str, says: &str) -> Report {
    let scenario = lab.file("race.toml", scenario);
    let script = format!("#!/bin/sh\nread hello; echo '{{\"ready\":true}}'\n{says}\n");
    let program = lab.file("other", &script);
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, executable).unwrap();
    let written = lab.path("report.json");
    let done = lab
        .program(std::env::current_exe().unwrap())
        .args(["--exact", &format!("workers::{this}")])
        .env("LAB_PROGRAM", &program)
        .env("LAB_SCENARIO", &scenario)
        .env("LAB_REPORT", &written)
        .output();
    Done::from(done.unwrap()).exits(0);
    serde_json::from_str(&std::fs::read_to_string(written).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_app_server_that_does_not_show_its_clock_is_not_judged_by_it() {
    if std::env::var_os("LAB_PROGRAM").is_some() {
        return lab_of_another_program().await;
    }
    if !usable("local").await {
        return;
    }
    let lab = Lab::new();
    let this = "an_app_server_that_does_not_show_its_clock_is_not_judged_by_it";
    let scenario = as_processes(include_str!("../../scenarios/race.toml"));
    let scenario = scenario + "\n[[clock]]\nnode = 1\noffset = \"+2s\"\n";
    let report = on_another_program(&lab, this, &scenario, "cat >&2");
    assert!(report.finished && report.cells.len() > 5, "{report:?}");
    for check in report.cells.iter().flat_map(|c| &c.checks) {
        assert_eq!(check.verdict, Verdict::NotApplicable);
        let why = check.why.as_deref().unwrap();
        assert!(why.contains("clock") && why.contains("cannot be set"), "{why}");
    }
    lab.assert_nothing_is_left("local").await;
}

/// What admits everybody and then breaks the protocol convicts no limiter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_app_server_that_breaks_the_protocol_ends_the_run_and_decides_nothing() {
    if std::env::var_os("LAB_PROGRAM").is_some() {
        return lab_of_another_program().await;
    }
    if !usable("local").await {
        return;
    }
    let this = "an_app_server_that_breaks_the_protocol_ends_the_run_and_decides_nothing";
    let admits = "i=1; while read line; do echo \"{\\\"id\\\":$i,\\\"allowed\\\":true}\"; i=$((i+1)); \
                  [ $i = 50 ] && echo garbage; done";
    for (says, why) in [
        (admits, "what is no answer"),
        (
            "read line; echo '{\"id\":1,\"allowed\":true}'; echo '{\"id\":1,\"allowed\":true}'; cat >&2",
            "twice",
        ),
        ("read line; echo '{\"id\":999999,\"allowed\":true}'; cat >&2", "nobody made"),
        ("read line; head -c 2000000 /dev/zero | tr '\\0' x; cat >&2", "more than 1048576 bytes"),
    ] {
        let lab = Lab::new();
        let scenario = as_processes(include_str!("../../scenarios/race.toml"));
        let report = on_another_program(&lab, this, &scenario, says);
        let error = report.error.as_deref().unwrap();
        assert!(report.exit == 3 && error.contains("broke the protocol") && error.contains(why), "{error}");
        let [judged] = report.cells.as_slice() else { panic!("{report:?}") };
        let verdicts: Vec<_> = judged.checks.iter().map(|c| c.verdict).collect();
        assert!(verdicts.iter().all(|v| *v == Verdict::Unknown), "{why}: {judged:?}");
        let again = lab.run(&["analyze", "--format", "json"]).report();
        assert_eq!(again.cells, report.cells, "the history tells the same");
        lab.assert_nothing_is_left("local").await;
    }
}
