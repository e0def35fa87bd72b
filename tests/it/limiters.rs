//! Conformance: every limiter in the list, one call after the other on a real server, keeps what
//! its contract says.

use std::collections::BTreeMap;
use std::sync::Arc;

use rl_lab::clients::at_step::AtStep;
use rl_lab::model::contract::{Denials, Scope};
use rl_lab::model::op::{Decision, Outcome};
use rl_lab::model::units::{Cost, Limit, NodeId};
use rl_lab::ports::backend::ServerSpec;
use rl_lab::ports::clock;
use rl_lab::ports::limiter::{Build, Fleet, Limiter, Settings};
use rl_lab::ports::store::{Call, StepAction, StoreError, as_call};

use crate::ground::{Ground, LIMIT, Variant};

async fn acquire(limiter: &Arc<dyn Limiter>, key: &str, cost: u32) -> Decision {
    limiter.acquire(key, Cost::new(cost).unwrap()).await.unwrap()
}

/// How many of `calls` calls of cost 1 are admitted; once one is refused, all others must be.
async fn admitted(limiter: &Arc<dyn Limiter>, key: &str, calls: u64) -> u64 {
    let mut answers = Vec::new();
    for _ in 0..calls {
        answers.push(acquire(limiter, key, 1).await.allowed);
    }
    let passed = answers.iter().take_while(|a| **a).count();
    assert!(answers[passed..].iter().all(|a| !a), "admitted after a refusal: {answers:?}");
    passed as u64
}

#[tokio::test]
async fn one_call_after_the_other_every_limiter_admits_its_limit_and_no_more() {
    let Some(ground) = Ground::start("exact").await else { return };
    for variant in Variant::all().into_iter().filter(Variant::counts_every_call) {
        let prefix = format!("exact:{}", variant.label);
        let (limiter, key) = (ground.limiter(&variant), format!("{prefix}:user"));
        for n in 1..=LIMIT {
            let decision = acquire(&limiter, &key, 1).await;
            assert!(decision.allowed, "{}: call {n}", variant.label);
            let left = variant.tells_what_is_left().then_some(LIMIT - n);
            assert_eq!(decision.remaining, left, "{}", variant.label);
        }
        let refused = acquire(&limiter, &key, 1).await;
        let none_left = variant.tells_what_is_left().then_some(0);
        assert_eq!((refused.allowed, refused.remaining), (false, none_left), "{}", variant.label);
        assert_eq!(admitted(&limiter, &format!("{prefix}:other"), 9).await, LIMIT, "keys are apart");
    }
    ground.end().await;
}

#[tokio::test]
async fn every_key_has_the_expiry_of_the_contract_unless_it_is_known_to_stay() {
    let Some(mut ground) = Ground::start("expiry").await else { return };
    for variant in Variant::all() {
        let limiter = ground.limiter(&variant);
        let contract = (variant.spec.contract)(&variant.settings);
        // First hits of cost 1 and above, and beyond the limit.
        for cost in [1, 3, 6] {
            // A limiter may add to the key, and put something before what it shares with others.
            let key = format!("expiry:{}:{cost}:", variant.label);
            let decision = acquire(&limiter, &format!("{key}user"), cost).await;
            assert_eq!(decision.allowed, u64::from(cost) <= variant.largest(), "{key}");
            limiter.settle().await;
            let pttls = ground.pttls(&key).await;
            let Some(most) = contract.key_ttl_at_most else {
                assert!(pttls.is_empty(), "{key}: it declares no keys");
                continue;
            };
            // Nothing to keep after a first call that was refused and not counted, or that nobody was told of yet.
            let untold = variant.spec.name == "local-sync";
            let free = contract.denials == Denials::Free || contract.in_background;
            assert!(untold || !pttls.is_empty() || (!decision.allowed && free), "{key}");
            for pttl in pttls {
                // 0 is less than a millisecond: a bucket that is full again need not be kept.
                let timed = pttl >= 0 && pttl as u64 <= most.millis();
                let kept = if variant.leaves_keys(cost) { pttl == -1 } else { timed };
                assert!(kept, "{key}: PTTL {pttl}, at most {most}");
            }
        }
    }
    ground.end().await;
}

#[tokio::test]
async fn a_cost_above_the_limit_is_refused_and_charged_only_where_denials_are() {
    let Some(ground) = Ground::start("cost").await else { return };
    let one_limit = |v: &Variant| v.counts_every_call() && v.largest() == LIMIT;
    for variant in Variant::all().into_iter().filter(one_limit) {
        let (limiter, key) = (ground.limiter(&variant), format!("cost:{}:user", variant.label));
        let refused = acquire(&limiter, &key, LIMIT as u32 + 1).await;
        assert!(!refused.allowed, "{}", variant.label);
        let left = if variant.charges_denials() { 0 } else { LIMIT };
        assert_eq!(admitted(&limiter, &key, LIMIT + 2).await, left, "{}", variant.label);
    }
    ground.end().await;
}

#[tokio::test]
async fn a_preset_counts_as_calls_that_were_admitted() {
    let Some(mut ground) = Ground::start("preset").await else { return };
    for variant in Variant::all().into_iter().filter(Variant::counts_every_call) {
        let limiter = ground.limiter(&variant);
        for used in [0, 1, 3, LIMIT, LIMIT + 4] {
            let key = format!("preset:{}:{used}:user", variant.label);
            limiter.preset(&key, used).await.unwrap();
            let scope = (variant.spec.contract)(&variant.settings).scope;
            let stays = scope == Scope::Global && ground.pttl(&key).await == -1;
            assert_eq!(stays, scope == Scope::Global && variant.spec.id == "L14" && variant.leaves_keys(1));
            let left = LIMIT.saturating_sub(used);
            assert_eq!(admitted(&limiter, &key, LIMIT + 2).await, left, "{key}");
        }
    }
    ground.end().await;
}

#[tokio::test]
async fn a_server_that_forgot_the_script_gets_it_again_and_counts_on() {
    let Some(mut ground) = Ground::start("noscript").await else { return };
    let scripted = |v: &Variant| v.spec.sends == "EVALSHA; 1 round trip";
    let mut tried = 0;
    for variant in Variant::all().into_iter().filter(scripted) {
        tried += 1;
        let key = format!("noscript:{}:user", variant.label);
        let store = ground.store(None);
        let limiter = variant.build(Arc::clone(&store), clock::system());
        for (flush, round_trips, remaining) in [(true, 2, 4), (false, 1, 3), (true, 2, 2), (false, 1, 1)] {
            if flush {
                ground.ask::<String>("SCRIPT FLUSH").await;
            }
            let before = store.traffic().round_trips;
            let decision = acquire(&limiter, &key, 1).await;
            assert_eq!((decision.allowed, decision.remaining), (true, Some(remaining)), "{key}");
            assert_eq!(store.traffic().round_trips - before, round_trips, "{key}");
        }
    }
    assert!(tried >= 3, "{tried} scripts");
    ground.end().await;
}

#[test]
fn settings_that_cannot_be_kept_exactly_are_refused() {
    for (name, limit, window, why) in [
        ("sliding-counter-lua", 1 << 50, "60s", "more than 2^53 parts"),
        ("sliding-counter-lua", 5, "200d", "more than 366 days"),
        ("quota-by-period", 5, "366d", "more than 366 days"),
        ("two-key-bucket", 1 << 50, "60s", "more than 2^53 parts"),
        ("watch-multi-bucket", 1 << 50, "60s", "more than 2^53 parts"),
        ("atomic-throttle", 5, "1500ms", "whole seconds"),
        ("login-guard", 5, "100d", "four times the window"),
    ] {
        let spec = rl_lab::limiters::find(name).unwrap();
        let limit = Limit::new(limit).unwrap();
        let refusal = Settings::new(spec, limit, window.parse().unwrap(), &BTreeMap::new()).unwrap_err();
        assert!(refusal.contains(name) && refusal.contains(why), "{refusal}");
    }
}

/// A contract that promised more trips than are ever made would clear any number of them.
#[tokio::test]
async fn a_decision_takes_the_round_trips_of_the_contract_and_no_more() {
    let Some(ground) = Ground::start("trips").await else { return };
    let each_call = Variant::of("local-sync", LIMIT, &[("sync", "0s")]);
    for variant in Variant::all().into_iter().chain([each_call]) {
        let (limiter, key) = (ground.limiter(&variant), format!("trips:{}", variant.label));
        let promised = variant.contract().round_trips_at_most.unwrap();
        let mut most = 0;
        // From the second key on scripts are loaded: opened, used up, refused, and asked for too much; the
        // third is asked for too much at once.
        let costs = [&[1, 3, 3, 1, 1, 6][..], &[1, 3, 3, 1, 1, 6], &[6]];
        for (n, costs) in (0..).zip(costs) {
            let key = format!("{key}:{n}");
            for cost in costs.iter().copied() {
                let call = limiter.acquire(&key, Cost::new(cost).unwrap());
                let (answer, trace) = as_call(Call::new(0, 0), call).await;
                answer.unwrap();
                most = if n == 0 { 0 } else { most.max(trace.trips) };
            }
        }
        let unused = match variant.spec.id {
            // Laravel's repairs of what got lost are promised as well, and nothing got lost here.
            "L16" | "L18" => 3,
            // Its next exchange is not due within these few calls.
            "L22" if variant.settings.param("sync").is_empty() => 1,
            _ => 0,
        };
        assert_eq!(most, promised - unused, "{}", variant.label);
    }
    ground.end().await;
}

#[tokio::test]
async fn fixed_window_lua_tells_the_wait_that_the_server_counts_down() {
    let Some(mut ground) = Ground::start("wait").await else { return };
    let variant = Variant::of("fixed-window-lua", 2, &[]);
    let limiter = ground.limiter(&variant);
    assert_eq!(admitted(&limiter, "wait", 2).await, 2);
    let before = ground.pttl("wait").await;
    let refused = acquire(&limiter, "wait", 1).await;
    let after = ground.pttl("wait").await;
    let wait = refused.retry_after.unwrap();
    // PTTL rounds down, so a caller that waited PTTL only would come too early.
    assert!(
        wait.as_millis() as i64 > after && wait.as_millis() as i64 <= before + 1,
        "{after} {wait:?} {before}"
    );

    ground.ask::<i64>("PEXPIRE wait 500").await;
    let wait = acquire(&limiter, "wait", 1).await.retry_after.unwrap();
    tokio::time::sleep(wait).await;
    assert!(acquire(&limiter, "wait", 1).await.allowed, "waiting it out is enough");
    ground.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_dies_between_incr_and_expire_leaves_a_key_that_the_next_limiter_heals() {
    let Some(mut ground) = Ground::start("crash").await else { return };
    let dies = AtStep { op: None, index: 1, after: true, action: StepAction::Die }.shared();
    let cell = crate::checkers::drive_one_call(ground.address, "incr-then-expire", Some(dies)).await;
    let round = &cell.rounds[0];
    assert_eq!(round.count(Outcome::Unknown), 1, "nobody knows whether a dead node's call counted");
    let key = round.keys[0].clone();
    assert_eq!(ground.ask::<i64>(&format!("GET {key}")).await, 1);
    assert_eq!(ground.pttl(&key).await, -1);
    crate::checkers::assert_convicted(&cell, "every-key-expires", &["has no expiry (PTTL -1)", &key]);

    let same = ground.limiter(&Variant::of("incr-then-expire", LIMIT, &[]));
    acquire(&same, &key, 1).await;
    assert_eq!(ground.pttl(&key).await, -1, "the same limiter never mends it");
    let heals = ground.limiter(&Variant::of("multi-incr-expire-nx", LIMIT, &[]));
    assert_eq!(acquire(&heals, &key, 1).await.remaining, Some(LIMIT - 3), "and the count goes on");
    let healed = ground.pttl(&key).await;
    assert!(healed > 0, "{healed}");
    acquire(&heals, &key, 1).await;
    assert!(ground.pttl(&key).await <= healed, "a key that has an expiry keeps it");

    // Dead before its first command, and dead it stays: nothing is sent, by no later call either.
    let dies = AtStep { op: Some(0), index: 1, after: false, action: StepAction::Die }.shared();
    let limiter =
        Variant::of("incr-then-expire", LIMIT, &[]).build(ground.store(Some(dies)), clock::system());
    for op in 0..2 {
        let (answer, trace) = as_call(Call::new(op, 0), limiter.acquire("dead", Cost::ONE)).await;
        assert_eq!((answer, trace.sent), (Err(StoreError::NodeDied), false), "call {op}");
    }
    assert_eq!(ground.pttl("dead").await, -2);
    ground.end().await;
}

#[tokio::test]
async fn a_pool_is_warm_when_the_server_answers_and_not_when_the_kernel_connects() {
    let Some(mut ground) = Ground::start("warm").await else { return };
    let spec = ServerSpec { name: "frozen".to_owned(), ..Default::default() };
    let frozen = ground.backend.start(spec).await.unwrap();
    ground.address = frozen.address();
    ground.store(None).warm_up().await.unwrap();
    frozen.pause().await.unwrap();
    let refusal = ground.store(None).warm_up().await;
    assert!(matches!(refusal, Err(StoreError::NoAnswer(_))), "{refusal:?}");
    frozen.resume().await.unwrap();
    ground.end().await;
}

/// A process that is started in another's place counts its calls from 0 again. Were its names those of the first, each
/// would write over an entry that is still in the log, and as much more would be admitted.
#[tokio::test]
async fn a_version_that_takes_anothers_place_writes_over_none_of_its_entries() {
    let Some(ground) = Ground::start("versions").await else { return };
    let logs = [
        ("sliding-log-lua", &[][..]),
        ("sliding-log-lua", &[("clock", "server")]),
        ("sliding-log-pipeline", &[]),
    ];
    for (n, (name, params)) in logs.into_iter().enumerate() {
        let variant = Variant::of(name, LIMIT, params);
        let key = format!("versions:{n}:user");
        let mut passed = 0;
        for version in 0..3 {
            let limiter = (variant.spec.build)(Build {
                database: None,
                settings: variant.settings.clone(),
                store: ground.store(None),
                others: Vec::new(),
                clock: clock::system(),
                node: NodeId(0),
                version,
                fleet: Fleet::of(1),
            });
            passed += admitted(&limiter, &key, LIMIT - 1).await;
        }
        assert_eq!(passed, LIMIT, "{}", variant.label);
    }
    ground.end().await;
}
