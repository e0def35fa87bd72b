//! The fault port: what breaks, and how it is taken back.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::BoxFuture;
use super::backend::{BackendError, Server};
use super::link::Link;
use super::route::Configured;
use super::topology::Deployment;
use crate::model::scenario::PlannedFault;

/// A kind of fault. One `static` per file under `faults/`.
pub trait Fault: Sync {
    fn name(&self) -> &'static str;

    /// One line for `rl-lab list`.
    fn summary(&self) -> &'static str;

    /// Whether it has an end of its own.
    fn lasting(&self) -> Lasting;

    /// What it needs or does not take beside that.
    fn check(&self, _planned: &PlannedFault) -> Result<(), String> {
        Ok(())
    }

    /// Whether clients have to reach this server through the lab for it.
    fn needs_way(&self, _server: &dyn Server) -> bool {
        false
    }

    /// Breaks it. When this returns it is in force, and what takes it back is known; on error nothing is
    /// broken.
    fn inject<'a>(
        &'a self,
        planned: &'a PlannedFault,
        ground: &'a Ground,
    ) -> BoxFuture<'a, Result<Injected, BackendError>>;
}

/// Whether a fault ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lasting {
    /// After its `for`, or with the round.
    Yes,
    /// It is done at once and stays done.
    No,
}

/// Takes a fault back. Safe when there is nothing left to take back.
pub type Undo = Box<dyn FnOnce() -> BoxFuture<'static, Result<(), BackendError>> + Send>;

/// A fault in force.
pub struct Injected {
    pub undo: Option<Undo>,
    /// The server that answers again once it is taken back.
    pub struck: Option<Arc<dyn Server>>,
    /// What there is to say about it: what a replica had when it was promoted.
    pub told: Option<String>,
}

impl Injected {
    /// What is taken back by this, once it is to be; `struck` answers again then.
    pub fn until(
        struck: Option<Arc<dyn Server>>,
        undo: impl Future<Output = Result<(), BackendError>> + Send + 'static,
    ) -> Self {
        Self { undo: Some(Box::new(move || Box::pin(undo))), struck, told: None }
    }

    /// What is done and stays done.
    pub fn done(told: Option<String>) -> Self {
        Self { undo: None, struck: None, told }
    }
}

/// What there is to break.
pub struct Ground {
    pub deployment: Arc<Deployment>,
    /// The clients' way to the primary, where it leads through the lab.
    pub way: Option<Arc<dyn Way>>,
    /// What the app servers' configuration says, where that names an address.
    pub configured: Option<Arc<Configured>>,
}

impl Ground {
    /// The server of this name, or what there is.
    pub fn server(&self, name: &str) -> Result<&Arc<dyn Server>, BackendError> {
        self.deployment.named(name).map_err(BackendError::Missing)
    }

    /// The link to the replica of this name.
    pub fn link(&self, replica: &str) -> Result<&Arc<dyn Link>, BackendError> {
        let place = replica.strip_prefix("replica-").and_then(|n| n.parse::<usize>().ok()?.checked_sub(1));
        let link = place.and_then(|place| self.deployment.links.get(place));
        link.ok_or_else(|| BackendError::Missing(format!("there is no link to '{replica}' in this topology")))
    }

    pub fn way(&self) -> Result<&Arc<dyn Way>, BackendError> {
        let why = || BackendError::Missing("the clients' way does not lead through the lab".to_owned());
        self.way.as_ref().ok_or_else(why)
    }
}

/// A way to a server that leads through the lab. Each change is in force when it returns.
pub trait Way: Send + Sync {
    fn address(&self) -> SocketAddr;
    /// Swallows everything in both directions.
    fn black_hole(&self, on: bool);
    /// Makes the way longer by this much.
    fn delay(&self, by: Option<Duration>);
    /// Lets every command reach the server, and cuts its connection before the caller hears the reply.
    fn lose_replies(&self, on: bool);
    /// Cuts all connections and refuses new ones.
    fn refuse(&self, on: bool) -> Result<(), BackendError>;
}
