//! The backend port: real servers, wherever they run.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use super::BoxFuture;
use crate::model::report::Honesty;

/// A server to start.
#[derive(Debug, Clone, Default)]
pub struct ServerSpec {
    /// Unique in the run; part of the container's or folder's name.
    pub name: String,
    /// Configuration as `redis.conf` names it.
    pub config: BTreeMap<String, String>,
}

/// Where a run's servers come from. One per run; everything it makes carries the run's id and is
/// journalled before it is made.
pub trait Backend: Send + Sync {
    fn name(&self) -> &'static str;

    /// Starts a server and returns when it answers PING. On error nothing of it is left running.
    fn start(&self, spec: ServerSpec) -> BoxFuture<'_, Result<Arc<dyn Server>, BackendError>>;

    /// Ends everything this backend started. Safe to call twice.
    fn shutdown(&self) -> BoxFuture<'_, Result<(), BackendError>>;

    /// Fills in what the backend knows about the ground the figures stand on.
    fn describe(&self, honesty: &mut Honesty);
}

/// One server.
pub trait Server: Send + Sync {
    fn name(&self) -> &str;

    /// Where clients reach it. May change with a restart: ask again after one.
    fn address(&self) -> SocketAddr;

    /// Freezes it: its sockets stay open and acknowledged, nothing answers.
    fn pause(&self) -> BoxFuture<'_, Result<(), BackendError>>;
    fn resume(&self) -> BoxFuture<'_, Result<(), BackendError>>;

    /// Ends it at once, as a crash would. Its data folder stays.
    fn kill(&self) -> BoxFuture<'_, Result<(), BackendError>>;

    /// Starts it again after `kill`, with the same configuration; returns when it answers PING.
    fn restart(&self) -> BoxFuture<'_, Result<(), BackendError>>;

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
    pub image: Option<String>,
    pub redis_server: Option<PathBuf>,
    pub start_timeout: Option<std::time::Duration>,
}
