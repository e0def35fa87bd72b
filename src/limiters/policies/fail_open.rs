//! `fail-open`: where the limiter has no answer, the call is admitted.
//!
//! An outage of the store costs the limit, not the service. Each such decision bears its source, so that it can
//! be counted: one that nobody counts (`report=silent`) is an outage that nobody sees.

use std::sync::Arc;
use std::time::Duration;

use super::{WITHIN, ask, stand_in};
use crate::model::contract::{Contract, OnOutage};
use crate::model::op::{Decision, Source};
use crate::model::units::{Cost, Limit};
use crate::ports::BoxFuture;
use crate::ports::limiter::{Limiter, Param, ParamKind};
use crate::ports::policy::PolicySpec;
use crate::ports::store::StoreError;

pub static SPEC: PolicySpec = PolicySpec {
    id: "P1",
    name: "fail-open",
    summary: "admits where the limiter has no answer",
    params: &[
        Param {
            name: "report",
            default: "counted",
            kind: ParamKind::OneOf(&["counted", "silent"]),
            help: "whether a decision says that it was made without the store",
        },
        WITHIN,
    ],
    contract: |_, _, inner| Contract { on_outage: OnOutage::Open, ..inner },
    wrap: |wrap| {
        let within = wrap.settings.span_if_given("within");
        // What an application does that only catches the error.
        let silent = wrap.settings.param("report") == "silent";
        let source = if silent { Source::Store } else { Source::FailOpen };
        Arc::new(FailOpen { inner: wrap.inner, limit: wrap.terms.limit, source, within })
    },
};

struct FailOpen {
    inner: Arc<dyn Limiter>,
    limit: Limit,
    source: Source,
    within: Option<Duration>,
}

impl Limiter for FailOpen {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(async move {
            match ask(&*self.inner, key, cost, self.within).await {
                Err(error) if error != StoreError::NodeDied => Ok(stand_in(self.limit, self.source)),
                decided => decided,
            }
        })
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.preset(key, used)
    }
}
