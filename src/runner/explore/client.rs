//! One logical client: its limiter, its connections, and the command it is held at.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncWriteExt, DuplexStream, WriteHalf};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinHandle};

use super::line::{Event, HeldClock, Port, Upstream};
use crate::backends::worker::Workers;
use crate::clients::{Access, Profile};
use crate::limiters::external::worker::Around;
use crate::model::ending::CallSeen;
use crate::model::foreign::Foreign;
use crate::model::op::{Completion, NODE_DIED, Outcome};
use crate::model::protocol::{Hello, VERSION};
use crate::model::units::{Cost, NodeId};
use crate::ports::BoxFuture;
use crate::ports::dial::Dial;
use crate::ports::limiter::{Build, Fleet, Limiter, Settings, Spec};
use crate::ports::route::Configured;
use crate::ports::store::{Call, Store, as_call};
use crate::runner::app::{Running, Starts};
use crate::wire::resp::{CommandDecoder, Limits};

/// What every client is made from.
pub struct Recipe {
    pub spec: &'static Spec,
    pub settings: Settings,
    pub profile: &'static Profile,
    pub address: std::net::SocketAddr,
    pub key: String,
    pub epoch_ms: i64,
    pub now_ms: Arc<AtomicI64>,
    /// Who starts app servers, where the limiter runs in one of somebody else's.
    pub workers: Option<Arc<Workers>>,
}

impl Recipe {
    /// Somebody else's program that is the limiter, and who starts it.
    fn process(&self) -> Option<(&'static Foreign, Arc<Workers>)> {
        let foreign = self.spec.foreign.filter(|f| f.is_process())?;
        Some((foreign, Arc::clone(self.workers.as_ref()?)))
    }
}

/// An app server of somebody else's: its connections to the store end at the search. Ended with this.
pub struct AppServer {
    running: Running,
    accepting: AbortHandle,
}

impl Drop for AppServer {
    fn drop(&mut self) {
        self.accepting.abort();
        let _ = self.running.process.kill();
    }
}

/// Where a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum At {
    /// Between calls.
    Idle,
    /// In a call, held.
    Calling,
    Dead,
}

/// What a client is held at.
pub enum Held {
    Command { line: u32, args: Vec<Vec<u8>>, raw: Vec<u8> },
    Sleep { span: Duration, wake: oneshot::Sender<()> },
}

pub struct Line {
    pub write: WriteHalf<DuplexStream>,
    pump: JoinHandle<()>,
    pub commands: CommandDecoder,
    pub upstream: Option<Upstream>,
    /// Queued since MULTI.
    pub queued: Option<Vec<Vec<Vec<u8>>>>,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.pump.abort();
    }
}

pub struct Client {
    pub id: u8,
    pub node: NodeId,
    pub at: At,
    pub held: VecDeque<Held>,
    /// Some of what it sent together was applied already.
    pub midway: bool,
    /// How much the server had applied when it began to watch: what it applied since decides its EXEC.
    pub watches_since: Option<usize>,
    pub calls_left: u8,
    pub calls: Vec<CallSeen>,
    /// Everything it was told since the beginning, with what changes from run to run taken out.
    pub told: Vec<u8>,
    pub lines: BTreeMap<u32, Line>,
    pub events: UnboundedReceiver<Event>,
    sender: UnboundedSender<Event>,
    store: Arc<dyn Store>,
    limiter: Option<Arc<dyn Limiter>>,
    /// It lives on from schedule to schedule, as its connections do.
    app: Option<AppServer>,
    call: Option<JoinHandle<()>>,
    ops: u32,
}

impl Client {
    pub fn new(id: u8, node: NodeId, recipe: &Recipe) -> Self {
        let (sender, events) = unbounded_channel();
        let store = connect(recipe, &sender);
        Self {
            id,
            node,
            at: At::Idle,
            held: VecDeque::new(),
            midway: false,
            watches_since: None,
            calls_left: 0,
            calls: Vec::new(),
            told: Vec::new(),
            lines: BTreeMap::new(),
            events,
            sender,
            store,
            limiter: None,
            app: None,
            call: None,
            ops: 0,
        }
    }

    /// Its app server, where it needs one and has none: a process that is ready once this comes to its end.
    pub fn starts_app(&self, recipe: &Recipe) -> Option<BoxFuture<'static, Result<AppServer, String>>> {
        let (foreign, workers) = recipe.process().filter(|_| self.app.is_none())?;
        let (port, node, now_ms) = (Port::new(self.sender.clone()), self.node, Arc::clone(&recipe.now_ms));
        let (limit, window_ms) = (recipe.settings.limit, recipe.settings.window);
        Some(Box::pin(async move {
            let listening = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
            let listener = listening.map_err(|e| format!("no port for an app server to connect to: {e}"))?;
            let address = listener.local_addr().map_err(|e| e.to_string())?;
            let accepting = tokio::spawn(accept(listener, port)).abort_handle();
            let hello = Hello {
                hello: VERSION,
                redis: format!("redis://{address}"),
                limit,
                window_ms,
                node,
                nodes: NonZeroU32::MIN,
                clock_offset_ms: 0,
                connections: 1,
                cold_pool: false,
            };
            let around = Around {
                settled: Arc::new(|| Box::pin(std::future::ready(true))),
                skipped_us: Arc::new(move || now_ms.load(Ordering::Relaxed).saturating_mul(1000)),
            };
            let starts = Starts { workers, foreign, hello, around, clock: None };
            match starts.start().await {
                Ok((running, _)) => Ok(AppServer { running, accepting }),
                Err(absent) => {
                    accepting.abort();
                    Err(absent.in_words())
                }
            }
        }))
    }

    pub fn has_app(&self) -> bool {
        self.app.is_some()
    }

    pub fn serve(&mut self, app: AppServer) {
        self.limiter = Some(Arc::clone(&app.running.limiter));
        self.app = Some(app);
    }

    /// As at the beginning, with this many calls to make. Answers with the server's connections that
    /// are not needed any more.
    pub fn renew(&mut self, calls: u8, recipe: &Recipe) -> Vec<Upstream> {
        let given_back =
            if self.at == At::Idle && self.held.is_empty() { Vec::new() } else { self.drop_all() };
        if self.lines.is_empty() && self.app.is_none() {
            let (sender, events) = unbounded_channel();
            self.store = connect(recipe, &sender);
            (self.sender, self.events) = (sender, events);
        }
        self.at = At::Idle;
        self.calls_left = calls;
        self.calls.clear();
        self.told.clear();
        self.limiter = None;
        self.ops = 0;
        self.build(recipe);
        given_back
    }

    /// Gives up what it is doing and closes its connections.
    pub fn drop_all(&mut self) -> Vec<Upstream> {
        if let Some(call) = self.call.take() {
            call.abort();
        }
        self.held.clear();
        self.midway = false;
        self.watches_since = None;
        (self.app, self.limiter) = (None, None);
        let lines = std::mem::take(&mut self.lines);
        lines.into_values().filter_map(|mut line| line.upstream.take()).collect()
    }

    /// Makes its limiter, unless it has one.
    fn build(&mut self, recipe: &Recipe) {
        if recipe.process().is_some() {
            self.limiter = self.app.as_ref().map(|app| Arc::clone(&app.running.limiter));
            return;
        }
        self.limiter.get_or_insert_with(|| {
            (recipe.spec.build)(Build {
                database: None,
                settings: recipe.settings.clone(),
                store: Arc::clone(&self.store),
                others: Vec::new(),
                clock: Arc::new(HeldClock {
                    epoch_ms: recipe.epoch_ms,
                    now_ms: Arc::clone(&recipe.now_ms),
                    events: self.sender.clone(),
                }),
                node: self.node,
                version: 0,
                fleet: Fleet::of(1),
            })
        });
    }

    /// Has it begin its next call.
    pub fn begin(&mut self, recipe: &Recipe, now_ms: i64) {
        self.build(recipe);
        let Some(limiter) = &self.limiter else { return };
        let (limiter, key, sender) = (Arc::clone(limiter), recipe.key.clone(), self.sender.clone());
        let op = self.ops;
        self.ops += 1;
        self.calls_left = self.calls_left.saturating_sub(1);
        self.at = At::Calling;
        self.calls.push(CallSeen {
            client: self.id,
            begun_ms: now_ms,
            ended_ms: now_ms,
            outcome: Outcome::Unknown,
            error: None,
        });
        self.call = Some(tokio::spawn(async move {
            let (answer, trace) = as_call(Call::new(op, 0), limiter.acquire(&key, Cost::ONE)).await;
            let completion = match answer {
                Ok(decision) => Completion::Ok(decision),
                Err(error) => error.completion(trace.sent),
            };
            let _ = sender.send(Event::Done(completion));
        }));
    }

    /// Takes down how its call ended.
    pub fn finish(&mut self, completion: &Completion, now_ms: i64) {
        self.at = At::Idle;
        self.call = None;
        if let Some(call) = self.calls.last_mut() {
            call.ended_ms = now_ms;
            (call.outcome, call.error) = match completion {
                Completion::Ok(d) if d.allowed => (Outcome::Admitted, None),
                Completion::Ok(_) => (Outcome::Denied, None),
                Completion::Fail(error) => (Outcome::Failed, Some(error.clone())),
                Completion::Info(error) => (Outcome::Unknown, Some(error.clone())),
            };
        }
    }

    pub fn die(&mut self, now_ms: i64) -> Vec<Upstream> {
        if let Some(call) = self.calls.last_mut().filter(|_| self.at == At::Calling) {
            call.ended_ms = now_ms;
            call.error = Some(NODE_DIED.to_owned());
        }
        self.at = At::Dead;
        self.calls_left = 0;
        self.drop_all()
    }

    pub fn opened(&mut self, line: u32, write: WriteHalf<DuplexStream>, pump: JoinHandle<()>) {
        let commands = CommandDecoder::new(Limits::default());
        self.lines.insert(line, Line { write, pump, commands, upstream: None, queued: None });
    }

    /// Hands it the bytes of a reply. A client that has hung up does not mind.
    pub async fn answer(&mut self, line: u32, reply: &[u8]) {
        if let Some(line) = self.lines.get_mut(&line) {
            let _ = line.write.write_all(reply).await;
        }
    }
}

/// Every connection of an app server becomes one that the search holds.
async fn accept(listener: TcpListener, port: Port) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        if let Ok(mut there) = port.dial() {
            tokio::spawn(async move {
                let _ = tokio::io::copy_bidirectional(&mut stream, &mut there).await;
            });
        }
    }
}

fn connect(recipe: &Recipe, sender: &UnboundedSender<Event>) -> Arc<dyn Store> {
    (recipe.profile.connect)(Access {
        route: Configured::at(recipe.address),
        seeds: Vec::new(),
        connections: 1,
        hook: None,
        user: None,
        dial: Some(Arc::new(Port::new(sender.clone()))),
    })
}
