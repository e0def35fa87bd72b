//! `shadow`: the limiter is asked and not heeded. Whom it would have refused is admitted, and counted.
//!
//! How a new limit is tried out on real traffic. The store is charged as it would be; a decision that was
//! overruled says so (source `shadow`), and where the limiter has no answer the call is admitted as by
//! fail-open. Nothing is promised: it limits nobody.

use std::sync::Arc;
use std::time::Duration;

use super::{WITHIN, ask, stand_in};
use crate::model::contract::{Bound, Contract, OnOutage};
use crate::model::op::{Decision, Source};
use crate::model::units::{Cost, Limit};
use crate::ports::BoxFuture;
use crate::ports::limiter::Limiter;
use crate::ports::policy::PolicySpec;
use crate::ports::store::StoreError;

pub static SPEC: PolicySpec = PolicySpec {
    id: "P5",
    name: "shadow",
    summary: "asks and counts whom the limiter would refuse, and refuses nobody",
    params: &[WITHIN],
    contract: |_, _, inner| Contract {
        bound: Bound::None,
        across_keys: None,
        lockout: None,
        algorithm: None,
        on_outage: OnOutage::Open,
        ..inner
    },
    wrap: |wrap| {
        let within = wrap.settings.span_if_given("within");
        Arc::new(Shadow { inner: wrap.inner, limit: wrap.terms.limit, within })
    },
};

struct Shadow {
    inner: Arc<dyn Limiter>,
    limit: Limit,
    within: Option<Duration>,
}

impl Limiter for Shadow {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(async move {
            match ask(&*self.inner, key, cost, self.within).await {
                Ok(refused) if !refused.allowed => Ok(stand_in(refused.limit, Source::Shadow)),
                Err(error) if error != StoreError::NodeDied => Ok(stand_in(self.limit, Source::FailOpen)),
                decided => decided,
            }
        })
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.preset(key, used)
    }

    fn settle(&self) -> BoxFuture<'_, ()> {
        self.inner.settle()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Hand, Scripted, terms, wrapped};
    use super::*;

    #[tokio::test]
    async fn it_never_refuses_and_says_when_the_limiter_would_have() {
        let (inner, clock) = (Arc::new(Scripted::default()), Arc::new(Hand::default()));
        let policy = wrapped(&SPEC, &[], terms(2, 1), &inner, &clock);
        for (remaining, source) in [(Some(1), Source::Store), (None, Source::Shadow)] {
            inner.decides_next(remaining);
            let decision = policy.acquire("k", Cost::ONE).await.unwrap();
            assert_eq!((decision.allowed, decision.source), (true, source));
            assert_eq!(decision.remaining, remaining, "what was overruled tells nothing that would be left");
        }
        inner.answers_next(false);
        assert_eq!(policy.acquire("k", Cost::ONE).await.unwrap().source, Source::FailOpen);
        assert_eq!(inner.asked(), 3, "it is asked each time");
    }
}
