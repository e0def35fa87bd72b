//! A limiter, several clients and a real server as a world that the search can move step by step.
//!
//! Clients run the unmodified limiter over the unmodified client library; what they send stops at the
//! search and goes on to the server one command at a time. Nothing else moves: their clocks stand still
//! between ticks, and only one client runs at a time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;

use super::client::{At, Client, Held, Recipe};
use super::cores;
use super::keyspace::{ADDED_MS, GRAIN_MS, Key, Keyspace, text};
use super::line::{Event, Upstream};
use super::print::{self, FIRST_NODE};
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
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        // Clients end here and the server is waited for by blocking: there is nothing to poll for.
        let runtime = runtime.map_err(|e| Trouble::Lost(format!("no runtime: {e}")))?;
        let window_ms = i64::try_from(subject.settings.window.millis()).unwrap_or(i64::MAX);
        // A whole number of windows since 1970, in 2027: aligned windows open here.
        let epoch_ms = 1_800_000_000_000 / window_ms * window_ms;
        let recipe = Recipe {
            spec: subject.spec,
            settings: subject.settings.clone(),
            profile: subject.profile,
            address: subject.address,
            key: "rl:k".to_owned(),
            epoch_ms,
            now_ms: Arc::new(AtomicI64::new(0)),
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
                budget,
                left: budget,
                now_ms: 0,
                trace: Vec::new(),
                began: instant(),
                scripts: Vec::new(),
                flushed: false,
                lost: BTreeMap::new(),
                twice: Vec::new(),
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

    fn client(&mut self, id: u8) -> &mut Client {
        &mut self.clients[usize::from(id)]
    }

    fn keep(&mut self, given_back: Vec<Upstream>) {
        self.spare.extend(given_back.into_iter().filter(|u| !u.attached));
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
            self.clients.clear();
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
        }
        self.clients.truncate(usize::from(self.budget.clients));
        self.left = self.budget;
        self.set_time(0);
        self.trace.clear();
        self.lost.clear();
        self.twice.clear();
        self.seen = None;
        self.applied.clear();
        if let Some(said) = &mut self.telling {
            said.clear();
        }
        self.began = instant();
        Ok(())
    }

    fn set_time(&mut self, ms: i64) {
        self.now_ms = ms;
        self.recipe.now_ms.store(ms, Ordering::Relaxed);
    }

    fn enabled(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let (crash, lose) = (self.left.crashes > 0, self.left.losses > 0);
        for c in &self.clients {
            let id = c.id;
            match c.at {
                At::Dead => {}
                At::Idle if c.calls_left == 0 => {}
                At::Idle => {
                    steps.push(Step::Go(id));
                    steps.extend((self.left.pauses > 0).then_some(Step::Begin(id)));
                    steps.extend(crash.then_some(Step::DieAfter(id)));
                    steps.extend(lose.then_some(Step::LoseReply(id)));
                }
                At::Calling => {
                    let command = matches!(c.held.front(), Some(Held::Command { .. }));
                    steps.push(Step::Go(id));
                    // What was sent together with a command that has arrived arrives as well.
                    steps.extend((crash && !c.midway).then_some(Step::DieBefore(id)));
                    steps.extend((crash && command).then_some(Step::DieAfter(id)));
                    steps.extend((lose && command).then_some(Step::LoseReply(id)));
                }
            }
        }
        let going = !steps.is_empty();
        let begun = self.clients.iter().any(|c| !c.calls.is_empty());
        steps.extend((going && begun && self.left.ticks > 0).then_some(Step::Tick));
        steps.extend((going && self.left.flushes > 0 && !self.scripts.is_empty()).then_some(Step::Flush));
        steps
    }

    async fn step(&mut self, step: Step) -> Result<(), Trouble> {
        self.in_time()?;
        self.seen = None;
        self.trace.extend_from_slice(&step.code());
        let (what, reply) = match step {
            Step::Tick => (self.tick().await?, String::new()),
            Step::Flush => {
                self.left.flushes -= 1;
                self.flushed = true;
                self.keyspace.ask(&["SCRIPT", "FLUSH"])?;
                ("the server forgets its scripts".to_owned(), String::new())
            }
            Step::Begin(c) => {
                self.left.pauses -= 1;
                self.begin(c).await?;
                ("begins its call".to_owned(), String::new())
            }
            Step::Go(c) => return self.go(c, step).await,
            Step::DieBefore(c) => {
                self.left.crashes -= 1;
                let what = self.client(c).held.front().map(held_in_words).unwrap_or_default();
                self.die(c);
                (format!("dies before {what}"), String::new())
            }
            Step::DieAfter(c) => return self.cut(c, step).await,
            Step::LoseReply(c) => return self.cut(c, step).await,
        };
        self.said(step, Vec::new(), what, reply, None).await
    }

    fn die(&mut self, id: u8) {
        let now_ms = self.now_ms;
        let given_back = self.client(id).die(now_ms);
        self.keep(given_back);
    }

    async fn begin(&mut self, id: u8) -> Result<(), Trouble> {
        let now_ms = self.now_ms;
        self.lost.remove(&id);
        let recipe = &self.recipe;
        self.clients[usize::from(id)].begin(recipe, now_ms);
        self.settle(id).await
    }

    /// Lets the client's next command through.
    async fn go(&mut self, id: u8, step: Step) -> Result<(), Trouble> {
        if self.client(id).at == At::Idle {
            self.begin(id).await?;
        }
        let before = self.client(id).calls.len();
        let (args, what, reply) = match self.client(id).held.pop_front() {
            None => (Vec::new(), "asks nobody".to_owned(), String::new()),
            Some(Held::Sleep { span, wake }) => {
                let _ = wake.send(());
                self.trace.extend_from_slice(b"woke;");
                self.hear(id, b"woke;");
                self.settle_if_free(id).await?;
                (Vec::new(), format!("works for {} ms", span.as_millis()), String::new())
            }
            Some(Held::Command { line, args, raw }) => {
                let (frame, reply) = self.apply(id, line, &args, &raw).await?;
                self.client(id).answer(line, &reply).await;
                self.settle_if_free(id).await?;
                (shown(&args), String::new(), text(&frame))
            }
        };
        let client = self.client(id);
        let over = client.at == At::Idle && client.calls.len() == before;
        let ended =
            over.then(|| ending::outcomes(client.calls.last().map(std::slice::from_ref).unwrap_or_default()));
        self.said(step, args, what, reply, ended).await
    }

    /// Applies the client's command and lets it never hear of it.
    async fn cut(&mut self, id: u8, step: Step) -> Result<(), Trouble> {
        if self.client(id).at == At::Idle {
            self.begin(id).await?;
        }
        let dies = matches!(step, Step::DieAfter(_));
        if dies {
            self.left.crashes -= 1
        } else {
            self.left.losses -= 1
        }
        let (mut args, mut reply) = (Vec::new(), String::new());
        if let Some(Held::Command { .. }) = self.client(id).held.front()
            && let Some(Held::Command { line, args: sent, raw }) = self.client(id).held.pop_front()
        {
            let (frame, _) = self.apply(id, line, &sent, &raw).await?;
            (args, reply) = (shown(&sent), text(&frame));
            self.lost.entry(id).or_default().push(raw);
            if !dies {
                let client = self.client(id);
                let gone = client.lines.remove(&line).and_then(|mut l| l.upstream.take());
                client.held.retain(|h| !matches!(h, Held::Command { line: l, .. } if *l == line));
                self.keep(gone.into_iter().collect());
                self.settle(id).await?;
            }
        }
        if dies {
            while let Some(Held::Command { line, args: sent, raw }) = self.client(id).held.pop_front() {
                self.apply(id, line, &sent, &raw).await?;
                args.push(";".to_owned());
                args.extend(shown(&sent));
            }
            self.die(id);
        }
        let what = if dies { "dies before it hears" } else { "reply and connection are lost" };
        let client = self.client(id);
        let over = (!dies && client.at == At::Idle)
            .then(|| ending::outcomes(client.calls.last().map(std::slice::from_ref).unwrap_or_default()));
        self.said(step, args, what.to_owned(), reply, over).await
    }

    /// Has the server apply a command, and takes down what it said.
    async fn apply(
        &mut self,
        id: u8,
        line: u32,
        args: &[Vec<u8>],
        raw: &[u8],
    ) -> Result<(Frame, Vec<u8>), Trouble> {
        let name = name_of(args);
        let (frame, bytes) = if name == "TIME" {
            self.virtual_time = true;
            let us = (self.recipe.epoch_ms + self.now_ms) * 1000;
            let part = |n: i64| Frame::Bulk(n.to_string().into_bytes());
            let frame = Frame::Array(vec![part(us / 1_000_000), part(us % 1_000_000)]);
            let mut bytes = Vec::new();
            encode(&frame, &mut bytes);
            (frame, bytes)
        } else {
            self.exchange(id, line, raw)?
        };
        if self.lost.get(&id).is_some_and(|l| l.iter().any(|c| c == raw)) && !only_reads(&name) {
            let text = super::story::brief(&shown(args));
            self.twice.push(format!("for one call of {} the store applied `{text}` twice", letter(id)));
        }
        if let Some(upstream) = self.client(id).lines.get_mut(&line).and_then(|l| l.upstream.as_mut()) {
            match name.as_str() {
                "WATCH" => upstream.attached = true,
                "EXEC" => upstream.attached = false,
                _ => {}
            }
        }
        // What EXEC applies was queued, and the arguments here hold it; aborted it applies nothing.
        let aborted = name == "EXEC" && matches!(frame, Frame::Nil(_));
        if !aborted && !only_reads(&name) {
            for arg in args {
                self.applied.extend_from_slice(&arg.len().to_le_bytes());
                self.applied.extend_from_slice(arg);
            }
        }
        if name == "EXEC"
            && let Some(l) = self.client(id).lines.get_mut(&line)
        {
            l.queued = None;
        }
        let mut heard = Vec::new();
        print::put(&frame, &mut heard);
        self.trace.extend_from_slice(&heard);
        self.hear(id, &heard);
        self.learn(&name, args, &frame)?;
        Ok((frame, bytes))
    }

    /// Takes down what a client is told and when: what it does next may depend on its clock as well.
    fn hear(&mut self, id: u8, what: &[u8]) {
        let now_ms = self.now_ms;
        let told = &mut self.client(id).told;
        told.extend_from_slice(&now_ms.to_le_bytes());
        told.extend_from_slice(what);
    }

    /// A script that the server did not know when this schedule began makes it another schedule.
    fn learn(&mut self, name: &str, args: &[Vec<u8>], reply: &Frame) -> Result<(), Trouble> {
        // One that does not even compile is not loaded.
        let compiled = reply.error().is_none_or(|e| !e.starts_with(b"ERR Error compiling"));
        if name != "EVAL" || !compiled {
            return Ok(());
        }
        let body = args.get(1).map(|b| String::from_utf8_lossy(b).into_owned()).unwrap_or_default();
        if self.scripts.contains(&body) {
            return Ok(());
        }
        self.scripts.push(body);
        Err(Trouble::Stalled("a script was loaded that was not known before".to_owned()))
    }

    fn exchange(&mut self, id: u8, line: u32, raw: &[u8]) -> Result<(Frame, Vec<u8>), Trouble> {
        self.sent_anything = true;
        let lost = |e: std::io::Error| Trouble::Lost(format!("the server does not answer: {e}"));
        let index = usize::from(id);
        let Some(there) = self.clients[index].lines.get_mut(&line) else {
            return Err(Trouble::Nondeterministic(format!(
                "client {} sends on a line it closed",
                letter(id)
            )));
        };
        if there.upstream.is_none() {
            let upstream = match self.spare.pop() {
                Some(spare) => spare,
                None => Upstream::connect(self.recipe.address).map_err(lost)?,
            };
            there.upstream = Some(upstream);
        }
        match there.upstream.as_mut() {
            Some(upstream) => self.keyspace.behind(upstream, raw).map_err(lost),
            None => Err(Trouble::Lost("a line without a connection".to_owned())),
        }
    }

    async fn settle_if_free(&mut self, id: u8) -> Result<(), Trouble> {
        let client = self.client(id);
        client.midway = !client.held.is_empty();
        if client.midway { Ok(()) } else { self.settle(id).await }
    }

    /// Lets the client run until it is held at its next command or its call has ended.
    async fn settle(&mut self, id: u8) -> Result<(), Trouble> {
        loop {
            let client = self.client(id);
            if !client.held.is_empty() || client.at != At::Calling {
                return Ok(());
            }
            let Some(event) = next_event(client).await else {
                return Err(Trouble::Stalled(format!(
                    "client {} neither sent a command nor ended its call within {} s",
                    letter(id),
                    WATCHDOG.as_secs()
                )));
            };
            let now_ms = self.now_ms;
            let client = self.client(id);
            match event {
                Event::Opened { line, write, pump } => client.opened(line, write, pump),
                Event::Closed { line } => {
                    let gone = client.lines.remove(&line).and_then(|mut l| l.upstream.take());
                    self.keep(gone.into_iter().collect());
                }
                Event::Sleeping { span, wake } => client.held.push_back(Held::Sleep { span, wake }),
                Event::Done(completion) => client.finish(&completion, now_ms),
                Event::Bytes { line, bytes } => {
                    if let Some(line) = client.lines.get_mut(&line) {
                        line.commands.feed(&bytes);
                    }
                    self.sort(id, line).await?;
                }
            }
        }
    }

    /// Holds the commands that arrived, but for those that touch no key: they are answered at once.
    async fn sort(&mut self, id: u8, line: u32) -> Result<(), Trouble> {
        loop {
            let Some(there) = self.client(id).lines.get_mut(&line) else { return Ok(()) };
            let next = there.commands.next().map_err(|e| Trouble::Lost(format!("the client's wire: {e}")))?;
            let Some((args, raw)) = next else { return Ok(()) };
            let (raw, name) = (raw.to_vec(), name_of(&args));
            let passes = match (name.as_str(), &mut there.queued) {
                ("MULTI", queued) => {
                    *queued = Some(Vec::new());
                    true
                }
                ("DISCARD", queued) => {
                    *queued = None;
                    true
                }
                ("EXEC", _) => false,
                (_, Some(queued)) => {
                    queued.push(args.clone());
                    true
                }
                (name, None) => PASS.contains(&name),
            };
            if passes {
                let (_, reply) = self.exchange(id, line, &raw)?;
                if let Some(u) = self.client(id).lines.get_mut(&line).and_then(|l| l.upstream.as_mut()) {
                    match name.as_str() {
                        "MULTI" => u.attached = true,
                        "DISCARD" | "UNWATCH" => u.attached = false,
                        _ => {}
                    }
                }
                self.client(id).answer(line, &reply).await;
                continue;
            }
            let args = match there_queued(self.client(id), line, &name) {
                Some(queued) => queued,
                None => args,
            };
            self.client(id).held.push_back(Held::Command { line, args, raw });
        }
    }

    /// Lets time pass until the next key is due; by a window where none ever is.
    async fn tick(&mut self) -> Result<String, Trouble> {
        self.left.ticks -= 1;
        let keys = self.keyspace.keys(self.now_ms)?;
        let window = i64::try_from(self.recipe.settings.window.millis()).unwrap_or(i64::MAX);
        let due = keys.iter().filter_map(|k| k.due_ms).min();
        let until = due.unwrap_or(self.now_ms + window) + ADDED_MS + 1;
        let gone = |k: &&Key| k.due_ms.is_some_and(|d| d + ADDED_MS <= until);
        let gone: Vec<&str> = keys.iter().filter(gone).map(|k| k.name.as_str()).collect();
        let what = format!(
            "{} ms pass{}",
            until - self.now_ms,
            if gone.is_empty() { String::new() } else { format!(": {} expires", gone.join(", ")) }
        );
        self.keyspace.pass(&keys, until)?;
        self.set_time(until);
        self.applied.extend_from_slice(format!("|{until}|").as_bytes());
        Ok(what)
    }

    async fn keys(&mut self) -> Result<Vec<Key>, Trouble> {
        if let Some(seen) = &self.seen {
            return Ok(seen.clone());
        }
        let print = print::exact(&self.applied);
        if let Some(known) = self.held.get(&print) {
            self.lookups += 1;
            let known = known.clone();
            if self.lookups.is_multiple_of(LOOK_AGAIN_EVERY) {
                let now = self.keyspace.keys(self.now_ms)?;
                self.in_time()?;
                if now != known {
                    let why = "the server applied the same commands and holds something else";
                    return Err(Trouble::Nondeterministic(why.to_owned()));
                }
            }
            self.seen = Some(known.clone());
            return Ok(known);
        }
        let keys = self.keyspace.keys(self.now_ms)?;
        self.in_time()?;
        if self.held.len() >= MOST_HELD {
            self.held.clear();
        }
        self.held.insert(print, keys.clone());
        self.seen = Some(keys.clone());
        Ok(keys)
    }

    async fn said(
        &mut self,
        step: Step,
        args: Vec<String>,
        what: String,
        reply: String,
        ended: Option<String>,
    ) -> Result<(), Trouble> {
        if self.telling.is_none() {
            return Ok(());
        }
        let keys = self.keys().await?;
        if let Some(said) = &mut self.telling {
            said.push(Said { step, args, what, reply, keys, ended });
        }
        Ok(())
    }

    async fn state(&mut self) -> Result<Print, Trouble> {
        let keys = self.keys().await?;
        let clients: Vec<Vec<u8>> = self.clients.iter().map(|c| self.place(c)).collect();
        let left = self.left;
        let left = [left.crashes, left.ticks, left.losses, left.flushes, left.pauses];
        let rest = [&left[..], &[u8::from(self.flushed)], &self.now_ms.to_le_bytes()].concat();
        let rest = [rest, self.twice.join(";").into_bytes()].concat();
        Ok(print::canonical(&clients, &keys, self.now_ms, &rest))
    }

    /// Where a client is and how it got there: what it was told, how its calls ended, and what it may
    /// still do.
    fn place(&self, c: &Client) -> Vec<u8> {
        let mut out = vec![c.at as u8, c.calls_left, u8::try_from(c.held.len()).unwrap_or(u8::MAX)];
        ended(c, &mut out);
        out.extend_from_slice(&c.told);
        for raw in self.lost.get(&c.id).into_iter().flatten() {
            out.push(b'~');
            out.extend_from_slice(raw);
        }
        out
    }

    async fn end(&mut self) -> Result<Ending, Trouble> {
        let keys = self.keys().await?;
        let clients: Vec<Vec<u8>> = self
            .clients
            .iter()
            .map(|c| {
                let mut out = Vec::new();
                ended(c, &mut out);
                out
            })
            .collect();
        let rest = [self.now_ms.to_le_bytes().to_vec(), self.twice.join(";").into_bytes()].concat();
        let state = print::canonical(&clients, &keys, self.now_ms, &rest);
        if let Some(broken) = self.judged.get(&state) {
            return Ok(Ending { state, broken: broken.clone() });
        }
        let broken = self.judge(&keys).await?;
        self.in_time()?;
        self.judged.insert(state, broken.clone());
        Ok(Ending { state, broken })
    }

    /// Asks alone until refused, and once more when all must have been given back.
    async fn judge(&mut self, keys: &[Key]) -> Result<Vec<Broken>, Trouble> {
        let calls = self.calls();
        let now_ms = self.now_ms;
        let alone = self.alone();
        let asked = self.drain(alone).await;
        let mut client = self.clients.pop().expect("who comes alone came last");
        let given_back = client.drop_all();
        self.keep(given_back);
        let Drained { drained, refused, again_ms, again } = asked?;
        let keys: Vec<KeySeen> = keys
            .iter()
            .map(|k| KeySeen {
                name: print::with_letters(&k.name),
                holds: print::with_letters(&k.holds()),
                left_ms: k.due_ms.map(|d| d - now_ms),
            })
            .collect();
        let evidence = Evidence {
            contract: &self.contract,
            epoch_ms: self.recipe.epoch_ms,
            calls: &calls,
            now_ms,
            keys: &keys,
            drained,
            refused,
            again_ms,
            again,
            twice: &self.twice,
        };
        let broken = ending::judge(&evidence).into_iter();
        Ok(broken.map(|(check, witness)| Broken { check, witness }).collect())
    }

    async fn drain(&mut self, alone: u8) -> Result<Drained, Trouble> {
        let (now_ms, window_ms) = (self.now_ms, self.recipe.settings.window.millis());
        let burst = self.contract.bound.burst().unwrap_or(1);
        let (mut drained, mut refused) = (0, false);
        while drained <= burst && !refused {
            match self.ask(alone).await? {
                Outcome::Admitted => drained += 1,
                Outcome::Denied => refused = true,
                Outcome::Failed | Outcome::Unknown => break,
            }
        }
        let back_ms = self.contract.gives_back_within_ns().unwrap_or(0) / 1_000_000;
        let kept_ms = self.contract.key_ttl_at_most.map_or(window_ms, |w| w.millis());
        let quiet = (2 * back_ms).max(i64::try_from(kept_ms).unwrap_or(i64::MAX)) + ADDED_MS + 1;
        let again_ms = now_ms.saturating_add(quiet);
        let left = self.keyspace.keys(now_ms)?;
        self.keyspace.pass(&left, again_ms)?;
        self.set_time(again_ms);
        let again = self.ask(alone).await? == Outcome::Admitted;
        Ok(Drained { drained, refused, again_ms, again })
    }

    /// A client that comes when nobody else is there. It stays the same client for all it asks.
    fn alone(&mut self) -> u8 {
        let id = u8::try_from(self.clients.len()).unwrap_or(MOST_CLIENTS);
        let node = NodeId(FIRST_NODE + u16::from(MOST_CLIENTS));
        self.clients.push(Client::new(id, node, &self.recipe));
        id
    }

    async fn ask(&mut self, id: u8) -> Result<Outcome, Trouble> {
        self.complete(id).await?;
        Ok(self.client(id).calls.last().map_or(Outcome::Failed, |c| c.outcome))
    }

    async fn complete(&mut self, id: u8) -> Result<(), Trouble> {
        self.begin(id).await?;
        while self.client(id).at == At::Calling {
            match self.client(id).held.pop_front() {
                Some(Held::Command { line, args, raw }) => {
                    let trace = self.trace.len();
                    let (_, reply) = self.apply(id, line, &args, &raw).await?;
                    self.trace.truncate(trace);
                    self.client(id).answer(line, &reply).await;
                }
                Some(Held::Sleep { wake, .. }) => {
                    let _ = wake.send(());
                }
                None => {}
            }
            self.settle_if_free(id).await?;
        }
        Ok(())
    }
}

/// What the client does next. Nobody else runs and nothing is waited for outside, so it mostly is
/// there after the tasks of the client had their turn.
async fn next_event(client: &mut Client) -> Option<Event> {
    const TURNS: u32 = 100;
    for _ in 0..TURNS {
        if let Ok(event) = client.events.try_recv() {
            return Some(event);
        }
        tokio::task::yield_now().await;
    }
    tokio::time::timeout(WATCHDOG, client.events.recv()).await.ok().flatten()
}

/// Commands that touch no key and no script: they pass and are no step.
const PASS: [&str; 9] =
    ["HELLO", "AUTH", "CLIENT", "SELECT", "PING", "COMMAND", "READONLY", "UNWATCH", "ECHO"];

fn only_reads(name: &str) -> bool {
    const READ: [&str; 18] = [
        "GET", "MGET", "HGET", "HMGET", "HGETALL", "EXISTS", "TTL", "PTTL", "TIME", "ZCARD", "ZCOUNT",
        "ZRANGE", "LLEN", "SCARD", "STRLEN", "TYPE", "WATCH", "EVAL_RO",
    ];
    READ.contains(&name)
}

fn name_of(args: &[Vec<u8>]) -> String {
    args.first().map(|n| String::from_utf8_lossy(n).to_uppercase()).unwrap_or_default()
}

/// What EXEC stands for: the commands of its transaction.
fn there_queued(client: &mut Client, line: u32, name: &str) -> Option<Vec<Vec<u8>>> {
    if name != "EXEC" {
        return None;
    }
    let queued = client.lines.get(&line)?.queued.as_ref()?;
    let mut args = vec![b"EXEC".to_vec()];
    for command in queued {
        args.push(b";".to_vec());
        args.extend(command.iter().cloned());
    }
    Some(args)
}

fn ended(c: &Client, out: &mut Vec<u8>) {
    for call in &c.calls {
        let outcome = match call.outcome {
            Outcome::Admitted => b'+',
            Outcome::Denied => b'-',
            Outcome::Failed => b'!',
            Outcome::Unknown => b'?',
        };
        out.push(outcome);
        out.extend_from_slice(&call.begun_ms.to_le_bytes());
        out.extend_from_slice(&call.ended_ms.to_le_bytes());
    }
    out.push(b'|');
}

fn held_in_words(held: &Held) -> String {
    match held {
        Held::Command { args, .. } => super::story::brief(&shown(args)),
        Held::Sleep { span, .. } => format!("its {} ms of work are over", span.as_millis()),
    }
}

/// Arguments as text, nodes by the letters of their clients.
fn shown(args: &[Vec<u8>]) -> Vec<String> {
    args.iter().map(|arg| print::with_letters(&String::from_utf8_lossy(arg))).collect()
}
