//! Three fixed windows at once: the user, the address the user comes from and the endpoint. A call
//! must fit into all of them.
//!
//! The key given is the user's; whatever it shares with others, up to its last `:`, names the address
//! and the endpoint, so that all users of a round sit behind one address. What matters is what a
//! refusal leaves behind:
//!
//! * `form=script` checks all three and then charges all three, or none.
//! * `form=pipeline` counts all three in one pipeline and refuses if any is over: a refusal charges
//!   all of them, and one user who hammers uses up the address of all others.
//! * `form=one-by-one` takes three round trips and stops at the first that is over: a refusal charges
//!   those before it.
//!
//! Without a hash tag (`tag=no`) the three keys lie in three slots, which a script on a cluster refuses.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use super::common;
use super::fixed_window_lua::SCRIPT as COUNT;
use crate::model::contract::{Bound, Contract, Denials};
use crate::model::op::{Decision, Source};
use crate::model::units::{Cost, Limit};
use crate::ports::BoxFuture;
use crate::ports::limiter::{Limiter, Param, ParamKind, Settings, Spec, takes_all};
use crate::ports::store::{Command, Reply, Script, Store, StoreError};

pub static SPEC: Spec = Spec {
    id: "L26",
    name: "multi-limit",
    summary: "fixed windows of user, address and endpoint: a call must fit into all three",
    sends: "EVALSHA over three keys; or EVAL of each in one pipeline; or EVALSHA of each, 3 round trips",
    known: "one script is exact, denials free; in a pipeline or one by one refusals charge the others",
    params: &[
        Param {
            name: "form",
            default: "script",
            kind: ParamKind::OneOf(&["script", "pipeline", "one-by-one"]),
            help: "check all and then charge all, count all in one pipeline, or count one after the other",
        },
        Param {
            name: "tag",
            default: "yes",
            kind: ParamKind::OneOf(&["yes", "no"]),
            help: "whether a hash tag keeps the three keys in one slot",
        },
        common::count_param("address", "limit of the address; three times the limit if not given"),
        common::count_param("endpoint", "limit of the endpoint; ten times the limit if not given"),
    ],
    foreign: None,
    needs_server: None,
    check: takes_all,
    contract,
    build: |build| Arc::new(MultiLimit { settings: build.settings, store: build.store }),
};

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("multi_limit.lua")));

/// No algorithm: whether a key's call is admitted hangs on all others behind its address.
fn contract(settings: &Settings) -> Contract {
    let (_, address, endpoint) = limits(settings);
    Contract {
        // Both are shared by the same keys: the lower one is what they get.
        across_keys: Some(Bound::FixedWindow { limit: address.min(endpoint), window: settings.window }),
        round_trips_at_most: Some(if settings.param("form") == "one-by-one" { 3 } else { 1 }),
        ..common::counter_contract(settings, Denials::Free)
    }
}

/// Of the user, the address and the endpoint.
fn limits(settings: &Settings) -> (Limit, Limit, Limit) {
    (settings.limit, settings.count_or_times("address", 3), settings.count_or_times("endpoint", 10))
}

struct MultiLimit {
    settings: Settings,
    store: Arc<dyn Store>,
}

/// A counter after a call was counted.
struct Counted {
    limit: Limit,
    count: u64,
    left: Option<Duration>,
}

impl Counted {
    fn read(limit: Limit, reply: Reply) -> Result<Self, StoreError> {
        let reply = reply.expect_list(2)?;
        let count = u64::try_from(reply[0].expect_int()?).unwrap_or(0);
        // PTTL rounds down.
        let left = u64::try_from(reply[1].expect_int()?).ok().map(|ms| Duration::from_millis(ms + 1));
        Ok(Self { limit, count, left })
    }

    fn over(&self) -> bool {
        self.count > self.limit.get()
    }
}

impl MultiLimit {
    fn counters(&self, key: &str) -> [(String, Limit); 3] {
        let name = |prefix: &str, rest: &str| match self.settings.param("tag") {
            "no" => format!("{prefix}{rest}"),
            _ => common::tagged(prefix, rest),
        };
        let (prefix, user) = common::shared_prefix(key);
        let (of_user, of_address, of_endpoint) = limits(&self.settings);
        [
            (name(prefix, user), of_user),
            (name(prefix, "address"), of_address),
            (name(prefix, "endpoint"), of_endpoint),
        ]
    }

    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        match self.settings.param("form") {
            "pipeline" => self.in_a_pipeline(key, cost).await,
            "one-by-one" => self.one_by_one(key, cost).await,
            _ => self.in_a_script(key, cost).await,
        }
    }

    async fn in_a_script(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let counters = self.counters(key);
        let keys: Vec<&str> = counters.iter().map(|(key, _)| key.as_str()).collect();
        let args = [u64::from(cost.get()), self.settings.window.millis()];
        let args = args.into_iter().chain(counters.iter().map(|(_, limit)| limit.get()));
        let args = args.map(|n| n.to_string()).collect();
        common::scripted_with_reset(&self.settings, self.store.eval(&SCRIPT, &keys, args).await?)
    }

    async fn in_a_pipeline(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let counters = self.counters(key);
        let window = self.settings.window.millis();
        // A pipeline cannot send the body after a hash that was not known: it sends it at once.
        let count = |(key, _): &(String, Limit)| {
            Command::new("EVAL").arg(COUNT.body).arg(1).arg(key).arg(cost.get()).arg(window)
        };
        let replies = self.store.pipeline(counters.iter().map(count).collect()).await?;
        let counted = counters.iter().zip(replies).map(|((_, limit), reply)| Counted::read(*limit, reply));
        Ok(self.judge(&counted.collect::<Result<Vec<_>, _>>()?, cost))
    }

    async fn one_by_one(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let mut counted = Vec::new();
        for (key, limit) in self.counters(key) {
            let args = vec![cost.get().to_string(), self.settings.window.millis().to_string()];
            let counter = Counted::read(limit, self.store.eval(&COUNT, &[&key], args).await?)?;
            let over = counter.over();
            counted.push(counter);
            if over {
                break;
            }
        }
        Ok(self.judge(&counted, cost))
    }

    /// Admitted if none is over; what is left, and the wait, are those of the strictest.
    fn judge(&self, counted: &[Counted], cost: Cost) -> Decision {
        let allowed = !counted.iter().any(Counted::over);
        let (of_user, of_address, of_endpoint) = limits(&self.settings);
        let fits = u64::from(cost.get()) <= of_user.min(of_address).min(of_endpoint).get();
        let wait = counted.iter().filter(|c| c.over()).filter_map(|c| c.left).max();
        Decision {
            allowed,
            remaining: counted.iter().map(|c| c.limit.get().saturating_sub(c.count)).min(),
            limit: self.settings.limit,
            retry_after: wait.filter(|_| fits),
            // Of a counter that was not asked nobody knows.
            reset: counted.iter().filter_map(|c| c.left).max().filter(|_| counted.len() == 3),
            source: Source::Store,
        }
    }

    async fn after(&self, key: &str, used: u64) -> Result<(), StoreError> {
        for (key, _) in self.counters(key) {
            common::preset_shared(&*self.store, self.settings.window, &key, used).await?;
        }
        Ok(())
    }
}

impl Limiter for MultiLimit {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.after(key, used))
    }
}
