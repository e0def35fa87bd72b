//! The topology port: which servers a scenario needs and how they are wired.

use std::net::SocketAddr;
use std::sync::Arc;

use super::BoxFuture;
use super::backend::{Backend, BackendError, Server};
use super::link::Link;
use crate::model::names;
use crate::model::scenario::TopologyPlan;

/// A way of wiring servers. Asks a `dyn Backend`, never a concrete one.
pub trait Topology: Sync {
    fn kind(&self) -> &'static str;
    fn summary(&self) -> &'static str;

    /// The fields of `[topology]` it knows beside `kind` and `config`.
    fn knows(&self) -> &'static [&'static str];

    /// The server settings it makes by itself.
    fn decides(&self) -> &'static [&'static str] {
        &[]
    }

    /// Why it cannot be as planned. Called before anything is made; the error is for who wrote the file.
    fn check(&self, plan: &TopologyPlan) -> Result<(), String> {
        self.check_fields(plan)
    }

    /// Whether it knows every field that is given, and none of the settings is its own.
    fn check_fields(&self, plan: &TopologyPlan) -> Result<(), String> {
        if let Some(field) = plan.given().into_iter().find(|field| !self.knows().contains(field)) {
            return Err(format!("a topology of kind '{}' has no {field}", self.kind()));
        }
        let decided = |name: &&String| self.decides().contains(&name.to_lowercase().as_str());
        match plan.config.keys().find(decided) {
            Some(name) => {
                Err(format!("a topology of kind '{}' sets '{name}' itself; remove it", self.kind()))
            }
            None => Ok(()),
        }
    }

    /// What its servers are called, for faults that strike one of them.
    fn servers(&self, _plan: &TopologyPlan) -> Vec<String> {
        vec!["primary".to_owned()]
    }

    /// Starts the servers and returns when the whole is ready, by its state. `name` begins the name of
    /// each of them. On error the backend's shutdown removes what is there.
    fn deploy<'a>(
        &'a self,
        backend: &'a dyn Backend,
        name: &'a str,
        plan: &'a TopologyPlan,
    ) -> BoxFuture<'a, Result<Deployment, BackendError>>;
}

/// The servers of a scenario, as they were when they were ready: who is the primary may change later.
pub struct Deployment {
    /// Where limiters send their commands; of a cluster, the first of them.
    pub primary: Arc<dyn Server>,
    /// All of them, sentinels too, in the order in which they may be stopped.
    pub servers: Vec<Arc<dyn Server>>,
    pub replicas: Vec<Arc<dyn Server>>,
    pub sentinels: Vec<Arc<dyn Server>>,
    /// The way from the primary to each of `replicas`, in their order; none in a cluster, where servers
    /// reach each other by themselves.
    pub links: Vec<Arc<dyn Link>>,
    pub entry: Entry,
}

impl Deployment {
    /// One server, nothing behind it.
    pub fn single(server: Arc<dyn Server>) -> Self {
        Self {
            entry: Entry::Direct(server.address()),
            primary: Arc::clone(&server),
            servers: vec![server],
            replicas: Vec::new(),
            sentinels: Vec::new(),
            links: Vec::new(),
        }
    }
}

/// How clients find the server to write to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// It is told to them.
    Direct(SocketAddr),
    /// They ask a sentinel for the address of the master of this name.
    Sentinel { master: String, sentinels: Vec<SocketAddr> },
    /// They ask any of these for the slots, and follow redirections.
    Cluster { seeds: Vec<SocketAddr> },
    /// One of them is told to each: that of its region.
    Regions(Vec<SocketAddr>),
}

impl Deployment {
    /// The server of this name; the error says which there are.
    pub fn named(&self, name: &str) -> Result<&Arc<dyn Server>, String> {
        if name == "primary" {
            return Ok(&self.primary);
        }
        let numbered = |kind: &str, of: &[Arc<dyn Server>]| -> Vec<String> {
            (1..=of.len()).map(|n| format!("{kind}-{n}")).collect()
        };
        let (replicas, sentinels) =
            (numbered("replica", &self.replicas), numbered("sentinel", &self.sentinels));
        let mut known = replicas.iter().zip(&self.replicas).chain(sentinels.iter().zip(&self.sentinels));
        if let Some((_, server)) = known.find(|(known, _)| *known == name) {
            return Ok(server);
        }
        let known: Vec<&str> =
            ["primary"].into_iter().chain(replicas.iter().chain(&sentinels).map(String::as_str)).collect();
        Err(names::unknown("server", name, &known))
    }
}
