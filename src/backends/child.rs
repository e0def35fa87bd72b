//! One server as a child process.

use std::ffi::OsStr;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::local::Shared;
use super::spawner::{self, Running};
use super::{arguments, last_words, port, preload, probe, processes, remove_folder};
use crate::ports::BoxFuture;
use crate::ports::backend::{BackendError, Server, ServerProgram, ServerSpec};
use crate::ports::limiter::Version;

/// Between two looks at a server that starts, stops or freezes.
const POLL: Duration = Duration::from_millis(2);

/// A signal acts in less than a millisecond; this is for a machine that is very busy.
const SIGNAL_ACTS_WITHIN: Duration = Duration::from_secs(2);

/// A server process with its own folder.
pub struct ChildServer {
    shared: Arc<Shared>,
    name: String,
    folder: PathBuf,
    spec: ServerSpec,
    port: Mutex<u16>,
    /// One change of state at a time. `None` while there is no process.
    process: tokio::sync::Mutex<Option<Running>>,
}

/// Why a start came to nothing.
enum Failure {
    /// Ended on its own: how, and its last words.
    Ended {
        how: String,
        log: String,
    },
    Told(BackendError),
}

impl ChildServer {
    /// Starts the process and waits until it answers. On error neither it nor its folder is left.
    pub async fn start(shared: Arc<Shared>, spec: &ServerSpec) -> Result<Self, BackendError> {
        arguments::of(spec, "", &[])?;
        let preload = spec.clock.map(|_| preload::library()).transpose()?;
        let folder = shared.folder.join(&spec.name);
        let cannot = |error: std::io::Error| BackendError::StartFailed {
            server: spec.name.clone(),
            why: format!("cannot make its folder {}: {error}", folder.display()),
        };
        std::fs::create_dir(&folder).map_err(cannot)?;
        if let Some(library) = preload {
            std::fs::write(folder.join(preload::FILE), library).map_err(cannot)?;
        }
        if spec.program == ServerProgram::Sentinel {
            std::fs::write(folder.join(arguments::SENTINEL_FILE), []).map_err(cannot)?;
        }
        let server = Self {
            shared,
            name: spec.name.clone(),
            folder,
            spec: spec.clone(),
            port: Mutex::new(0),
            process: tokio::sync::Mutex::new(None),
        };
        let outcome = server.start_on_a_free_port().await;
        match outcome {
            Ok(()) => Ok(server),
            Err(error) => {
                let _ = std::fs::remove_dir_all(&server.folder);
                Err(error)
            }
        }
    }

    async fn start_on_a_free_port(&self) -> Result<(), BackendError> {
        for attempt in 1.. {
            let port = port::free(attempt)
                .ok_or_else(|| self.failed("there is no free port on the loopback address".to_owned()))?;
            *self.port.lock().unwrap_or_else(PoisonError::into_inner) = port;
            match self.boot().await {
                Err(Failure::Ended { log, .. }) if port::was_taken(&log) && attempt < port::ATTEMPTS => {}
                outcome => return outcome.map_err(|failure| self.explain(failure)),
            }
        }
        Ok(())
    }

    /// Starts the process on the port it has and waits until it answers.
    async fn boot(&self) -> Result<(), Failure> {
        let mut slot = self.process.lock().await;
        *slot = None;
        let command = self.command().map_err(Failure::Told)?;
        let mut running =
            spawner::spawn(command, Arc::clone(&self.shared.journal)).await.map_err(Failure::Told)?;
        let limit = self.shared.start_timeout;
        let mut last = String::new();
        let outcome = tokio::select! {
            () = self.shared.gate.closed() => Err(Failure::Told(BackendError::Interrupted)),
            outcome = timeout(limit, self.poll(&mut running, &mut last)) => outcome.unwrap_or_else(|_| {
                let (server, log) = (self.name.clone(), last_words(&self.log()));
                Err(Failure::Told(BackendError::StartTimeout { server, after: limit, last, log }))
            }),
        };
        outcome?;
        *slot = Some(running);
        Ok(())
    }

    async fn poll(&self, running: &mut Running, last: &mut String) -> Result<(), Failure> {
        loop {
            match running.ended() {
                Ok(None) => {}
                Ok(Some(status)) => {
                    return Err(Failure::Ended { how: status.to_string(), log: self.log() });
                }
                Err(error) => return Err(Failure::Told(self.failed(error.to_string()))),
            }
            match self.answers(running.pid()).await {
                Ok(()) => return preload::verify(&self.spec, self.address()).await.map_err(Failure::Told),
                Err(why) => *last = why,
            }
            sleep(POLL).await;
        }
    }

    /// Whether this very process answers: between the choice of the port and its use, somebody
    /// else's server may have taken it, and would be measured instead.
    async fn answers(&self, pid: u32) -> Result<(), String> {
        probe::ready(self.address()).await?;
        match probe::process_id(self.address()).await? {
            Some(other) if other != pid => {
                Err(format!("process {other} answers at {} instead of {pid}", self.address()))
            }
            _ => Ok(()),
        }
    }

    fn command(&self) -> Result<Command, BackendError> {
        let (port, folder) = (self.address().port().to_string(), self.folder.display().to_string());
        let log = self.folder.join(LOG).display().to_string();
        let mut fixed = vec![
            ("port", port.as_str()),
            ("bind", "127.0.0.1"),
            ("daemonize", "no"),
            ("dir", folder.as_str()),
            ("logfile", log.as_str()),
            ("loglevel", "notice"),
        ];
        // A title of its own would hide the folder, by which gc knows the process. New in 6.2.
        if Version::parse(&self.shared.binary.version).is_some_and(|v| v >= Version(6, 2)) {
            fixed.push(("set-proc-title", "no"));
        }
        let output = || File::create(self.folder.join(OUTPUT));
        let (out, err) = output()
            .and_then(|file| Ok((file.try_clone()?, file)))
            .map_err(|error| self.failed(format!("cannot write in {folder}: {error}")))?;
        let mut command = Command::new(&self.shared.binary.path);
        command.args(arguments::of(&self.spec, &folder, &fixed)?).current_dir(&self.folder);
        // Sentinels keep no keys.
        if self.spec.program == ServerProgram::Server {
            command.args(
                self.shared
                    .modules
                    .iter()
                    .flat_map(|module| [OsStr::new("--loadmodule"), module.as_os_str()]),
            );
        }
        if let Some(clock) = self.spec.clock {
            command.env("LD_PRELOAD", self.folder.join(preload::FILE));
            command.env(preload::VARIABLE, clock.millis().to_string());
        }
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        Ok(command)
    }

    /// What the server wrote: an error in its configuration goes to its output, the rest to its log.
    fn log(&self) -> String {
        [OUTPUT, LOG].map(|name| read_lossy(&self.folder.join(name))).concat()
    }

    fn failed(&self, why: String) -> BackendError {
        BackendError::StartFailed { server: self.name.clone(), why }
    }

    fn explain(&self, failure: Failure) -> BackendError {
        match failure {
            Failure::Told(error) => error,
            Failure::Ended { how, log } => {
                self.failed(format!("its process ended with {how}{}", last_words(&log)))
            }
        }
    }

    /// Sends a signal and waits until it has acted. Where nobody tells, it is taken to act at once.
    async fn freeze(&self, signal: i32, stopped: bool, doing: &str) -> Result<(), BackendError> {
        let refused = |why: String| BackendError::Engine { what: format!("{doing} '{}'", self.name), why };
        let mut slot = self.process.lock().await;
        let Some(running) = slot.as_mut() else { return Err(refused("it does not run".to_owned())) };
        if let Some(status) = running.ended().map_err(|e| refused(e.to_string()))? {
            return Err(refused(format!("its process has ended with {status}{}", last_words(&self.log()))));
        }
        processes::signal(running.pid(), signal).map_err(|e| refused(e.to_string()))?;
        let acted = async {
            while processes::stopped(running.pid()).is_some_and(|is| is != stopped) {
                sleep(POLL).await;
            }
        };
        let late = |_| refused(format!("the signal did not act within {SIGNAL_ACTS_WITHIN:?}"));
        timeout(SIGNAL_ACTS_WITHIN, acted).await.map_err(late)
    }

    async fn end(&self) -> Result<(), BackendError> {
        let Some(mut running) = self.process.lock().await.take() else { return Ok(()) };
        let refused = |why: String| BackendError::Engine { what: format!("killing '{}'", self.name), why };
        running.end().map(|_| ()).map_err(|error| refused(error.to_string()))
    }

    async fn reboot(&self) -> Result<(), BackendError> {
        let _inside = self.shared.gate.enter().await?;
        if let Some(running) = self.process.lock().await.as_mut()
            && matches!(running.ended(), Ok(None))
        {
            let what = format!("restarting '{}'", self.name);
            return Err(BackendError::Engine { what, why: "it still runs; kill it first".to_owned() });
        }
        self.boot().await.map_err(|failure| self.explain(failure))
    }
}

impl Server for ChildServer {
    fn name(&self) -> &str {
        &self.name
    }

    fn address(&self) -> SocketAddr {
        let port = *self.port.lock().unwrap_or_else(PoisonError::into_inner);
        SocketAddr::from((Ipv4Addr::LOCALHOST, port))
    }

    fn pause(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(self.freeze(libc::SIGSTOP, true, "pausing"))
    }

    fn resume(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(self.freeze(libc::SIGCONT, false, "resuming"))
    }

    fn kill(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(self.end())
    }

    fn restart(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(self.reboot())
    }

    /// By SIGKILL: there is nothing to save, and a primary that is asked nicely waits up to ten
    /// seconds for its replicas.
    fn stop(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(async {
            self.end().await?;
            remove_folder(&self.folder)
        })
    }
}

const LOG: &str = "server.log";
const OUTPUT: &str = "output.log";

fn read_lossy(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}
