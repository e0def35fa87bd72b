//! A primary, its replicas, and three sentinels that promote one of them when the primary is down.
//!
//! Every server announces its front, and the sentinels watch the primary's. A sentinel would otherwise take
//! a replica that reaches its primary by another address for one that follows a stranger, and undo the link.

use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::try_join_all;

use super::ask::{ask, holds, tell, text, until, words};
use super::wiring::{DECIDED, check_replicas, wire};
use crate::model::scenario::TopologyPlan;
use crate::ports::BoxFuture;
use crate::ports::backend::{Backend, BackendError, Server, ServerProgram, ServerSpec};
use crate::ports::topology::{Deployment, Entry, Topology};
use crate::wire::resp::Frame;

/// What the sentinels call the primary.
pub const MASTER: &str = "main";
const SENTINELS: usize = 3;
const REPLICAS: u32 = 2;
const QUORUM: usize = 2;

/// Below a second, servers that are merely busy are taken for down, again and again.
const DOWN_AFTER_MS: u64 = 1000;

const PATIENT_MS: u64 = 60_000;

/// Sentinels that have not agreed try again after twice this time. Their default would be six minutes.
const FAILOVER_TIMEOUT_MS: u64 = 10_000;

pub struct Sentinel;

impl Topology for Sentinel {
    fn kind(&self) -> &'static str {
        "sentinel"
    }

    fn summary(&self) -> &'static str {
        "a primary, two replicas, and three sentinels that promote one of them"
    }

    fn knows(&self) -> &'static [&'static str] {
        &["replicas", "down_after", "clock", "replica_clock"]
    }

    fn decides(&self) -> &'static [&'static str] {
        DECIDED
    }

    fn check(&self, plan: &TopologyPlan) -> Result<(), String> {
        self.check_fields(plan)?;
        check_replicas(plan.replicas)?;
        match plan.down_after {
            Some(span) if span.millis() == 0 => Err("down_after is at least 1ms".to_owned()),
            _ => Ok(()),
        }
    }

    fn servers(&self, plan: &TopologyPlan) -> Vec<String> {
        super::named(plan.replicas.unwrap_or(REPLICAS), SENTINELS)
    }

    fn deploy<'a>(
        &'a self,
        backend: &'a dyn Backend,
        name: &'a str,
        plan: &'a TopologyPlan,
    ) -> BoxFuture<'a, Result<Deployment, BackendError>> {
        Box::pin(async move {
            let sentinels = (1..=SENTINELS).map(|n| {
                let name = format!("{name}-sentinel-{n}");
                backend.start(ServerSpec { name, program: ServerProgram::Sentinel, ..ServerSpec::default() })
            });
            let replicas = plan.replicas.unwrap_or(REPLICAS);
            let (wired, sentinels) =
                tokio::try_join!(wire(backend, name, plan, replicas), try_join_all(sentinels))?;
            let down_after = plan.down_after.map_or(DOWN_AFTER_MS, |span| span.millis());
            for sentinel in &sentinels {
                watch(sentinel.address(), wired.front).await?;
            }
            for sentinel in &sentinels {
                until(sentinel.name(), async || agrees(sentinel.address(), wired.front, replicas).await)
                    .await?;
            }
            for sentinel in &sentinels {
                let set = format!("SENTINEL SET {MASTER} down-after-milliseconds {down_after}");
                tell(sentinel.address(), &set).await?;
            }
            let servers = sentinels.iter().chain(&wired.replicas).chain([&wired.primary]);
            Ok(Deployment {
                servers: servers.map(Arc::clone).collect(),
                primary: wired.primary,
                replicas: wired.replicas,
                links: wired.links,
                entry: Entry::Sentinel { master: MASTER.to_owned(), sentinels: addresses(&sentinels) },
                sentinels,
            })
        })
    }
}

fn addresses(servers: &[Arc<dyn Server>]) -> Vec<SocketAddr> {
    servers.iter().map(|server| server.address()).collect()
}

/// Until all agree, nobody is taken for down: on a busy machine servers that start are silent for a second.
async fn watch(sentinel: SocketAddr, primary: SocketAddr) -> Result<(), BackendError> {
    let (ip, port) = (primary.ip(), primary.port());
    tell(sentinel, &format!("SENTINEL MONITOR {MASTER} {ip} {port} {QUORUM}")).await?;
    let set = format!("SENTINEL SET {MASTER} down-after-milliseconds {PATIENT_MS}");
    tell(sentinel, &format!("{set} failover-timeout {FAILOVER_TIMEOUT_MS}")).await
}

/// Whether a sentinel knows everybody, finds nobody down, and can reach the others for a majority.
async fn agrees(sentinel: SocketAddr, primary: SocketAddr, replicas: u32) -> Result<(), String> {
    let address = text(sentinel, &format!("SENTINEL GET-MASTER-ADDR-BY-NAME {MASTER}")).await?;
    let wanted = format!("{} {}", primary.ip(), primary.port());
    holds(address == wanted, || format!("its primary is {address}, not {wanted}"))?;
    let others = fields(&ask(sentinel, &format!("SENTINEL SENTINELS {MASTER}")).await?);
    let known = others.iter().filter(|other| is(other, "flags", "sentinel")).count();
    holds(known == SENTINELS - 1, || format!("it is connected to {known} other sentinels"))?;
    let known = fields(&ask(sentinel, &format!("SENTINEL REPLICAS {MASTER}")).await?);
    let fit = |replica: &&Fields| is(replica, "flags", "slave") && is(replica, "master-link-status", "ok");
    let fit = known.iter().filter(fit).count();
    holds(fit == replicas as usize, || format!("it finds {fit} replicas fit to be promoted"))?;
    text(sentinel, &format!("SENTINEL CKQUORUM {MASTER}")).await.map(|_| ())
}

type Fields = Vec<String>;

/// Names and values in turn, for each of those listed.
fn fields(list: &Frame) -> Vec<Fields> {
    match list {
        Frame::Array(entries) => entries.iter().map(words).collect(),
        _ => Vec::new(),
    }
}

fn is(fields: &Fields, name: &str, value: &str) -> bool {
    fields.chunks(2).any(|pair| pair[0] == name && pair.get(1).is_some_and(|v| v == value))
}
