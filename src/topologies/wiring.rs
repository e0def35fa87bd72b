//! A primary and its replicas with a front before each, through which they reach each other.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;

use super::ask::{holds, tell, text, until};
use crate::model::offset::Offset;
use crate::model::scenario::TopologyPlan;
use crate::ports::backend::{Backend, BackendError, Server, ServerSpec};
use crate::ports::link::Link;
use crate::wire::replication::{self, Front, Links};

/// The most replicas one primary can have, beside three sentinels on a network of 13 servers.
pub const MOST_REPLICAS: u32 = 8;

/// The settings by which servers are wired.
pub const DECIDED: &[&str] = &[
    "replicaof",
    "slaveof",
    "replica-announce-ip",
    "replica-announce-port",
    "slave-announce-ip",
    "slave-announce-port",
];

pub struct Wiring {
    pub primary: Arc<dyn Server>,
    pub replicas: Vec<Arc<dyn Server>>,
    pub links: Vec<Arc<dyn Link>>,
    /// Where the primary is reached by those who shall find it by what it announces.
    pub front: SocketAddr,
}

/// Whether there can be so many replicas.
pub fn check_replicas(replicas: Option<u32>) -> Result<(), String> {
    match replicas {
        Some(n) if !(1..=MOST_REPLICAS).contains(&n) => {
            Err(format!("replicas is a number from 1 to {MOST_REPLICAS}, not {n}"))
        }
        _ => Ok(()),
    }
}

/// Starts a primary and its replicas, and returns when each replica has what the primary has.
pub async fn wire(
    backend: &dyn Backend,
    name: &str,
    plan: &TopologyPlan,
    replicas: u32,
) -> Result<Wiring, BackendError> {
    let links = Links::default();
    let meeting_point = backend.meeting_point()?;
    let front = |_| {
        let started = Front::start((meeting_point, 0).into(), links.clone());
        started.map_err(|error| BackendError::Engine {
            what: format!("listening at {meeting_point} for the servers"),
            why: error.to_string(),
        })
    };
    let fronts = (0..=replicas).map(front).collect::<Result<Vec<Front>, _>>()?;
    let way: Vec<_> = fronts[1..].iter().map(|front| links.to(front.address().port())).collect();
    let address = fronts[0].address();

    let of_primary = spec(format!("{name}-primary"), plan, plan.primary_clock(), &fronts[0]);
    // While the primary's front leads nowhere, no replica begins what the start of another may disturb.
    let of_replicas = fronts[1..].iter().enumerate().map(|(n, front)| {
        let mut spec = spec(format!("{name}-replica-{}", n + 1), plan, plan.clock_of_replicas(), front);
        spec.config.insert("replicaof".to_owned(), format!("{} {}", address.ip(), address.port()));
        spec
    });
    let specs: Vec<ServerSpec> = std::iter::once(of_primary).chain(of_replicas).collect();
    let mut servers = try_join_all(specs.into_iter().map(|spec| backend.start(spec))).await?;
    for (front, server) in fronts.iter().zip(&servers) {
        front.lead_to(server.address());
    }
    let primary = servers.remove(0);
    for replica in &servers {
        // They try again by themselves, but only every second.
        tell(replica.address(), "REPLICAOF NO ONE").await?;
        tell(replica.address(), &format!("REPLICAOF {} {}", address.ip(), address.port())).await?;
    }
    follow(name, &primary, &servers).await?;
    let fronts = Arc::new(fronts);
    let links =
        way.into_iter().map(|link| -> Arc<dyn Link> { Arc::new(Way { link, _fronts: Arc::clone(&fronts) }) });
    Ok(Wiring { primary, replicas: servers, links: links.collect(), front: address })
}

fn spec(name: String, plan: &TopologyPlan, clock: Option<Offset>, front: &Front) -> ServerSpec {
    let announced = [
        // A snapshot that is sent at once, not when others may have asked for it too.
        ("repl-diskless-sync-delay", "0".to_owned()),
        ("replica-announce-ip", front.address().ip().to_string()),
        ("replica-announce-port", front.address().port().to_string()),
    ];
    let mut config: std::collections::BTreeMap<String, String> =
        announced.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
    config.extend(plan.config.iter().map(|(k, v)| (k.clone(), v.clone())));
    ServerSpec { name, config, clock, ..ServerSpec::default() }
}

/// A key of the lab's own, for as long as servers are being wired.
const MARKER: &str = "rl-lab:wired";

/// Waits until every replica follows: its link is up, and what is written to the primary is seen there.
async fn follow(
    name: &str,
    primary: &Arc<dyn Server>,
    replicas: &[Arc<dyn Server>],
) -> Result<(), BackendError> {
    for replica in replicas {
        until(replica.name(), async || {
            let info = text(replica.address(), "INFO replication").await?;
            holds(info.contains("master_link_status:up"), || {
                let status = info.lines().find(|line| line.starts_with("master_link_status"));
                status.unwrap_or("it is no replica").trim().to_owned()
            })
        })
        .await?;
    }
    // A primary that wants replicas for a write counts them once a second.
    until(primary.name(), async || {
        text(primary.address(), &format!("SET {MARKER} {name}")).await.map(|_| ())
    })
    .await?;
    seen(replicas, name).await?;
    tell(primary.address(), &format!("DEL {MARKER}")).await?;
    seen(replicas, "").await
}

async fn seen(replicas: &[Arc<dyn Server>], marker: &str) -> Result<(), BackendError> {
    for replica in replicas {
        until(replica.name(), async || {
            let there = text(replica.address(), &format!("GET {MARKER}")).await?;
            holds(there == marker, || format!("{MARKER} is '{there}' and not '{marker}' yet"))
        })
        .await?;
    }
    Ok(())
}

/// A link, with the fronts that it leads through.
struct Way {
    link: Arc<replication::Link>,
    _fronts: Arc<Vec<Front>>,
}

impl Link for Way {
    fn hold_after(&self, writes: u64, named: Option<&str>) {
        self.link.hold_after(writes, named);
    }

    fn release(&self) {
        self.link.release();
    }

    fn cut(&self) -> Result<(), BackendError> {
        let cut = self.link.cut();
        cut.map_err(|error| BackendError::Engine {
            what: "cutting a replication link".to_owned(),
            why: error.to_string(),
        })
    }

    fn mend(&self) -> Result<(), BackendError> {
        self.link.mend();
        Ok(())
    }

    fn delay(&self, by: Option<Duration>) {
        self.link.delay(by);
    }

    fn passed(&self) -> u64 {
        self.link.passed()
    }

    fn held(&self) -> u64 {
        self.link.waiting()
    }

    fn is_holding(&self) -> bool {
        self.link.is_holding()
    }
}
