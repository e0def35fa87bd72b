//! `kill`: the server dies at once, as in a crash, and comes back where the fault ends with what it has on disk, which
//! of a Redis is nothing unless the scenario says so, and of a PostgreSQL all that was committed. Its
//! connections end with it; who connects meanwhile is refused, or hears nothing where its address went too.

use std::sync::Arc;

use crate::model::scenario::PlannedFault;
use crate::ports::BoxFuture;
use crate::ports::backend::BackendError;
use crate::ports::fault::{Fault, Ground, Injected, Lasting};

pub struct Kill;

impl Fault for Kill {
    fn name(&self) -> &'static str {
        "kill"
    }

    fn summary(&self) -> &'static str {
        "the server dies and comes back with what is on disk (a Redis: nothing): connections end, new ones are refused"
    }

    fn lasting(&self) -> Lasting {
        Lasting::Yes
    }

    fn check(&self, planned: &PlannedFault) -> Result<(), String> {
        super::takes_none(planned)
    }

    fn inject<'a>(
        &'a self,
        planned: &'a PlannedFault,
        ground: &'a Ground,
    ) -> BoxFuture<'a, Result<Injected, BackendError>> {
        Box::pin(async move {
            let server = Arc::clone(ground.server(&planned.on)?);
            server.kill().await?;
            let struck = Arc::clone(&server);
            Ok(Injected::until(Some(struck), async move { server.restart().await }))
        })
    }
}
