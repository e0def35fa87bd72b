//! `near-limit`: passes every decision on, and reports those after which most of the limit is used.
//!
//! So that somebody hears of a customer who is about to be refused before the customer does. Only limiters
//! that tell what remains can be reported on. The report goes beside the decision (`near` in the history,
//! `rate_limit_near_limit_total`).

use std::sync::Arc;

use crate::model::op::Decision;
use crate::model::units::Cost;
use crate::ports::BoxFuture;
use crate::ports::limiter::{Limiter, Param, ParamKind};
use crate::ports::policy::PolicySpec;
use crate::ports::store::{StoreError, note_near};

pub static SPEC: PolicySpec = PolicySpec {
    id: "P6",
    name: "near-limit",
    summary: "passes decisions on and reports when most of the limit is used",
    params: &[Param {
        name: "at",
        default: "80",
        kind: ParamKind::Percent,
        help: "from how much of the limit on it reports, in percent",
    }],
    contract: |_, _, inner| inner,
    wrap: |wrap| {
        let at_percent = wrap.settings.count("at");
        Arc::new(NearLimit { inner: wrap.inner, at_percent })
    },
};

struct NearLimit {
    inner: Arc<dyn Limiter>,
    at_percent: u64,
}

impl NearLimit {
    fn is_near(&self, decision: &Decision) -> bool {
        let limit = decision.limit.get();
        decision.remaining.is_some_and(|remaining| {
            let used = limit.saturating_sub(remaining);
            u128::from(used) * 100 >= u128::from(limit) * u128::from(self.at_percent)
        })
    }
}

impl Limiter for NearLimit {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(async move {
            let decision = self.inner.acquire(key, cost).await?;
            if self.is_near(&decision) {
                note_near();
            }
            Ok(decision)
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
    use crate::ports::store::{Call, as_call};

    #[tokio::test]
    async fn it_reports_from_its_share_on_and_changes_nothing() {
        let (inner, clock) = (Arc::new(Scripted::default()), Arc::new(Hand::default()));
        let reports = async |given: &[(&str, &str)], remaining: Option<u64>| {
            let policy = wrapped(&SPEC, given, terms(10, 1), &inner, &clock);
            inner.decides_next(remaining);
            let (decision, trace) = as_call(Call::new(0, 0), policy.acquire("k", Cost::ONE)).await;
            assert_eq!(decision.unwrap().remaining, remaining.or(Some(0)));
            trace.note.near
        };
        assert!(!reports(&[], Some(3)).await && reports(&[], Some(2)).await, "8 of 10 are used");
        assert!(reports(&[], None).await, "refused: all of it is used");
        assert!(!reports(&[("at", "100")], Some(1)).await && reports(&[("at", "100")], Some(0)).await);
    }

    #[test]
    fn more_than_all_of_the_limit_is_refused() {
        use crate::ports::policy::PolicySettings;
        let given = [("at".to_owned(), "101".to_owned())].into();
        assert!(PolicySettings::new(&SPEC, &given).unwrap_err().contains("from 1 to 100"));
    }
}
