//! The topology port: which servers a scenario needs and how they are wired.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::BoxFuture;
use super::backend::{Backend, BackendError, Server};
use crate::model::names;

/// A way of wiring servers. Asks a `dyn Backend`, never a concrete one.
pub trait Topology: Sync {
    fn kind(&self) -> &'static str;
    fn summary(&self) -> &'static str;
    /// Starts the servers and returns when the whole is ready, by its state.
    fn deploy<'a>(
        &'a self,
        backend: &'a dyn Backend,
        name: &'a str,
        config: &'a BTreeMap<String, String>,
    ) -> BoxFuture<'a, Result<Deployment, BackendError>>;
}

/// The servers of a scenario.
pub struct Deployment {
    /// Where limiters send their commands.
    pub primary: Arc<dyn Server>,
    pub servers: Vec<Arc<dyn Server>>,
}

impl Deployment {
    /// The server of this name; the error says which there are.
    pub fn named(&self, name: &str) -> Result<&Arc<dyn Server>, String> {
        if name == "primary" {
            return Ok(&self.primary);
        }
        Err(names::unknown("server", name, &["primary"]))
    }
}
