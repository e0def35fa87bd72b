//! The workload port: how calls are offered to the limiters of a round.

use std::sync::{Arc, OnceLock};

use super::BoxFuture;
use super::limiter::{Fleet, Limiter};
use crate::model::op::{Completion, Trace};
use crate::model::scenario::{PlannedAct, PlannedFault, Shape, WorkloadPlan};
use crate::model::units::{Cost, Limit, Nanos, NodeId, OpId, Seed, Window};

/// What a workload needs to offer one round. Keys that begin with `prefix` are fresh; `nodes` are
/// built and, unless the pool is to be cold, connected.
#[derive(Clone)]
pub struct Offer<'a> {
    pub plan: &'a WorkloadPlan,
    pub limit: Limit,
    pub window: Window,
    pub nodes: Vec<Arc<dyn Limiter>>,
    /// How many of the nodes take part.
    pub fleet: Arc<Fleet>,
    /// When the round begins, once that is known: where it begins at an edge, the workload says so.
    pub begins: Arc<OnceLock<Nanos>>,
    pub prefix: Arc<str>,
    pub seed: Seed,
    pub record: Arc<dyn Record>,
    pub time: Arc<dyn Timeline>,
    pub actor: Arc<dyn Actor>,
    /// What breaks between two calls.
    pub faults: &'a [PlannedFault],
}

impl Offer<'_> {
    /// The key of an identity, by its number from 0.
    pub fn key(&self, identity: u32) -> Arc<str> {
        format!("{}{}", self.prefix, self.plan.identity(identity)).into()
    }
}

/// The time of a round, as the record's clock tells it.
pub trait Timeline: Send + Sync {
    fn now(&self) -> Nanos;

    /// The moment at or after now at which a clock-aligned window of this length begins.
    fn next_edge(&self, window: Window) -> Nanos;

    /// Returns when this moment has come: waited for, or skipped to. Only while no call is open.
    /// `false` if the round is to end instead.
    fn until(&self, at: Nanos) -> BoxFuture<'_, bool>;
}

/// Does to the store what the scenario plans between calls.
pub trait Actor: Send + Sync {
    /// Does it and records it. Only while no call is open. What cannot be done ends the cell.
    fn act<'a>(&'a self, planned: &'a PlannedAct) -> BoxFuture<'a, ()>;

    /// Whether something that breaks by the clock is not mended yet, or was only a moment ago: calls are to
    /// show that the store is back, however long mending takes.
    fn unsettled(&self) -> bool {
        false
    }

    /// Breaks something, in the same way.
    fn strike<'a>(&'a self, planned: &'a PlannedFault) -> BoxFuture<'a, ()>;
}

/// Where a workload writes what happens. Stamps the time itself, at the moment of the call.
pub trait Record: Send + Sync {
    /// Just before the limiter is called. Answers with the op's number.
    fn invoke(&self, node: NodeId, key: &str, cost: Cost) -> OpId;
    /// Just after it answered.
    fn complete(&self, op: OpId, completion: &Completion, trace: Trace);
    /// The round begins here, after a wait for the edge of a window: its times count from here.
    fn began(&self, at: Nanos);
    /// The app servers are others from now on.
    fn changed(&self, what: String);
    /// A request on a route without a limiter was answered.
    fn aside(&self, arrived: Nanos, answered: Nanos);
    /// Whether the run is to stop: offer nothing more, and return.
    fn stopped(&self) -> bool;
}

/// A way of offering calls. Runs on the load runtime (one thread), so a call's cost is the
/// limiter's and not the scheduler's.
pub trait Workload: Sync {
    fn shape(&self) -> Shape;
    /// One line for `rl-lab list`.
    fn summary(&self) -> &'static str;
    /// Whether a round means calls to overlap. If so, a round without overlap proves nothing.
    fn concurrent(&self, plan: &WorkloadPlan) -> bool;
    /// Offers one round and returns when every call has completed.
    fn drive<'a>(&'a self, offer: Offer<'a>) -> BoxFuture<'a, ()>;
}
