//! Step hooks: one that does one thing at one step, the crash between two commands on purpose, and one
//! that only takes down which steps there are.

use std::sync::{Arc, Mutex, PoisonError};

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

/// Lets everything go and takes down which commands went by.
#[derive(Default)]
pub struct Told(Mutex<Vec<String>>);

impl Told {
    pub fn steps(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl StepHook for Told {
    fn before<'a>(&'a self, step: &'a Step) -> BoxFuture<'a, StepAction> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(step.command.clone());
        Box::pin(std::future::ready(StepAction::Go))
    }

    fn after<'a>(&'a self, _: &'a Step) -> BoxFuture<'a, StepAction> {
        Box::pin(std::future::ready(StepAction::Go))
    }
}
