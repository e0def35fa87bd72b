//! One PostgreSQL on this host. A server is many processes, each with a session of its own: all of them are frozen,
//! killed and waited for, since one that was left would hold the data.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::local::Shared;
use super::postgres::{self, DATA, Installed};
use super::spawner::{self, Running};
use super::{arguments, last_words, port, probe, processes, remove_folder};
use crate::ports::BoxFuture;
use crate::ports::backend::{BackendError, Server, ServerProgram, ServerSpec};

const POLL: Duration = Duration::from_millis(5);
const SIGNALS_ACT_WITHIN: Duration = Duration::from_secs(5);
const LOG: &str = "server.log";

/// A server with its own folder.
pub struct Postmaster {
    shared: Arc<Shared>,
    installed: Arc<Installed>,
    name: String,
    folder: PathBuf,
    settings: Vec<String>,
    port: Mutex<u16>,
    /// One change of state at a time. `None` while there is no process.
    process: tokio::sync::Mutex<Option<Running>>,
}

enum Failure {
    /// Ended on its own: how, and its last words.
    Ended(String, String),
    Told(BackendError),
}

impl Postmaster {
    /// Copies a data folder, starts the server and waits until it lets somebody in. On error neither is left.
    pub async fn start(
        shared: Arc<Shared>,
        installed: Arc<Installed>,
        spec: &ServerSpec,
    ) -> Result<Self, BackendError> {
        let settings = arguments::of(spec, "", &[])?;
        let failed = |why: String| BackendError::StartFailed { server: spec.name.clone(), why };
        let folder = shared.folder.join(&spec.name);
        std::fs::create_dir(&folder).map_err(|e| failed(format!("{}: {e}", folder.display())))?;
        let (from, to) = (Arc::clone(&installed), folder.join(DATA));
        let copied = tokio::task::spawn_blocking(move || from.copy_template(&to)).await;
        copied
            .map_err(std::io::Error::other)
            .flatten()
            .map_err(|e| failed(format!("cannot copy its data folder: {e}")))?;
        let server = Self {
            shared,
            installed,
            name: spec.name.clone(),
            folder,
            settings,
            port: Mutex::new(0),
            process: tokio::sync::Mutex::new(None),
        };
        match server.start_on_a_free_port().await {
            Ok(()) => Ok(server),
            Err(error) => {
                postgres::release_memory(&server.folder.join(DATA));
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
                Err(Failure::Ended(_, log)) if port::was_taken(&log) && attempt < port::ATTEMPTS => {}
                outcome => return outcome.map_err(|failure| self.explain(failure)),
            }
        }
        Ok(())
    }

    async fn boot(&self) -> Result<(), Failure> {
        let mut slot = self.process.lock().await;
        *slot = None;
        let command = self.command().map_err(Failure::Told)?;
        let journal = Arc::clone(&self.shared.journal);
        let mut running = spawner::spawn(command, journal).await.map_err(Failure::Told)?;
        let limit = self.shared.start_timeout;
        let mut last = String::new();
        let outcome = tokio::select! {
            () = self.shared.gate.closed() => Err(Failure::Told(BackendError::Interrupted)),
            outcome = timeout(limit, self.poll(&mut running, &mut last)) => outcome.unwrap_or_else(|_| {
                let (server, log) = (self.name.clone(), last_words(&self.log()));
                Err(Failure::Told(BackendError::StartTimeout { server, after: limit, last, log }))
            }),
        };
        if let Err(failure) = outcome {
            let _ = end(running).await;
            return Err(failure);
        }
        *slot = Some(running);
        Ok(())
    }

    async fn poll(&self, running: &mut Running, last: &mut String) -> Result<(), Failure> {
        loop {
            match running.ended() {
                Ok(None) => {}
                Ok(Some(status)) => return Err(Failure::Ended(status.to_string(), self.log())),
                Err(error) => return Err(Failure::Told(self.failed(error.to_string()))),
            }
            match self.answers(running.pid()).await {
                Ok(()) => return Ok(()),
                Err(why) => *last = why,
            }
            sleep(POLL).await;
        }
    }

    /// Whether this very server lets somebody in: it writes down who it is and that it is ready, and who finds its
    /// port taken ends.
    async fn answers(&self, pid: u32) -> Result<(), String> {
        let told = std::fs::read_to_string(self.folder.join(DATA).join("postmaster.pid")).unwrap_or_default();
        let lines: Vec<&str> = told.lines().map(str::trim).collect();
        if lines.first() != Some(&pid.to_string().as_str()) || lines.get(7) != Some(&"ready") {
            return Err("it is not ready by its own account".to_owned());
        }
        probe::lets_in(self.address()).await
    }

    fn command(&self) -> Result<Command, BackendError> {
        let data = self.folder.join(DATA);
        let log = self.folder.join(LOG);
        let (out, err) = File::create(&log)
            .and_then(|file| Ok((file.try_clone()?, file)))
            .map_err(|e| self.failed(format!("{}: {e}", log.display())))?;
        let mut command = self.installed.command(&self.installed.program);
        command.arg("-D").arg(&data).arg("-p").arg(self.address().port().to_string());
        // By the name of the run's folder gc knows the children of a server that was killed.
        let cluster = self.shared.folder.file_name().unwrap_or_default().to_string_lossy();
        for (name, value) in [
            ("listen_addresses", "127.0.0.1"),
            ("unix_socket_directories", ""),
            ("cluster_name", &*cluster),
            // In the data folder, where it is removed with everything else.
            ("dynamic_shared_memory_type", "mmap"),
        ] {
            command.args(["-c", &format!("{name}={value}")]);
        }
        command.args(&self.settings).current_dir(&data);
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        Ok(command)
    }

    fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.folder.join(LOG)).unwrap_or_default()).into_owned()
    }

    fn failed(&self, why: String) -> BackendError {
        BackendError::StartFailed { server: self.name.clone(), why }
    }

    fn refused(&self, doing: &str, why: String) -> BackendError {
        BackendError::Engine { what: format!("{doing} '{}'", self.name), why }
    }

    fn explain(&self, failure: Failure) -> BackendError {
        match failure {
            Failure::Told(error) => error,
            Failure::Ended(how, log) => {
                self.failed(format!("its process ended with {how}{}", last_words(&log)))
            }
        }
    }

    /// Stops all of them, or lets all of them go on. The first starts the others: it is stopped before they are
    /// listed, and goes on after them.
    async fn freeze(&self, stop: bool) -> Result<(), BackendError> {
        let (doing, signal) = if stop { ("pausing", libc::SIGSTOP) } else { ("resuming", libc::SIGCONT) };
        let refused = |why: String| self.refused(doing, why);
        let mut slot = self.process.lock().await;
        let Some(running) = slot.as_mut() else { return Err(refused("it does not run".to_owned())) };
        if let Some(status) = running.ended().map_err(|e| refused(e.to_string()))? {
            return Err(refused(format!("its process has ended with {status}{}", last_words(&self.log()))));
        }
        let first = running.pid();
        let acted = async {
            if stop {
                send(first, signal, stop).await?;
            }
            for child in processes::descendants(first) {
                match send(child, signal, stop).await {
                    Err(error) if processes::runs(child, None) => return Err(error),
                    _ => {}
                }
            }
            if stop { Ok(()) } else { send(first, signal, stop).await }
        };
        match timeout(SIGNALS_ACT_WITHIN, acted).await {
            Ok(acted) => acted.map_err(|e| refused(e.to_string())),
            Err(_) => Err(refused(format!("the signals did not act within {SIGNALS_ACT_WITHIN:?}"))),
        }
    }

    async fn end(&self) -> Result<(), BackendError> {
        let Some(running) = self.process.lock().await.take() else { return Ok(()) };
        end(running).await.map_err(|why| self.refused("killing", why))
    }

    async fn reboot(&self) -> Result<(), BackendError> {
        let _inside = self.shared.gate.enter().await?;
        if let Some(running) = self.process.lock().await.as_mut()
            && matches!(running.ended(), Ok(None))
        {
            return Err(self.refused("restarting", "it still runs; kill it first".to_owned()));
        }
        self.boot().await.map_err(|failure| self.explain(failure))
    }
}

/// Sends a signal that stops or lets go on, and returns when it has acted.
async fn send(pid: u32, signal: i32, stop: bool) -> std::io::Result<()> {
    processes::signal(pid, signal)?;
    while processes::runs(pid, None) && processes::stopped(pid).is_some_and(|is| is != stop) {
        sleep(POLL).await;
    }
    Ok(())
}

/// Ends all processes of a server, as a crash of the machine would, and returns when none of them is left: the next
/// one refuses to start beside them.
async fn end(mut running: Running) -> Result<(), String> {
    // Who stands still starts nobody.
    let _ = processes::signal(running.pid(), libc::SIGSTOP);
    let children = processes::descendants(running.pid());
    running.end().map_err(|e| e.to_string())?;
    for child in &children {
        // Some are gone already: they notice that the first has died.
        let _ = processes::signal(*child, libc::SIGKILL);
    }
    if postgres::gone(&children).await { Ok(()) } else { Err("its processes survive SIGKILL".to_owned()) }
}

impl Server for Postmaster {
    fn name(&self) -> &str {
        &self.name
    }

    fn program(&self) -> ServerProgram {
        ServerProgram::Postgres
    }

    fn address(&self) -> SocketAddr {
        let port = *self.port.lock().unwrap_or_else(PoisonError::into_inner);
        SocketAddr::from((Ipv4Addr::LOCALHOST, port))
    }

    fn pause(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(self.freeze(true))
    }

    fn resume(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(self.freeze(false))
    }

    fn kill(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(self.end())
    }

    fn restart(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(self.reboot())
    }

    /// By SIGKILL, as there is nothing to save; what that leaves in the kernel goes with the folder.
    fn stop(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(async {
            self.end().await?;
            postgres::release_memory(&self.folder.join(DATA));
            remove_folder(&self.folder)
        })
    }
}
