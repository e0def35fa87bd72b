//! One server, nothing behind it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ports::BoxFuture;
use crate::ports::backend::{Backend, BackendError, ServerSpec};
use crate::ports::topology::{Deployment, Topology};

pub struct Single;

impl Topology for Single {
    fn kind(&self) -> &'static str {
        "single"
    }

    fn summary(&self) -> &'static str {
        "one server"
    }

    fn deploy<'a>(
        &'a self,
        backend: &'a dyn Backend,
        name: &'a str,
        config: &'a BTreeMap<String, String>,
    ) -> BoxFuture<'a, Result<Deployment, BackendError>> {
        Box::pin(async move {
            let spec = ServerSpec { name: name.to_owned(), config: config.clone() };
            let primary = backend.start(spec).await?;
            Ok(Deployment { servers: vec![Arc::clone(&primary)], primary })
        })
    }
}
