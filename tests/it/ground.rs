//! A limiter on a real local server, through the library.

use std::collections::BTreeMap;
use std::sync::Arc;

use rl_lab::backends::{self, journal::Journal};
use rl_lab::clients::{self, Access};
use rl_lab::limiters::{self, ALL};
use rl_lab::model::contract::{Contract, Denials};
use rl_lab::model::units::{Limit, NodeId, Window};
use rl_lab::ports::backend::{Backend, BackendOptions, ServerSpec};
use rl_lab::ports::clock::{self, Clock};
use rl_lab::ports::limiter::{Build, Fleet, Limiter, ParamKind, Settings, Spec};
use rl_lab::ports::route::Configured;
use rl_lab::ports::store::{SharedHook, Store};
use rl_lab::runner::drive;

use crate::support::usable;

/// A local server of the test's own.
pub struct Ground {
    pub backend: Arc<dyn Backend>,
    pub address: std::net::SocketAddr,
    admin: rl_lab::clients::patient::Patient,
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

    pub fn store(&self, hook: Option<SharedHook>) -> Arc<dyn Store> {
        let access = Access {
            route: Configured::at(self.address),
            seeds: Vec::new(),
            connections: 1,
            hook,
            user: None,
            dial: None,
        };
        (clients::find(clients::DEFAULT).unwrap().connect)(access)
    }

    pub fn limiter(&self, variant: &Variant) -> Arc<dyn Limiter> {
        variant.build(self.store(None), clock::system())
    }

    pub async fn ask<T: redis::FromRedisValue>(&mut self, command: &str) -> T {
        let (name, args) = command.split_once(' ').unwrap();
        let args: Vec<&str> = args.split(' ').collect();
        redis::cmd(name).arg(args).query_async(&mut self.admin).await.unwrap()
    }

    pub async fn pttl(&mut self, key: &str) -> i64 {
        self.ask(&format!("PTTL {key}")).await
    }

    /// The PTTL of every key that holds this text: a limiter may add to the key it is given.
    pub async fn pttls(&mut self, key: &str) -> Vec<i64> {
        let mut found = Vec::new();
        for name in self.ask::<Vec<String>>(&format!("KEYS *{key}*")).await {
            found.push(self.pttl(&name).await);
        }
        found
    }

    pub async fn end(self) {
        self.backend.shutdown().await.unwrap();
    }
}

/// A test that fails does not get to `end`.
impl Drop for Ground {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let backend = Arc::clone(&self.backend);
            let down = std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.map(|r| r.block_on(backend.shutdown()))
            });
            let _ = down.join();
        }
    }
}

/// A limiter with one choice of its parameters.
pub struct Variant {
    pub spec: &'static Spec,
    pub label: String,
    pub settings: Settings,
}

pub const LIMIT: u64 = 5;

/// No test is slow enough for a bucket to refill under it, and hardly any meets the edge of a window
/// that begins at a whole multiple of it.
pub const FORTY_DAYS_MS: u64 = 40 * 24 * 3_600_000;

impl Variant {
    pub fn new(spec: &'static Spec, limit: u64, params: &[(&str, &str)]) -> Self {
        Self::within(spec, limit, FORTY_DAYS_MS, params)
    }

    pub fn within(spec: &'static Spec, limit: u64, window_ms: u64, params: &[(&str, &str)]) -> Self {
        let window = Window::from_millis(window_ms).unwrap();
        let given: BTreeMap<String, String> =
            params.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let label = params.iter().fold(spec.name.to_owned(), |label, (k, v)| format!("{label}:{k}={v}"));
        let settings = Settings::new(spec, Limit::new(limit).unwrap(), window, &given).unwrap();
        Self { spec, label, settings }
    }

    pub fn of(name: &str, limit: u64, params: &[(&str, &str)]) -> Self {
        Self::new(limiters::find(name).unwrap(), limit, params)
    }

    /// Every limiter with its defaults, and with every other choice it offers.
    pub fn all() -> Vec<Self> {
        Self::all_within(LIMIT, FORTY_DAYS_MS)
    }

    pub fn all_within(limit: u64, window_ms: u64) -> Vec<Self> {
        let choices = |spec: &'static Spec| {
            let mut all = vec![Self::within(spec, limit, window_ms, &[])];
            for param in spec.params {
                if let ParamKind::OneOf(values) = param.kind {
                    let others = values.iter().filter(|v| **v != param.default);
                    all.extend(others.map(|v| Self::within(spec, limit, window_ms, &[(param.name, v)])));
                }
            }
            all
        };
        ALL.iter().flat_map(|spec| choices(spec)).collect()
    }

    pub fn contract(&self) -> Contract {
        (self.spec.contract)(&self.settings)
    }

    pub fn build(&self, store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Arc<dyn Limiter> {
        (self.spec.build)(Build {
            database: None,
            settings: self.settings.clone(),
            store,
            others: Vec::new(),
            clock,
            node: NodeId(0),
            version: 0,
            fleet: Fleet::of(1),
        })
    }

    /// Whether it is known for keys that stay, after a first call of this cost.
    pub fn leaves_keys(&self, cost: u32) -> bool {
        let first = self.spec.name == "cost-based" && self.settings.param("ttl") == "first";
        self.settings.param("expire") == "no" || (first && cost > 1)
    }

    /// Whether a refused call is charged. Three promise that it is not and are known to break it.
    pub fn charges_denials(&self) -> bool {
        let form = self.settings.param("form");
        let known = matches!(form, "pipeline" | "one-by-one") || self.spec.name == "token-reservation";
        known || self.contract().denials == Denials::Charged
    }

    /// Whether it says what is left. Who hands out a batch by itself does not know, nor who counts by itself, nor who
    /// asks one part of several.
    pub fn tells_what_is_left(&self) -> bool {
        let by_itself = ["token-reservation", "local-budget-lua", "static-split", "local-sync"];
        !by_itself.contains(&self.spec.name) && self.settings.param("mode") != "share"
    }

    /// The largest call it ever admits: a share of the limit is a limit of its own.
    pub fn largest(&self) -> u64 {
        match self.settings.param("mode") {
            "share" => self.settings.limit.get().div_ceil(self.settings.count("shards").get()),
            _ => self.settings.limit.get(),
        }
    }

    /// Whether calls that follow each other closely count one by one. The one that names its entries after
    /// the time is known not to, nor the one that counts when they have their answers.
    pub fn counts_every_call(&self) -> bool {
        self.spec.name != "sliding-log-time-argv" && !self.contract().in_background
    }
}
