//! `cut`: every connection to the store is cut, and new ones are refused. The store itself goes on; several
//! times in a row it is a link that flaps.

use std::sync::Arc;

use crate::model::scenario::PlannedFault;
use crate::ports::BoxFuture;
use crate::ports::backend::{BackendError, Server};
use crate::ports::fault::{Fault, Ground, Injected, Lasting};

pub struct Cut;

impl Fault for Cut {
    fn name(&self) -> &'static str {
        "cut"
    }

    fn summary(&self) -> &'static str {
        "connections are cut and new ones refused, while the server goes on; several times it is a flapping link"
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
            way.refuse(true)?;
            Ok(Injected::until(None, async move { way.refuse(false) }))
        })
    }
}
