//! Primaries that share the slots of a cluster, each with a replica or none.

use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::try_join_all;

use super::ask::{ask, holds, tell, text, until, words};
use crate::model::scenario::TopologyPlan;
use crate::ports::BoxFuture;
use crate::ports::backend::{Backend, BackendError, Server, ServerSpec};
use crate::ports::topology::{Deployment, Entry, Topology};
use crate::wire::resp::Frame;

const SLOTS: usize = 16_384;
const DEFAULT_PRIMARIES: u32 = 3;
/// With a replica for each that is twice as many servers.
const MOST_PRIMARIES: u32 = 6;

/// Nodes hear of each other within half of it, and a node counts as failed after it. The server's default of
/// fifteen seconds would take as long to say who is whose replica.
const NODE_TIMEOUT_MS: &str = "5000";

pub struct Cluster;

impl Topology for Cluster {
    fn kind(&self) -> &'static str {
        "cluster"
    }

    fn summary(&self) -> &'static str {
        "three primaries that share the slots of a cluster, or one that has them all"
    }

    fn knows(&self) -> &'static [&'static str] {
        &["primaries", "replicas", "clock", "replica_clock"]
    }

    fn decides(&self) -> &'static [&'static str] {
        &["cluster-enabled", "replicaof", "slaveof"]
    }

    fn check(&self, plan: &TopologyPlan) -> Result<(), String> {
        self.check_fields(plan)?;
        if let Some(n) = plan.primaries.filter(|n| *n == 2 || !(1..=MOST_PRIMARIES).contains(n)) {
            return Err(format!(
                "primaries is 1, or a number from 3 to {MOST_PRIMARIES} of which a majority can agree, not {n}"
            ));
        }
        match plan.replicas {
            Some(n) if n > 1 => Err(format!("each primary of a cluster has 1 of replicas or 0, not {n}")),
            _ => Ok(()),
        }
    }

    fn deploy<'a>(
        &'a self,
        backend: &'a dyn Backend,
        name: &'a str,
        plan: &'a TopologyPlan,
    ) -> BoxFuture<'a, Result<Deployment, BackendError>> {
        Box::pin(async move {
            // Nodes send clients to each other's addresses, so clients have to reach those.
            backend.meeting_point()?;
            let primaries = plan.primaries.unwrap_or(DEFAULT_PRIMARIES) as usize;
            let replicas = primaries * plan.replicas.unwrap_or(0) as usize;
            let specs = (0..primaries + replicas).map(|n| spec(name, plan, n, primaries));
            let nodes = try_join_all(specs.map(|spec| backend.start(spec))).await?;
            join(&nodes, primaries).await?;
            for node in &nodes {
                until(node.name(), async || serves(node.address(), nodes.len()).await).await?;
            }
            Ok(Deployment {
                primary: Arc::clone(&nodes[0]),
                servers: nodes.clone(),
                replicas: nodes[primaries..].to_vec(),
                sentinels: Vec::new(),
                links: Vec::new(),
                entry: Entry::Cluster { seeds: nodes.iter().map(|node| node.address()).collect() },
            })
        })
    }
}

/// Primaries first, then the replica of each in the same order.
fn spec(name: &str, plan: &TopologyPlan, n: usize, primaries: usize) -> ServerSpec {
    let own = [
        ("cluster-enabled", "yes"),
        ("cluster-node-timeout", NODE_TIMEOUT_MS),
        ("repl-diskless-sync-delay", "0"),
    ];
    let mut config: std::collections::BTreeMap<String, String> =
        own.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    config.extend(plan.config.iter().map(|(k, v)| (k.clone(), v.clone())));
    let (name, clock) = if n < primaries {
        (format!("{name}-primary-{}", n + 1), plan.primary_clock())
    } else {
        (format!("{name}-replica-{}", n + 1 - primaries), plan.clock_of_replicas())
    };
    ServerSpec { name, config, clock, ..ServerSpec::default() }
}

/// Gives out the slots, in contiguous shares, and makes all nodes know each other.
async fn join(nodes: &[Arc<dyn Server>], primaries: usize) -> Result<(), BackendError> {
    let addresses: Vec<SocketAddr> = nodes.iter().map(|node| node.address()).collect();
    for (n, address) in addresses.iter().enumerate() {
        // Else two that meet for the first time find that they have the same, and it takes a while.
        tell(*address, &format!("CLUSTER SET-CONFIG-EPOCH {}", n + 1)).await?;
    }
    for (n, address) in addresses[..primaries].iter().enumerate() {
        let share = n * SLOTS / primaries..(n + 1) * SLOTS / primaries;
        // One by one: servers before 7.0 know no ranges.
        let slots: Vec<String> = share.map(|slot| slot.to_string()).collect();
        tell(*address, &format!("CLUSTER ADDSLOTS {}", slots.join(" "))).await?;
    }
    // Each to each: from one alone the news takes twice as long.
    for (n, one) in addresses.iter().enumerate() {
        for other in &addresses[n + 1..] {
            tell(*one, &format!("CLUSTER MEET {} {}", other.ip(), other.port())).await?;
        }
    }
    if nodes.len() == primaries {
        return Ok(());
    }
    for node in nodes {
        until(node.name(), async || knows_all(node.address(), nodes.len()).await).await?;
    }
    for (primary, replica) in addresses.iter().zip(&addresses[primaries..]) {
        let id = text(*primary, "CLUSTER MYID").await;
        let id = id.map_err(|why| BackendError::Engine { what: "wiring the servers".to_owned(), why })?;
        tell(*replica, &format!("CLUSTER REPLICATE {id}")).await?;
    }
    for (primary, replica) in nodes.iter().zip(&nodes[primaries..]) {
        until(replica.name(), async || follows(primary.address(), replica.address()).await).await?;
    }
    Ok(())
}

/// Whether a node has shaken hands with all the others.
async fn knows_all(address: SocketAddr, nodes: usize) -> Result<(), String> {
    let list = text(address, "CLUSTER NODES").await?;
    let met = list.lines().filter(|line| !line.contains("handshake") && !line.contains("noaddr")).count();
    holds(met == nodes, || format!("it knows {met} nodes of {nodes}"))
}

/// Whether the replica follows, and its primary has written something: a replica that has received nothing
/// is not told to clients.
async fn follows(primary: SocketAddr, replica: SocketAddr) -> Result<(), String> {
    let info = text(replica, "INFO replication").await?;
    holds(info.contains("master_link_status:up"), || "its link is not up".to_owned())?;
    // Asks for one acknowledgement too many: the question itself is what the replica receives.
    text(primary, "WAIT 2 1").await?;
    let offset = info.lines().find_map(|line| line.strip_prefix("slave_repl_offset:"));
    holds(offset.is_some_and(|n| n.trim() != "0"), || "it has received nothing".to_owned())
}

/// Whether a node takes commands, and can tell clients about every slot and every node.
async fn serves(address: SocketAddr, nodes: usize) -> Result<(), String> {
    let info = text(address, "CLUSTER INFO").await?;
    let state = info.lines().find(|line| line.starts_with("cluster_state")).unwrap_or_default();
    holds(state.trim() == "cluster_state:ok", || state.trim().to_owned())?;
    let (covered, told) = told(&ask(address, "CLUSTER SLOTS").await?);
    holds((covered, told) == (SLOTS, nodes), || {
        format!("it tells of {covered} slots of {SLOTS} and of {told} nodes of {nodes}")
    })
}

/// How many slots and how many nodes are in an answer to CLUSTER SLOTS.
fn told(answer: &Frame) -> (usize, usize) {
    let Frame::Array(shares) = answer else { return (0, 0) };
    let mut covered = 0;
    let mut nodes = std::collections::BTreeSet::new();
    for share in shares {
        let Frame::Array(parts) = share else { continue };
        if let [Frame::Int(first), Frame::Int(last), of @ ..] = parts.as_slice() {
            covered += usize::try_from(last - first + 1).unwrap_or(0);
            // Address, port and id; the id alone would do, but not every server tells it.
            nodes.extend(of.iter().map(|node| words(node).into_iter().take(2).collect::<Vec<_>>()));
        }
    }
    (covered, nodes.len())
}
