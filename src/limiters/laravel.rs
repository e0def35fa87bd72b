//! The cache-backed rate limiter of Laravel, as its middleware and its `attempt` drive it.
//!
//! Two steps that belong together and are not: ask whether there were too many attempts, then
//! count this one. All who ask before the others have counted are let in. `attempt` runs the
//! guarded work between the two: the slower the work, the wider the gap.
//!
//! Asking reads the counter; at or above the limit it also looks for the timer, and without one
//! forgets the counter. Counting makes the timer and the counter if they are missing, then
//! increments, and repairs an expiry lost in between. Windows are whole seconds.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use super::common;
use crate::model::contract::{Contract, Denials};
use crate::model::op::{Decision, Source};
use crate::model::units::Cost;
use crate::ports::BoxFuture;
use crate::ports::clock::Clock;
use crate::ports::limiter::{Limiter, Param, ParamKind, Settings, Spec};
use crate::ports::store::{Command, Script, Store, StoreError};

pub static THROTTLE: Spec = Spec {
    id: "L16",
    name: "laravel-throttle",
    summary: "fixed window: ask whether there were too many attempts, then count this one",
    sends: "GET; then two add scripts and INCRBY; 4 or more round trips",
    known: "races: admits whatever asks before the others have counted",
    params: &[],
    foreign: None,
    needs_server: None,
    check: common::whole_seconds,
    contract,
    build: |build| {
        Arc::new(Laravel {
            settings: build.settings,
            store: build.store,
            clock: build.clock,
            work: Duration::ZERO,
        })
    },
};

pub static ATTEMPT: Spec = Spec {
    id: "L18",
    name: "laravel-attempt",
    summary: "fixed window: ask, run the guarded work, and only then count",
    sends: "GET; the work; then two add scripts and INCRBY; 4 or more round trips",
    known: "races for as long as the work takes: the leak grows with it",
    params: &[Param {
        name: "callback",
        default: "20ms",
        kind: ParamKind::Span,
        help: "how long the guarded work takes",
    }],
    foreign: None,
    needs_server: None,
    check: common::whole_seconds,
    contract,
    build: |build| {
        let work = build.settings.span("callback");
        Arc::new(Laravel { settings: build.settings, store: build.store, clock: build.clock, work })
    },
};

/// Stores a value with an expiry in seconds unless the key is there. Answers 1 if it did.
static ADD: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
         redis.call('SETEX', KEYS[1], ARGV[2], ARGV[1])
         return 1",
    )
});

/// No algorithm: the timer and the counter have an expiry each, a little apart, and a call that comes
/// between the two renews one of them only.
fn contract(settings: &Settings) -> Contract {
    Contract {
        // GET, EXISTS, DEL of a counter without a timer; two adds, INCRBY, SETEX of a lost expiry.
        round_trips_at_most: Some(7),
        ..common::counter_contract(settings, Denials::Free)
    }
}

struct Laravel {
    settings: Settings,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    work: Duration,
}

impl Laravel {
    fn seconds(&self) -> u64 {
        self.settings.window.millis() / 1000
    }

    async fn attempts(&self, key: &str) -> Result<i64, StoreError> {
        Ok(self.store.command(Command::new("GET").arg(key)).await?.int().unwrap_or(0))
    }

    /// The calls that are left, if they are too few for this one.
    async fn too_few(&self, key: &str, cost: Cost) -> Result<Option<u64>, StoreError> {
        let (limit, cost) = (self.settings.limit.get(), u64::from(cost.get()));
        let seen = u64::try_from(self.attempts(key).await?).unwrap_or(0);
        if seen.saturating_add(cost) <= limit {
            return Ok(None);
        }
        let timer = self.store.command(Command::new("EXISTS").arg(timer(key))).await?.expect_int()?;
        if timer == 1 {
            return Ok(Some(limit.saturating_sub(seen)));
        }
        self.store.command(Command::new("DEL").arg(key)).await?;
        Ok((cost > limit).then_some(limit))
    }

    async fn add(&self, key: &str, value: i64) -> Result<bool, StoreError> {
        let args = vec![value.to_string(), self.seconds().to_string()];
        Ok(self.store.eval(&ADD, &[key], args).await?.expect_int()? == 1)
    }

    async fn hit(&self, key: &str, cost: Cost) -> Result<i64, StoreError> {
        let available_at = self.clock.wall_us() / 1_000_000 + self.seconds() as i64;
        self.add(&timer(key), available_at).await?;
        let added = self.add(key, 0).await?;
        let hits = self.store.command(common::incr(key, cost)).await?.expect_int()?;
        if !added && hits == i64::from(cost.get()) {
            let put = Command::new("SETEX").arg(key).arg(self.seconds()).arg(hits);
            self.store.command(put).await?;
        }
        Ok(hits)
    }

    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let limit = self.settings.limit;
        let decision = |allowed, remaining| Decision {
            allowed,
            remaining: Some(remaining),
            limit,
            retry_after: None,
            reset: None,
            source: Source::Store,
        };
        if let Some(left) = self.too_few(key, cost).await? {
            return Ok(decision(false, left));
        }
        if !self.work.is_zero() {
            self.clock.sleep(self.work).await;
        }
        let hits = self.hit(key, cost).await?;
        Ok(decision(true, limit.get().saturating_sub(u64::try_from(hits).unwrap_or(0))))
    }

    async fn after(&self, key: &str, used: u64) -> Result<(), StoreError> {
        let seconds = self.seconds();
        let set = |key: String, value: u64| Command::new("SETEX").arg(key).arg(seconds).arg(value);
        let available_at = (self.clock.wall_us() / 1_000_000) as u64 + seconds;
        self.store.command(set(timer(key), available_at)).await?;
        self.store.command(set(key.to_owned(), used)).await.map(|_| ())
    }
}

fn timer(key: &str) -> String {
    format!("{key}:timer")
}

impl Limiter for Laravel {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.after(key, used))
    }
}
