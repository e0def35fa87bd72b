//! The connections of a cell's app servers: one store each, and those of other regions where there are some.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;

use super::drive::Drive;
use super::eye::Eye;
use crate::clients::Access;
use crate::clients::declared_keys::{DeclaredKeys, Touched};
use crate::clients::far::Far;
use crate::model::history::Event;
use crate::model::report::CellHonesty;
use crate::model::scenario::NodesAs;
use crate::model::units::OpId;
use crate::ports::database::Database;
use crate::ports::route::{Configured, Route};
use crate::ports::store::{SharedHook, Store};
use crate::workloads;

/// What an app server reaches.
pub struct Reach {
    pub store: Arc<dyn Store>,
    /// What it asks instead, where its limiter keeps its counters in rows.
    pub database: Option<Arc<dyn Database>>,
    /// In the order of their regions, without its own.
    pub others: Vec<Arc<dyn Store>>,
}

/// One store per node, connected unless the pool is to be cold. The first node's has a hook of its own.
pub async fn connect(
    drive: &Drive<'_>,
    admin: &Eye,
    first: Option<SharedHook>,
) -> anyhow::Result<Vec<Reach>> {
    let workload = &drive.cell.setup.workload;
    if workload.nodes_as == NodesAs::Processes {
        return Ok(Vec::new());
    }
    let (connections, nodes) = (workload.connections.get(), workload.most_nodes());
    let mut all = Vec::new();
    for node in 0..nodes {
        let region = node as usize % drive.regions.len().max(1);
        let access = Access {
            route: drive.regions.get(region).map_or_else(|| Arc::clone(&drive.route), configured),
            seeds: drive.seeds.clone(),
            connections: workloads::connections_of(node, connections, nodes) as usize,
            hook: first.clone().filter(|_| node == 0).or_else(|| hook(drive)),
            user: None,
            dial: None,
        };
        let unreachable = || format!("node {node} cannot reach {}", drive.address);
        let connect = drive.cell.client.connect;
        let others = drive.regions.iter().enumerate().filter(|(other, _)| *other != region);
        let others = others
            .map(|(_, at)| connect(Access { route: configured(at), hook: beyond(drive), ..access.clone() }));
        let others: Vec<Arc<dyn Store>> = others.collect();
        let statements = drive.cell.spec.statements(&drive.cell.settings);
        let database = drive.cell.client.rows.map(|rows| rows(access.clone(), statements));
        if let Some(database) = database.as_ref().filter(|_| !workload.cold_pool) {
            database.warm_up().await.with_context(unreachable)?;
        }
        let store: Arc<dyn Store> = if drive.cell.setup.observe.keys {
            let user = format!("rl-lab-{node}");
            let touched = touched(drive);
            let store = DeclaredKeys::connect(connect, access, admin.keys()?.clone(), &user, touched).await;
            Arc::new(store.with_context(unreachable)?)
        } else {
            connect(access)
        };
        for store in std::iter::once(&store).chain(&others).filter(|_| !workload.cold_pool) {
            store.warm_up().await.with_context(unreachable)?;
        }
        all.push(Reach { store, database, others });
    }
    Ok(all)
}

fn configured(address: &SocketAddr) -> Arc<dyn Route> {
    Configured::at(*address)
}

fn touched(drive: &Drive<'_>) -> Touched {
    let recorder = Arc::clone(drive.recorder);
    Arc::new(move |op, keys, refused| {
        recorder.event(Event::Touch { op: OpId(op), keys, refused, at: recorder.now() });
    })
}

fn hook(drive: &Drive<'_>) -> Option<SharedHook> {
    let round_trip = drive.cell.setup.observe.round_trip;
    if round_trip.is_zero() {
        return drive.hook.clone();
    }
    Some(Far { round_trip: round_trip.duration(), other: drive.hook.clone() }.shared())
}

/// The same on the way to another region.
fn beyond(drive: &Drive<'_>) -> Option<SharedHook> {
    match drive.cell.setup.topology.apart {
        Some(apart) => Some(Far { round_trip: apart.duration(), other: hook(drive) }.shared()),
        None => hook(drive),
    }
}

/// What they have sent so far.
pub fn add_traffic(honesty: &mut CellHonesty, all: &[Reach]) {
    let stores = all.iter().flat_map(|reach| std::iter::once(&reach.store).chain(&reach.others));
    let databases = all.iter().filter_map(|reach| reach.database.as_ref());
    for traffic in stores.map(|store| store.traffic()).chain(databases.map(|d| d.traffic())) {
        honesty.commands += traffic.commands;
        honesty.round_trips += traffic.round_trips;
    }
}
