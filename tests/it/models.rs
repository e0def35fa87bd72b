//! The scripts decide as the exact models do, call by call, under a clock that the test sets.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use rl_lab::model::algorithms::{Step, gcra::Gcra, token_bucket::TokenBucket};
use rl_lab::model::units::{Cost, Limit};
use rl_lab::ports::BoxFuture;
use rl_lab::ports::clock::Clock;

use crate::ground::{Ground, Variant};

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

/// Drives a script and its model through the same 2,000 calls: mixed costs, calls too large to
/// ever pass, and a clock that mostly runs on and at times steps back.
///
/// Keys expire in real time while the clock is the test's. All states that matter live for minutes,
/// and the one that does not, a bucket that is all but full, is not asked for the impossible.
async fn agree(
    ground: &Ground,
    variant: &Variant,
    seed: u64,
    mut model: impl FnMut(i64, Cost, bool) -> Step,
) {
    let clock = Arc::new(Virtual(AtomicI64::new(1_800_000_000_000_000)));
    let limiter = variant.build(ground.store(None), Arc::clone(&clock) as Arc<dyn Clock>);
    let key = format!("agree:{}:{seed}", variant.label);
    let mut random = Random(seed);
    let (mut passed, mut refused) = (0, 0);
    for call in 0..2_000 {
        let gap = match random.below(20) {
            0 => -(random.below(5_000_000) as i64),
            1 => random.below(4_000_000_000) as i64,
            2..=9 => 0,
            _ => random.below(600_000_000) as i64,
        };
        let now = clock.0.fetch_add(gap, Ordering::Relaxed) + gap;
        let wanted = Cost::new(if random.below(30) == 0 { 13 } else { 1 + random.below(4) as u32 }).unwrap();
        let full = model(now, wanted, true).remaining >= 11;
        let cost = if full { Cost::ONE } else { wanted };
        let expected = model(now, cost, false);
        let got = limiter.acquire(&key, cost).await.unwrap();
        let wait = expected.retry_after_ms.filter(|_| !expected.allowed).map(Duration::from_millis);
        assert_eq!(
            (got.allowed, got.remaining, got.retry_after),
            (expected.allowed, Some(expected.remaining), wait),
            "{key}: call {call} of cost {} at {now}",
            cost.get()
        );
        if got.allowed { passed += 1 } else { refused += 1 }
    }
    assert!(passed > 200 && refused > 200, "{key}: {passed} passed, {refused} refused");
}

#[tokio::test]
async fn gcra_lua_decides_as_its_model_call_by_call() {
    let Some(ground) = Ground::start("gcra").await else { return };
    for (limit, seed) in [(10, 1), (7, 2), (12, 3)] {
        let variant = Variant::of("gcra-lua", limit, &[("burst", "12")]);
        let burst = Limit::new(12).unwrap();
        let mut model = Gcra::new(burst, variant.settings.limit, variant.settings.window);
        let step = |now, cost, only_look: bool| {
            let mut copy = model;
            let step = copy.acquire(now, cost);
            if !only_look {
                model = copy;
            }
            step
        };
        agree(&ground, &variant, seed, step).await;
    }
    ground.end().await;
}

/// What is full in the one is empty in the other: they decide alike.
#[tokio::test]
async fn token_and_leaky_bucket_decide_as_their_model_call_by_call() {
    let Some(ground) = Ground::start("bucket").await else { return };
    for name in ["token-bucket-lua", "leaky-bucket-lua"] {
        for (limit, seed) in [(10, 4), (7, 5), (12, 6)] {
            let variant = Variant::of(name, limit, &[("capacity", "12")]);
            let capacity = Limit::new(12).unwrap();
            let mut model = TokenBucket::new(capacity, variant.settings.limit, variant.settings.window);
            let step = |now_us: i64, cost, only_look: bool| {
                let mut copy = model;
                let step = copy.acquire(now_us / 1000, cost);
                if !only_look {
                    model = copy;
                }
                step
            };
            agree(&ground, &variant, seed, step).await;
        }
    }
    ground.end().await;
}
