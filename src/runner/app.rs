//! App servers of somebody else's: started for a node, asked in lines or over HTTP, started again where they end by
//! themselves, and ended with the round.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, anyhow};
use tokio::net::TcpStream;
use tokio::net::unix::pipe;

use super::nodes::Absent;
use super::record::Recorder;
use crate::backends::port;
use crate::backends::worker::{Launch, Other, Pipes, Worker as Process, Workers};
use crate::limiters::external::http::{Asks, Http, Target};
use crate::limiters::external::preset_by_calls;
use crate::limiters::external::worker::{Around, Ends, Waits, Worker};
use crate::model::foreign::{Foreign, Way};
use crate::model::history::Event;
use crate::model::offset::Offset;
use crate::model::op::Decision;
use crate::model::protocol::{Hello, Ready};
use crate::model::template::Filling;
use crate::model::units::Cost;
use crate::ports::BoxFuture;
use crate::ports::backend::BackendError;
use crate::ports::clock;
use crate::ports::limiter::Limiter;
use crate::ports::store::{StoreError, Traffic};

/// How often an app server that ends by itself is started again in a round.
const RESTARTS: u32 = 20;

/// How an app server is started, as often as that is needed.
pub struct Starts {
    pub workers: Arc<Workers>,
    pub foreign: &'static Foreign,
    pub hello: Hello,
    pub around: Around,
    /// How far its process' clock is to be ahead.
    pub clock: Option<Offset>,
}

/// One that runs.
pub struct Running {
    pub limiter: Arc<dyn Limiter>,
    /// The same, where it is asked in lines.
    worker: Option<Arc<Worker>>,
    pub process: Arc<Process>,
}

/// The app server of a node.
pub struct App {
    /// What it says it is.
    pub name: Option<String>,
    recorder: Arc<Recorder>,
    starts: Starts,
    now: Mutex<Arc<Running>>,
    /// Whoever finds it gone starts it again, one at a time.
    starting: tokio::sync::Mutex<()>,
    restarts: AtomicU32,
    /// Ended by the lab: it stays so.
    over: AtomicBool,
}

impl Starts {
    fn wrong(&self) -> Option<Offset> {
        self.clock.filter(|offset| !offset.is_zero())
    }

    /// Starts it and waits until it is ready. Its clock is looked at before it is believed.
    pub async fn start(&self) -> Result<(Running, Option<String>), Absent> {
        let node = self.hello.node;
        let in_words = |why: String| anyhow!("node {node} as a process: {why}");
        match self.foreign.way().map_err(in_words)? {
            Way::Lines => self.lines().await,
            Way::Http(_) => self.http().await,
            Way::Lua(_) => Err(anyhow!("node {node}: a script is no process").into()),
        }
    }

    async fn launch(&self, talks: bool, port: u16) -> Result<(Process, Pipes), Absent> {
        let with = Filling { port, ..filling(&self.hello) };
        let mut env: Vec<(String, String)> = vec![
            ("REDIS_URL".to_owned(), self.hello.redis.clone()),
            ("RL_LAB_LIMIT".to_owned(), self.hello.limit.to_string()),
            ("RL_LAB_WINDOW_MS".to_owned(), self.hello.window_ms.millis().to_string()),
            ("RL_LAB_NODE".to_owned(), self.hello.node.0.to_string()),
        ];
        if port != 0 {
            env.push(("PORT".to_owned(), port.to_string()));
        }
        for (name, template) in &self.foreign.env {
            env.push((name.clone(), template.fill(&with).map_err(|why| anyhow!("env {name}: {why}"))?));
        }
        let (command, folder) = (self.foreign.command.clone(), self.foreign.folder.clone());
        let launch = Launch::Other(Other { command, folder, env, talks });
        match self.workers.start(&launch, self.wrong()).await {
            Ok(started) => Ok(started),
            Err(BackendError::Unsupported(why)) if self.wrong().is_some() => Err(Absent::Clock(why)),
            Err(error) => Err(Absent::Failed(error.into())),
        }
    }

    async fn lines(&self) -> Result<(Running, Option<String>), Absent> {
        let (process, pipes) = self.launch(true, 0).await?;
        let process = Arc::new(process);
        let stdout = pipes.stdout.context("a process' stdout")?;
        let stdin = pipe::Sender::from_owned_fd(pipes.stdin).context("a process' stdin")?;
        let stdout = pipe::Receiver::from_owned_fd(stdout).context("a process' stdout")?;
        let ends = Ends { stdin: Box::new(stdin), stdout: Box::new(stdout) };
        let waits = Waits {
            greeting: self.foreign.start_within.duration(),
            deadline: Some(self.foreign.deadline.duration()),
        };
        let before = clock::system().wall_us();
        // Who says nothing more may still do something, unless it is ended first.
        let (settled, silent) = (Arc::clone(&self.around.settled), Arc::clone(&process));
        let around = Around {
            settled: Arc::new(move || {
                let _ = silent.kill();
                settled()
            }),
            ..self.around.clone()
        };
        let greeted = Worker::greet(ends, &self.hello, around, waits).await;
        let told = |why: String| {
            let node = self.hello.node;
            anyhow!(
                "node {node}, a process ({}): {why}{}",
                self.foreign.command.join(" "),
                process.last_words()
            )
        };
        let (worker, ready) = greeted.map_err(&told)?;
        let promised = self.foreign.contract.contract(self.hello.limit, self.hello.window_ms);
        if ready.contract.as_ref().is_some_and(|contract| *contract != promised) {
            return Err(told("it promises something else than the file says".to_owned()).into());
        }
        if let Some(offset) = self.wrong() {
            clock_is_off(&ready, offset, before).map_err(|why| {
                Absent::Clock(format!("the clock of node {} cannot be set {offset}: {why}", self.hello.node))
            })?;
        }
        let names = [ready.name, ready.version].into_iter().flatten().collect::<Vec<_>>().join(" ");
        let worker = Arc::new(worker);
        let limiter = Arc::clone(&worker) as Arc<dyn Limiter>;
        let running = Running { limiter, worker: Some(worker), process };
        Ok((running, Some(names).filter(|n| !n.is_empty())))
    }

    async fn http(&self) -> Result<(Running, Option<String>), Absent> {
        let node = self.hello.node;
        if let Some(offset) = self.wrong() {
            return Err(Absent::Clock(format!(
                "the clock of node {node}, a service, cannot be set {offset}: it does not say what its clock reads"
            )));
        }
        let Way::Http(way) = self.foreign.way().map_err(|why| anyhow!(why))? else {
            return Err(anyhow!("node {node} is no service").into());
        };
        let port = port::free(1).context("no port is free for a service")?;
        let (process, pipes) = self.launch(false, port).await?;
        // A service that reads its stdin is not to find its end there.
        let held = pipes.stdin;
        let listens = async {
            while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_err() {
                if let Some(status) = process.ended() {
                    return Err(format!("it ended before it listened ({status})"));
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Ok(())
        };
        let within = self.foreign.start_within;
        let listened = tokio::time::timeout(within.duration(), listens).await;
        let late = || Err(format!("nobody listened on its port {port} within {within}"));
        if let Err(why) = listened.unwrap_or_else(|_| late()) {
            let command = self.foreign.command.join(" ");
            return Err(anyhow!("node {node}, a service ({command}): {why}{}", process.last_words()).into());
        }
        let target = Target::parse(&format!("http://127.0.0.1:{port}/")).map_err(|why| anyhow!(why))?;
        let asks = Asks { way, base: self.hello.clone(), port };
        let http = Http::new(target, self.hello.limit, self.foreign.deadline.duration(), None).asking(asks);
        let limiter = Arc::new(Service { http, _stdin: held });
        Ok((Running { limiter, worker: None, process: Arc::new(process) }, None))
    }
}

/// What a node's templates are filled with, whatever the call.
pub fn filling(hello: &Hello) -> Filling<'_> {
    Filling {
        limit: hello.limit.get(),
        window_ms: hello.window_ms.millis(),
        node: hello.node.0,
        redis: &hello.redis,
        ..Filling::default()
    }
}

/// Whether what a process says of its clock lies where that was set; why not, otherwise.
pub fn clock_is_off(ready: &Ready, offset: Offset, before: i64) -> Result<(), String> {
    // What it said lies between the two, but for a step of the machine's clock.
    const STEP_US: i64 = 5_000;
    let after = clock::system().wall_us();
    let Some(now) = ready.now_us else {
        return Err("it does not say in `ready` what its clock reads (now_us)".to_owned());
    };
    let off = now - offset.millis() * 1000;
    if (before - STEP_US..=after + STEP_US).contains(&off) {
        return Ok(());
    }
    Err("it does not load the library for it, as one that is linked statically".to_owned())
}

/// A service, which is preset by calls.
struct Service {
    http: Http,
    _stdin: std::os::fd::OwnedFd,
}

impl Limiter for Service {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        self.http.acquire(key, cost)
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(preset_by_calls(&self.http, key, used))
    }
}

impl App {
    pub async fn start(starts: Starts, recorder: &Arc<Recorder>) -> Result<Self, Absent> {
        let (running, name) = starts.start().await?;
        Ok(Self {
            name,
            recorder: Arc::clone(recorder),
            starts,
            now: Mutex::new(Arc::new(running)),
            starting: tokio::sync::Mutex::default(),
            restarts: AtomicU32::new(0),
            over: AtomicBool::new(false),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Running>> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> Arc<Running> {
        Arc::clone(&self.lock())
    }

    /// The one that runs now, started again if it ended by itself. Who has broken the protocol is not: what it
    /// says is not believed any more.
    async fn alive(&self) -> Result<Arc<Running>, StoreError> {
        loop {
            let running = self.running();
            let failed = running.worker.as_ref().is_some_and(|w| w.failure().is_some());
            if failed || self.over.load(Ordering::Acquire) || running.process.ended().is_none() {
                return Ok(running);
            }
            let one = self.starting.lock().await;
            if !Arc::ptr_eq(&running, &self.running()) {
                continue;
            }
            self.again(&running).await?;
            drop(one);
        }
    }

    async fn again(&self, dead: &Running) -> Result<(), StoreError> {
        let (node, recorder) = (self.starts.hello.node, &self.recorder);
        let not = StoreError::NotConnected;
        if self.restarts.fetch_add(1, Ordering::Relaxed) >= RESTARTS {
            return Err(not(format!("its app server ended {RESTARTS} times and is not started again")));
        }
        let how = dead.process.ended().map_or_else(String::new, |status| format!(" ({status})"));
        let (running, _) = self.starts.start().await.map_err(|absent| not(absent.in_words()))?;
        let words = dead.process.last_words();
        let told = format!("the process of node {node} ended by itself{how}{words} and a new one serves");
        recorder.event(Event::Change { what: told, at: recorder.now() });
        *self.lock() = Arc::new(running);
        Ok(())
    }

    /// Whether it has ended; who hung up may be about to.
    async fn is_gone(&self, running: &Running) -> bool {
        for _ in 0..20 {
            if running.process.ended().is_some() {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        false
    }

    pub fn pid(&self) -> u32 {
        self.running().process.pid()
    }

    /// How it broke the protocol, if it did.
    pub fn failure(&self) -> Option<String> {
        self.running().worker.as_ref()?.failure()
    }

    pub fn last_words(&self) -> String {
        self.running().process.last_words()
    }

    /// What it says it sent to the store.
    pub async fn traffic(&self) -> Traffic {
        match &self.running().worker {
            Some(worker) => worker.traffic().await,
            None => Traffic::default(),
        }
    }

    /// Ends it by SIGKILL, for good.
    pub fn kill(&self) -> std::io::Result<()> {
        self.over.store(true, Ordering::Release);
        self.running().process.kill()
    }
}

impl Limiter for App {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(async move {
            let running = self.alive().await?;
            let asked = running.limiter.acquire(key, cost).await;
            match &asked {
                // Who is asked in lines says so by its end; a service that is gone has only hung up.
                Err(StoreError::NoAnswer(_)) if running.worker.is_none() && self.is_gone(&running).await => {
                    if (self.starts.around.settled)().await {
                        Err(StoreError::NodeDied)
                    } else {
                        asked
                    }
                }
                _ => asked,
            }
        })
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move { self.alive().await?.limiter.preset(key, used).await })
    }
}
