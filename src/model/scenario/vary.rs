//! `[[vary]]`: the same experiment with something else, each limiter under each.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::{
    Act, Behaviour, LimitPlan, LimiterRef, NodesAs, ObservePlan, PlannedAct, PlannedCall, PlannedClock,
    PlannedDeploy, PlannedFault, PlannedScale, Scenario, Shape, Time, TopologyPlan, WorkloadPlan,
};
use crate::model::http::Form;
use crate::model::units::{Cost, Limit, Micros, Window};

/// What is different. A field that is absent stays as the scenario has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vary {
    /// Unique in the scenario; the table's rows and the command that repeats them carry it.
    pub name: String,
    /// A limiter may refuse these settings: it is then not run, and the refusal is shown.
    #[serde(default)]
    pub may_refuse: bool,
    /// The variants it is for; all where none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<LimiterRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<Shape>,
    #[serde(default, rename = "call", skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<PlannedCall>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<NonZeroU32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<NonZeroU32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<NonZeroU32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NonZeroU32>,
    /// Instead of the shares of the scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<Vec<u32>>,
    /// Instead of what comes and goes in the scenario.
    #[serde(default, rename = "scale", skip_serializing_if = "Option::is_none")]
    pub scales: Option<Vec<PlannedScale>>,
    /// Instead of what the scenario rolls out.
    #[serde(default, rename = "deploy", skip_serializing_if = "Option::is_none")]
    pub deploys: Option<Vec<PlannedDeploy>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes_as: Option<NodesAs>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub front: Option<Form>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<NonZeroU32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// A key of this many bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_bytes: Option<NonZeroU32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Window>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behaviour: Option<Behaviour>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip: Option<Micros>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold_pool: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<NonZeroU32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aside_every: Option<NonZeroU32>,
    /// Instead of `[observe] keys`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observe_keys: Option<bool>,
    /// Instead of the acts of the scenario.
    #[serde(default, rename = "act", skip_serializing_if = "Option::is_none")]
    pub acts: Option<Vec<PlannedAct>>,
    /// Instead of the faults of the scenario.
    #[serde(default, rename = "fault", skip_serializing_if = "Option::is_none")]
    pub faults: Option<Vec<PlannedFault>>,
    /// Instead of the topology of the scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<TopologyPlan>,
    /// Instead of the clocks of the scenario.
    #[serde(default, rename = "clock", skip_serializing_if = "Option::is_none")]
    pub clocks: Option<Vec<PlannedClock>>,
}

/// What a cell is driven with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    pub limit: LimitPlan,
    pub workload: WorkloadPlan,
    pub topology: TopologyPlan,
    pub faults: Vec<PlannedFault>,
    pub clocks: Vec<PlannedClock>,
    pub observe: ObservePlan,
}

impl Setup {
    /// As the scenario has it.
    pub fn of(scenario: &Scenario) -> Self {
        Self {
            limit: scenario.limit,
            workload: scenario.workload.clone(),
            topology: scenario.topology.clone(),
            faults: scenario.faults.clone(),
            clocks: scenario.clocks.clone(),
            observe: scenario.observe,
        }
    }

    /// The same, varied. The error says what does not fit together.
    pub fn varied(&self, vary: &Vary) -> Result<Self, String> {
        let mut setup = self.clone();
        let (l, w) = (&mut setup.limit, &mut setup.workload);
        l.limit = vary.limit.unwrap_or(l.limit);
        l.window = vary.window.unwrap_or(l.window);
        if let Some(shape) = vary.shape {
            w.shape = shape;
            // A sequence lists its calls and has no other measure of them.
            if shape == Shape::Sequence {
                (w.requests, w.every) = (None, None);
            }
        }
        if !vary.calls.is_empty() {
            w.calls.clone_from(&vary.calls);
        }
        w.requests = vary.requests.or(w.requests);
        w.connections = vary.connections.unwrap_or(w.connections);
        w.in_flight = vary.in_flight.unwrap_or(w.in_flight);
        w.nodes = vary.nodes.unwrap_or(w.nodes);
        w.shares = vary.shares.clone().unwrap_or_else(|| w.shares.clone());
        w.scales = vary.scales.clone().unwrap_or_else(|| w.scales.clone());
        w.deploys = vary.deploys.clone().unwrap_or_else(|| w.deploys.clone());
        w.nodes_as = vary.nodes_as.unwrap_or(w.nodes_as);
        w.front = vary.front.unwrap_or(w.front);
        w.keys = vary.keys.unwrap_or(w.keys);
        w.key = vary.key.clone().unwrap_or_else(|| w.key.clone());
        if let Some(bytes) = vary.key_bytes {
            w.key = "k".repeat(bytes.get() as usize);
        }
        w.cost = vary.cost.unwrap_or(w.cost);
        w.every = vary.every.or(w.every);
        w.behaviour = vary.behaviour.or(w.behaviour);
        w.preset = vary.preset.unwrap_or(w.preset);
        w.cold_pool = vary.cold_pool.unwrap_or(w.cold_pool);
        w.workers = vary.workers.or(w.workers);
        w.aside_every = vary.aside_every.or(w.aside_every);
        w.acts = vary.acts.clone().unwrap_or_else(|| w.acts.clone());
        setup.observe.round_trip = vary.round_trip.unwrap_or(setup.observe.round_trip);
        setup.observe.keys = vary.observe_keys.unwrap_or(setup.observe.keys);
        setup.topology = vary.topology.clone().unwrap_or(setup.topology);
        setup.faults = vary.faults.clone().unwrap_or(setup.faults);
        setup.clocks = vary.clocks.clone().unwrap_or(setup.clocks);
        setup.workload.validate()?;
        Ok(setup)
    }

    /// Whether what breaks, what the clocks say and how time goes by fit the workload.
    pub fn fits(&self, time: Time) -> Result<(), String> {
        self.workload.time_fits(time)?;
        self.faults.iter().try_for_each(PlannedFault::validate)?;
        self.clocks.iter().try_for_each(|c| c.validate(self.workload.most_nodes()))?;
        self.processes_fit()?;
        if self.topology.kind == "regions" && self.observe.keys {
            return Err("keys can only be observed where there is one store, not in regions".to_owned());
        }
        let faults = self.faults.iter().map(|f| (f.fault.as_str(), f.at));
        // What takes something back may come when it likes.
        let acts = self.workload.acts.iter().filter(|a| a.act != Act::Empty).map(|a| (a.act.name(), a.at));
        let set = self.clocks.iter().filter_map(|c| Some(("a clock that is set", c.jump_at?)));
        faults.chain(acts).chain(set).try_for_each(|(name, at)| self.workload.meets_a_call(name, at))?;
        if self.faults.is_empty() {
            return Ok(());
        }
        if time == Time::Skipped {
            return Err("a fault goes on in real time: it cannot be skipped".to_owned());
        }
        if self.workload.rounds.get() > 1 || self.workload.crash_at_every_step {
            return Err("a fault belongs to one round: rounds = 1".to_owned());
        }
        Ok(())
    }

    /// What a process can neither be asked nor told: the lab holds only its two ends, its clock and its life.
    fn processes_fit(&self) -> Result<(), String> {
        const MOVES: [&str; 2] = ["promote", "demote"];
        match self.workload.nodes_as {
            NodesAs::Tasks => return Ok(()),
            NodesAs::Http if self.workload.crash_at_every_step => {
                return Err("a node behind HTTP does not die: crash_at_every_step".to_owned());
            }
            NodesAs::Http => return Ok(()),
            NodesAs::Processes => {}
        }
        let clear = |given: bool, what: &str| {
            if given { Err(format!("{what} belongs to nodes_as = \"tasks\"")) } else { Ok(()) }
        };
        clear(self.observe.keys, "[observe] keys")?;
        clear(!self.workload.scales.is_empty(), "scale")?;
        clear(!self.workload.deploys.is_empty(), "deploy")?;
        clear(!self.observe.round_trip.is_zero(), "round_trip")?;
        let moved = |c: &PlannedClock| c.drift_ppm != 0 || c.jump_at.is_some();
        clear(self.clocks.iter().any(moved), "a clock that drifts or is set")?;
        let kind = self.topology.kind.as_str();
        let asks = ["sentinel", "cluster"].contains(&kind);
        clear(asks, &format!("a topology of kind \"{kind}\", whose clients ask for their server,"))?;
        clear(kind == "regions", "a topology of kind \"regions\", of which a process is told one store,")?;
        let moves = self.faults.iter().find(|f| MOVES.contains(&f.fault.as_str()));
        moves.map_or(Ok(()), |f| clear(true, &format!("{}, which moves the primary,", f.fault)))
    }
}
