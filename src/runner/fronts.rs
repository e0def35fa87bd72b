//! The app servers of a round behind HTTP: before each node a front on a port of its own, and a client in its
//! place.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};

use super::drive::Drive;
use crate::limiters::external::front::{Front, Served, Watch};
use crate::limiters::external::http::{Http, Target};
use crate::model::http::Says;
use crate::model::op::Decision;
use crate::model::units::Cost;
use crate::ports::BoxFuture;
use crate::ports::clock::Clock;
use crate::ports::limiter::Limiter;
use crate::ports::store::StoreError;

/// Longer than any client here waits for its store, and than guarded work takes.
const PATIENCE: Duration = Duration::from_secs(600);

/// A node that is asked over HTTP, and told directly what was used before.
struct Fronted {
    inner: Arc<dyn Limiter>,
    http: Http,
    /// Serves for as long as this is there.
    _front: Front,
}

impl Limiter for Fronted {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        self.http.acquire(key, cost)
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.preset(key, used)
    }

    fn settle(&self) -> BoxFuture<'_, ()> {
        self.inner.settle()
    }
}

/// The node with a front before it.
pub async fn before(
    drive: &Drive<'_>,
    inner: Arc<dyn Limiter>,
    clock: Arc<dyn Clock>,
) -> anyhow::Result<Arc<dyn Limiter>> {
    let watch = Arc::new(Watch::default());
    let served = Served {
        limiter: Arc::clone(&inner),
        clock,
        says: Says { form: drive.cell.setup.workload.front, bound: drive.cell.contract().bound },
        prefix: String::new(),
        watch: Some(Arc::clone(&watch)),
        metrics: None,
    };
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let front = Front::open(any, served).await.context("a node cannot listen on a port of its own")?;
    let target = Target::parse(&format!("http://{}/", front.address)).map_err(|why| anyhow!(why))?;
    let http = Http::new(target, drive.cell.settings.limit, PATIENCE, Some(watch));
    Ok(Arc::new(Fronted { inner, http, _front: front }))
}
