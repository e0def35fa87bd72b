//! One call after the other, each with what its clock said: the model is run at those times and must
//! answer the same. No interval, no slack: this is the arithmetic of the limiter, to the unit.

use super::{Case, Said, told};
use crate::model::algorithms::Step;
use crate::model::op::Op;
use crate::model::units::millis_in_words;

pub fn say(case: &Case<'_>) -> Said {
    let mut model = case.algorithm.start();
    for op in case.calls().filter(|op| told(op).is_some()) {
        let Some(now_us) = op.clock_us.get().and_then(|us| i64::try_from(us).ok()) else {
            return Said::Unclear(format!("what the clock said for op {} cannot be a time", op.id));
        };
        let step = model.acquire(now_us, op.cost);
        let wait = wait_told(case, op);
        if differs(op, wait, step) {
            return Said::Differs(format!(
                "{}, {}; the model at that time, {now_us} µs since 1970: {}",
                case.describe(op),
                answered(told(op), op.remaining.get(), wait),
                answered(Some(step.allowed), Some(step.remaining), step.retry_after_ms),
            ));
        }
    }
    Said::Agrees { decisions: case.decisions(), how: "call by call at the times that their clocks told" }
}

/// The wait in milliseconds. Over HTTP callers go by a header, which rounds it to seconds; a problem may tell it.
fn wait_told(case: &Case<'_>, op: &Op) -> Option<u64> {
    if case.cell.header.http {
        return case.round.http.get(&op.id.0)?.told_ms();
    }
    op.retry_after_ms.get()
}

/// Only what was told can differ; a hint of an admitted call means nothing.
fn differs(op: &Op, wait: Option<u64>, step: Step) -> bool {
    let remaining = op.remaining.get().is_some_and(|told| told != step.remaining);
    let hint = wait.is_some_and(|told| !step.allowed && Some(told) != step.retry_after_ms);
    told(op) != Some(step.allowed) || remaining || hint
}

fn answered(allowed: Option<bool>, remaining: Option<u64>, wait_ms: Option<u64>) -> String {
    let mut text = if allowed == Some(true) { "admitted" } else { "refused" }.to_owned();
    if let Some(remaining) = remaining {
        text.push_str(&format!(", {remaining} left"));
    }
    if allowed == Some(false) {
        text.push_str(&match wait_ms {
            Some(ms) => format!(", to wait {}", millis_in_words(ms)),
            None => ", no wait told".to_owned(),
        });
    }
    text
}
