//! A step hook that does one thing at one step: the crash between two commands, on purpose.

use std::sync::Arc;

use crate::ports::BoxFuture;
use crate::ports::store::{SharedHook, Step, StepAction, StepHook};

/// Does `action` at the `index`-th exchange (from 1) of one call, or of every call.
pub struct AtStep {
    pub op: Option<u32>,
    pub index: u32,
    /// After the store applied it and before the limiter sees the reply; otherwise before it is sent.
    pub after: bool,
    pub action: StepAction,
}

impl AtStep {
    pub fn shared(self) -> SharedHook {
        Arc::new(self)
    }

    fn answer(&self, step: &Step, after: bool) -> StepAction {
        let here = self.after == after && self.index == step.index && self.op.is_none_or(|op| op == step.op);
        if here { self.action.clone() } else { StepAction::Go }
    }
}

impl StepHook for AtStep {
    fn before<'a>(&'a self, step: &'a Step) -> BoxFuture<'a, StepAction> {
        Box::pin(std::future::ready(self.answer(step, false)))
    }

    fn after<'a>(&'a self, step: &'a Step) -> BoxFuture<'a, StepAction> {
        Box::pin(std::future::ready(self.answer(step, true)))
    }
}
