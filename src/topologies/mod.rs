//! The topologies, one file each. A new one is a file and its line in [`ALL`].

mod ask;
pub mod cluster;
pub mod postgres;
pub mod regions;
pub mod replica;
pub mod sentinel;
pub mod single;
mod wiring;

use crate::model::names;
use crate::ports::topology::Topology;

pub static ALL: &[&dyn Topology] = &[
    &single::Single,
    &replica::Replica,
    &sentinel::Sentinel,
    &cluster::Cluster,
    &regions::Regions,
    &postgres::Postgres,
];

/// A primary, so many replicas and so many sentinels, as faults name them.
fn named(replicas: u32, sentinels: usize) -> Vec<String> {
    let replicas = (1..=replicas).map(|n| format!("replica-{n}"));
    let sentinels = (1..=sentinels).map(|n| format!("sentinel-{n}"));
    std::iter::once("primary".to_owned()).chain(replicas).chain(sentinels).collect()
}

pub fn find(kind: &str) -> Result<&'static dyn Topology, String> {
    let found = ALL.iter().find(|t| t.kind() == kind).copied();
    found.ok_or_else(|| names::unknown("topology", kind, &ALL.iter().map(|t| t.kind()).collect::<Vec<_>>()))
}
