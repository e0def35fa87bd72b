//! Both backends against real servers: every state of a server's life, and every way a run can end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rl_lab::backends::journal::{self, Header, Journal, Made};
use rl_lab::backends::{self, gc, probe};
use rl_lab::model::report::Honesty;
use rl_lab::ports::backend::{Backend, BackendError, BackendOptions, ServerSpec};

use crate::support::{engine_traces, on_both, usable};

const SECOND: Duration = Duration::from_secs(1);

/// A run with a state folder of its own.
struct Run {
    id: String,
    state: tempfile::TempDir,
    journal: Arc<Journal>,
}

impl Run {
    fn new(id: &str) -> Self {
        let state = tempfile::tempdir().unwrap();
        let id = format!("it-{}-{id}", std::process::id());
        let journal = Arc::new(Journal::open_in(state.path(), &id).unwrap());
        Self { id, state, journal }
    }

    /// A run whose lab has died. (No process ever has this pid: it is above the kernel's limit.)
    fn of_a_dead_lab(id: &str) -> Self {
        let mut run = Self::new(id);
        run.journal.close();
        let header =
            Header { run: run.id.clone(), pid: 99_999_999, pid_start: Some(1), boot: None, started_us: 0 };
        run.journal = Arc::new(Journal::begin(run.state.path(), &header).unwrap());
        run
    }

    async fn open(&self, backend: &str, options: &BackendOptions) -> Result<Arc<dyn Backend>, BackendError> {
        backends::open(backend, options, Arc::clone(&self.journal), &mut |_| ()).await
    }

    fn folder(&self) -> PathBuf {
        gc::run_folder(&self.id)
    }

    /// Everything of the run that is still there, journal aside.
    async fn traces(&self, backend: &str) -> Vec<String> {
        let mut traces = Vec::new();
        if self.folder().exists() {
            traces.push(format!("folder {}", self.folder().display()));
        }
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let args = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            if String::from_utf8_lossy(&args).contains(&format!("rl-lab-{}/", self.id)) {
                traces.push(format!("process {}", entry.path().display()));
            }
        }
        if backend == "docker" {
            traces.extend(engine_traces(&self.id).await);
        }
        traces
    }

    async fn assert_nothing_is_left(&self, backend: &str) {
        assert_eq!(self.traces(backend).await, Vec::<String>::new());
        assert_eq!(journal::all_in(self.state.path()), Vec::<PathBuf>::new());
    }
}

fn spec(name: &str) -> ServerSpec {
    ServerSpec { name: name.to_owned(), ..Default::default() }
}

fn with(name: &str, key: &str, value: &str) -> ServerSpec {
    ServerSpec { config: [(key.to_owned(), value.to_owned())].into(), ..spec(name) }
}

async fn ping(address: SocketAddr) -> Result<(), String> {
    probe::ping(address, SECOND / 3).await
}

on_both! {
    a_server_lives_freezes_dies_and_returns
    a_start_that_takes_too_long_leaves_nothing
    a_bad_configuration_is_refused_in_the_servers_own_words
    a_start_nobody_waits_for_is_still_cleaned_up
    an_end_does_not_wait_for_a_slow_start
    gc_removes_a_dead_run_and_no_living_one
    a_name_is_used_once
    a_lab_that_is_killed_is_healed_by_gc
}

mod cases {
    use super::*;

    pub async fn a_server_lives_freezes_dies_and_returns(backend: &str) {
        let run = Run::new(&format!("life-{backend}"));
        let lab = run.open(backend, &BackendOptions::default()).await.unwrap();
        let server = lab.start(spec("primary")).await.unwrap();
        assert_eq!((server.name(), lab.name()), ("primary", backend));
        ping(server.address()).await.unwrap();

        server.pause().await.unwrap();
        let silence = ping(server.address()).await.unwrap_err();
        assert!(silence.contains("no answer within"), "{silence}");
        server.resume().await.unwrap();
        server.resume().await.unwrap();
        ping(server.address()).await.unwrap();

        server.pause().await.unwrap();
        server.kill().await.unwrap();
        server.kill().await.unwrap();
        ping(server.address()).await.unwrap_err();
        assert!(server.pause().await.is_err(), "a dead server cannot be frozen");

        server.restart().await.unwrap();
        ping(server.address()).await.unwrap();

        let mut honesty = Honesty::default();
        lab.describe(&mut honesty);
        println!("{honesty:#?}");
        assert_eq!(honesty.backend, backend);
        assert!(honesty.network_path.is_some() && !honesty.chosen_because.is_empty());
        assert_eq!(honesty.image_digest.is_some(), backend == "docker");

        lab.shutdown().await.unwrap();
        lab.shutdown().await.unwrap();
        server.stop().await.unwrap();
        run.assert_nothing_is_left(backend).await;
        assert!(matches!(lab.start(spec("late")).await, Err(BackendError::Interrupted)));
        run.assert_nothing_is_left(backend).await;
    }

    pub async fn a_start_that_takes_too_long_leaves_nothing(backend: &str) {
        let run = Run::new(&format!("slow-{backend}"));
        let options = BackendOptions { start_timeout: Some(SECOND / 3), ..Default::default() };
        let lab = run.open(backend, &options).await.unwrap();
        // It serves, but not what is asked of it.
        let error = lab.start(with("primary", "rename-command", "PING gone")).await.err().unwrap();
        assert!(matches!(error, BackendError::StartTimeout { .. }), "{error}");
        assert!(error.to_string().contains("unknown command"), "{error}");
        assert!(error.to_string().contains("Ready to accept connections"), "{error}");
        println!("{error}");
        let traces = run.traces(backend).await;
        assert!(!traces.iter().any(|t| t.contains("container") || t.contains("process")), "{traces:?}");
        lab.shutdown().await.unwrap();
        run.assert_nothing_is_left(backend).await;
    }

    pub async fn a_bad_configuration_is_refused_in_the_servers_own_words(backend: &str) {
        let run = Run::new(&format!("config-{backend}"));
        let lab = run.open(backend, &BackendOptions::default()).await.unwrap();
        let error = lab.start(with("primary", "maxmemory", "plenty")).await.err().unwrap();
        assert!(matches!(error, BackendError::StartFailed { .. }), "{error}");
        let error = error.to_string();
        assert!(error.contains("FATAL CONFIG") && error.contains("maxmemory \"plenty\""), "{error}");
        println!("{error}");
        // The name is free again, and the backend still works.
        let server = lab.start(with("primary", "maxmemory", "2mb")).await.unwrap();
        ping(server.address()).await.unwrap();
        lab.shutdown().await.unwrap();
        run.assert_nothing_is_left(backend).await;
    }

    pub async fn a_start_nobody_waits_for_is_still_cleaned_up(backend: &str) {
        let run = Run::new(&format!("dropped-{backend}"));
        let lab = run.open(backend, &BackendOptions::default()).await.unwrap();
        for (n, after) in [0, 3, 30, 100, 200].into_iter().enumerate() {
            let start = lab.start(spec(&format!("s{n}")));
            let _ = tokio::time::timeout(Duration::from_millis(after), start).await;
        }
        lab.shutdown().await.unwrap();
        run.assert_nothing_is_left(backend).await;
        tokio::time::sleep(SECOND).await;
        run.assert_nothing_is_left(backend).await;
    }

    pub async fn an_end_does_not_wait_for_a_slow_start(backend: &str) {
        let run = Run::new(&format!("ended-{backend}"));
        let lab = run.open(backend, &BackendOptions::default()).await.unwrap();
        let starts: Vec<_> = (0..3)
            .map(|n| {
                let lab = Arc::clone(&lab);
                tokio::spawn(async move { lab.start(spec(&format!("s{n}"))).await.map(|_| ()) })
            })
            .collect();
        tokio::task::yield_now().await;
        tokio::time::timeout(8 * SECOND, lab.shutdown()).await.unwrap().unwrap();
        for start in starts {
            let outcome = start.await.unwrap();
            assert!(matches!(outcome, Ok(()) | Err(BackendError::Interrupted)), "{outcome:?}");
        }
        run.assert_nothing_is_left(backend).await;
    }

    pub async fn gc_removes_a_dead_run_and_no_living_one(backend: &str) {
        let living = Run::new(&format!("living-{backend}"));
        let living_lab = living.open(backend, &BackendOptions::default()).await.unwrap();
        let living_server = living_lab.start(spec("primary")).await.unwrap();

        let dead = Run::of_a_dead_lab(&format!("dead-{backend}"));
        let dead_lab = dead.open(backend, &BackendOptions::default()).await.unwrap();
        // What a SIGKILL does to destructors.
        std::mem::forget(dead_lab.start(spec("primary")).await.unwrap());
        std::mem::forget(dead_lab);
        let before = dead.traces(backend).await;
        assert!(before.len() >= 2, "{before:?}");

        let plan = gc::gc_in(dead.state.path(), true, None).await;
        assert_eq!(dead.traces(backend).await, before, "a dry run removes nothing");
        let done = gc::gc_in(dead.state.path(), false, Some(&dead.id)).await;
        assert_eq!(plan, done, "and names what is then removed");
        println!("{done:#?}");
        assert!(done.left.is_empty() && done.removed.len() >= 2, "{done:?}");
        dead.assert_nothing_is_left(backend).await;
        assert_eq!(gc::gc_in(dead.state.path(), false, None).await, gc::GcReport::default());

        let untouched = gc::gc_in(living.state.path(), false, None).await;
        assert_eq!(untouched.alive, std::slice::from_ref(&living.id));
        ping(living_server.address()).await.unwrap();
        living_lab.shutdown().await.unwrap();
        living.assert_nothing_is_left(backend).await;
    }

    pub async fn a_name_is_used_once(backend: &str) {
        let run = Run::new(&format!("twice-{backend}"));
        let lab = run.open(backend, &BackendOptions::default()).await.unwrap();
        let (first, other) = tokio::join!(lab.start(spec("a")), lab.start(spec("b")));
        let (first, other) = (first.unwrap(), other.unwrap());
        assert_ne!(first.address(), other.address());
        let again = lab.start(spec("a")).await.err().unwrap();
        assert!(matches!(again, BackendError::StartFailed { .. }), "{again}");
        ping(first.address()).await.unwrap();
        first.stop().await.unwrap();
        ping(lab.start(spec("a")).await.unwrap().address()).await.unwrap();
        lab.shutdown().await.unwrap();
        run.assert_nothing_is_left(backend).await;
    }

    pub async fn a_lab_that_is_killed_is_healed_by_gc(backend: &str) {
        let run = Run::new(&format!("killed-{backend}"));
        run.journal.close();
        let state = run.state.path().to_str().unwrap();
        let mut lab = helper("lab_that_waits_to_be_killed")
            .env("LAB_BACKEND", backend)
            .env("LAB_RUN", &run.id)
            .env("RL_LAB_STATE_DIR", state)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let ready = run.state.path().join("ready");
        for _ in 0..500 {
            if ready.exists() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(ready.exists(), "the lab did not start its server");
        let early = gc::gc_in(run.state.path(), false, None).await;
        assert_eq!(early.alive, std::slice::from_ref(&run.id));

        lab.kill().unwrap();
        // Not reaped yet: where nothing reaps it, a dead lab stays a zombie and is dead all the same.
        tokio::time::sleep(SECOND / 5).await;
        let report = gc::gc_in(run.state.path(), false, None).await;
        println!("{report:#?}");
        assert!(
            report.left.is_empty() && report.alive.is_empty() && !report.removed.is_empty(),
            "{report:?}"
        );
        if cfg!(target_os = "linux") {
            let outlived = report.removed.iter().any(|what| what.starts_with("process"));
            assert!(!outlived, "the kernel ends a dead lab's servers: {report:?}");
        }
        lab.wait().unwrap();
        run.assert_nothing_is_left(backend).await;
    }
}

/// Runs one of the ignored tests below in a process of its own.
fn helper(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--nocapture", "--exact", &format!("backends::{name}")]);
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a process that another test starts and kills"]
async fn lab_that_waits_to_be_killed() {
    let variable = |name: &str| std::env::var(name).unwrap();
    let journal = Arc::new(Journal::open(&variable("LAB_RUN")).unwrap());
    let options = BackendOptions::default();
    let lab = backends::open(&variable("LAB_BACKEND"), &options, journal, &mut |_| ()).await.unwrap();
    let _server = lab.start(spec("primary")).await.unwrap();
    std::fs::write(journal::state_folder().join("ready"), "").unwrap();
    tokio::time::sleep(60 * SECOND).await;
}

#[tokio::test]
#[ignore = "a process that another test starts with an environment of its own"]
async fn lab_that_prints_what_auto_says() {
    let journal = Arc::new(Journal::open("it-auto").unwrap());
    let mut said = Vec::new();
    let opened =
        backends::open("auto", &BackendOptions::default(), journal, &mut |note| said.push(note)).await;
    for note in said {
        println!("said: {note}");
    }
    match opened {
        Ok(lab) => {
            let mut honesty = Honesty::default();
            lab.describe(&mut honesty);
            println!("chosen: {} because {}", honesty.backend, honesty.chosen_because);
            lab.shutdown().await.unwrap();
        }
        Err(error) => println!("error: {error}"),
    }
}

/// What `auto` prints under these variables, with a state and temp folder of its own.
fn auto_under(variables: &[(&str, &str)]) -> String {
    let state = tempfile::tempdir().unwrap();
    let mut command = helper("lab_that_prints_what_auto_says");
    command.env("RL_LAB_STATE_DIR", state.path()).env("TMPDIR", state.path());
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(journal::all_in(state.path()).is_empty());
    println!("{text}");
    text
}

#[tokio::test]
async fn gc_keeps_the_journal_of_what_it_cannot_reach() {
    let run = Run::of_a_dead_lab("unreachable");
    let docker_host = "unix:///nonexistent.sock".to_owned();
    let name = format!("rl-lab-{}", run.id);
    run.journal.note(&Made::Network { name: name.clone(), docker_host }).unwrap();
    // The crash came in the middle of the next line.
    let mut file = std::fs::OpenOptions::new().append(true).open(run.journal.path()).unwrap();
    std::io::Write::write_all(&mut file, b"{\"made\":\"contai").unwrap();

    let report = gc::gc_in(run.state.path(), false, None).await;
    assert!(report.left.len() == 1 && report.left[0].contains(&name), "{report:?}");
    assert_eq!(journal::all_in(run.state.path()), [run.journal.path().to_owned()]);
}

#[test]
fn auto_without_anything_names_both_ways_out() {
    let text = auto_under(&[("DOCKER_HOST", "unix:///nonexistent.sock"), ("PATH", "/nonexistent")]);
    for part in [
        "error: ",
        "there is no /nonexistent.sock",
        "redis-server",
        "Docker",
        "scripts/setup",
        "--redis-server",
    ] {
        assert!(text.contains(part), "{part}");
    }
}

#[tokio::test]
async fn auto_falls_back_and_says_so() {
    if !usable("local").await {
        return;
    }
    let text = auto_under(&[("DOCKER_HOST", "unix:///nonexistent.sock")]);
    assert!(text.contains("said: using backend local") && text.contains("chosen: local because"), "{text}");
    let asked = auto_under(&[("DOCKER_HOST", "unix:///nonexistent.sock"), ("RL_LAB_IMAGE", "redis:9")]);
    assert!(asked.contains("error: RL_LAB_IMAGE asks for redis:9"), "{asked}");
}

#[tokio::test]
async fn a_named_program_is_never_replaced() {
    let text = auto_under(&[("RL_LAB_REDIS_SERVER", "/nonexistent/redis-server")]);
    assert!(
        text.contains("error: RL_LAB_REDIS_SERVER /nonexistent/redis-server: there is no such file"),
        "{text}"
    );
}
