//! The workload port: how calls are offered to the limiters of a round.

use std::sync::Arc;

use super::BoxFuture;
use super::limiter::Limiter;
use super::store::{Call, Trace, as_call};
use crate::model::op::Completion;
use crate::model::scenario::{Shape, WorkloadPlan};
use crate::model::units::{Cost, NodeId, OpId, Seed};

/// What a workload needs to offer one round. `key` is fresh; `nodes` are built and, unless the
/// pool is to be cold, connected.
pub struct Offer<'a> {
    pub plan: &'a WorkloadPlan,
    pub nodes: Vec<Arc<dyn Limiter>>,
    pub key: Arc<str>,
    pub seed: Seed,
    pub record: Arc<dyn Record>,
}

/// Where a workload writes what happens. Stamps the time itself, at the moment of the call.
pub trait Record: Send + Sync {
    /// Just before the limiter is called. Answers with the op's number.
    fn invoke(&self, node: NodeId, key: &str, cost: Cost) -> OpId;
    /// Just after it answered.
    fn complete(&self, op: OpId, completion: &Completion, trace: Trace);
    /// Whether the run is to stop: offer nothing more, and return.
    fn stopped(&self) -> bool;
}

/// Makes one call and records it.
pub async fn call(
    record: &dyn Record,
    limiter: &dyn Limiter,
    (node, lane): (NodeId, u32),
    key: &str,
    cost: Cost,
) -> Completion {
    let op = record.invoke(node, key, cost);
    let (answer, trace) = as_call(Call::new(op.0, lane), limiter.acquire(key, cost)).await;
    let completion = match answer {
        Ok(decision) => Completion::Ok(decision),
        Err(error) => error.completion(trace.sent),
    };
    record.complete(op, &completion, trace);
    completion
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
