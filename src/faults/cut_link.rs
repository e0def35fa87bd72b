//! `cut-link`: the connections between a replica and its primary are closed, and new ones too. Both notice.

use std::sync::Arc;

use crate::model::scenario::PlannedFault;
use crate::ports::BoxFuture;
use crate::ports::backend::BackendError;
use crate::ports::fault::{Fault, Ground, Injected, Lasting};

pub struct CutLink;

impl Fault for CutLink {
    fn name(&self) -> &'static str {
        "cut-link"
    }

    fn summary(&self) -> &'static str {
        "the connections between a replica and its primary are closed, and new ones too"
    }

    fn lasting(&self) -> Lasting {
        Lasting::Yes
    }

    fn check(&self, planned: &PlannedFault) -> Result<(), String> {
        super::on_a_replica(planned)?;
        super::takes_none(planned)
    }

    fn inject<'a>(
        &'a self,
        planned: &'a PlannedFault,
        ground: &'a Ground,
    ) -> BoxFuture<'a, Result<Injected, BackendError>> {
        Box::pin(async move {
            let link = Arc::clone(ground.link(&planned.on)?);
            link.cut()?;
            Ok(Injected::until(None, async move { link.mend() }))
        })
    }
}
