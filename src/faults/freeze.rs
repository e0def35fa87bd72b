//! `freeze`: the server stands still (`docker pause`, SIGSTOP). Its kernel goes on to acknowledge and to
//! accept, so connections look healthy and nothing is answered; what was sent meanwhile is applied when it
//! goes on, also by callers who have long given up.

use std::sync::Arc;

use crate::model::scenario::PlannedFault;
use crate::ports::BoxFuture;
use crate::ports::backend::BackendError;
use crate::ports::fault::{Fault, Ground, Injected, Lasting};

pub struct Freeze;

impl Fault for Freeze {
    fn name(&self) -> &'static str {
        "freeze"
    }

    fn summary(&self) -> &'static str {
        "the server stands still: sockets stay open and acknowledged, nothing is answered"
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
            server.pause().await?;
            let struck = Arc::clone(&server);
            Ok(Injected::until(Some(struck), async move { server.resume().await }))
        })
    }
}
