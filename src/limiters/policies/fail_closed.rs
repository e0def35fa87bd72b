//! `fail-closed`: where the limiter has no answer, the call is refused.
//!
//! An outage of the store is one of the service, for every route behind the limiter. Right where a call must
//! never be let in unchecked: log-ins, payments.

use std::sync::Arc;
use std::time::Duration;

use super::{WITHIN, ask, stand_in};
use crate::model::contract::{Contract, OnOutage};
use crate::model::op::{Decision, Source};
use crate::model::units::{Cost, Limit};
use crate::ports::BoxFuture;
use crate::ports::limiter::Limiter;
use crate::ports::policy::PolicySpec;
use crate::ports::store::StoreError;

pub static SPEC: PolicySpec = PolicySpec {
    id: "P2",
    name: "fail-closed",
    summary: "refuses where the limiter has no answer",
    params: &[WITHIN],
    contract: |_, _, inner| Contract { on_outage: OnOutage::Closed, ..inner },
    wrap: |wrap| {
        let within = wrap.settings.span_if_given("within");
        Arc::new(FailClosed { inner: wrap.inner, limit: wrap.terms.limit, within })
    },
};

struct FailClosed {
    inner: Arc<dyn Limiter>,
    limit: Limit,
    within: Option<Duration>,
}

impl Limiter for FailClosed {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(async move {
            match ask(&*self.inner, key, cost, self.within).await {
                Err(error) if error != StoreError::NodeDied => Ok(stand_in(self.limit, Source::FailClosed)),
                decided => decided,
            }
        })
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.preset(key, used)
    }
}
