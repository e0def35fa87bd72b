//! A quota per period, such as a day or a month of the plan: the period's number is part of the key,
//! and the limit of each tier is read from the store, so that it can be changed without a deployment.
//!
//! Periods are as long as the window and begin at whole multiples of it since the Unix epoch, by the
//! app's clock. The limits lie in one hash beside the counters, `{<shared prefix>}limits`, a field per
//! tier; where there is none, the limit of the settings applies, and that is the one promised. A refused
//! call takes nothing. The keys are declared and in one slot.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use super::common;
use crate::model::algorithms::Algorithm;
use crate::model::contract::{Bound, Contract, DecidingClock, Denials};
use crate::model::op::{Decision, Source};
use crate::model::units::{Cost, Limit};
use crate::ports::BoxFuture;
use crate::ports::clock::Clock;
use crate::ports::limiter::{Limiter, Param, ParamKind, Settings, Spec};
use crate::ports::store::{Script, Store, StoreError};

pub static SPEC: Spec = Spec {
    id: "L29",
    name: "quota-by-period",
    summary: "fixed window: a counter per period, its limit read from the store by tier, one script",
    sends: "EVALSHA; 1 round trip",
    known: "exact, denials free; a limit changed in the store holds from the next call on",
    params: &[Param {
        name: "tier",
        default: "free",
        kind: ParamKind::OneOf(&["free", "pro"]),
        help: "which field of the hash of limits applies",
    }],
    foreign: None,
    needs_server: None,
    check: common::can_be_kept,
    contract,
    build: |build| Arc::new(Quota { settings: build.settings, store: build.store, clock: build.clock }),
};

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("quota_by_period.lua")));

fn contract(settings: &Settings) -> Contract {
    let (limit, window) = (settings.limit, settings.window);
    Contract {
        bound: Bound::AlignedWindow { limit, window },
        clock: DecidingClock::App,
        key_ttl_at_most: common::kept(settings, 1).ok(),
        algorithm: Some(Algorithm::AlignedWindow { limit, window, denials: Denials::Free }),
        round_trips_at_most: Some(1),
        ..common::counter_contract(settings, Denials::Free)
    }
}

/// The hash that holds the limit of each tier, for all keys with the prefix of this one.
pub fn limits_key(key: &str) -> String {
    common::tagged(common::shared_prefix(key).0, "limits")
}

struct Quota {
    settings: Settings,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

impl Quota {
    /// The counter of the period that is open now, and the milliseconds it has left.
    fn open_period(&self, key: &str) -> (String, u64) {
        let (number, left) = common::open_window(&self.settings, &*self.clock);
        let (prefix, rest) = common::shared_prefix(key);
        (common::tagged(prefix, &format!("{rest}:{number}")), left)
    }

    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let (counter, left) = self.open_period(key);
        let args = vec![
            cost.get().to_string(),
            common::kept_ms(&self.settings, 1).to_string(),
            self.settings.param("tier").to_owned(),
            self.settings.limit.to_string(),
        ];
        let keys = [counter.as_str(), &limits_key(key)];
        let reply = self.store.eval(&SCRIPT, &keys, args).await?.expect_list(3)?;
        let allowed = reply[0].expect_int()? == 1;
        let limit = u64::try_from(reply[2].expect_int()?).unwrap_or(0);
        let limit = Limit::new(limit).map_err(|e| StoreError::Unexpected(e.to_string()))?;
        let next_period = Duration::from_millis(left);
        let fits = u64::from(cost.get()) <= limit.get();
        Ok(Decision {
            allowed,
            remaining: u64::try_from(reply[1].expect_int()?).ok(),
            limit,
            retry_after: (!allowed && fits).then_some(next_period),
            reset: Some(next_period),
            source: Source::Store,
        })
    }
}

impl Limiter for Quota {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let (counter, _) = self.open_period(key);
            common::preset_counter(&*self.store, &self.settings, &counter, used).await
        })
    }
}
