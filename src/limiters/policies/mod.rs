//! Policies: what a caller gets when the limiter hands on an error. They wrap any limiter; a decision says
//! who made it. A new one is a file and its line in [`ALL`].
//!
//! An error is whatever the limiter could not turn into a decision: no answer, no connection, a refusal of
//! the store (`OOM`, `READONLY`, `CROSSSLOT`). A node that died decides nothing.

pub mod circuit_breaker;
pub mod fail_closed;
pub mod fail_open;
pub mod local_fallback;
pub mod near_limit;
pub mod shadow;

#[cfg(test)]
mod testing;

use std::num::NonZeroU32;
use std::time::Duration;

use crate::model::contract::Contract;
use crate::model::names;
use crate::model::op::{Decision, Source};
use crate::model::scenario::LimiterRef;
use crate::model::units::{Cost, Limit, Window};
use crate::ports::limiter::{Limiter, Param, ParamKind};
use crate::ports::policy::{PolicySettings, PolicySpec, Terms};
use crate::ports::store::StoreError;

/// Every policy, in the order of the catalogue.
pub static ALL: &[&PolicySpec] = &[
    &fail_open::SPEC,
    &fail_closed::SPEC,
    &local_fallback::SPEC,
    &circuit_breaker::SPEC,
    &shadow::SPEC,
    &near_limit::SPEC,
];

/// Finds a policy by name or catalogue number; the error names the nearest one.
pub fn find(name: &str) -> Result<&'static PolicySpec, String> {
    let found = ALL.iter().find(|p| p.name == name || p.id.eq_ignore_ascii_case(name));
    let known = || ALL.iter().map(|p| p.name).collect::<Vec<_>>();
    found.copied().ok_or_else(|| names::unknown("policy", name, &known()))
}

/// A reference by name or catalogue number as one by name.
pub fn resolve(wanted: &LimiterRef) -> Result<LimiterRef, String> {
    Ok(LimiterRef { name: find(&wanted.name)?.name.to_owned(), params: wanted.params.clone() })
}

/// What a policy makes of what a limiter promises, on one app server.
///
/// # Errors
/// If there is no such policy, or its parameters cannot be meant.
pub fn around(
    policy: &LimiterRef,
    limit: Limit,
    window: Window,
    inner: Contract,
) -> Result<Contract, String> {
    let spec = find(&policy.name)?;
    let settings = PolicySettings::new(spec, &policy.params)?;
    Ok((spec.contract)(&settings, &Terms { limit, window, nodes: NonZeroU32::MIN }, inner))
}

const WITHIN: Param = Param {
    name: "within",
    default: "",
    kind: ParamKind::Span,
    help: "give up on the limiter after so long, whatever the client waits for; the client's timeout alone by default",
};

/// What the limiter says, unless it takes too long.
async fn ask(
    inner: &dyn Limiter,
    key: &str,
    cost: Cost,
    within: Option<Duration>,
) -> Result<Decision, StoreError> {
    let asked = inner.acquire(key, cost);
    match within {
        None => asked.await,
        // What was sent may be applied all the same.
        Some(within) => tokio::time::timeout(within, asked).await.unwrap_or_else(|_| {
            Err(StoreError::NoAnswer(format!("the policy gave up after {} ms", within.as_millis())))
        }),
    }
}

/// What the policy says itself.
fn stand_in(limit: Limit, source: Source) -> Decision {
    let allowed = source != Source::FailClosed;
    Decision { allowed, remaining: None, limit, retry_after: None, reset: None, source }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::testing::{Hand, Scripted, terms, wrapped};
    use super::*;

    /// Else what a limiter does behind its calls goes on beyond the round that it is judged by.
    #[tokio::test]
    async fn every_policy_has_what_goes_on_behind_the_calls_waited_for() {
        for spec in ALL {
            let (inner, clock) = (Arc::new(Scripted::default()), Arc::new(Hand::default()));
            wrapped(spec, &[], terms(10, 2), &inner, &clock).settle().await;
            assert_eq!(inner.settled(), 1, "{}", spec.name);
        }
    }
}
