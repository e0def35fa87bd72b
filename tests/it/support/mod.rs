//! What the tests share: the real binary in a folder of its own, and what a run may leave behind.

mod call;
mod traces;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use rl_lab::backends;
use rl_lab::backends::journal;
use rl_lab::model::report::{CellReport, CheckReport, Report};
use rl_lab::ports::backend::BackendOptions;

pub use call::{Done, Living};
pub use traces::{engine_traces, processes_that_name, run_id};

/// What names this machine's engine and servers; every other variable stays outside.
const KEPT: [&str; 9] = [
    "PATH",
    "HOME",
    "XDG_CACHE_HOME",
    "DOCKER_HOST",
    "DOCKER_CONFIG",
    "RL_LAB_IMAGE",
    "RL_LAB_REDIS_SERVER",
    "RL_LAB_SERVERS",
    "RL_LAB_POSTGRES",
];

/// No engine answers there.
pub const NO_ENGINE: &str = "unix:///nonexistent.sock";

/// The lab's binary with results, journals and temporary files in a folder of the test's own.
pub struct Lab {
    home: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

/// A test that fails in mid-run leaves what its lab was killed with: removed like anybody's.
impl Drop for Lab {
    fn drop(&mut self) {
        if !journal::all_in(&self.state()).is_empty() {
            let _ = self.command(&["gc"]).output();
        }
    }
}

impl Lab {
    pub fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        for folder in ["state", "tmp"] {
            std::fs::create_dir(home.path().join(folder)).unwrap();
        }
        Self { home, variables: Vec::new() }
    }

    /// A lab that finds neither a Docker engine nor a redis-server.
    pub fn with_nothing() -> Self {
        Self::new()
            .env("PATH", "/nonexistent")
            .env("DOCKER_HOST", NO_ENGINE)
            .env("RL_LAB_IMAGE", "")
            .env("RL_LAB_REDIS_SERVER", "")
    }

    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub fn out(&self) -> PathBuf {
        self.path("out")
    }

    pub fn state(&self) -> PathBuf {
        self.path("state")
    }

    /// Writes a file into the folder the lab is called in.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Any program, called in the lab's folder under the lab's variables.
    pub fn program(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.home.path()).env_clear().stdin(Stdio::null());
        command.envs(KEPT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.env("RL_LAB_OUT", self.out()).env("RL_LAB_STATE_DIR", self.state());
        command.env("TMPDIR", self.path("tmp"));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.program(env!("CARGO_BIN_EXE_rl-lab"));
        command.args(args);
        command
    }

    /// Calls the lab and waits for its end.
    pub fn run(&self, args: &[&str]) -> Done {
        Done::from(self.command(args).output().unwrap())
    }

    /// Calls the lab and comes back while it runs.
    pub fn start(&self, args: &[&str]) -> Living {
        let mut command = self.command(args);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Living::new(child)
    }

    /// The folders of the runs so far, oldest first.
    pub fn runs(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.out()).into_iter().flatten().flatten();
        let mut runs: Vec<PathBuf> =
            entries.map(|e| e.path()).filter(|p| p.is_dir() && !p.is_symlink()).collect();
        runs.sort();
        runs
    }

    /// What is left of the lab's runs outside of their results.
    pub async fn traces(&self, backend: &str) -> Vec<String> {
        let tmp = self.path("tmp");
        let mut traces: Vec<String> =
            journal::all_in(&self.state()).iter().map(|p| format!("journal {}", p.display())).collect();
        for entry in std::fs::read_dir(&tmp).unwrap().flatten() {
            traces.push(format!("in the temp folder: {}", entry.path().display()));
        }
        traces.extend(processes_that_name(&tmp));
        if backend == "docker" {
            for run in self.runs() {
                traces.extend(engine_traces(&run_id(&run)).await);
            }
        }
        traces
    }

    pub async fn assert_nothing_is_left(&self, backend: &str) {
        assert_eq!(self.traces(backend).await, Vec::<String>::new());
    }
}

/// Whether the backend can serve here. One that cannot is skipped, unless this is where all must.
pub async fn usable(backend: &str) -> bool {
    let found = backends::survey(&BackendOptions::default()).await;
    let survey = found.into_iter().find(|s| s.name == backend).unwrap();
    if survey.usable {
        return true;
    }
    let required = std::env::var_os("RL_LAB_REQUIRE_ENGINES").is_some_and(|v| v == "1");
    assert!(!required, "backend {backend} is required and not usable: {}", survey.detail);
    let reason = match backend {
        "docker" if survey.detail.starts_with("no Docker engine") => "no Docker engine answers",
        _ => &survey.detail,
    };
    println!("skipped: {reason}");
    false
}

/// Whether the backend can serve and has every server that is known by name; else as [`usable`].
pub async fn has_every_server(backend: &str) -> bool {
    if !usable(backend).await {
        return false;
    }
    let builds = backends::survey_builds().await;
    let lacks = builds.into_iter().find_map(|b| match backend {
        "local" => b.program.err(),
        _ => b.image?.err(),
    });
    let Some(why) = lacks else { return true };
    let required = std::env::var_os("RL_LAB_REQUIRE_ENGINES").is_some_and(|v| v == "1");
    assert!(!required, "every server is required on {backend}: {why}");
    println!("skipped: {why}");
    false
}

/// Makes one test per backend out of a function in the module `cases` that takes its name.
macro_rules! on_both {
    ($($test:ident)*) => { $(mod $test {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn local() {
            if $crate::support::usable("local").await { super::cases::$test("local").await }
        }
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn docker() {
            if $crate::support::usable("docker").await { super::cases::$test("docker").await }
        }
    })* };
}
pub(crate) use on_both;

/// Waits for a state, generously: 60 s.
pub async fn until<T>(what: &str, mut state: impl FnMut() -> Option<T>) -> T {
    for _ in 0..6000 {
        if let Some(value) = state() {
            return value;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what}: not within a minute");
}

pub fn cell<'a>(report: &'a Report, limiter: &str) -> &'a CellReport {
    let labels = || report.cells.iter().map(|c| c.limiter.as_str()).collect::<Vec<_>>();
    report.cells.iter().find(|c| c.limiter == limiter).unwrap_or_else(|| panic!("{limiter}: {:?}", labels()))
}

pub fn check<'a>(cell: &'a CellReport, name: &str) -> &'a CheckReport {
    cell.checks.iter().find(|c| c.check == name).unwrap()
}
