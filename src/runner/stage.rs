//! What a group of cells is driven on: servers, the way to them, and what breaks.

use std::net::SocketAddr;
use std::sync::Arc;

use super::faults::Faults;
use super::plan::CellPlan;
use super::record::Recorder;
use super::way::Proxied;
use crate::clients::sentinel::Asked;
use crate::faults;
use crate::model::scenario::{OutageNeeds, PlannedFault, Setup};
use crate::ports::backend::BackendError;
use crate::ports::fault::{Ground, Way};
use crate::ports::route::{Configured, Route};
use crate::ports::topology::{Deployment, Entry};

/// Servers and the way to them.
pub struct Stage {
    pub deployment: Arc<Deployment>,
    pub route: Arc<dyn Route>,
    configured: Option<Arc<Configured>>,
    way: Option<Arc<dyn Way>>,
}

impl Stage {
    /// With the lab on the clients' way where a fault of this setup needs it there.
    pub fn of(deployment: Arc<Deployment>, setup: &Setup) -> Result<Self, BackendError> {
        let needed = |planned: &PlannedFault| {
            let fault = faults::find(&planned.fault).map_err(BackendError::Missing)?;
            let server = deployment.named(&planned.on).map_err(BackendError::Missing)?;
            Ok::<_, BackendError>(fault.needs_way(&**server))
        };
        let needs: Vec<bool> = setup.faults.iter().map(needed).collect::<Result<_, _>>()?;
        let way: Option<Arc<dyn Way>> = if needs.contains(&true) {
            Some(Arc::new(Proxied::before(deployment.primary.address())?))
        } else {
            None
        };
        let (route, configured): (Arc<dyn Route>, _) = match (&deployment.entry, &way) {
            (Entry::Sentinel { master, sentinels }, None) => (Asked::of(master, sentinels), None),
            (_, Some(way)) => configured(way.address()),
            (Entry::Direct(address), None) => configured(*address),
            (Entry::Cluster { .. } | Entry::Regions(_), None) => configured(deployment.primary.address()),
        };
        Ok(Self { deployment, route, configured, way })
    }

    /// The servers that share the keys between them, where that is a cluster.
    pub fn seeds(&self) -> Vec<SocketAddr> {
        match &self.deployment.entry {
            Entry::Cluster { seeds } => seeds.clone(),
            _ => Vec::new(),
        }
    }

    /// The stores of the regions, where there are several.
    pub fn regions(&self) -> Vec<SocketAddr> {
        match &self.deployment.entry {
            Entry::Regions(addresses) => addresses.clone(),
            _ => Vec::new(),
        }
    }

    /// Where the lab itself looks at the store.
    pub fn address(&self) -> SocketAddr {
        self.deployment.primary.address()
    }

    /// What breaks while these cells are driven; nothing where nothing is planned.
    pub fn faults(
        &self,
        setup: &Setup,
        outage: Option<OutageNeeds>,
        lanes: Vec<Arc<Recorder>>,
    ) -> Option<Arc<Faults>> {
        if setup.faults.is_empty() {
            return None;
        }
        let ground = Ground {
            deployment: Arc::clone(&self.deployment),
            way: self.way.clone(),
            configured: self.configured.clone(),
        };
        Some(Faults::new(ground, &setup.faults, outage, lanes))
    }
}

/// An address that the app servers' configuration names.
fn configured(address: SocketAddr) -> (Arc<dyn Route>, Option<Arc<Configured>>) {
    let configured = Configured::at(address);
    (Arc::clone(&configured) as Arc<dyn Route>, Some(configured))
}

/// Whether what breaks for one of them breaks for the other.
fn same_ground(one: &CellPlan, other: &CellPlan) -> bool {
    one.variation == other.variation && one.setup.topology == other.setup.topology
}

/// The cells that are driven at the same time, group by group, by their places in the plan.
pub fn groups(cells: &[CellPlan], together: bool) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (place, cell) in cells.iter().enumerate() {
        match groups.last_mut() {
            Some(last) if together && same_ground(&cells[last[0]], cell) => last.push(place),
            _ => groups.push(vec![place]),
        }
    }
    groups
}
