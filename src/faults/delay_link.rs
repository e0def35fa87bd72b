//! `delay-link`: writes reach a replica `by` so much later.

use std::sync::Arc;

use crate::model::scenario::PlannedFault;
use crate::model::units::Span;
use crate::ports::BoxFuture;
use crate::ports::backend::BackendError;
use crate::ports::fault::{Fault, Ground, Injected, Lasting};

pub struct DelayLink;

impl Fault for DelayLink {
    fn name(&self) -> &'static str {
        "delay-link"
    }

    fn summary(&self) -> &'static str {
        "writes reach a replica `by` so much later"
    }

    fn lasting(&self) -> Lasting {
        Lasting::Yes
    }

    fn check(&self, planned: &PlannedFault) -> Result<(), String> {
        super::on_a_replica(planned)?;
        match (planned.by, planned.after) {
            (Some(by), None) if by > Span::default() => Ok(()),
            _ => Err("delay-link needs by, and takes no after".to_owned()),
        }
    }

    fn inject<'a>(
        &'a self,
        planned: &'a PlannedFault,
        ground: &'a Ground,
    ) -> BoxFuture<'a, Result<Injected, BackendError>> {
        Box::pin(async move {
            let link = Arc::clone(ground.link(&planned.on)?);
            link.delay(planned.by.map(Span::duration));
            Ok(Injected::until(None, async move {
                link.delay(None);
                Ok(())
            }))
        })
    }
}
