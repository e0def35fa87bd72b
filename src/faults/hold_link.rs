//! `hold-link`: the stream of writes to a replica is held behind the n-th write (`after`, of those called
//! `named`). What the replica says goes on: its primary sees one that is there, and late.

use std::sync::Arc;

use crate::model::scenario::PlannedFault;
use crate::ports::BoxFuture;
use crate::ports::backend::BackendError;
use crate::ports::fault::{Fault, Ground, Injected, Lasting};

pub struct HoldLink;

impl Fault for HoldLink {
    fn name(&self) -> &'static str {
        "hold-link"
    }

    fn summary(&self) -> &'static str {
        "writes to a replica are held behind the n-th one; its acknowledgements go on"
    }

    fn lasting(&self) -> Lasting {
        Lasting::Yes
    }

    fn check(&self, planned: &PlannedFault) -> Result<(), String> {
        super::on_a_replica(planned)?;
        if planned.by.is_some() {
            return Err("hold-link takes no by".to_owned());
        }
        Ok(())
    }

    fn inject<'a>(
        &'a self,
        planned: &'a PlannedFault,
        ground: &'a Ground,
    ) -> BoxFuture<'a, Result<Injected, BackendError>> {
        Box::pin(async move {
            let link = Arc::clone(ground.link(&planned.on)?);
            link.hold_after(planned.after.unwrap_or(0).into(), planned.named.as_deref());
            Ok(Injected::until(None, async move {
                link.release();
                Ok(())
            }))
        })
    }
}
