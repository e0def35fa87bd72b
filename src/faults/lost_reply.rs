//! `lost-reply`: every command reaches the store and is applied, and its connection is cut before the reply
//! gets through. Whoever sends it again has it applied again.

use std::sync::Arc;

use crate::model::scenario::PlannedFault;
use crate::ports::BoxFuture;
use crate::ports::backend::{BackendError, Server};
use crate::ports::fault::{Fault, Ground, Injected, Lasting};

pub struct LostReply;

impl Fault for LostReply {
    fn name(&self) -> &'static str {
        "lost-reply"
    }

    fn summary(&self) -> &'static str {
        "the store applies what it is sent, and the connection is cut before the reply gets through"
    }

    fn lasting(&self) -> Lasting {
        Lasting::Yes
    }

    fn check(&self, planned: &PlannedFault) -> Result<(), String> {
        super::takes_none(planned)
    }

    fn needs_way(&self, _server: &dyn Server) -> bool {
        true
    }

    fn inject<'a>(
        &'a self,
        _planned: &'a PlannedFault,
        ground: &'a Ground,
    ) -> BoxFuture<'a, Result<Injected, BackendError>> {
        Box::pin(async move {
            let way = Arc::clone(ground.way()?);
            way.lose_replies(true);
            Ok(Injected::until(None, async move {
                way.lose_replies(false);
                Ok(())
            }))
        })
    }
}
