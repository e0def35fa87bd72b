//! The app servers of a round as processes of their own: started before it, killed after it, and one of them
//! in the middle of a call where that is what the round is about.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use tokio::net::unix::pipe;

use super::app::{App, Starts, clock_is_off};
use super::drive::Drive;
use super::plan::CellPlan;
use super::record::{Recorder, Stop};
use crate::backends::worker::{Launch, Worker as Process, Workers};
use crate::clients::patient::Patient;
use crate::limiters::external::worker::{Around, Ends, Waits, Worker};
use crate::model::foreign::Foreign;
use crate::model::history::{CrashPoint, Event};
use crate::model::protocol::{Hello, VERSION};
use crate::model::report::CellHonesty;
use crate::model::scenario::NodesAs;
use crate::model::units::NodeId;
use crate::ports::backend::BackendError;
use crate::ports::clock;
use crate::ports::limiter::Limiter;
use crate::ports::policy::Wrap;
use crate::ports::store::Traffic;
use crate::wire::proxy::{Action, Match, Proxy, RuleHandle};
use crate::workloads;

/// The processes of a round.
pub struct Processes {
    nodes: Vec<Node>,
}

struct Node {
    serves: Serves,
    /// Its way to the store, where it is to be struck on it.
    proxy: Option<Arc<Proxy>>,
}

/// What a node is.
enum Serves {
    /// This program again.
    Own(Arc<Worker>, Process),
    /// Somebody else's, and the same with what is around it.
    Other(Arc<App>, Arc<dyn Limiter>),
}

impl Serves {
    fn limiter(&self) -> Arc<dyn Limiter> {
        match self {
            Self::Own(worker, _) => Arc::clone(worker) as Arc<dyn Limiter>,
            Self::Other(_, limiter) => Arc::clone(limiter),
        }
    }

    fn kill(&self) -> std::io::Result<()> {
        match self {
            Self::Own(_, process) => process.kill(),
            Self::Other(app, _) => app.kill(),
        }
    }

    async fn traffic(&self) -> Traffic {
        match self {
            Self::Own(worker, _) => worker.traffic().await,
            Self::Other(app, _) => app.traffic().await,
        }
    }

    /// How it broke the protocol, if it did, and which process it is.
    fn failure(&self) -> Option<(u32, String)> {
        let (pid, why, words) = match self {
            Self::Own(worker, process) => (process.pid(), worker.failure(), process.last_words()),
            Self::Other(app, _) => (app.pid(), app.failure(), app.last_words()),
        };
        why.map(|why| (pid, format!("{why}{words}")))
    }
}

/// An app server of somebody else's cannot be used: the cell cannot be judged, and others can.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unfit(pub String);

/// Why a node is not there.
pub enum Absent {
    /// Its clock cannot be set apart here.
    Clock(String),
    Failed(anyhow::Error),
}

impl Absent {
    pub fn in_words(&self) -> String {
        match self {
            Self::Clock(why) => why.clone(),
            Self::Failed(error) => format!("{error:#}"),
        }
    }
}

impl From<anyhow::Error> for Absent {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

/// Why the clocks of a cell's processes cannot be as planned, if so: found out by setting one apart.
pub async fn clocks_refused(workers: &Arc<Workers>, cell: &CellPlan) -> anyhow::Result<Option<String>> {
    let wrong = cell.setup.clocks.iter().find(|c| !c.offset.is_zero());
    let Some(clock) = wrong.filter(|_| cell.setup.workload.nodes_as == NodesAs::Processes) else {
        return Ok(None);
    };
    // Nobody is there, and nobody is asked.
    let nowhere = "redis://127.0.0.1:1".to_owned();
    let hello = Hello { cold_pool: true, ..hello(cell, clock.node, nowhere) };
    let nothing =
        Around { settled: Arc::new(|| Box::pin(std::future::ready(false))), skipped_us: Arc::new(|| 0) };
    let tried = match cell.process() {
        // Its round records what it is.
        Some(foreign) => {
            let (recorder, hello) = (Recorder::start(None, Stop::default()), hello.clone());
            App::start(starts(workers, foreign, cell, hello, nothing), &recorder).await.map(|_| ())
        }
        None => start(workers, cell, &hello, nothing).await.map(|_| ()),
    };
    match tried {
        Ok(()) => Ok(None),
        Err(Absent::Clock(why)) => Ok(Some(why)),
        Err(Absent::Failed(error)) => Err(error),
    }
}

fn hello(cell: &CellPlan, node: u16, redis: String) -> Hello {
    let workload = &cell.setup.workload;
    let (connections, nodes) = (workload.connections.get(), workload.nodes.get());
    Hello {
        hello: VERSION,
        redis,
        limit: cell.settings.limit,
        window_ms: cell.settings.window,
        node: NodeId(node),
        nodes: workload.nodes,
        // The process' own clock is set apart instead.
        clock_offset_ms: 0,
        connections: workloads::connections_of(node.into(), connections, nodes),
        cold_pool: workload.cold_pool,
    }
}

/// Starts a process and greets it. Its clock and its contract are looked at before it is believed.
async fn start(
    workers: &Workers,
    cell: &CellPlan,
    hello: &Hello,
    around: Around,
) -> Result<(Worker, Process), Absent> {
    let node = hello.node;
    let wrong = cell.setup.clocks.iter().find(|c| c.node == node.0).map(|c| c.offset);
    let wrong = wrong.filter(|offset| !offset.is_zero());
    let mut args = vec!["serve-limiter".to_owned(), cell.limiter.to_string()];
    args.extend(["--client".to_owned(), cell.client.name.to_owned()]);
    args.extend(cell.policy.iter().flat_map(|p| ["--policy".to_owned(), p.policy.to_string()]));
    let (process, pipes) = match workers.start(&Launch::Own(args), wrong).await {
        Ok(started) => started,
        Err(BackendError::Unsupported(why)) if wrong.is_some() => return Err(Absent::Clock(why)),
        Err(error) => return Err(Absent::Failed(error.into())),
    };
    let stdin = pipe::Sender::from_owned_fd(pipes.stdin).context("a process' stdin")?;
    let stdout = pipes.stdout.context("a process' stdout")?;
    let stdout = pipe::Receiver::from_owned_fd(stdout).context("a process' stdout")?;
    let ends = Ends { stdin: Box::new(stdin), stdout: Box::new(stdout) };
    let before = clock::system().wall_us();
    let greeted = Worker::greet(ends, hello, around, Waits::OWN).await;
    let (worker, ready) =
        greeted.map_err(|why| anyhow!("node {node} as a process: {why}{}", process.last_words()))?;
    if let Some(offset) = wrong {
        clock_is_off(&ready, offset, before).map_err(|why| {
            Absent::Clock(format!("the clock of node {node}, a process, cannot be set {offset}: {why}"))
        })?;
    }
    if ready.contract.as_ref().is_some_and(|contract| *contract != cell.contract()) {
        return Err(anyhow!("node {node} as a process promises something else than the lab knows").into());
    }
    Ok((worker, process))
}

impl Processes {
    /// Starts the first `count` nodes of a round. With `struck` the first reaches the store through a proxy.
    pub async fn start(drive: &Drive<'_>, lab: &Patient, count: u32, struck: bool) -> anyhow::Result<Self> {
        let workers = drive.workers.as_ref().context("nobody here starts processes")?;
        let store = drive.route.primary().await.map_err(|e| anyhow!("the store cannot be found: {e}"))?;
        let starting = (0..u16::try_from(count)?).map(async |node| {
            let proxy = if struck && node == 0 {
                let mut options = crate::wire::proxy::Options::before(store);
                options.kept.commands = 1 << 16;
                Some(Arc::new(Proxy::start(options).context("the proxy of node 0")?))
            } else {
                None
            };
            let at = proxy.as_ref().map_or(store, |proxy| proxy.address());
            let around = around(drive, lab, proxy.clone());
            let hello = hello(drive.cell, node, format!("redis://{at}"));
            let serves = match drive.cell.process() {
                Some(foreign) => {
                    let starts = starts(workers, foreign, drive.cell, hello, around);
                    App::start(starts, drive.recorder).await.map(|app| {
                        let app = Arc::new(app);
                        let around = guarded(drive, node, Arc::clone(&app) as Arc<dyn Limiter>);
                        Serves::Other(app, around)
                    })
                }
                None => start(workers, drive.cell, &hello, around)
                    .await
                    .map(|(worker, process)| Serves::Own(Arc::new(worker), process)),
            };
            match serves {
                Ok(serves) => Ok(Node { serves, proxy }),
                Err(absent) if drive.cell.process().is_some() => Err(Unfit(absent.in_words()).into()),
                Err(Absent::Clock(why)) => Err(anyhow!(why)),
                Err(Absent::Failed(error)) => Err(error),
            }
        });
        let all = Self { nodes: futures_util::future::try_join_all(starting).await? };
        if struck && drive.cell.process().is_some() {
            all.quiet().await;
        }
        Ok(all)
    }

    /// Waits until the first node has sent what it sends of itself: some listen before they have loaded their
    /// scripts.
    async fn quiet(&self) {
        const STILL: Duration = Duration::from_millis(50);
        const LOOKS: u32 = 40;
        let mut before = self.sent();
        for _ in 0..LOOKS {
            tokio::time::sleep(STILL).await;
            let now = self.sent();
            if now == before {
                return;
            }
            before = now;
        }
    }

    pub fn limiters(&self) -> Vec<Arc<dyn Limiter>> {
        self.nodes.iter().map(|n| n.serves.limiter()).collect()
    }

    /// What the first node sent so far, step by step: a command, or all that MULTI applies as one. The
    /// commands of a pipeline are steps of their own, since it may end within one.
    ///
    /// What it had sent before so many commands does not count: some look around before they are asked.
    pub fn steps(&self, before: usize) -> Vec<String> {
        let Some(proxy) = self.nodes.first().and_then(|n| n.proxy.as_ref()) else { return Vec::new() };
        let mut queueing = BTreeSet::new();
        let mut steps = Vec::new();
        for entry in proxy.transcripts().iter().skip(before).filter(|entry| entry.n.is_some()) {
            let (connection, name) = (entry.id.connection, name_of(&entry.args));
            if ends_block(&name) {
                queueing.remove(&connection);
            } else if !queueing.contains(&connection) {
                if name == MULTI {
                    queueing.insert(connection);
                }
                steps.push(name);
            }
        }
        steps
    }

    /// What they say they are, taken down in the round that is open.
    pub fn introduce(&self, recorder: &Recorder) {
        for node in &self.nodes {
            if let Serves::Other(app, _) = &node.serves
                && let Some(name) = app.name.clone()
            {
                recorder.event(Event::Adapter { name, at: recorder.now() });
            }
        }
    }

    /// How many commands the first node has sent so far.
    pub fn sent(&self) -> usize {
        self.nodes.first().and_then(|n| n.proxy.as_ref()).map_or(0, |proxy| proxy.transcripts().len())
    }

    /// Makes a call of the first node and kills its process in it.
    pub async fn crash(&self, point: &CrashPoint, call: impl Future<Output = ()>) -> anyhow::Result<()> {
        let (node, proxy) = self
            .nodes
            .first()
            .and_then(|node| Some((node, node.proxy.as_ref()?)))
            .context("the first node has no proxy")?;
        let rule = proxy.install(Match::any().then(Action::Hold));
        let mut call = std::pin::pin!(call);
        tokio::select! {
            biased;
            struck = strike(node, proxy, &rule, point) => struck?,
            () = &mut call => {
                let why = format!("the call was over before its node could be killed {}", point.in_words());
                match node.serves {
                    Serves::Own(..) => bail!(why),
                    Serves::Other(..) => return Err(Unfit(format!("{why}: it does not send the same each time")).into()),
                }
            }
        }
        // It is told of its node's death by the end of what that says.
        call.await;
        Ok(())
    }

    /// Ends the round's processes. An error if one of them is not to be believed.
    pub async fn end(self, drive: &Drive<'_>, honesty: &mut CellHonesty) -> anyhow::Result<()> {
        for node in &self.nodes {
            let traffic = node.serves.traffic().await;
            honesty.commands += traffic.commands;
            honesty.round_trips += traffic.round_trips;
            if let Some((pid, why)) = node.serves.failure() {
                drive.recorder.event(Event::Disbelieved { why: why.clone(), at: drive.recorder.now() });
                let why = format!("an app server (process {pid}) broke the protocol: {why}");
                if drive.cell.process().is_some() {
                    return Err(Unfit(why).into());
                }
                bail!(why);
            }
            node.serves.kill().context("an app server cannot be ended")?;
        }
        Ok(())
    }
}

const MULTI: &str = "MULTI";

fn name_of(args: &[Vec<u8>]) -> String {
    args.first().map(|name| String::from_utf8_lossy(name).to_uppercase()).unwrap_or_default()
}

fn ends_block(name: &str) -> bool {
    ["EXEC", "DISCARD"].contains(&name)
}

/// Lets the steps before it pass, one by one, and kills the process at this one.
async fn strike(node: &Node, proxy: &Proxy, rule: &RuleHandle, point: &CrashPoint) -> anyhow::Result<()> {
    let kill = || node.serves.kill().context("the node cannot be killed");
    let mut step = 0;
    loop {
        rule.wait_held(1).await;
        let held = rule.held();
        let Some(held) = held.first() else { continue };
        let name = name_of(&held.args);
        step += u32::from(!ends_block(&name));
        if step == point.step && !point.after {
            kill()?;
            // And nothing of what it had sent behind it, either.
            rule.release_one(Action::CutBefore);
            return Ok(());
        }
        if step == point.step && name != MULTI {
            rule.release_one(Action::LoseReply);
            proxy.wait_answered(held.id).await;
            return kill();
        }
        rule.release_one(Action::Pass);
    }
}

/// How the app server of a node is started that is somebody else's.
fn starts(
    workers: &Arc<Workers>,
    foreign: &'static Foreign,
    cell: &CellPlan,
    hello: Hello,
    around: Around,
) -> Starts {
    let clock = cell.setup.clocks.iter().find(|c| c.node == hello.node.0).map(|c| c.offset);
    Starts { workers: Arc::clone(workers), foreign, hello, around, clock }
}

/// With the policy that the cell puts around it: the lab's own, on this side of the process.
fn guarded(drive: &Drive<'_>, node: u16, inner: Arc<dyn Limiter>) -> Arc<dyn Limiter> {
    match &drive.cell.policy {
        Some(p) => {
            let (settings, terms) = (p.settings.clone(), drive.cell.terms());
            (p.spec.wrap)(Wrap { inner, settings, terms, clock: drive.clock_of(node) })
        }
        None => inner,
    }
}

/// What the lab knows beside a process.
fn around(drive: &Drive<'_>, lab: &Patient, proxy: Option<Arc<Proxy>>) -> Around {
    let recorder = Arc::clone(drive.recorder);
    // What breaks may keep back what the dead had sent, and nobody can tell for how long.
    let tells = drive.faults.is_none();
    let lab = lab.clone();
    Around {
        settled: Arc::new(move || {
            let (lab, proxy) = (lab.clone(), proxy.clone());
            Box::pin(async move { tells && settled(lab, proxy).await })
        }),
        skipped_us: Arc::new(move || recorder.skipped_us()),
    }
}

/// Whether the store has read all that a process which is gone had sent.
///
/// What was sent lies with the store by then. It reads whoever has something to say in one turn, in any
/// order: a second answer comes from a later turn than the first.
async fn settled(mut lab: Patient, proxy: Option<Arc<Proxy>>) -> bool {
    const LOOKS: u32 = 10_000;
    if let Some(proxy) = proxy {
        let mut looks = 0;
        while !proxy.connections().is_empty() {
            if looks == LOOKS {
                return false;
            }
            looks += 1;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    for _ in 0..2 {
        if redis::cmd("PING").exec_async(&mut lab).await.is_err() {
            return false;
        }
    }
    true
}
