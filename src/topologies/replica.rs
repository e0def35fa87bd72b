//! A primary and its replicas. Nobody but the scenario promotes one: `REPLICAOF NO ONE`.

use std::sync::Arc;

use super::wiring::{DECIDED, check_replicas, wire};
use crate::model::scenario::TopologyPlan;
use crate::ports::BoxFuture;
use crate::ports::backend::{Backend, BackendError};
use crate::ports::topology::{Deployment, Entry, Topology};

const REPLICAS: u32 = 1;

pub struct Replica;

impl Topology for Replica {
    fn kind(&self) -> &'static str {
        "replica"
    }

    fn summary(&self) -> &'static str {
        "a primary and its replicas, with a link to each that can be held, cut and delayed"
    }

    fn knows(&self) -> &'static [&'static str] {
        &["replicas", "clock", "replica_clock"]
    }

    fn decides(&self) -> &'static [&'static str] {
        DECIDED
    }

    fn check(&self, plan: &TopologyPlan) -> Result<(), String> {
        self.check_fields(plan)?;
        check_replicas(plan.replicas)
    }

    fn servers(&self, plan: &TopologyPlan) -> Vec<String> {
        super::named(plan.replicas.unwrap_or(REPLICAS), 0)
    }

    fn deploy<'a>(
        &'a self,
        backend: &'a dyn Backend,
        name: &'a str,
        plan: &'a TopologyPlan,
    ) -> BoxFuture<'a, Result<Deployment, BackendError>> {
        Box::pin(async move {
            let wired = wire(backend, name, plan, plan.replicas.unwrap_or(REPLICAS)).await?;
            let servers = wired.replicas.iter().chain([&wired.primary]).map(Arc::clone).collect();
            Ok(Deployment {
                entry: Entry::Direct(wired.primary.address()),
                primary: wired.primary,
                servers,
                replicas: wired.replicas,
                sentinels: Vec::new(),
                links: wired.links,
            })
        })
    }
}
