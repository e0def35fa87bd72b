//! Every limiter whose contract names an algorithm decides as that model does, call by call: under a
//! clock that the test sets where the app's clock decides, else in real time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use rl_lab::model::algorithms::{Model, Step};
use rl_lab::model::contract::DecidingClock;
use rl_lab::model::op::Decision;
use rl_lab::model::units::Cost;
use rl_lab::ports::BoxFuture;
use rl_lab::ports::clock::{self, Clock};
use rl_lab::ports::limiter::Limiter;

use crate::ground::{FORTY_DAYS_MS, Ground, Variant};

/// What no model tells: a window that never ends or is pushed on by every call, expiries that come
/// apart, entries that collapse, keys whose fate hangs on other keys.
const NO_ALGORITHM: [&str; 24] = [
    "async-count-flag",
    "cost-based:ttl=first",
    "get-then-incr:expire=no",
    "incr-expire-pipeline",
    "incr-expire-pipeline:atomic=yes",
    "laravel-throttle",
    "laravel-attempt",
    "local-budget-lua",
    "local-budget-lua:edge=keep",
    "local-budget-lua:ttl=first",
    "local-sync",
    "local-then-global",
    "login-guard",
    "multi-limit",
    "multi-limit:form=one-by-one",
    "multi-limit:form=pipeline",
    "multi-limit:tag=no",
    "sharded-counter:mode=share",
    "regional",
    "regional:form=merged",
    "sliding-log-time-argv",
    "static-split",
    "static-split:nodes=now",
    "token-reservation",
];

/// Refusals that say nothing about the wait.
const NO_HINT: [&str; 6] = [
    "get-then-incr",
    "incr-then-expire",
    "multi-incr-expire-nx",
    "set-nx-then-incr",
    "sliding-log-pipeline",
    "laravel-throttle-redis",
];

#[test]
fn every_limiter_names_its_algorithm_unless_it_is_known_to_have_none() {
    let without: BTreeSet<String> =
        Variant::all().into_iter().filter(|v| v.contract().algorithm.is_none()).map(|v| v.label).collect();
    assert_eq!(without, NO_ALGORITHM.map(str::to_owned).into());
}

/// With a capacity of their own.
const BUCKETS: [&str; 5] = [
    "token-bucket-lua",
    "token-bucket-read-write",
    "leaky-bucket-lua",
    "watch-multi-bucket",
    "two-key-bucket",
];

const AN_HOUR_MS: u64 = 3_600_000;

/// A clock that the test sets, in microseconds.
struct Virtual(AtomicI64);

impl Clock for Virtual {
    fn wall_us(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(span))
    }
}

/// SplitMix64, so that a failure is the same failure tomorrow.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n
    }
}

/// Calls compared so far.
#[derive(Debug, Default)]
struct Compared {
    passed: u32,
    refused: u32,
    hints: u32,
}

impl Compared {
    /// The decision is the model's; its hint is left to the caller, who gets what was told and what
    /// the model says.
    fn decision(
        &mut self,
        got: &Decision,
        expected: Step,
        what: &str,
    ) -> Option<(Duration, Option<Duration>)> {
        let told = (got.allowed, got.remaining);
        assert_eq!(told, (expected.allowed, Some(expected.remaining)), "{what}");
        if got.allowed {
            self.passed += 1;
            assert_eq!(got.retry_after, None, "{what}");
            return None;
        }
        self.refused += 1;
        self.hints += u32::from(got.retry_after.is_some());
        got.retry_after.map(|told| (told, expected.retry_after_ms.map(Duration::from_millis)))
    }

    fn enough(&self, variant: &Variant, each: u32) {
        let what = &variant.label;
        assert!(self.passed > each && self.refused > each, "{what}: {self:?}");
        assert_eq!(self.hints == 0, NO_HINT.contains(&variant.spec.name), "{what}: {self:?}");
    }
}

/// Drives a limiter and its model through the same 2,000 calls: mixed costs, calls too large to
/// ever pass, and a clock that mostly runs on and at times steps back.
///
/// Keys expire in real time while the clock is the test's. All states that matter live for minutes,
/// and the one that does not, a bucket that is all but full, is not asked for the impossible.
async fn agree(ground: &Ground, variant: &Variant, seed: u64) {
    let clock = Arc::new(Virtual(AtomicI64::new(1_800_000_000_000_000)));
    let limiter = variant.build(ground.store(None), Arc::clone(&clock) as Arc<dyn Clock>);
    let mut model = variant.contract().algorithm.unwrap().start();
    let window_us = variant.settings.window.nanos() as u64 / 1000;
    let key = format!("agree:{}:{seed}", variant.label);
    let (mut random, mut compared, mut left) = (Random(seed), Compared::default(), u64::MAX);
    for call in 0..2_000 {
        let gap = match random.below(20) {
            0 => -(random.below(5_000_000) as i64),
            1 => random.below(2 * window_us) as i64,
            2..=9 => 0,
            _ => random.below(window_us / 6) as i64,
        };
        let now = clock.0.fetch_add(gap, Ordering::Relaxed) + gap;
        let impossible = gap == 0 && left <= 8 && random.below(10) == 0;
        let cost = Cost::new(if impossible { 13 } else { 1 + random.below(4) as u32 }).unwrap();
        let expected = model.acquire(now, cost);
        let got = limiter.acquire(&key, cost).await.unwrap();
        let what = format!("{key}: call {call} of cost {} at {now}", cost.get());
        if let Some((told, modelled)) = compared.decision(&got, expected, &what) {
            assert_eq!(Some(told), modelled, "{what}");
        }
        left = expected.remaining;
    }
    compared.enough(variant, 100);
}

fn hourly(name: &str, limit: u64, param: (&str, &str)) -> Variant {
    Variant::within(rl_lab::limiters::find(name).unwrap(), limit, AN_HOUR_MS, &[param])
}

#[tokio::test]
async fn who_goes_by_the_apps_clock_decides_as_its_model_call_by_call() {
    let Some(ground) = Ground::start("app-clock").await else { return };
    let mut variants = [10, 7].map(|limit| Variant::all_within(limit, AN_HOUR_MS)).into_iter().flatten();
    let mut variants: Vec<Variant> = variants.by_ref().collect();
    for limit in [10, 7, 12] {
        variants.push(hourly("gcra-lua", limit, ("burst", "12")));
        for name in BUCKETS {
            variants.push(hourly(name, limit, ("capacity", "12")));
        }
    }
    let mut seed = 0;
    for variant in variants {
        let contract = variant.contract();
        if contract.clock == DecidingClock::App && contract.algorithm.is_some() {
            seed += 1;
            agree(&ground, &variant, seed).await;
        }
    }
    assert!(seed >= 30, "{seed}");
    ground.end().await;
}

/// A call between two readings of the clock by which the store's moves on, in µs. Both are this
/// machine's.
struct Timed {
    before: i64,
    after: i64,
    got: Decision,
}

async fn timed(limiter: &Arc<dyn Limiter>, key: &str, cost: Cost) -> Timed {
    let clock = clock::system();
    let before = clock.wall_us();
    let got = limiter.acquire(key, cost).await.unwrap();
    Timed { before, after: clock.wall_us(), got }
}

/// A hint is as far from the model's, which was told that every call was made when it was submitted,
/// as calls took from submission to answer, and 2 ms for whole milliseconds at both ends. One limiter
/// is known to round it to whole seconds.
fn assert_hint(told: Duration, modelled: Option<Duration>, slowest_us: i64, variant: &Variant, what: &str) {
    let modelled = modelled.unwrap_or_else(|| panic!("{what}: told to wait {told:?} for the impossible"));
    let rounded = Duration::from_millis(if variant.spec.name == "atomic-throttle" { 500 } else { 0 });
    let off = Duration::from_micros(u64::try_from(slowest_us).unwrap()) + Duration::from_millis(2) + rounded;
    assert!(told.abs_diff(modelled) <= off, "{what}: {told:?}, not {modelled:?}; {}", variant.label);
}

/// Forty keys with thirty calls each, in a window in which nothing comes back while they are made.
async fn agree_in_one_window(ground: &Ground, variant: &Variant, seed: u64) {
    let limiter = ground.limiter(variant);
    let limit = variant.settings.limit.get() as u32;
    let (mut random, mut compared, mut slowest) = (Random(seed), Compared::default(), 0);
    for n in 0..40 {
        let key = format!("one-window:{}:{n}", variant.label);
        let mut model = variant.contract().algorithm.unwrap().start();
        for call in 0..30 {
            let cost = match random.below(15) {
                // The first one opens the window.
                _ if call == 0 => 1,
                0 => limit + 1,
                _ => 1 + random.below(4) as u32,
            };
            let cost = Cost::new(cost).unwrap();
            let call_made = timed(&limiter, &key, cost).await;
            slowest = slowest.max(call_made.after - call_made.before);
            let expected = model.acquire(call_made.before, cost);
            let what = format!("{key}: call {call} of cost {}", cost.get());
            if let Some((told, modelled)) = compared.decision(&call_made.got, expected, &what) {
                assert_hint(told, modelled, slowest, variant, &what);
            }
        }
    }
    compared.enough(variant, 100);
}

#[tokio::test]
async fn who_goes_by_the_stores_clock_or_its_expiry_decides_as_its_model_within_one_window() {
    let Some(ground) = Ground::start("one-window").await else { return };
    let mut tried = BTreeSet::new();
    for (seed, variant) in (0..).zip(Variant::all_within(20, FORTY_DAYS_MS)) {
        let contract = variant.contract();
        if contract.clock != DecidingClock::App && contract.algorithm.is_some() {
            agree_in_one_window(&ground, &variant, seed).await;
            tried.insert(variant.label);
        }
    }
    for expected in
        ["cost-based", "gcra-lua:clock=server", "set-nx-then-incr", "sliding-log-lua:clock=server"]
    {
        assert!(tried.contains(expected), "{tried:?}");
    }
    ground.end().await;
}

/// How far from a window's edge a call must be for nobody to doubt on which side it is.
const CLEAR_US: i64 = 30_000;

/// One key through three windows that really end. `None` if the machine was too busy for a call to
/// be made where it was meant to: nothing can be said then.
async fn through_three_windows(
    limiter: &Arc<dyn Limiter>,
    mut model: Box<dyn Model>,
    variant: &Variant,
    key: &str,
) -> Option<Compared> {
    let length = variant.settings.window.nanos() / 1000;
    let mut compared = Compared::default();
    for _ in 0..3 {
        let opened = timed(limiter, key, Cost::ONE).await;
        compared.decision(&opened.got, model.acquire(opened.before, Cost::ONE), key);
        for (call, cost) in [2, 3, 1, 1, 9, 1].into_iter().enumerate() {
            let cost = Cost::new(cost).unwrap();
            let meant_at = opened.before + (call as i64 + 1) * (length - 2 * CLEAR_US) / 7;
            until(meant_at).await;
            let made = timed(limiter, key, cost).await;
            if made.after - opened.before > length - CLEAR_US {
                return None;
            }
            let what = format!("{key}: call {call} of cost {}", cost.get());
            let expected = model.acquire(made.before, cost);
            if let Some((told, modelled)) = compared.decision(&made.got, expected, &what) {
                let slowest = (made.after - made.before).max(opened.after - opened.before);
                assert_hint(told, modelled, slowest, variant, &what);
            }
        }
        until(opened.after + length + CLEAR_US).await;
    }
    Some(compared)
}

async fn until(wall_us: i64) {
    let left = wall_us - clock::system().wall_us();
    tokio::time::sleep(Duration::from_micros(u64::try_from(left).unwrap_or(0))).await;
}

#[tokio::test]
async fn who_goes_by_the_stores_expiry_decides_as_its_model_when_windows_end() {
    let Some(ground) = Ground::start("expiries").await else { return };
    let through = |variant: Variant| {
        let limiter = ground.limiter(&variant);
        async move {
            for attempt in 0..20 {
                let model = variant.contract().algorithm.unwrap().start();
                let key = format!("expiries:{}:{attempt}", variant.label);
                if let Some(compared) = through_three_windows(&limiter, model, &variant, &key).await {
                    assert_eq!(compared.passed + compared.refused, 21, "{key}");
                    compared.enough(&variant, 5);
                    return 1;
                }
            }
            panic!("{}: too busy a machine to make a call when it was meant to be made", variant.label);
        }
    };
    let by_expiry = |v: &Variant| {
        let contract = v.contract();
        contract.clock == DecidingClock::Expiry && contract.algorithm.is_some()
    };
    let variants = Variant::all_within(5, 1_000).into_iter().filter(by_expiry);
    let tried: i32 = futures_util::future::join_all(variants.map(through)).await.into_iter().sum();
    assert!(tried >= 6, "{tried}");
    ground.end().await;
}
