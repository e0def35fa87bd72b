//! Conformance: every limiter in the list, one call after the other on a real server, keeps what
//! its contract says; the scripts decide as the exact models do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use rl_lab::backends::{self, journal::Journal};
use rl_lab::clients::{self, Access, at_step::AtStep};
use rl_lab::limiters::{self, ALL};
use rl_lab::model::algorithms::{Step, gcra::Gcra, token_bucket::TokenBucket};
use rl_lab::model::contract::{Denials, Scope};
use rl_lab::model::op::{Decision, Outcome};
use rl_lab::model::units::{Cost, Limit, Window};
use rl_lab::ports::backend::{Backend, BackendOptions, ServerSpec};
use rl_lab::ports::clock::{self, Clock};
use rl_lab::ports::limiter::{Build, Limiter, ParamKind, Settings, Spec};
use rl_lab::ports::store::{Call, SharedHook, StepAction, Store, StoreError, as_call};
use rl_lab::runner::drive;

use crate::support::usable;

/// A local server of the test's own.
pub struct Ground {
    backend: Arc<dyn Backend>,
    pub address: std::net::SocketAddr,
    admin: redis::aio::MultiplexedConnection,
    _state: tempfile::TempDir,
}

impl Ground {
    /// `None` where there is no redis-server: the test is skipped.
    pub async fn start(test: &str) -> Option<Self> {
        if !usable("local").await {
            return None;
        }
        let state = tempfile::tempdir().unwrap();
        let run = format!("it-{}-{test}", std::process::id());
        let journal = Arc::new(Journal::open_in(state.path(), &run).unwrap());
        let options = BackendOptions::default();
        let backend = backends::open("local", &options, journal, &mut |_| ()).await.unwrap();
        let spec = ServerSpec { name: "primary".to_owned(), ..Default::default() };
        let address = backend.start(spec).await.unwrap().address();
        Some(Self { backend, address, admin: drive::admin(address).await.unwrap(), _state: state })
    }

    fn store(&self, hook: Option<SharedHook>) -> Arc<dyn Store> {
        let access = Access { address: self.address, connections: 1, hook };
        (clients::find(clients::DEFAULT).unwrap().connect)(access)
    }

    fn limiter(&self, variant: &Variant) -> Arc<dyn Limiter> {
        variant.build(self.store(None), clock::system())
    }

    async fn ask<T: redis::FromRedisValue>(&mut self, command: &str) -> T {
        let (name, args) = command.split_once(' ').unwrap();
        let args: Vec<&str> = args.split(' ').collect();
        redis::cmd(name).arg(args).query_async(&mut self.admin).await.unwrap()
    }

    async fn pttl(&mut self, key: &str) -> i64 {
        self.ask(&format!("PTTL {key}")).await
    }

    pub async fn end(self) {
        self.backend.shutdown().await.unwrap();
    }
}

/// A limiter with one choice of its parameters.
struct Variant {
    spec: &'static Spec,
    label: String,
    settings: Settings,
}

const LIMIT: u64 = 5;

impl Variant {
    /// Windows of an hour: no test is slow enough for a bucket to refill under it.
    fn new(spec: &'static Spec, limit: u64, params: &[(&str, &str)]) -> Self {
        let window = Window::from_millis(3_600_000).unwrap();
        let given: BTreeMap<String, String> =
            params.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let label = params.iter().fold(spec.name.to_owned(), |label, (k, v)| format!("{label}:{k}={v}"));
        let settings = Settings::new(spec, Limit::new(limit).unwrap(), window, &given).unwrap();
        Self { spec, label, settings }
    }

    fn of(name: &str, limit: u64, params: &[(&str, &str)]) -> Self {
        Self::new(limiters::find(name).unwrap(), limit, params)
    }

    /// Every limiter with its defaults, and with every other choice it offers.
    fn all() -> Vec<Self> {
        let choices = |spec: &'static Spec| {
            let mut all = vec![Self::new(spec, LIMIT, &[])];
            for param in spec.params {
                if let ParamKind::OneOf(values) = param.kind {
                    let others = values.iter().filter(|v| **v != param.default);
                    all.extend(others.map(|v| Self::new(spec, LIMIT, &[(param.name, v)])));
                }
            }
            all
        };
        ALL.iter().flat_map(|spec| choices(spec)).collect()
    }

    fn build(&self, store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Arc<dyn Limiter> {
        (self.spec.build)(Build { settings: self.settings.clone(), store, clock })
    }

    /// Whether it is known for keys that stay.
    fn leaves_keys(&self) -> bool {
        self.settings.param("expire") == "no"
    }
}

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
    for variant in Variant::all() {
        let (limiter, key) = (ground.limiter(&variant), format!("exact:{}", variant.label));
        for n in 1..=LIMIT {
            let decision = acquire(&limiter, &key, 1).await;
            assert!(decision.allowed, "{}: call {n}", variant.label);
            assert_eq!(decision.remaining, Some(LIMIT - n), "{}", variant.label);
        }
        let refused = acquire(&limiter, &key, 1).await;
        assert_eq!((refused.allowed, refused.remaining), (false, Some(0)), "{}", variant.label);
        assert_eq!(admitted(&limiter, &format!("{key}:other"), 9).await, LIMIT, "keys are apart");
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
            let key = format!("expiry:{}:{cost}", variant.label);
            let decision = acquire(&limiter, &key, cost).await;
            assert_eq!(decision.allowed, u64::from(cost) <= LIMIT, "{key}");
            let pttl = ground.pttl(&key).await;
            let Some(most) = contract.key_ttl_at_most else {
                assert_eq!(pttl, -2, "{key}: it declares no keys");
                continue;
            };
            let kept =
                if variant.leaves_keys() { pttl == -1 } else { pttl > 0 && pttl as u64 <= most.millis() };
            // Nothing to keep after a first call that was refused and not counted.
            let none = pttl == -2 && !decision.allowed && contract.denials == Denials::Free;
            assert!(kept || none, "{key}: PTTL {pttl}, at most {most}");
        }
    }
    ground.end().await;
}

#[tokio::test]
async fn a_cost_above_the_limit_is_refused_and_charged_only_where_denials_are() {
    let Some(ground) = Ground::start("cost").await else { return };
    for variant in Variant::all() {
        let (limiter, key) = (ground.limiter(&variant), format!("cost:{}", variant.label));
        let refused = acquire(&limiter, &key, LIMIT as u32 + 1).await;
        assert!(!refused.allowed, "{}", variant.label);
        let left = match (variant.spec.contract)(&variant.settings).denials {
            Denials::Free => LIMIT,
            Denials::Charged => 0,
        };
        assert_eq!(admitted(&limiter, &key, LIMIT + 2).await, left, "{}", variant.label);
    }
    ground.end().await;
}

#[tokio::test]
async fn a_preset_counts_as_calls_that_were_admitted() {
    let Some(mut ground) = Ground::start("preset").await else { return };
    for variant in Variant::all() {
        let limiter = ground.limiter(&variant);
        for used in [0, 1, 3, LIMIT, LIMIT + 4] {
            let key = format!("preset:{}:{used}", variant.label);
            limiter.preset(&key, used).await.unwrap();
            let scope = (variant.spec.contract)(&variant.settings).scope;
            let stays = scope == Scope::Global && ground.pttl(&key).await == -1;
            assert_eq!(stays, scope == Scope::Global && variant.spec.id == "L14" && variant.leaves_keys());
            let left = LIMIT.saturating_sub(used);
            assert_eq!(admitted(&limiter, &key, LIMIT + 2).await, left, "{key}");
        }
    }
    ground.end().await;
}

#[tokio::test]
async fn a_server_that_forgot_the_script_gets_it_again_and_counts_on() {
    let Some(mut ground) = Ground::start("noscript").await else { return };
    let scripted = |v: &Variant| v.spec.sends.starts_with("EVALSHA");
    let mut tried = 0;
    for variant in Variant::all().into_iter().filter(scripted) {
        tried += 1;
        let key = format!("noscript:{}", variant.label);
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

/// A clock that the test sets, in microseconds.
struct Virtual(AtomicI64);

impl Clock for Virtual {
    fn wall_us(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
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

#[tokio::test]
async fn token_bucket_lua_decides_as_its_model_call_by_call() {
    let Some(ground) = Ground::start("bucket").await else { return };
    for (limit, seed) in [(10, 4), (7, 5), (12, 6)] {
        let variant = Variant::of("token-bucket-lua", limit, &[("capacity", "12")]);
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

    // Dead before its first command: nothing was sent, so nothing is on the server.
    let dies = AtStep { op: None, index: 1, after: false, action: StepAction::Die }.shared();
    let store = ground.store(Some(dies));
    let limiter = Variant::of("incr-then-expire", LIMIT, &[]).build(store, clock::system());
    for _ in 0..2 {
        let (answer, sent) = as_call(Call::new(0, 0), limiter.acquire("dead", Cost::ONE)).await;
        assert_eq!((answer, sent), (Err(StoreError::NodeDied), false));
    }
    assert_eq!(ground.pttl("dead").await, -2);
    ground.end().await;
}
