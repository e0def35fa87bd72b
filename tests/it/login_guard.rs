//! The login guard: what it asks for, whom it locks out, and that it lets go again.

use std::collections::BTreeMap;
use std::time::Duration;

use rl_lab::limiters::login_guard::{LoginGuard, Stage};
use rl_lab::model::op::{Decision, Source};
use rl_lab::model::units::{Cost, Limit, NodeId};
use rl_lab::ports::clock;
use rl_lab::ports::limiter::{Build, Fleet, Settings};

use crate::ground::{Ground, Variant};

fn guard(ground: &Ground, params: &[(&str, &str)]) -> LoginGuard {
    let settings = Variant::of("login-guard", 4, params).settings;
    LoginGuard::new(Build {
        database: None,
        settings,
        store: ground.store(None),
        others: Vec::new(),
        clock: clock::system(),
        node: NodeId(0),
        version: 0,
        fleet: Fleet::of(1),
    })
}

async fn attempts(guard: &LoginGuard, account: &str, n: usize) -> Vec<(bool, Stage)> {
    let mut answers = Vec::new();
    for _ in 0..n {
        let (decision, stage) = guard.attempt(account, Cost::ONE).await.unwrap();
        answers.push((decision.allowed, stage));
    }
    answers
}

#[tokio::test]
async fn an_account_is_asked_for_more_and_then_locked_out_for_a_time() {
    let Some(mut ground) = Ground::start("login").await else { return };
    use Stage::{Captcha, Delay, Lockout, Password};
    let guard = guard(&ground, &[]);
    let answers = attempts(&guard, "login:ann", 6).await;
    let expected = [(true, Password), (true, Password), (true, Captcha), (true, Delay)];
    assert_eq!(answers[..4], expected);
    assert_eq!(answers[4..], [(false, Lockout); 2]);

    // Locked for two windows, whatever is tried meanwhile, and never for good.
    ground.ask::<i64>("PEXPIRE {login:}ann:lock 700000").await;
    let (refused, _) = guard.attempt("login:ann", Cost::ONE).await.unwrap();
    let lock = ground.pttl("{login:}ann:lock").await;
    assert!(lock <= 700_000, "an attempt in the lockout does not prolong it: {lock}");
    assert!(ground.pttl("{login:}ann:failures").await > 700_000, "whose failures count for longer here");
    assert!(refused.retry_after.unwrap() > Duration::from_millis(700_001), "so the wait is theirs");
    for key in ["ann:failures", "ann:lock", "address"] {
        assert!(ground.pttl(&format!("{{login:}}{key}")).await > 0, "{key}");
    }
    ground.end().await;
}

#[tokio::test]
async fn a_lockout_ends_by_itself_and_a_success_ends_it_at_once() {
    let Some(mut ground) = Ground::start("unlock").await else { return };
    let guard = guard(&ground, &[]);
    attempts(&guard, "unlock:ann", 5).await;
    assert_eq!(ground.ask::<i64>("GET {unlock:}address").await, 4, "a refused attempt is charged to nobody");
    guard.reset("unlock:ann").await.unwrap();
    assert_eq!(attempts(&guard, "unlock:ann", 1).await, [(true, Stage::Password)]);
    assert_eq!(ground.ask::<i64>("GET {unlock:}ann:failures").await, 1);
    assert_eq!(ground.ask::<i64>("GET {unlock:}address").await, 5, "a success clears no address");

    attempts(&guard, "unlock:bob", 4).await;
    assert_eq!(attempts(&guard, "unlock:bob", 1).await, [(false, Stage::Lockout)]);
    for key in ["bob:failures", "bob:lock"] {
        ground.ask::<i64>(&format!("PEXPIRE {{unlock:}}{key} 20")).await;
    }
    let (refused, _) = guard.attempt("unlock:bob", Cost::ONE).await.unwrap();
    if let Some(wait) = refused.retry_after {
        assert!(wait <= Duration::from_millis(21), "{wait:?}");
        tokio::time::sleep(wait).await;
        assert_eq!(attempts(&guard, "unlock:bob", 1).await, [(true, Stage::Password)]);
    }
    ground.end().await;
}

#[tokio::test]
async fn a_refusal_does_not_tell_whether_the_account_or_the_address_is_out() {
    let Some(ground) = Ground::start("uniform").await else { return };
    let guard = guard(&ground, &[("address", "6")]);
    attempts(&guard, "uniform:ann", 4).await;
    let by_account = guard.attempt("uniform:ann", Cost::ONE).await.unwrap();
    // Two more failures use up the address: whoever comes from there is refused, known or not.
    attempts(&guard, "uniform:bob", 2).await;
    let by_address = guard.attempt("uniform:nobody", Cost::ONE).await.unwrap();
    for (refused, stage) in [by_account, by_address] {
        let shape = Decision { retry_after: None, ..refused.clone() };
        let expected = Decision {
            allowed: false,
            remaining: Some(0),
            limit: Limit::new(4).unwrap(),
            retry_after: None,
            reset: None,
            source: Source::Store,
        };
        assert_eq!((shape, stage), (expected, Stage::Lockout));
        assert!(refused.retry_after.is_some());
    }
    ground.end().await;
}

#[test]
fn a_lockout_that_ends_before_its_failures_are_forgotten_is_refused() {
    let spec = Variant::of("login-guard", 4, &[]).spec;
    let window = "60s".parse().unwrap();
    let with = |lockout: &str| {
        let given = BTreeMap::from([("lockout".to_owned(), lockout.to_owned())]);
        Settings::new(spec, Limit::new(4).unwrap(), window, &given)
    };
    assert!(with("59s").unwrap_err().contains("shorter than the window"));
    let settings = with("60s").unwrap();
    assert_eq!((spec.contract)(&settings).lockout.unwrap().millis(), 60_000);
    let given = BTreeMap::new();
    let settings = Settings::new(spec, Limit::new(4).unwrap(), window, &given).unwrap();
    let contract = (spec.contract)(&settings);
    assert_eq!(contract.lockout.unwrap().millis(), 120_000);
    assert_eq!(contract.across_keys.unwrap().window().unwrap().millis(), 240_000);
    assert_eq!(contract.gives_back_within_ns(), Some(240_000_000_000));
}
