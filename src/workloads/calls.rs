//! One call, made and recorded.

use crate::model::op::Completion;
use crate::model::units::{Cost, NodeId};
use crate::ports::limiter::Limiter;
use crate::ports::store::{Call, as_call};
use crate::ports::workload::Record;

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
