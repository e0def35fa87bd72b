//! `black-hole`: packets vanish. Nobody is told anything; a connection that waits goes on waiting, whatever
//! keepalive it has, and what was sent is sent again until the way is open: then it arrives.
//!
//! Where the backend can take a server off the network, it does (`docker network disconnect`). Elsewhere the
//! clients' way leads through the lab, which keeps back what they send until the fault ends; there a new
//! connection is still accepted.

use std::sync::Arc;

use crate::model::scenario::PlannedFault;
use crate::ports::BoxFuture;
use crate::ports::backend::{BackendError, Server};
use crate::ports::fault::{Fault, Ground, Injected, Lasting};

pub struct BlackHole;

impl Fault for BlackHole {
    fn name(&self) -> &'static str {
        "black-hole"
    }

    fn summary(&self) -> &'static str {
        "packets vanish: nothing ends, nothing is refused, nothing is answered"
    }

    fn lasting(&self) -> Lasting {
        Lasting::Yes
    }

    fn check(&self, planned: &PlannedFault) -> Result<(), String> {
        super::takes_none(planned)
    }

    fn needs_way(&self, server: &dyn Server) -> bool {
        !server.can_isolate()
    }

    fn inject<'a>(
        &'a self,
        planned: &'a PlannedFault,
        ground: &'a Ground,
    ) -> BoxFuture<'a, Result<Injected, BackendError>> {
        Box::pin(async move {
            let server = Arc::clone(ground.server(&planned.on)?);
            if server.can_isolate() {
                server.isolate().await?;
                let struck = Arc::clone(&server);
                return Ok(Injected::until(Some(struck), async move { server.rejoin().await }));
            }
            let way = Arc::clone(ground.way()?);
            way.black_hole(true);
            Ok(Injected::until(None, async move {
                way.black_hole(false);
                Ok(())
            }))
        })
    }
}
