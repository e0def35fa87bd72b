//! A version of a limiter that is rolled out while calls are made: another limit, another key format, another
//! limiter.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::plan::Version;
use super::record::Recorder;
use crate::model::op::Decision;
use crate::model::scenario::PlannedDeploy;
use crate::model::units::{Cost, Nanos, NodeId};
use crate::ports::BoxFuture;
use crate::ports::limiter::Limiter;
use crate::ports::store::StoreError;
use crate::ports::workload::Record;

/// What an app server runs: the old version until the time of the roll-out, then the new one.
pub struct Deployed {
    old: Arc<dyn Limiter>,
    new: Arc<dyn Limiter>,
    planned: PlannedDeploy,
    node: NodeId,
    /// When the round begins, once that is known.
    begins: Arc<OnceLock<Nanos>>,
    recorder: Arc<Recorder>,
    told: AtomicBool,
}

impl Deployed {
    pub fn over(
        old: Arc<dyn Limiter>,
        new: Arc<dyn Limiter>,
        version: &Version,
        node: NodeId,
        begins: &Arc<OnceLock<Nanos>>,
        recorder: &Arc<Recorder>,
    ) -> Arc<dyn Limiter> {
        let (begins, recorder) = (Arc::clone(begins), Arc::clone(recorder));
        let planned = version.planned.clone();
        Arc::new(Self { old, new, planned, node, begins, recorder, told: AtomicBool::new(false) })
    }

    /// How long ago the new version came, in ns, if it is there.
    fn since(&self) -> Option<i64> {
        let began = self.begins.get()?;
        let since = self.recorder.now().0 - began.0 - self.planned.at.nanos();
        (since >= 0).then_some(since)
    }

    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let Some(since) = self.since() else { return self.old.acquire(key, cost).await };
        if !self.told.swap(true, Ordering::Relaxed) {
            self.recorder.changed(format!("node {} runs the new version", self.node.0));
        }
        if self.planned.both_for.is_some_and(|span| since < span.nanos()) {
            // The old key has counted everybody so far, and whoever runs the old version still counts there.
            let old = self.old.acquire(key, cost).await?;
            if !old.allowed {
                return Ok(old);
            }
        }
        self.new.acquire(&format!("{}{key}", self.planned.key_prefix), cost).await
    }
}

impl Limiter for Deployed {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        self.old.preset(key, used)
    }

    fn settle(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.old.settle().await;
            self.new.settle().await;
        })
    }
}
