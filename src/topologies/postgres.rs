//! One PostgreSQL, for limiters that keep their counters in rows. Whoever does gets it in the place of a single
//! Redis, so that a scenario runs both beside each other.

use crate::model::scenario::TopologyPlan;
use crate::ports::BoxFuture;
use crate::ports::backend::{Backend, BackendError, ServerProgram, ServerSpec};
use crate::ports::topology::{Deployment, Topology};

pub struct Postgres;

/// As files and results name it.
pub const KIND: &str = "postgres";

impl Topology for Postgres {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn summary(&self) -> &'static str {
        "one PostgreSQL, for limiters that keep their counters in rows; config as postgresql.conf names it"
    }

    fn knows(&self) -> &'static [&'static str] {
        &[]
    }

    fn deploy<'a>(
        &'a self,
        backend: &'a dyn Backend,
        name: &'a str,
        plan: &'a TopologyPlan,
    ) -> BoxFuture<'a, Result<Deployment, BackendError>> {
        Box::pin(async move {
            let (config, program) = (plan.config.clone(), ServerProgram::Postgres);
            let spec = ServerSpec { name: name.to_owned(), config, program, clock: None };
            Ok(Deployment::single(backend.start(spec).await?))
        })
    }
}
