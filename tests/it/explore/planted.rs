//! Limiters planted for one fault each.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rl_lab::clients::{self, Profile};
use rl_lab::limiters;
use rl_lab::model::op::{Decision, Source};
use rl_lab::model::schedule::Budget;
use rl_lab::model::units::Cost;
use rl_lab::ports::BoxFuture;
use rl_lab::ports::limiter::{Limiter, Settings, Spec, takes_all};
use rl_lab::ports::store::{Command, Store, StoreError};

use super::{budget, explored, of_spec, on_ground, subject};

/// Decides by a number that the whole process shares: no two runs see the same.
static MOODY: Spec = Spec {
    id: "L00",
    name: "moody",
    summary: "planted",
    sends: "GET or INCR",
    known: "nondeterministic",
    params: &[],
    foreign: None,
    needs_server: None,
    check: takes_all,
    contract: |settings| (limiters::find("fixed-window-lua").unwrap().contract)(settings),
    build: |build| Arc::new(Moody { settings: build.settings, store: build.store }),
};

static MOOD: AtomicU64 = AtomicU64::new(0);

struct Moody {
    settings: Settings,
    store: Arc<dyn Store>,
}

impl Limiter for Moody {
    fn acquire<'a>(&'a self, key: &'a str, _: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(async move {
            let name = if MOOD.fetch_add(1, Ordering::Relaxed).is_multiple_of(3) { "GET" } else { "STRLEN" };
            self.store.command(Command::new(name).arg(key)).await?;
            Ok(Decision {
                allowed: false,
                remaining: None,
                limit: self.settings.limit,
                retry_after: None,
                reset: None,
                source: Source::Store,
            })
        })
    }

    fn preset<'a>(&'a self, _: &'a str, _: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limiter_with_moods_is_called_nondeterministic() {
    on_ground("moody", |ground| {
        let found = explored(of_spec(ground, &MOODY, &BTreeMap::new(), 1), budget(2, 1, 0, 0), true);
        assert!(found.inconclusive.is_some_and(|why| why.starts_with("nondeterministic")));
    })
    .await;
}

fn with_client(
    subject: rl_lab::runner::explore::world::Subject,
    name: &str,
) -> rl_lab::runner::explore::world::Subject {
    let profile: &'static Profile = clients::find(name).unwrap();
    rl_lab::runner::explore::world::Subject { profile, ..subject }
}

/// Whoever sends again what was applied and not answered charges twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_retries_applies_an_effect_twice() {
    let asked = Budget { losses: 1, ..budget(1, 1, 0, 0) };
    on_ground("retries", |ground| {
        let at = || subject(ground, "fixed-window-lua", 2);
        let retrying = explored(with_client(at(), "retries-on-timeout"), asked, true);
        let found = &retrying.broken["effects-once"];
        assert_eq!(found.schedule.to_string(), "a~ a", "{}", found.witness);
        let plain = explored(at(), asked, true);
        assert!(!plain.broken.contains_key("effects-once") && plain.complete(asked));
    })
    .await;
}
