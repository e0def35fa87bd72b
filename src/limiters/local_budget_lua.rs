//! One script claims a batch, never more than the window has left, and the node hands it out by itself.
//!
//! A call in `batch` asks the store. What a node holds nobody else can give: where traffic moves on, others are
//! refused for whom there was room. Nothing is ever admitted beyond the limit, as long as the node drops what it
//! holds where its window ends. The script tells how long that one has left; the node counts from before it asked,
//! by a clock that nobody sets, and so is done with a window before the store is.
//!
//! - `ttl = "first"` sets the expiry where the counter equals the batch. A first claim that is cut, as any is where
//!   the limit is below the batch, leaves a key for good.
//! - `edge = "keep"` carries over what is left: a window then admits the batches of the one before as well.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::common;
use crate::model::contract::{Contract, Denials};
use crate::model::op::{Decision, Source};
use crate::model::units::Cost;
use crate::ports::BoxFuture;
use crate::ports::clock::Clock;
use crate::ports::limiter::{Limiter, Param, ParamKind, Settings, Spec, takes_all};
use crate::ports::store::{Script, Store, StoreError};

pub static SPEC: Spec = Spec {
    id: "L23",
    name: "local-budget-lua",
    summary: "fixed window: one script claims a batch, cut to what is left, and the node hands it out",
    sends: "EVALSHA per batch; 0 to 1 round trips",
    known: "never over the limit, in a hundredth of the calls; what one node holds is refused to the others",
    params: &[
        common::count_param("batch", "what is claimed at a time; a hundredth of the limit if empty"),
        Param {
            name: "ttl",
            default: "always",
            kind: ParamKind::OneOf(&["always", "first"]),
            help: "which claim sets the expiry: any that finds none, or one that brings the counter to the batch",
        },
        Param {
            name: "edge",
            default: "drop",
            kind: ParamKind::OneOf(&["drop", "keep"]),
            help: "what a node does at the end of a window with what it still holds of it",
        },
    ],
    foreign: None,
    needs_server: None,
    check: takes_all,
    contract,
    build: |build| {
        Arc::new(LocalBudget {
            settings: build.settings,
            store: build.store,
            clock: build.clock,
            held: Mutex::new(HashMap::new()),
        })
    },
};

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("local_budget.lua")));

/// No algorithm: what is refused depends on who holds which batch.
fn contract(settings: &Settings) -> Contract {
    Contract { round_trips_at_most: Some(1), ..common::counter_contract(settings, Denials::Free) }
}

struct LocalBudget {
    settings: Settings,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    held: Mutex<HashMap<String, Budget>>,
}

/// What a node holds of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Budget {
    tokens: u64,
    /// When its window may be over, by the node's monotonic clock; `None` if it is not to be dropped.
    until: Option<Duration>,
}

impl Budget {
    fn is_over(&self, now: Duration) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    fn take(&mut self, cost: u64) -> bool {
        let enough = self.tokens >= cost;
        self.tokens -= if enough { cost } else { 0 };
        enough
    }

    /// With a claim that was answered by now. Two of which neither is over are of the same window: its key is
    /// there for both.
    fn and(self, claim: Self, now: Duration) -> Self {
        match (self.is_over(now), claim.is_over(now)) {
            (true, _) => claim,
            (false, true) => self,
            (false, false) => {
                let until = [self.until, claim.until].into_iter().flatten().min();
                Self { tokens: self.tokens.saturating_add(claim.tokens), until }
            }
        }
    }
}

impl LocalBudget {
    fn held(&self) -> MutexGuard<'_, HashMap<String, Budget>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn batch(&self) -> u64 {
        let hundredth = (self.settings.limit.get() / 100).max(1);
        self.settings.param("batch").parse().unwrap_or(hundredth)
    }

    fn decision(&self, allowed: bool, left: Option<Duration>, source: Source) -> Decision {
        let retry_after = left.filter(|_| !allowed);
        Decision { allowed, remaining: None, limit: self.settings.limit, retry_after, reset: left, source }
    }

    /// Out of what the node holds; answers with the time that its window has left.
    fn take(&self, key: &str, cost: u64) -> Option<Option<Duration>> {
        let now = self.clock.monotonic();
        let mut held = self.held();
        let budget = held.get_mut(key).filter(|b| !b.is_over(now))?;
        budget.take(cost).then(|| budget.until.map(|until| until.saturating_sub(now)))
    }

    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let (cost, limit) = (u64::from(cost.get()), self.settings.limit.get());
        if cost > limit {
            // Never admitted: nothing to claim, and nothing to wait for.
            return Ok(self.decision(false, None, Source::Local));
        }
        if let Some(left) = self.take(key, cost) {
            return Ok(self.decision(true, left, Source::Local));
        }
        let asked = self.clock.monotonic();
        let window = self.settings.window.millis();
        let args = [self.batch().max(cost).to_string(), limit.to_string(), window.to_string()];
        let args = args.into_iter().chain([self.settings.param("ttl").to_owned()]).collect();
        let reply = self.store.eval(&SCRIPT, &[key], args).await?.expect_list(2)?;
        let taken = u64::try_from(reply[0].expect_int()?).unwrap_or(0);
        let left_ms = u64::try_from(reply[1].expect_int()?).ok();
        let now = self.clock.monotonic();
        // Of a key that never expires nobody knows; one window is what it was to be.
        let until = asked + Duration::from_millis(left_ms.unwrap_or(window));
        let kept = self.settings.param("edge") == "keep";
        let mut claim = Budget { tokens: taken, until: (!kept).then_some(until) };
        // The batch may be as large as the call, and its window over by now: the call was in time.
        let mut allowed = claim.take(cost);
        let mut held = self.held();
        let budget = held.get(key).map_or(claim, |held| held.and(claim, now));
        let budget = held.entry(key.to_owned()).insert_entry(budget).into_mut();
        allowed = allowed || (!budget.is_over(now) && budget.take(cost));
        // PTTL rounds down; the window ends within the millisecond after it.
        let left = left_ms.map(|ms| Duration::from_millis(ms + 1));
        Ok(self.decision(allowed, left, Source::Store))
    }
}

impl Limiter for LocalBudget {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(common::preset_counter(&*self.store, &self.settings, key, used))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(tokens: u64, until_ms: u64) -> Budget {
        Budget { tokens, until: Some(Duration::from_millis(until_ms)) }
    }

    const NOW: Duration = Duration::from_millis(100);

    #[test]
    fn claims_of_one_window_add_up_and_end_with_the_earlier_word() {
        assert_eq!(budget(3, 150).and(budget(4, 149), NOW), budget(7, 149));
    }

    #[test]
    fn what_is_left_of_a_window_that_is_over_is_dropped_on_either_side() {
        assert_eq!(budget(3, 100).and(budget(4, 500), NOW), budget(4, 500));
        // Answered late: the window it belongs to is over, and the other one is not.
        assert_eq!(budget(4, 500).and(budget(3, 99), NOW), budget(4, 500));
    }

    #[test]
    fn who_keeps_drops_nothing() {
        let kept = |tokens| Budget { tokens, until: None };
        assert_eq!(kept(3).and(kept(4), NOW), kept(7));
    }
}
