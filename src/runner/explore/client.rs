//! One logical client: its limiter, its connections, and the command it is held at.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use tokio::io::{AsyncWriteExt, DuplexStream, WriteHalf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::line::{Event, HeldClock, Port, Upstream};
use crate::clients::{Access, Profile};
use crate::model::ending::CallSeen;
use crate::model::op::{Completion, NODE_DIED, Outcome};
use crate::model::units::{Cost, NodeId};
use crate::ports::limiter::{Build, Fleet, Limiter, Settings, Spec};
use crate::ports::route::Configured;
use crate::ports::store::{Call, Store, as_call};
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
            call: None,
            ops: 0,
        }
    }

    /// As at the beginning, with this many calls to make. Answers with the server's connections that
    /// are not needed any more.
    pub fn renew(&mut self, calls: u8, recipe: &Recipe) -> Vec<Upstream> {
        let given_back =
            if self.at == At::Idle && self.held.is_empty() { Vec::new() } else { self.drop_all() };
        if self.lines.is_empty() {
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
        let lines = std::mem::take(&mut self.lines);
        lines.into_values().filter_map(|mut line| line.upstream.take()).collect()
    }

    /// Makes its limiter, unless it has one.
    fn build(&mut self, recipe: &Recipe) {
        self.limiter.get_or_insert_with(|| {
            (recipe.spec.build)(Build {
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
