//! Limiters that keep more than one key: who shares what, what a refusal leaves behind, and where a
//! cluster lets them.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use rl_lab::limiters::quota_by_period;
use rl_lab::model::contract::Bound;
use rl_lab::model::op::{Decision, Source};
use rl_lab::model::units::{Cost, Limit};
use rl_lab::ports::backend::ServerSpec;
use rl_lab::ports::limiter::Limiter;
use rl_lab::ports::store::StoreError;
use rl_lab::runner::drive;

use crate::ground::{FORTY_DAYS_MS, Ground, Variant};

async fn acquire(limiter: &Arc<dyn Limiter>, key: &str, cost: u32) -> Decision {
    limiter.acquire(key, Cost::new(cost).unwrap()).await.unwrap()
}

async fn admitted(limiter: &Arc<dyn Limiter>, key: &str, calls: u32) -> u32 {
    let mut passed = 0;
    for _ in 0..calls {
        passed += u32::from(acquire(limiter, key, 1).await.allowed);
    }
    passed
}

/// Limit 5, address 15, endpoint 50: by hand, call by call.
#[tokio::test]
async fn what_a_refusal_leaves_behind_depends_on_the_form() {
    let Some(mut ground) = Ground::start("multi").await else { return };
    // Of user a alone, who calls 20 times; then what is left for b, who calls 6 times; then what user,
    // address and endpoint have counted.
    for (form, of_b, counted) in [
        // Each refusal left everything as it was.
        ("script", 5, [5, 10, 10]),
        // Each was charged to all three: the address was used up by a's refusals.
        ("pipeline", 0, [6, 26, 26]),
        // a's and b's refusals stopped at their own counters.
        ("one-by-one", 5, [6, 10, 10]),
    ] {
        let limiter = ground.limiter(&Variant::of("multi-limit", 5, &[("form", form)]));
        let prefix = format!("multi:{form}:");
        assert_eq!(admitted(&limiter, &format!("{prefix}a"), 20).await, 5, "{form}");
        assert_eq!(admitted(&limiter, &format!("{prefix}b"), 6).await, of_b, "{form}");
        for (name, count) in ["b", "address", "endpoint"].into_iter().zip(counted) {
            let count_there: i64 = ground.ask(&format!("GET {{{prefix}}}{name}")).await;
            assert_eq!(count_there, count, "{form}: {name}");
        }
    }
    // One by one, a refusal by the address has charged the user already.
    let limiter = ground.limiter(&Variant::of("multi-limit", 5, &[("form", "one-by-one"), ("address", "6")]));
    assert_eq!(admitted(&limiter, "late:a", 5).await, 5);
    assert_eq!(admitted(&limiter, "late:b", 4).await, 1);
    assert_eq!(ground.ask::<i64>("GET {late:}b").await, 4);
    ground.end().await;
}

#[tokio::test]
async fn the_strictest_of_user_address_and_endpoint_decides_and_tells_the_rest() {
    let Some(mut ground) = Ground::start("strictest").await else { return };
    for form in ["script", "pipeline", "one-by-one"] {
        let params = [("form", form), ("address", "7"), ("endpoint", "9")];
        let variant = Variant::of("multi-limit", 5, &params);
        let limit = Limit::new(7).unwrap();
        let window = variant.settings.window;
        assert_eq!(variant.contract().across_keys, Some(Bound::FixedWindow { limit, window }));
        let limiter = ground.limiter(&variant);
        let prefix = format!("strictest:{form}:");
        let told = |d: Decision| (d.allowed, d.remaining.unwrap());
        assert_eq!(told(acquire(&limiter, &format!("{prefix}a"), 4).await), (true, 1), "{form}: the user's");
        assert_eq!(
            told(acquire(&limiter, &format!("{prefix}b"), 1).await),
            (true, 2),
            "{form}: the address's"
        );
        assert_eq!(
            told(acquire(&limiter, &format!("{prefix}c"), 2).await),
            (true, 0),
            "{form}: the address's"
        );
        // Refused by the address; told to wait as long as that one has left, and never for the impossible.
        ground.ask::<i64>(&format!("PEXPIRE {{{prefix}}}address 500000")).await;
        let refused = acquire(&limiter, &format!("{prefix}d"), 1).await;
        let wait = refused.retry_after.unwrap().as_millis() as i64;
        let left: i64 = ground.pttl(&format!("{{{prefix}}}address")).await;
        assert!(!refused.allowed && refused.remaining == Some(0), "{form}");
        assert!(wait > left && wait <= 500_001, "{form}: {wait}, {left} left");
        assert_eq!(acquire(&limiter, &format!("{prefix}e"), 6).await.retry_after, None, "{form}");
    }
    // All of it is there again when the last of the three windows is over.
    for form in ["script", "pipeline", "one-by-one"] {
        let variant = Variant::of("multi-limit", 2, &[("form", form)]);
        let limiter = ground.limiter(&variant);
        let reset = |d: Decision| d.reset.map(|span| span.as_millis() as i64);
        let whole = reset(acquire(&limiter, &format!("reset:{form}:a"), 2).await).unwrap();
        assert!(
            whole > FORTY_DAYS_MS as i64 - 60_000 && whole <= FORTY_DAYS_MS as i64 + 1,
            "{form}: {whole}"
        );
        for (name, ms) in [("a", 300_000), ("address", 600_000), ("endpoint", 900_000)] {
            ground.ask::<i64>(&format!("PEXPIRE {{reset:{form}:}}{name} {ms}")).await;
        }
        let refused = acquire(&limiter, &format!("reset:{form}:a"), 1).await;
        assert!(refused.retry_after.unwrap() <= Duration::from_millis(300_001), "{form}");
        // One by one stops at the user's counter, and does not know of the others.
        let known = reset(refused).map(|ms| (600_001..=900_001).contains(&ms));
        assert_eq!(known, (form != "one-by-one").then_some(true), "{form}");
    }
    let endpoint = Variant::of("multi-limit", 5, &[("endpoint", "2")]);
    let limiter = ground.limiter(&endpoint);
    assert_eq!(admitted(&limiter, "endpoint:a", 5).await, 2);
    assert_eq!(endpoint.contract().across_keys.unwrap().burst(), Some(2));
    ground.end().await;
}

#[tokio::test]
async fn a_limit_written_into_the_store_holds_from_the_next_call_on() {
    let Some(mut ground) = Ground::start("quota").await else { return };
    let of = |tier| ground.limiter(&Variant::of("quota-by-period", 5, &[("tier", tier)]));
    let (free, pro) = (of("free"), of("pro"));
    let told = |d: Decision| (d.allowed, d.remaining.unwrap(), d.limit.get());
    assert_eq!(told(acquire(&free, "plan:ann", 3).await), (true, 2, 5), "the store has no limit yet");
    let limits = quota_by_period::limits_key("plan:ann");
    assert_eq!(limits, "{plan:}limits");
    ground.ask::<i64>(&format!("HSET {limits} free 4 pro 100")).await;
    assert_eq!(told(acquire(&free, "plan:ann", 2).await), (false, 1, 4));
    assert_eq!(told(acquire(&free, "plan:ann", 1).await), (true, 0, 4));
    assert_eq!(told(acquire(&pro, "plan:ann", 90).await), (true, 6, 100), "what was used stays used");
    ground.ask::<i64>(&format!("HDEL {limits} free")).await;
    assert_eq!(told(acquire(&free, "plan:bob", 1).await), (true, 4, 5), "the field is gone again");
    // Larger than the plan: no period to wait for. Larger than what is left: the next one.
    assert_eq!(acquire(&free, "plan:bob", 6).await.retry_after, None);
    let wait = acquire(&free, "plan:bob", 5).await.retry_after.unwrap();
    assert!(wait <= Duration::from_millis(FORTY_DAYS_MS));
    for nonsense in ["0", "-1", "many", "1.5"] {
        ground.ask::<i64>(&format!("HSET {limits} free {nonsense}")).await;
        let answer = free.acquire("plan:bob", Cost::ONE).await;
        let Err(StoreError::Refused(why)) = answer else { panic!("{nonsense}: {answer:?}") };
        assert!(why.contains("not a whole number from 1"), "{why}");
    }
    ground.end().await;
}

/// One node that has all slots: it refuses a command whose declared keys lie in several.
#[tokio::test]
async fn on_a_cluster_the_keys_of_a_script_must_share_a_hash_tag() {
    let Some(mut ground) = Ground::start("slots").await else { return };
    // The bus is 10,000 above the port unless it is told, and may be beyond what there is.
    let bus = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let config = [("cluster-enabled", "yes".to_owned()), ("cluster-port", bus.to_string())];
    let config = config.map(|(k, v)| (k.to_owned(), v)).into();
    let server = ground
        .backend
        .start(ServerSpec { name: "cluster".to_owned(), config, ..Default::default() })
        .await
        .unwrap();
    ground.address = server.address();
    let mut admin = drive::admin(ground.address).await.unwrap();
    let slots = redis::cmd("CLUSTER").arg("ADDSLOTSRANGE").arg(0).arg(16383).to_owned();
    slots.query_async::<()>(&mut admin).await.unwrap();
    loop {
        let info: String = redis::cmd("CLUSTER").arg("INFO").query_async(&mut admin).await.unwrap();
        if info.contains("cluster_state:ok") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for (name, params, fits) in [
        ("multi-limit", &[("tag", "yes")][..], true),
        ("multi-limit", &[("tag", "no")], false),
        ("two-key-bucket", &[("tag", "yes")], true),
        ("two-key-bucket", &[("tag", "no")], false),
        ("login-guard", &[], true),
        ("quota-by-period", &[], true),
        // One key to a command: no slot to share.
        ("multi-limit", &[("tag", "no"), ("form", "pipeline")], true),
        ("multi-limit", &[("tag", "no"), ("form", "one-by-one")], true),
        ("sliding-counter-lua", &[("keys", "declared")], true),
        ("watch-multi-bucket", &[], true),
    ] {
        let variant = Variant::of(name, 5, params);
        let limiter = ground.limiter(&variant);
        let answer = limiter.acquire(&format!("rl:{}:user:42", variant.label), Cost::ONE).await;
        match answer {
            Ok(decision) => assert!(fits && decision.allowed, "{}", variant.label),
            Err(StoreError::Refused(why)) => {
                assert!(!fits && why.starts_with("CROSSSLOT"), "{}: {why}", variant.label);
            }
            Err(other) => panic!("{}: {other}", variant.label),
        }
    }
    ground.end().await;
}

/// Two of five taken from a full bucket: two fifths of a window until it is full again.
#[tokio::test]
async fn a_bucket_tells_when_it_will_be_full_again() {
    let Some(ground) = Ground::start("full").await else { return };
    for name in ["watch-multi-bucket", "two-key-bucket", "token-bucket-read-write"] {
        let limiter = ground.limiter(&Variant::of(name, 5, &[]));
        let reset = acquire(&limiter, &format!("full:{name}"), 2).await.reset;
        assert_eq!(reset, Some(Duration::from_millis(FORTY_DAYS_MS / 5 * 2)), "{name}");
    }
    ground.end().await;
}

/// PTTL 1,392 is TTL 1: a caller that waits as told comes 392 ms too early.
#[tokio::test]
async fn atomic_throttle_tells_the_nearest_whole_second() {
    let Some(mut ground) = Ground::start("ttl").await else { return };
    let limiter = ground.limiter(&Variant::of("atomic-throttle", 1, &[]));
    for (pttl, told, what) in [(1392, 1, "too early"), (1990, 2, "late enough"), (490, 0, "at once")] {
        let mut seen = None;
        // Where the machine stalls between setting the expiry and asking, it is asked again.
        for n in 0..50 {
            let key = format!("ttl:{pttl}:{n}");
            acquire(&limiter, &key, 1).await;
            ground.ask::<i64>(&format!("PEXPIRE {key} {pttl}")).await;
            let refused = acquire(&limiter, &key, 1).await;
            let left = ground.pttl(&key).await;
            if left > pttl - 300 {
                assert!(!refused.allowed, "{what}");
                seen = refused.retry_after.map(|wait| wait.as_secs());
                break;
            }
        }
        assert_eq!(seen, Some(told), "{what}");
    }
    ground.end().await;
}

#[tokio::test]
async fn atomic_throttle_admits_while_the_store_is_away_and_says_so() {
    let Some(mut ground) = Ground::start("open").await else { return };
    let spec = ServerSpec { name: "away".to_owned(), ..Default::default() };
    let server = ground.backend.start(spec).await.unwrap();
    ground.address = server.address();
    let open = ground.limiter(&Variant::of("atomic-throttle", 1, &[]));
    let closed = ground.limiter(&Variant::of("fixed-window-lua", 1, &[]));
    let told = |d: Decision| (d.allowed, d.source, d.remaining);
    assert_eq!(told(acquire(&open, "open", 1).await), (true, Source::Store, Some(0)));
    assert_eq!(told(acquire(&open, "open", 1).await), (false, Source::Store, Some(0)));
    acquire(&closed, "closed", 1).await;
    server.pause().await.unwrap();
    assert_eq!(told(acquire(&open, "open", 1).await), (true, Source::FailOpen, None));
    assert!(matches!(closed.acquire("closed", Cost::ONE).await, Err(StoreError::NoAnswer(_))));
    server.kill().await.unwrap();
    for _ in 0..2 {
        assert_eq!(told(acquire(&open, "open", 1).await), (true, Source::FailOpen, None));
        assert!(closed.acquire("closed", Cost::ONE).await.is_err(), "others hand the error on");
    }
    ground.end().await;
}
