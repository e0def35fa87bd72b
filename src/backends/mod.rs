//! Backends: where a run's servers come from.
//!
//! `docker` (containers, through testcontainers and bollard) and `local` (child processes) are one
//! trait, [`Backend`]. Whatever they make is in the run's [`journal`] first, and everything that
//! ends a run goes through [`gc::sweep`]: an orderly end, an error, Ctrl-C, and after a SIGKILL
//! the next `rl-lab gc`.

mod arguments;
mod binary;
pub mod builds;
mod child;
mod container;
mod create;
mod docker;
mod engine;
mod gate;
pub mod gc;
mod image;
pub mod journal;
mod local;
mod network;
pub mod port;
pub mod postgres;
mod postmaster;
mod preload;
pub mod probe;
mod processes;
mod spawner;
pub mod worker;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::model::names;
use crate::model::servers::{self, Build, Wanted};
use crate::ports::BoxFuture;
use crate::ports::backend::{Backend, BackendError, BackendOptions};
use journal::Journal;

/// As `--backend` takes them.
pub static NAMES: &[&str] = &["auto", "docker", "local"];

/// How long a server may take to answer its first PING.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Opens the backend of a run. `say` is told what takes long and, with `auto`, what was chosen and
/// why, as it happens. On error nothing is left, and the journal is closed.
///
/// Boxed, as everything public here: an `async fn` is compiled anew, HTTP client and all, in each
/// crate that awaits it.
pub fn open<'a>(
    choice: &'a str,
    options: &'a BackendOptions,
    journal: Arc<Journal>,
    say: &'a mut (dyn FnMut(String) + Send),
) -> BoxFuture<'a, Result<Arc<dyn Backend>, BackendError>> {
    Box::pin(async move {
        let asked = || ASKED_FOR.to_owned();
        let opened = match choice {
            "docker" => docker(options, &journal, asked(), say).await.map_err(|e| or(e, OR_LOCAL)),
            "local" => local(options, &journal, asked()).await.map_err(|e| or(e, OR_DOCKER)),
            "auto" => auto(options, &journal, say).await,
            other => Err(BackendError::Missing(names::unknown("backend", other, NAMES))),
        };
        if opened.is_err() {
            // What could not be removed stays in the journal for gc.
            let _ = shut_down(&journal).await;
        }
        opened
    })
}

/// The same for one of the builds that were found, where all of them run.
pub fn open_build<'a>(
    found: &'a builds::Found,
    build: &'static Build,
    options: &'a BackendOptions,
    journal: Arc<Journal>,
    say: &'a mut (dyn FnMut(String) + Send),
) -> BoxFuture<'a, Result<Arc<dyn Backend>, BackendError>> {
    Box::pin(async move {
        let options = BackendOptions { server: Some(build), ..options.clone() };
        let because = found.because.clone();
        let opened = match found.backend {
            "docker" => docker(&options, &journal, because, say).await,
            _ => local(&options, &journal, because).await,
        };
        if opened.is_err() {
            let _ = shut_down(&journal).await;
        }
        opened
    })
}

/// Which of the builds that are asked for are here, and where they run.
pub fn find_builds<'a>(
    choice: &'a str,
    wanted: &'a Wanted,
) -> BoxFuture<'a, Result<builds::Found, BackendError>> {
    Box::pin(builds::find(choice, wanted))
}

// By a flag, the environment or a file.
const ASKED_FOR: &str = "asked for";
const OR_LOCAL: &str =
    "start a Docker engine (scripts/setup on Debian) or set DOCKER_HOST, or use --backend local";
const OR_DOCKER: &str = "install redis-server (scripts/setup on Debian), or name one with --redis-server PATH, \
                         or use --backend docker";

/// Says what to do about something missing, unless the message does so itself.
fn or(error: BackendError, advice: &str) -> BackendError {
    match error {
        BackendError::Missing(why) if !why.contains(';') => BackendError::Missing(format!("{why}; {advice}")),
        other => other,
    }
}

/// An engine if one answers and has an image, else a redis-server. Whoever names one of the two
/// servers gets that one or an error: another would measure what nobody asked about.
async fn auto(
    options: &BackendOptions,
    journal: &Arc<Journal>,
    say: &mut (dyn FnMut(String) + Send),
) -> Result<Arc<dyn Backend>, BackendError> {
    let image = image::asked_for(options);
    let program = binary::asked_for(options);
    if let (None, Some((path, by))) = (&image, &program) {
        say(format!("using backend local: {by} names {}", path.display()));
        return local(options, journal, format!("{by} asks for a program of this host")).await;
    }
    let because = "a Docker engine answers".to_owned();
    let no_docker = match docker(options, journal, because, say).await {
        Ok(backend) => {
            say("using backend docker: a Docker engine answers".to_owned());
            return Ok(backend);
        }
        Err(why @ (BackendError::Missing(_) | BackendError::Engine { .. })) => why.to_string(),
        Err(other) => return Err(other),
    };
    if let (Some((image, by)), None) = (image, program) {
        return Err(BackendError::Missing(format!("{by} asks for {image}: {no_docker}")));
    }
    let because = format!("docker cannot serve: {no_docker}");
    match local(options, journal, because).await {
        Ok(backend) => {
            say(format!("using backend local: docker cannot serve: {no_docker}"));
            Ok(backend)
        }
        Err(BackendError::Missing(no_server)) => Err(BackendError::Missing(format!(
            "no backend can serve.\n  \
             docker: {no_docker}\n  \
             local: {no_server}\n\
             Either start a Docker engine (install Docker, or set DOCKER_HOST), or install redis-server \
             or name one with --redis-server PATH. On Debian `scripts/setup` does both."
        ))),
        Err(other) => Err(other),
    }
}

async fn docker(
    options: &BackendOptions,
    journal: &Arc<Journal>,
    because: String,
    say: &mut (dyn FnMut(String) + Send),
) -> Result<Arc<dyn Backend>, BackendError> {
    let engine = find_engine().await.map_err(BackendError::Missing)?;
    let image = image::resolve(&engine, options, say).await.map_err(BackendError::Missing)?;
    let limit = options.start_timeout.unwrap_or(START_TIMEOUT);
    // A run that is stopped here drops this future while the engine makes the network.
    let making = journal.making().await;
    let journal = Arc::clone(journal);
    let opening = async move {
        let opened = docker::Docker::open(engine, image, journal, limit, because).await;
        drop(making);
        opened
    };
    Ok(Arc::new(gate::to_its_end(opening).await?))
}

async fn local(
    options: &BackendOptions,
    journal: &Arc<Journal>,
    because: String,
) -> Result<Arc<dyn Backend>, BackendError> {
    let binary = binary::find(options).await?;
    let limit = options.start_timeout.unwrap_or(START_TIMEOUT);
    let because = format!("{because}; server {} ({})", binary.version, binary.because);
    let modules = options.modules.clone();
    Ok(Arc::new(local::Local::open(binary, Arc::clone(journal), limit, because, modules)?))
}

async fn find_engine() -> Result<engine::Engine, String> {
    let host = engine::host()?;
    engine::connect(&host).await.map_err(|why| format!("no Docker engine answers ({why})"))
}

/// The end of every run: whatever its journal names and is still there is removed now.
pub async fn shut_down(journal: &Journal) -> Result<(), BackendError> {
    journal.settled().await;
    let left = gc::sweep(journal).await.left;
    if !left.is_empty() {
        return Err(BackendError::Cleanup(left.join("; ")));
    }
    journal.close();
    Ok(())
}

/// What `rl-lab doctor` says about a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    pub name: &'static str,
    pub usable: bool,
    pub detail: String,
    /// What to do to make it usable, or faster to use.
    pub advice: Option<String>,
}

/// Looks at every server beside the one a backend takes by itself, and makes nothing.
pub fn survey_builds() -> BoxFuture<'static, Vec<builds::Survey>> {
    Box::pin(builds::survey(&servers::ALL))
}

/// Looks at both backends and makes nothing.
pub fn survey(options: &BackendOptions) -> BoxFuture<'_, Vec<Survey>> {
    Box::pin(async { vec![survey_docker(options).await, survey_local(options).await] })
}

async fn survey_docker(options: &BackendOptions) -> Survey {
    let unusable = |detail: String, advice: &str| Survey {
        name: "docker",
        usable: false,
        detail,
        advice: Some(advice.to_owned()),
    };
    let engine = match find_engine().await {
        Ok(engine) => engine,
        Err(why) => {
            return unusable(why, "start a Docker engine (scripts/setup on Debian), or set DOCKER_HOST");
        }
    };
    let about = format!("engine {}, API {}, at {}", engine.version, engine.api, engine.host);
    match image::choice(&engine, options).await {
        Ok(image::Choice { name, present: true, because }) => Survey {
            name: "docker",
            usable: true,
            detail: format!("{about}; image {name} ({because})"),
            advice: None,
        },
        Ok(image::Choice { name, because, .. }) => unusable(
            format!("{about}; image {name} ({because}) is not present and would have to be pulled"),
            "`docker pull` it, or make an image from a redis-server of this host with scripts/build-image",
        ),
        Err(why) => {
            unusable(format!("{about}; its images cannot be listed: {why}"), "look at the engine's log")
        }
    }
}

async fn survey_local(options: &BackendOptions) -> Survey {
    match binary::find(options).await {
        Ok(found) => Survey {
            name: "local",
            usable: true,
            detail: format!("server {} ({})", found.version, found.because),
            advice: None,
        },
        Err(error) => Survey {
            name: "local",
            usable: false,
            detail: error.to_string(),
            advice: Some(
                "install redis-server (scripts/setup demo on Debian) or name one with --redis-server".into(),
            ),
        },
    }
}

/// Removes a server's folder; one that is gone already is removed.
fn remove_folder(folder: &Path) -> Result<(), BackendError> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(BackendError::Cleanup(format!("folder {}: {error}", folder.display())))
        }
        _ => Ok(()),
    }
}

/// The end of a server's log as the end of a message.
fn last_words(log: &str) -> String {
    const LINES: usize = 12;
    let lines: Vec<&str> = log.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        return "; it wrote nothing".to_owned();
    }
    format!("; it wrote:\n  {}", lines[lines.len().saturating_sub(LINES)..].join("\n  "))
}
