//! The backend port: real servers, wherever they run.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use super::BoxFuture;
use crate::model::offset::Offset;
use crate::model::report::Honesty;
use crate::model::servers::Build;

/// A server to start.
#[derive(Debug, Clone, Default)]
pub struct ServerSpec {
    /// Unique in the run; part of the container's or folder's name.
    pub name: String,
    /// Configuration as `redis.conf`, or `postgresql.conf`, names it.
    pub config: BTreeMap<String, String>,
    pub program: ServerProgram,
    /// How far its clock is ahead of the machine's, for as long as it lives. `Unsupported` where that
    /// cannot be had, or the server's TIME does not show it.
    pub clock: Option<Offset>,
}

/// What a server is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ServerProgram {
    #[default]
    Server,
    /// Watches nothing until it is told to by SENTINEL MONITOR. It remembers that across a restart.
    Sentinel,
    /// A PostgreSQL with the user [`DATABASE_USER`] and the database [`DATABASE`], without a password. Its rows
    /// outlive a kill.
    Postgres,
}

/// Who owns everything in a PostgreSQL of the lab's.
pub const DATABASE_USER: &str = "rl_lab";
/// Where everything is.
pub const DATABASE: &str = "postgres";

/// Where a run's servers come from. One per run; everything it makes carries the run's id and is
/// journalled before it is made.
pub trait Backend: Send + Sync {
    fn name(&self) -> &'static str;

    /// Starts a server and returns when it answers: a PING, or whoever connects to a database. On error nothing of it is left running.
    fn start(&self, spec: ServerSpec) -> BoxFuture<'_, Result<Arc<dyn Server>, BackendError>>;

    /// Ends everything this backend started. Safe to call twice.
    fn shutdown(&self) -> BoxFuture<'_, Result<(), BackendError>>;

    /// Where something of the lab's own can listen so that servers and clients both reach it there.
    /// `Unsupported` where there is no such address.
    fn meeting_point(&self) -> Result<IpAddr, BackendError>;

    /// Fills in what the backend knows about the ground the figures stand on.
    fn describe(&self, honesty: &mut Honesty);
}

/// One server.
pub trait Server: Send + Sync {
    fn name(&self) -> &str;

    /// What it is.
    fn program(&self) -> ServerProgram {
        ServerProgram::Server
    }

    /// Where clients reach it, and other servers do. Stays the same across `restart` and `rejoin`, but
    /// through published ports: there ask again after one.
    fn address(&self) -> SocketAddr;

    /// Freezes it: its sockets stay open and acknowledged, nothing answers.
    fn pause(&self) -> BoxFuture<'_, Result<(), BackendError>>;
    fn resume(&self) -> BoxFuture<'_, Result<(), BackendError>>;

    /// Ends it at once, as a crash would. Its data folder stays.
    fn kill(&self) -> BoxFuture<'_, Result<(), BackendError>>;

    /// Starts it again after `kill`, with the same configuration; returns when it answers.
    fn restart(&self) -> BoxFuture<'_, Result<(), BackendError>>;

    /// Whether [`Self::isolate`] is possible here. It is not on the loopback address, which takes no network.
    fn can_isolate(&self) -> bool {
        false
    }

    /// Takes it off the network: packets to and from it vanish, and nobody is told. Its own process
    /// goes on.
    fn isolate(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        let why = "a server on the loopback address cannot be taken off the network; use --backend docker";
        Box::pin(std::future::ready(Err(BackendError::Unsupported(why.to_owned()))))
    }

    /// Undoes `isolate`, with the same address. Safe to call when there is nothing to undo.
    fn rejoin(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Ends it in good order and removes what it left. Safe to call twice.
    fn stop(&self) -> BoxFuture<'_, Result<(), BackendError>>;
}

/// Why a backend cannot serve. All of them are exit code 3 but `Interrupted` and `Cleanup`.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BackendError {
    /// Something the machine lacks; the message says what to do about it.
    #[error("{0}")]
    Missing(String),
    #[error("server '{server}' did not answer within {after:?}: {last}{log}")]
    StartTimeout { server: String, after: std::time::Duration, last: String, log: String },
    #[error("server '{server}' did not start: {why}")]
    StartFailed { server: String, why: String },
    /// What this ground cannot do; the message says why.
    #[error("{0}")]
    Unsupported(String),
    #[error("{what}: {why}")]
    Engine { what: String, why: String },
    /// Exit code 5.
    #[error("clean-up is incomplete, run `rl-lab gc`: {0}")]
    Cleanup(String),
    /// The run was told to stop.
    #[error("interrupted")]
    Interrupted,
}

/// What the user asked for, from flags and environment.
#[derive(Debug, Clone, Default)]
pub struct BackendOptions {
    /// A build that is known by name, which is both an image and a program.
    pub server: Option<&'static Build>,
    pub image: Option<String>,
    pub redis_server: Option<PathBuf>,
    pub start_timeout: Option<std::time::Duration>,
    /// Loaded into every server, where the backend can.
    pub modules: Vec<PathBuf>,
}
