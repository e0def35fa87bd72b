//! App servers as processes of their own, this very program or somebody else's, started here and ended with the lab.
//!
//! This program names a folder of the run as its `--dir`, as the servers of the local backend do, and others find it
//! in their environment, as do their children; by that `rl-lab gc` knows what is left of a run that was killed.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::journal::{Journal, Made};
use super::spawner::{self, Running};
use super::{gc, last_words, preload, processes};
use crate::model::offset::Offset;
use crate::ports::BoxFuture;
use crate::ports::backend::BackendError;

/// Starts the app servers of a run.
pub struct Workers {
    /// This very program where absent.
    program: Option<PathBuf>,
    journal: Arc<Journal>,
    folder: PathBuf,
    count: AtomicU32,
}

/// One of them; killed and reaped when dropped.
pub struct Worker {
    running: Mutex<Running>,
    pid: u32,
    log: PathBuf,
}

/// What is started.
#[derive(Debug, Clone)]
pub enum Launch {
    /// This very program, told these arguments.
    Own(Vec<String>),
    Other(Other),
}

/// Somebody else's program.
#[derive(Debug, Clone)]
pub struct Other {
    /// It and its arguments.
    pub command: Vec<String>,
    /// Where it runs.
    pub folder: PathBuf,
    pub env: Vec<(String, String)>,
    /// Whether its stdout is for the lab to read; a log like its stderr otherwise.
    pub talks: bool,
}

/// The lab's ends of its pipes; of its stdout where that is the lab's to read.
pub struct Pipes {
    pub stdin: OwnedFd,
    pub stdout: Option<OwnedFd>,
}

fn failed(why: impl std::fmt::Display) -> BackendError {
    BackendError::Engine { what: "starting an app server".to_owned(), why: why.to_string() }
}

impl Workers {
    /// Of a run; `program` is an rl-lab, this very one where absent.
    pub fn of(journal: &Arc<Journal>, program: Option<PathBuf>) -> Self {
        let folder = gc::run_folder(journal.run()).join("workers");
        Self { program, journal: Arc::clone(journal), folder, count: AtomicU32::new(0) }
    }

    /// Starts one. With a clock its process' own is so far ahead; whether that took has to be asked of it.
    /// `Unsupported` where it cannot be had.
    ///
    /// Boxed, as everything public here.
    pub fn start<'a>(
        &'a self,
        launch: &'a Launch,
        clock: Option<Offset>,
    ) -> BoxFuture<'a, Result<(Worker, Pipes), BackendError>> {
        Box::pin(async move {
            let library = clock.map(|_| preload::library()).transpose()?;
            self.make_folder()?;
            let number = self.count.fetch_add(1, Ordering::Relaxed);
            let log = self.folder.join(format!("{number}.log"));
            let mut command = self.command(launch)?;
            command.stdin(Stdio::piped());
            let written = File::create(&log).map_err(failed)?;
            let talks = !matches!(launch, Launch::Other(other) if !other.talks);
            if talks {
                command.stdout(Stdio::piped());
            } else {
                command.stdout(written.try_clone().map_err(failed)?);
            }
            command.stderr(written);
            if let (Some(library), Some(clock)) = (library, clock) {
                let file = self.folder.join(preload::FILE);
                place(library, &file)?;
                command.env("LD_PRELOAD", file).env(preload::VARIABLE, clock.millis().to_string());
            }
            let mut running = spawner::spawn(command, Arc::clone(&self.journal)).await?;
            let (stdin, stdout) = running.pipes();
            let stdin = stdin.ok_or_else(|| failed("it has no stdin"))?;
            let pid = running.pid();
            let pipes = Pipes { stdin: stdin.into(), stdout: stdout.map(Into::into) };
            Ok((Worker { running: Mutex::new(running), pid, log }, pipes))
        })
    }

    fn command(&self, launch: &Launch) -> Result<Command, BackendError> {
        match launch {
            Launch::Own(args) => {
                let mut command = Command::new(self.program()?);
                command.arg0("rl-lab").args(args).arg("--dir").arg(&self.folder).current_dir(&self.folder);
                Ok(command)
            }
            Launch::Other(Other { command, folder, env, .. }) => {
                let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
                let (program, args) = command.split_first().ok_or_else(|| failed("no program is named"))?;
                // A path is beside the file that names it, a name is one of the system's.
                let folder = std::path::absolute(here).map_err(failed)?;
                let beside = folder.join(program);
                let program = if program.contains('/') && beside.exists() { beside } else { program.into() };
                let mut command = Command::new(program);
                command.args(args).envs(env.iter().map(|(n, v)| (n, v)));
                command.env(processes::MARK, &self.folder);
                command.current_dir(&folder);
                Ok(command)
            }
        }
    }

    /// Not by its path, where that can be helped: another build may lie there by now.
    fn program(&self) -> Result<PathBuf, BackendError> {
        match &self.program {
            Some(program) => Ok(program.clone()),
            None if cfg!(target_os = "linux") => Ok("/proc/self/exe".into()),
            None => std::env::current_exe().map_err(failed),
        }
    }

    /// Makes the folder of the run, unless its servers live there already, and one in it.
    fn make_folder(&self) -> Result<(), BackendError> {
        if self.folder.is_dir() {
            return Ok(());
        }
        let run = gc::run_folder(self.journal.run());
        let mut private = std::fs::DirBuilder::new();
        private.mode(0o700);
        if !run.is_dir() {
            self.journal.note(&Made::Folder { path: run.clone() })?;
            private.create(&run).map_err(failed)?;
        }
        private.create(&self.folder).map_err(failed)
    }
}

/// Written once: one that runs has it mapped.
fn place(library: &[u8], file: &Path) -> Result<(), BackendError> {
    if file.exists() { Ok(()) } else { std::fs::write(file, library).map_err(failed) }
}

impl Worker {
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Ends it by SIGKILL, wherever it is. It is gone when this returns.
    pub fn kill(&self) -> std::io::Result<()> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).end().map(|_| ())
    }

    /// How it ended, if it has.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).ended().ok().flatten()
    }

    /// What it wrote to stderr, as the end of a message.
    pub fn last_words(&self) -> String {
        last_words(&std::fs::read_to_string(&self.log).unwrap_or_default())
    }
}
