//! One app server behind HTTP: a limiter, its policy and its client, for whoever asks on a port.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Mutex;

use super::serve::{Node, Served};
use crate::limiters::external::front::{self, Front};
use crate::model::http::{Form, Says};
use crate::model::metrics::Metrics;
use crate::model::protocol::{Hello, VERSION};
use crate::model::units::{Limit, NodeId, Window};

/// What the keys of identities begin with.
const PREFIX: &str = "rl-lab-http:";

/// How it is served.
pub struct How {
    pub listen: SocketAddr,
    pub redis: String,
    pub limit: Limit,
    pub window: Window,
    pub connections: u32,
    pub form: Form,
}

/// Listens, until what comes back is dropped. The error says why not.
pub async fn open(served: &Served, how: How) -> Result<Front, String> {
    let hello = Hello {
        hello: VERSION,
        redis: how.redis,
        limit: how.limit,
        window_ms: how.window,
        node: NodeId(0),
        nodes: NonZeroU32::MIN,
        clock_offset_ms: 0,
        connections: how.connections,
        cold_pool: false,
    };
    let Node { limiter, clock, contract, .. } = Node::of(served, hello).await?;
    let labels = vec![
        ("limiter", served.limiter.to_string()),
        ("policy", served.around().map(ToString::to_string).unwrap_or_default()),
        ("client", served.client.clone()),
    ];
    let served = front::Served {
        limiter,
        clock,
        says: Says { form: how.form, bound: contract.bound },
        prefix: PREFIX.to_owned(),
        watch: None,
        metrics: Some(Mutex::new(Metrics::of(labels))),
    };
    let listen = how.listen;
    Front::open(listen, served).await.map_err(|e| format!("cannot listen on {listen}: {e}"))
}
