//! Both backends against real servers: every state of a server's life, and every way a run can end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rl_lab::backends::journal::{self, Header, Journal, Made};
use rl_lab::backends::{self, gc, probe};
use rl_lab::model::report::Honesty;
use rl_lab::ports::backend::{Backend, BackendError, BackendOptions, ServerSpec};

use crate::support::{Lab, engine_traces, on_both, usable};

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
}

/// What a run says and prints under these variables, with `auto` and one limiter that needs no store.
fn auto_under(variables: &[(&str, &str)]) -> String {
    let lab = variables.iter().fold(Lab::new(), |lab, (name, value)| lab.env(name, value));
    let done = lab.run(&["race", "--limiters", "in-memory"]);
    assert!(journal::all_in(&lab.state()).is_empty());
    done.stderr + &done.stdout
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
    for part in ["there is no /nonexistent.sock", "redis-server", "Docker", "scripts/setup", "--redis-server"]
    {
        assert!(text.contains(part), "{part}");
    }
}

#[tokio::test]
async fn auto_falls_back_and_says_so() {
    if !usable("local").await {
        return;
    }
    let text = auto_under(&[("DOCKER_HOST", "unix:///nonexistent.sock")]);
    assert!(
        text.contains("using backend local: docker cannot serve") && text.contains("backend  local ("),
        "{text}"
    );
    let asked = auto_under(&[("DOCKER_HOST", "unix:///nonexistent.sock"), ("RL_LAB_IMAGE", "redis:9")]);
    assert!(asked.contains("asks for redis:9") && !asked.contains("using backend"), "{asked}");
}

#[tokio::test]
async fn a_named_program_is_never_replaced() {
    let text = auto_under(&[("RL_LAB_REDIS_SERVER", "/nonexistent/redis-server")]);
    assert!(
        text.contains("/nonexistent/redis-server: there is no such file")
            && !text.contains("using backend docker"),
        "{text}"
    );
}
