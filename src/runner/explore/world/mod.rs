//! A limiter, several clients and a real server as a world that the search can move step by step.
//!
//! Clients run the unmodified limiter over the unmodified client library; what they send stops at the
//! search and goes on to the server one command at a time. Nothing else moves: their clocks stand still
//! between ticks, and only one client runs at a time.

mod judge;
mod steps;
mod wire;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;

use super::client::{At, Client, Held, Recipe};
use super::cores;
use super::keyspace::{Age, GRAIN_MS, Key, Keyspace, text};
use super::line::{Event, Upstream};
use super::print::{self, FIRST_NODE};
use crate::backends::worker::Workers;
use crate::clients::Profile;
use crate::explorer::{Broken, Ending, Print, Trouble, World};
use crate::model::contract::{Contract, DecidingClock};
use crate::model::ending::{self, Evidence, KeySeen};
use crate::model::op::Outcome;
use crate::model::schedule::{Budget, MOST_CLIENTS, Step, letter};
use crate::model::units::{Limit, NodeId};
use crate::ports::limiter::{Settings, Spec};
use crate::wire::resp::{Frame, encode};

/// What is explored, and where.
#[derive(Clone)]
pub struct Subject {
    pub spec: &'static Spec,
    pub settings: Settings,
    pub profile: &'static Profile,
    pub address: std::net::SocketAddr,
    /// The core that the server was put on: the search runs beside it. They take turns, and a turn that
    /// wakes another core takes several times as long.
    pub core: Option<usize>,
    /// Who starts app servers, where the limiter runs in one of somebody else's.
    pub workers: Option<Arc<Workers>>,
}

impl Subject {
    /// Why no schedule of it can be had, if so.
    pub fn unfit(&self) -> Option<String> {
        let foreign = self.spec.foreign?;
        let nobody = foreign.is_process() && self.workers.is_none();
        let nobody = nobody.then_some("nobody here starts processes");
        foreign.unsearchable().or(nobody).map(str::to_owned)
    }
}

/// What a step did, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    pub step: Step,
    /// The command with its arguments; empty for what is no command.
    pub args: Vec<String>,
    pub what: String,
    pub reply: String,
    /// What the keys were afterwards.
    pub keys: Vec<Key>,
    /// How the call ended that this step ended.
    pub ended: Option<String>,
}

pub struct RedisWorld {
    runtime: Runtime,
    core: Option<usize>,
    /// The thread that runs on that core.
    beside: Option<std::thread::ThreadId>,
    inner: Inner,
}

struct Inner {
    recipe: Recipe,
    contract: Contract,
    keyspace: Keyspace,
    spare: Vec<Upstream>,
    clients: Vec<Client>,
    /// Whoever came alone last, where it has an app server that need not be started again.
    resting: Option<Client>,
    budget: Budget,
    left: Budget,
    now_ms: i64,
    trace: Vec<u8>,
    began: std::time::Instant,
    /// Bodies of the scripts the limiter sends, by SHA-1 not needed: loaded again after a flush.
    scripts: Vec<String>,
    flushed: bool,
    /// Commands whose reply was lost in the client's call of now, by client.
    lost: BTreeMap<u8, Vec<Vec<u8>>>,
    twice: Vec<String>,
    /// Replies that were lost in this schedule, the client living on.
    losses: u64,
    /// A look at the keys that still holds.
    seen: Option<Vec<Key>>,
    /// What the server applied since it was empty, reads left out: that alone decides what it holds.
    applied: Vec<u8>,
    /// What it held after the same before, and how often that was looked up.
    held: HashMap<Print, Vec<Key>>,
    lookups: u64,
    judged: BTreeMap<Print, Vec<Broken>>,
    telling: Option<Vec<Said>>,
    virtual_time: bool,
    sent_anything: bool,
}

/// What a client that came alone was granted.
struct Drained {
    drained: u64,
    refused: bool,
    again_ms: i64,
    again: bool,
}

/// Of what is known without looking, so many-th is looked at all the same.
const LOOK_AGAIN_EVERY: u64 = 16;

/// The most looks that are kept.
const MOST_HELD: usize = 200_000;

/// How long a client may take to send its next command or to end its call.
const WATCHDOG: Duration = Duration::from_secs(5);

/// A schedule that took longer was held up by something else than the search.
const STALLED: Duration = Duration::from_millis(GRAIN_MS.unsigned_abs() - 100);

#[expect(clippy::disallowed_methods, reason = "how long a schedule took decides whether it counts")]
fn instant() -> std::time::Instant {
    std::time::Instant::now()
}

impl RedisWorld {
    /// Connects, and has the limiter decide a few calls so that its scripts are loaded and known.
    pub fn new(subject: &Subject) -> Result<Self, Trouble> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time();
        // Clients end here and the server is waited for by blocking: there is nothing to poll for but processes.
        if subject.workers.is_some() && subject.spec.foreign.is_some_and(|f| f.is_process()) {
            runtime.enable_io();
        }
        let runtime = runtime.build();
        let runtime = runtime.map_err(|e| Trouble::Lost(format!("no runtime: {e}")))?;
        let window_ms = i64::try_from(subject.settings.window.millis()).unwrap_or(i64::MAX);
        // In 2027, in the middle of an aligned window: at its edge no call would surely belong to it, and none would
        // be one too many.
        let epoch_ms = 1_800_000_000_000 / window_ms * window_ms + window_ms / 2;
        let recipe = Recipe {
            spec: subject.spec,
            settings: subject.settings.clone(),
            profile: subject.profile,
            address: subject.address,
            key: "rl:k".to_owned(),
            epoch_ms,
            now_ms: Arc::new(AtomicI64::new(0)),
            workers: subject.workers.clone(),
        };
        let budget =
            Budget { clients: 0, requests: 0, crashes: 0, ticks: 0, losses: 0, flushes: 0, pauses: 0 };
        let mut inner = runtime.block_on(async {
            let upstream = Upstream::connect(subject.address);
            let upstream = upstream.map_err(|e| {
                Trouble::Lost(format!("the server at {} cannot be reached: {e}", subject.address))
            })?;
            Ok::<_, Trouble>(Inner {
                contract: (subject.spec.contract)(&subject.settings),
                keyspace: Keyspace::new(upstream)?,
                spare: Vec::new(),
                clients: Vec::new(),
                resting: None,
                budget,
                left: budget,
                now_ms: 0,
                trace: Vec::new(),
                began: instant(),
                scripts: Vec::new(),
                flushed: false,
                lost: BTreeMap::new(),
                twice: Vec::new(),
                losses: 0,
                seen: None,
                applied: Vec::new(),
                held: HashMap::new(),
                lookups: 0,
                judged: BTreeMap::new(),
                telling: None,
                virtual_time: false,
                sent_anything: false,
                recipe,
            })
        })?;
        runtime.block_on(inner.warm_up())?;
        Ok(Self { runtime, core: subject.core, beside: None, inner })
    }

    /// What the next schedules may contain.
    pub fn allow(&mut self, budget: Budget) {
        self.inner.budget = budget;
        self.inner.judged.clear();
    }

    pub fn limit(&self) -> Limit {
        self.inner.recipe.settings.limit
    }

    /// Whether the limiter talks to the store at all.
    pub fn talks(&self) -> bool {
        self.inner.sent_anything
    }

    /// Whether a script of the limiter decides by the server's time: that clock cannot be held.
    pub fn reads_time_in_a_script(&self) -> bool {
        let by_server = self.inner.contract.clock == DecidingClock::Server;
        by_server && self.inner.scripts.iter().any(|s| calls_time(s))
    }

    /// Whether the limiter asked for the time by a command and got the schedule's.
    pub fn time_was_told(&self) -> bool {
        self.inner.virtual_time
    }

    /// From now on takes down what each step did.
    pub fn tell(&mut self) {
        self.inner.telling = Some(Vec::new());
    }

    /// What was taken down since the last reset.
    pub fn told(&mut self) -> Vec<Said> {
        self.inner.telling.take().unwrap_or_default()
    }

    /// Bodies of the scripts the limiter sends.
    pub fn scripts(&self) -> &[String] {
        &self.inner.scripts
    }

    /// How the calls of this schedule ended so far.
    pub fn outcomes(&self) -> String {
        ending::outcomes(&self.inner.calls())
    }
}

/// `redis.call('TIME')` in any spelling.
fn calls_time(script: &str) -> bool {
    let script = script.to_lowercase();
    script.split("call").skip(1).any(|rest| {
        let rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '(');
        ["'time'", "\"time\"", "[[time]]"].iter().any(|name| rest.starts_with(name))
    })
}

impl World for RedisWorld {
    fn reset(&mut self) -> Result<(), Trouble> {
        let here = std::thread::current().id();
        if let Some(core) = self.core.filter(|_| self.beside != Some(here)) {
            cores::stay_on(core);
            self.beside = Some(here);
        }
        self.runtime.block_on(self.inner.reset())
    }

    fn enabled(&self) -> Vec<Step> {
        self.inner.enabled()
    }

    fn distinct(&self) -> Vec<Step> {
        let fresh = |c: u8| {
            self.inner.clients.get(usize::from(c)).is_some_and(|c| c.at == At::Idle && c.calls.is_empty())
        };
        let first = self.inner.clients.iter().map(|c| c.id).find(|c| fresh(*c));
        // Of clients that did nothing yet one stands for all.
        let stands = |s: &Step| s.client().is_none_or(|c| !fresh(c) || Some(c) == first);
        self.inner.enabled().into_iter().filter(stands).collect()
    }

    fn open(&self) -> Vec<Step> {
        let open = self.inner.clients.iter().filter(|c| c.at == At::Calling);
        open.map(|c| Step::Go(c.id)).collect()
    }

    fn step(&mut self, step: Step) -> Result<(), Trouble> {
        self.runtime.block_on(self.inner.step(step))
    }

    fn state(&mut self) -> Result<Print, Trouble> {
        self.runtime.block_on(self.inner.state())
    }

    fn trace(&self) -> Print {
        print::exact(&self.inner.trace)
    }

    fn end(&mut self) -> Result<Ending, Trouble> {
        self.runtime.block_on(self.inner.end())
    }
}

impl Inner {
    fn calls(&self) -> Vec<ending::CallSeen> {
        self.clients.iter().flat_map(|c| c.calls.iter().cloned()).collect()
    }

    fn in_time(&self) -> Result<(), Trouble> {
        if self.began.elapsed() > STALLED {
            return Err(Trouble::Stalled(format!("a schedule took longer than {} ms", STALLED.as_millis())));
        }
        Ok(())
    }

    /// No key was given its time to live before the schedule began.
    fn age(&self) -> Age {
        Age::Since(self.began)
    }

    fn client(&mut self, id: u8) -> &mut Client {
        &mut self.clients[usize::from(id)]
    }

    fn keep(&mut self, given_back: Vec<Upstream>) {
        self.spare.extend(given_back.into_iter().filter(|u| !u.attached));
    }

    fn set_time(&mut self, ms: i64) {
        self.now_ms = ms;
        self.recipe.now_ms.store(ms, Ordering::Relaxed);
    }

    async fn warm_up(&mut self) -> Result<(), Trouble> {
        // The server is the search's own. Nothing that somebody left is taken for the limiter's, and every
        // script comes by once in full.
        self.keyspace.clear();
        self.keyspace.ask(&["SCRIPT", "FLUSH"])?;
        let burst = self.contract.bound.burst().unwrap_or(1);
        for _ in 0..burst.saturating_add(1).min(1000) {
            let id = self.alone();
            let asked = self.ask(id).await;
            self.rest();
            // A script that was not known yet is now.
            match asked {
                Ok(_) | Err(Trouble::Stalled(_)) => {}
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(())
    }

    async fn reset(&mut self) -> Result<(), Trouble> {
        self.keyspace.clear();
        if self.flushed {
            for script in &self.scripts {
                self.keyspace.ask(&["SCRIPT", "LOAD", script])?;
            }
            self.flushed = false;
        }
        for id in 0..self.budget.clients {
            if self.clients.len() <= usize::from(id) {
                let node = NodeId(FIRST_NODE + u16::from(id));
                self.clients.push(Client::new(id, node, &self.recipe));
            }
            let calls = self.budget.requests;
            let given_back = self.clients[usize::from(id)].renew(calls, &self.recipe);
            self.keep(given_back);
            self.introduce(id).await?;
        }
        self.clients.truncate(usize::from(self.budget.clients));
        self.left = self.budget;
        self.set_time(0);
        self.trace.clear();
        self.lost.clear();
        self.twice.clear();
        self.losses = 0;
        self.seen = None;
        self.applied.clear();
        if let Some(said) = &mut self.telling {
            said.clear();
        }
        self.began = instant();
        Ok(())
    }
}
