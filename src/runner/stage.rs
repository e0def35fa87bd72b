//! What a group of cells is driven on: servers, the way to them, and what breaks.

use std::net::SocketAddr;
use std::sync::Arc;

use super::drive;
use super::faults::Faults;
use super::plan::{CellPlan, Plan};
use super::record::Recorder;
use super::way::Proxied;
use crate::clients::sentinel::Asked;
use crate::faults;
use crate::model::scenario::{NodesAs, OutageNeeds, PlannedFault, Setup, Time};
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

/// Whether a cell is only waited for: the scenario skips its waits and the limiter cannot, and nothing that it
/// does, or that is done meanwhile, can be felt by another that is waited for beside it.
fn idles(plan: &Plan, cell: &CellPlan) -> bool {
    let (setup, workload) = (&cell.setup, &cell.setup.workload);
    let waited = plan.scenario.time == Time::Skipped && drive::time_of(plan, cell) == Time::Real;
    // One's access list, scripts that are forgotten and processes that keep keys of their own are everybody's.
    waited
        && cell.process().is_none()
        && workload.nodes_as == NodesAs::Tasks
        && workload.acts.is_empty()
        && !workload.crash_at_every_step
        && setup.faults.is_empty()
        && !setup.observe.keys
}

/// The cells that are driven at the same time, group by group, by their places in the plan.
pub fn groups(plan: &Plan) -> Vec<Vec<usize>> {
    let cells = &plan.cells;
    let beside = |one: &CellPlan, other: &CellPlan| {
        let together = plan.scenario.workload.together || (idles(plan, one) && idles(plan, other));
        together && same_ground(one, other)
    };
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (place, cell) in cells.iter().enumerate() {
        match groups.iter_mut().find(|group| beside(&cells[group[0]], cell)) {
            Some(group) => group.push(place),
            None => groups.push(vec![place]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::units::Seed;
    use crate::runner::plan::{Overrides, plan};
    use crate::runner::scenarios;

    /// The groups of several of a scenario, as their limiters.
    fn groups_of(scenario: &str) -> Vec<Vec<String>> {
        let named = scenarios::find(scenario).unwrap();
        let plan = plan(named, &Overrides::default(), Seed(1)).unwrap();
        let several = groups(&plan).into_iter().filter(|g| g.len() > 1);
        several.map(|g| g.iter().map(|i| plan.cells[*i].spec.name.to_owned()).collect()).collect()
    }

    #[test]
    fn those_that_are_only_waited_for_are_waited_for_at_the_same_time() {
        let waited = groups_of("promises");
        assert_eq!(waited.len(), 1, "{waited:?}");
        for limiter in ["sliding-log-lua", "sliding-log-time-argv", "async-count-flag"] {
            assert!(waited[0].iter().any(|l| l == limiter), "{limiter}: {waited:?}");
        }
        assert!(!waited[0].iter().any(|l| l == "fixed-window-lua"), "its waits are skipped: {waited:?}");
    }

    #[test]
    fn what_others_would_feel_is_driven_alone() {
        // Access lists; scripts that are forgotten; a node that dies; time that is nobody's to skip.
        for alone in ["keys", "noscript", "crash", "race", "sync"] {
            assert_eq!(groups_of(alone), Vec::<Vec<String>>::new(), "{alone}");
        }
    }
}
