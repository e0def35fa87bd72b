//! One server, nothing behind it.

use crate::model::scenario::TopologyPlan;
use crate::ports::BoxFuture;
use crate::ports::backend::{Backend, BackendError, ServerSpec};
use crate::ports::topology::{Deployment, Topology};

pub struct Single;

impl Topology for Single {
    fn kind(&self) -> &'static str {
        "single"
    }

    fn summary(&self) -> &'static str {
        "one server"
    }

    fn knows(&self) -> &'static [&'static str] {
        &["clock"]
    }

    fn deploy<'a>(
        &'a self,
        backend: &'a dyn Backend,
        name: &'a str,
        plan: &'a TopologyPlan,
    ) -> BoxFuture<'a, Result<Deployment, BackendError>> {
        Box::pin(async move {
            let config = plan.config.clone();
            let spec =
                ServerSpec { name: name.to_owned(), config, clock: plan.clock, ..ServerSpec::default() };
            Ok(Deployment::single(backend.start(spec).await?))
        })
    }
}
