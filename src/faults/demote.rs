//! `demote`: a server is made a replica of whoever the app servers' configuration names by then: the end of an old
//! primary that came back. What only it had is gone, and who is still connected to it reads READONLY.

use crate::model::scenario::PlannedFault;
use crate::ports::BoxFuture;
use crate::ports::backend::BackendError;
use crate::ports::fault::{Fault, Ground, Injected, Lasting};
use crate::ports::route::Route;

pub struct Demote;

impl Fault for Demote {
    fn name(&self) -> &'static str {
        "demote"
    }

    fn summary(&self) -> &'static str {
        "a server is made a replica of the one that is configured: what only it had is gone"
    }

    fn lasting(&self) -> Lasting {
        Lasting::No
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
            let server = ground.server(&planned.on)?;
            let refused =
                |why: String| BackendError::Engine { what: format!("demoting '{}'", server.name()), why };
            let configured = ground.configured.as_ref();
            let configured =
                configured.ok_or_else(|| refused("nobody configures where the primary is".to_owned()))?;
            let primary = configured.primary().await.map_err(refused)?;
            let demoting = async {
                let client = redis::Client::open(format!("redis://{}/", server.address()))?;
                let mut connection = client.get_multiplexed_async_connection().await?;
                let mut follow = redis::cmd("REPLICAOF");
                follow.arg(primary.ip().to_string()).arg(primary.port());
                follow.exec_async(&mut connection).await
            };
            demoting.await.map_err(|error: redis::RedisError| refused(error.to_string()))?;
            Ok(Injected::done(None))
        })
    }
}
