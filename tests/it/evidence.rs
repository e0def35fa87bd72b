//! A pass needs evidence. Each test here is a way in which a wrong limiter, or one that was not
//! tried, could look right.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use rl_lab::limiters;
use rl_lab::model::contract::DecidingClock;
use rl_lab::model::units::{Cost, Limit, NodeId, Window};
use rl_lab::model::verdict::Verdict;
use rl_lab::ports::BoxFuture;
use rl_lab::ports::clock::Clock;
use rl_lab::ports::limiter::{Build, Fleet, Settings};

use crate::ground::{Ground, Variant};
use crate::support::{Lab, cell, check, usable};

/// Exit 4 and no pass of the two bounds for a limiter that leaks as soon as it is really tried.
async fn assert_not_cleared(limiter: &str, flags: &[&str]) {
    if !usable("local").await {
        return;
    }
    let mut args = vec!["race", "--backend", "local", "--format", "json", "--limiters", limiter];
    args.extend_from_slice(flags);
    let report = Lab::new().run(&args).exits(4).report();
    assert!(!report.passed && report.verdict == Verdict::Unknown, "{args:?}");
    for name in ["never-over-limit", "meets-requirement"] {
        let found = check(cell(&report, limiter), name);
        assert_eq!(found.verdict, Verdict::Unknown, "{args:?}: {found:?}");
    }
}

#[tokio::test]
async fn calls_made_one_after_the_other_clear_nobody_of_a_race() {
    assert_not_cleared("get-then-incr", &["--in-flight", "1", "--connections", "2"]).await;
}

#[tokio::test]
async fn a_window_shorter_than_the_calls_clears_nobody() {
    assert_not_cleared("get-then-incr", &["--window", "1ms"]).await;
}

#[tokio::test]
async fn fewer_calls_than_the_limit_clear_nobody() {
    assert_not_cleared("get-then-incr", &["--requests", "5"]).await;
}

/// Whoever looks first sees that nothing is left, and so does everybody else: no check-then-act could show.
#[tokio::test]
async fn a_limit_that_is_used_up_before_clears_nobody_of_a_race() {
    assert_not_cleared("get-then-incr", &["--preset", "10"]).await;
}

#[tokio::test]
async fn refusals_of_a_policy_clear_nobody() {
    assert_not_cleared("get-then-incr", &["--client", "not-configured", "--policy", "fail-closed"]).await;
}

#[tokio::test]
async fn a_bucket_that_refills_faster_than_it_is_asked_clears_nobody() {
    if !usable("local").await {
        return;
    }
    // 60,000 a millisecond come back: 50 calls at an empty bucket ask for nothing it may not give.
    // The window that is required knows no refill, and is rightly broken.
    let limiter = "token-bucket-read-write:expire=yes";
    let flags = ["--limit", "60000000", "--requests", "50", "--preset", "60000000", "--limiters", limiter];
    let args = [&["race", "--backend", "local", "--format", "json"][..], &flags].concat();
    let report = Lab::new().run(&args).exits(1).report();
    assert_eq!(check(cell(&report, limiter), "never-over-limit").verdict, Verdict::Unknown);
}

#[tokio::test]
async fn a_history_whose_calls_lack_their_ends_is_refused() {
    if !usable("local").await {
        return;
    }
    let lab = Lab::new();
    lab.run(&["race", "--backend", "local", "--limiters", "fixed-window-lua"]).exits(0);
    let history = lab.runs()[0].join("history.jsonl");
    let text = std::fs::read_to_string(&history).unwrap();
    let analyze = |text: String, code: i32| {
        std::fs::write(&history, text).unwrap();
        lab.run(&["analyze", history.to_str().unwrap()]).exits(code)
    };
    let without = |part: &str| -> String {
        text.lines().filter(|l| !l.contains(part)).fold(String::new(), |all, l| all + l + "\n")
    };
    analyze(text.clone(), 0);
    analyze(without(r#""allowed":true"#), 2).says(&["calls or their ends are missing"]);
    analyze(without(r#""type":"round","#), 2);
    analyze(text.clone() + &text, 2).says(&["after the end of the run"]);
}

/// The time a call was made, and what it does in the meantime.
struct Late(AtomicI64);

impl Clock for Late {
    fn wall_us(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(span))
    }
}

/// With the app's clock a call that was under way for a while carries an old time. If the key had
/// expired by then, the call would start it anew in the past, and all of the limit would be there
/// again: three bursts in the time of two.
#[tokio::test]
async fn a_late_call_finds_the_state_it_is_late_for() {
    let Some(ground) = Ground::start("late").await else { return };
    let by_app_clock = |v: &Variant| {
        // Laravel's hash has a whole window more to live, and windows of whole seconds.
        let contract = v.contract();
        let kept = contract.key_ttl_at_most.is_some() && v.spec.id != "L17";
        contract.clock == DecidingClock::App && kept && !contract.in_background
    };
    let mut tried = 0;
    let names: BTreeSet<&str> =
        Variant::all().into_iter().filter(by_app_clock).map(|v| v.spec.name).collect();
    for name in names {
        tried += 1;
        let spec = limiters::find(name).unwrap();
        let window = Window::from_millis(20).unwrap();
        let settings = Settings::new(spec, Limit::new(10).unwrap(), window, &Default::default()).unwrap();
        let clock = Arc::new(Late(AtomicI64::new(1_800_000_000_000_000)));
        let limiter = (spec.build)(Build {
            database: None,
            settings,
            store: ground.store(None),
            others: Vec::new(),
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            node: NodeId(0),
            version: 0,
            fleet: Fleet::of(1),
        });
        let mut burst = 0;
        for _ in 0..20 {
            burst += u32::from(limiter.acquire(name, Cost::ONE).await.unwrap().allowed);
        }
        // Longer than a bucket takes to fill, a log to empty and two windows to pass.
        tokio::time::sleep(Duration::from_millis(60)).await;
        let mut late = 0;
        for _ in 0..20 {
            late += u32::from(limiter.acquire(name, Cost::ONE).await.unwrap().allowed);
        }
        assert_eq!((burst, late), (10, 0), "{name}");
    }
    assert!(tried >= 11, "{tried}");
    ground.end().await;
}
