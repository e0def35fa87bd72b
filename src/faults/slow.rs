//! `slow`: the way to the store takes longer, `by` so much. Nothing is lost.

use std::sync::Arc;

use crate::model::scenario::PlannedFault;
use crate::model::units::Span;
use crate::ports::BoxFuture;
use crate::ports::backend::{BackendError, Server};
use crate::ports::fault::{Fault, Ground, Injected, Lasting};

pub struct Slow;

const MOST_MS: u64 = 60_000;

impl Fault for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn summary(&self) -> &'static str {
        "the way to the store takes longer, `by` so much; nothing is lost"
    }

    fn lasting(&self) -> Lasting {
        Lasting::Yes
    }

    fn check(&self, planned: &PlannedFault) -> Result<(), String> {
        match (planned.by.map(Span::millis), planned.after) {
            (_, Some(_)) => Err("slow takes no after".to_owned()),
            (Some(1..=MOST_MS), None) => Ok(()),
            _ => Err(format!("slow needs by, from 1 ms to {} s", MOST_MS / 1000)),
        }
    }

    fn needs_way(&self, _server: &dyn Server) -> bool {
        true
    }

    fn inject<'a>(
        &'a self,
        planned: &'a PlannedFault,
        ground: &'a Ground,
    ) -> BoxFuture<'a, Result<Injected, BackendError>> {
        Box::pin(async move {
            let way = Arc::clone(ground.way()?);
            way.delay(planned.by.map(Span::duration));
            Ok(Injected::until(None, async move {
                way.delay(None);
                Ok(())
            }))
        })
    }
}
