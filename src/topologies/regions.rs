//! Primaries that know nothing of each other, one in each region. App server i belongs to region i mod their number.

use futures_util::future::try_join_all;

use crate::model::scenario::TopologyPlan;
use crate::ports::BoxFuture;
use crate::ports::backend::{Backend, BackendError, ServerSpec};
use crate::ports::topology::{Deployment, Entry, Topology};

const DEFAULT: u32 = 2;
const MOST: u32 = 6;

pub struct Regions;

impl Topology for Regions {
    fn kind(&self) -> &'static str {
        "regions"
    }

    fn summary(&self) -> &'static str {
        "primaries of several regions, which know nothing of each other"
    }

    fn knows(&self) -> &'static [&'static str] {
        &["primaries", "apart", "clock"]
    }

    fn check(&self, plan: &TopologyPlan) -> Result<(), String> {
        self.check_fields(plan)?;
        match plan.primaries {
            Some(n) if !(2..=MOST).contains(&n) => {
                Err(format!("primaries is how many regions there are, from 2 to {MOST}, not {n}"))
            }
            _ => Ok(()),
        }
    }

    fn deploy<'a>(
        &'a self,
        backend: &'a dyn Backend,
        name: &'a str,
        plan: &'a TopologyPlan,
    ) -> BoxFuture<'a, Result<Deployment, BackendError>> {
        Box::pin(async move {
            let spec = |n| ServerSpec {
                name: format!("{name}-region-{n}"),
                config: plan.config.clone(),
                clock: plan.clock,
                ..ServerSpec::default()
            };
            let specs = (1..=plan.primaries.unwrap_or(DEFAULT)).map(spec);
            let servers = try_join_all(specs.map(|spec| backend.start(spec))).await?;
            let entry = Entry::Regions(servers.iter().map(|server| server.address()).collect());
            Ok(Deployment {
                primary: std::sync::Arc::clone(&servers[0]),
                servers,
                replicas: Vec::new(),
                sentinels: Vec::new(),
                links: Vec::new(),
                entry,
            })
        })
    }
}
