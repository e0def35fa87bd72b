//! One app server on its own: a limiter, its policy and its client, asked over lines (`model/protocol.rs`).
//!
//! Reads until its stdin ends, answers each request when it is done, and finishes what is open. What is no
//! request has an answer that says so, if it has an id; if not, nobody could tell whom it is for, and the
//! server ends.

use std::io::{BufRead, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use redis::{ConnectionAddr, IntoConnectionInfo};
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::clients::{self, Access};
use crate::limiters::external::told;
use crate::limiters::{self, policies};
use crate::model::contract::Contract;
use crate::model::op::{Decision, Trace, ceil_millis};
use crate::model::protocol::{
    Answer, Failure, FailureKind, Hello, LONGEST_LINE, PRESET, Ready, Request, TRAFFIC, VERSION, What,
};
use crate::model::scenario::LimiterRef;
use crate::model::units::{Limit, Window};
use crate::ports::BoxFuture;
use crate::ports::clock::{Clock, SystemClock};
use crate::ports::limiter::{Build, Fleet, Limiter, Settings, Spec};
use crate::ports::policy::{PolicySettings, PolicySpec, Terms, Wrap};
use crate::ports::route::Configured;
use crate::ports::store::{Call, Store, StoreError, as_call, note_clock};

/// What is to be served.
pub struct Served {
    pub limiter: LimiterRef,
    pub policy: Option<LimiterRef>,
    pub client: String,
}

/// What its names mean.
struct Meant {
    spec: &'static Spec,
    settings: Settings,
    client: &'static clients::Profile,
    policy: Option<(&'static PolicySpec, PolicySettings)>,
    address: SocketAddr,
}

impl Served {
    fn meant(&self, limit: Limit, window: Window, redis: &str) -> Result<Meant, String> {
        let limiter = limiters::resolve(&self.limiter)?;
        let spec = limiters::find(&limiter.name)?;
        if spec.is_in_rows() {
            return Err(format!("'{}' asks no Redis, and a process is told of nothing else", spec.name));
        }
        let settings = Settings::new(spec, limit, window, &limiter.params)?;
        let client = clients::find(&self.client)?;
        let policy = match self.around() {
            None => None,
            Some(wanted) => {
                let policy = policies::resolve(wanted)?;
                let spec = policies::find(&policy.name)?;
                Some((spec, PolicySettings::new(spec, &policy.params)?))
            }
        };
        Ok(Meant { spec, settings, client, policy, address: address(redis)? })
    }

    /// What is put around it: as it is asked for, else as its file says.
    pub fn around(&self) -> Option<&LimiterRef> {
        let of_file = || limiters::find(&self.limiter.name).ok().and_then(Spec::policy);
        self.policy.as_ref().or_else(of_file)
    }

    /// Whether it can be served at all, wherever the store may be; if not, why.
    pub fn check(&self, limit: Limit, window: Window, redis: &str) -> Result<(), String> {
        self.meant(limit, window, redis).map(|_| ())
    }
}

/// How it ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its stdin did.
    Finished,
    /// It was never ready; it has said so.
    NotReady(String),
    /// It was told what is no request.
    Lost(String),
}

/// Its clock: the machine's, what it is off by, and what was skipped.
pub(super) struct NodeClock {
    offset_us: i64,
    skipped_us: AtomicI64,
}

impl NodeClock {
    fn now_us(&self) -> i64 {
        let ahead = self.offset_us.saturating_add(self.skipped_us.load(Ordering::Relaxed));
        SystemClock.wall_us().saturating_add(ahead)
    }
}

impl Clock for NodeClock {
    fn wall_us(&self) -> i64 {
        let us = self.now_us();
        note_clock(us);
        us
    }

    fn monotonic(&self) -> Duration {
        let skipped = u64::try_from(self.skipped_us.load(Ordering::Relaxed)).unwrap_or(0);
        SystemClock.monotonic() + Duration::from_micros(skipped)
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        SystemClock.sleep(span)
    }
}

/// An app server that is ready.
pub(super) struct Node {
    pub(super) limiter: Arc<dyn Limiter>,
    store: Arc<dyn Store>,
    pub(super) clock: Arc<NodeClock>,
    pub(super) contract: Contract,
    hello: Hello,
}

/// Serves from `input` to `output` until the input ends.
pub async fn serve(
    served: &Served,
    input: impl Read + Send + 'static,
    mut output: impl Write + Send + 'static,
) -> std::io::Result<Ended> {
    let mut said = lines(input);
    let first = said.recv().await.unwrap_or_else(|| Err("its stdin ended before hello".to_owned()));
    let node = match first.and_then(|line| parse_hello(&line)) {
        Ok(hello) => Node::of(served, hello).await,
        Err(why) => Err(why),
    };
    let node = match node {
        Ok(node) => Arc::new(node),
        Err(why) => {
            write_line(&mut output, &Ready::not(why.clone()))?;
            output.flush()?;
            return Ok(Ended::NotReady(why));
        }
    };
    let contract = Some(node.contract.clone());
    let ready = Ready {
        ready: true,
        contract,
        now_us: Some(node.clock.now_us()),
        capabilities: [PRESET, TRAFFIC].map(str::to_owned).to_vec(),
        ..Ready::default()
    };
    write_line(&mut output, &ready)?;
    output.flush()?;
    let (answers, outbox) = std::sync::mpsc::channel();
    let writer = std::thread::Builder::new().name("answers".to_owned()).spawn(|| write(output, outbox))?;
    let mut open = JoinSet::new();
    let mut ended = Ended::Finished;
    while let Some(line) = said.recv().await {
        while open.try_join_next().is_some() {}
        match line.and_then(|line| parse_request(&line)) {
            Ok(Ok(request)) => {
                // Before anything else of this line, and never back.
                node.clock.skipped_us.fetch_max(request.skipped_us, Ordering::Relaxed);
                let (node, answers) = (Arc::clone(&node), answers.clone());
                open.spawn(async move { drop(answers.send(node.answer(request).await)) });
            }
            Ok(Err(answer)) => drop(answers.send(answer)),
            Err(why) => {
                ended = Ended::Lost(why);
                break;
            }
        }
    }
    while open.join_next().await.is_some() {}
    drop(answers);
    writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    Ok(ended)
}

impl Node {
    pub(super) async fn of(served: &Served, hello: Hello) -> Result<Self, String> {
        let Meant { spec, settings, client, policy, address } =
            served.meant(hello.limit, hello.window_ms, &hello.redis)?;
        let offset_us = hello.clock_offset_ms.saturating_mul(1000);
        let clock = Arc::new(NodeClock { offset_us, skipped_us: AtomicI64::new(0) });
        let store = (client.connect)(Access {
            route: Configured::at(address),
            seeds: Vec::new(),
            connections: hello.connections.max(1) as usize,
            hook: None,
            user: None,
            dial: None,
        });
        if !hello.cold_pool {
            store.warm_up().await.map_err(|e| format!("{} cannot be reached: {e}", hello.redis))?;
        }
        let mut contract = (spec.contract)(&settings);
        let build = Build {
            database: None,
            settings: settings.clone(),
            store: Arc::clone(&store),
            others: Vec::new(),
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            node: hello.node,
            // Whoever is started in its place makes other names.
            version: u64::try_from(clock.wall_us()).unwrap_or(0),
            fleet: Fleet::of(hello.nodes.get()),
        };
        let mut limiter = (spec.build)(build);
        if let Some((spec, settings)) = policy {
            let terms = Terms { limit: hello.limit, window: hello.window_ms, nodes: hello.nodes };
            contract = (spec.contract)(&settings, &terms, contract);
            let clock = Arc::clone(&clock) as Arc<dyn Clock>;
            limiter = (spec.wrap)(Wrap { inner: limiter, settings, terms, clock });
        }
        Ok(Self { limiter, store, clock, contract, hello })
    }

    async fn answer(&self, request: Request) -> Answer {
        let id = request.id;
        let undecided =
            |error: Option<StoreError>| Answer { id, error: error.map(told), ..Answer::default() };
        match request.what {
            What::Acquire { key, cost, lane } => {
                // As many callers as there are calls, unless it is said who calls.
                let call = Call::new(id as u32, lane.unwrap_or(id as u32));
                let (decided, trace) = as_call(call, self.limiter.acquire(&key, cost)).await;
                let Trace { sent, trips, clock_us, note, .. } = trace;
                let answer = match decided {
                    Ok(decision) => self.decided(id, &decision),
                    Err(error) => undecided(Some(error)),
                };
                let contact = note.contact.filter(|_| answer.allowed.is_some());
                let (sent, round_trips) = (Some(sent), Some(trips.into()));
                Answer { sent, round_trips, clock_us, contact, near: note.near, ..answer }
            }
            What::Preset { key, used } => undecided(self.limiter.preset(&key, used).await.err()),
            What::Traffic => {
                let traffic = self.store.traffic();
                let (commands, round_trips) = (Some(traffic.commands), Some(traffic.round_trips));
                Answer { commands, round_trips, ..undecided(None) }
            }
        }
    }

    fn decided(&self, id: u64, decision: &Decision) -> Answer {
        Answer {
            id,
            allowed: Some(decision.allowed),
            remaining: decision.remaining,
            limit: Some(decision.limit).filter(|limit| *limit != self.hello.limit),
            retry_after_ms: decision.retry_after.map(ceil_millis),
            reset_ms: decision.reset.map(ceil_millis),
            source: Some(decision.source),
            ..Answer::default()
        }
    }
}

fn parse_hello(line: &[u8]) -> Result<Hello, String> {
    #[derive(Deserialize)]
    struct Version {
        hello: u32,
    }
    let no = |e: serde_json::Error| format!("the first line is no hello: {e}");
    // First of all: another version has other fields.
    let Version { hello } = serde_json::from_slice(line).map_err(no)?;
    if hello != VERSION {
        return Err(format!("hello {hello} is not known, this speaks version {VERSION}"));
    }
    serde_json::from_slice(line).map_err(no)
}

/// A request, or the answer to what is none but has an id.
fn parse_request(line: &[u8]) -> Result<Result<Request, Answer>, String> {
    #[derive(Deserialize)]
    struct Id {
        id: u64,
    }
    let error = match serde_json::from_slice(line) {
        Ok(request) => return Ok(Ok(request)),
        Err(error) => error,
    };
    let Id { id } = serde_json::from_slice(line).map_err(|_| format!("a line is no request: {error}"))?;
    let failure = Failure { kind: FailureKind::Unexpected, text: error.to_string() };
    Ok(Err(Answer { id, error: Some(failure), sent: Some(false), ..Answer::default() }))
}

/// Where the store is: app servers of the lab know no passwords and no encryption.
fn address(url: &str) -> Result<SocketAddr, String> {
    let no = |why: String| format!("redis = '{url}' is not of the form redis://HOST:PORT: {why}");
    let info = url.into_connection_info().map_err(|e| no(e.to_string()))?;
    let settings = info.redis_settings();
    if settings.username().is_some() || settings.password().is_some() || settings.db() != 0 {
        return Err(no("users, passwords and databases are not known here".to_owned()));
    }
    let ConnectionAddr::Tcp(host, port) = info.addr() else {
        return Err(no("only plain TCP is known here".to_owned()));
    };
    let mut found = (host.as_str(), *port).to_socket_addrs().map_err(|e| no(e.to_string()))?;
    found.next().ok_or_else(|| no("the host has no address".to_owned()))
}

/// Lines as they come, from a thread of its own: stdin cannot be waited for.
fn lines(input: impl Read + Send + 'static) -> mpsc::UnboundedReceiver<Result<Vec<u8>, String>> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let read = move || {
        let mut input = std::io::BufReader::new(input);
        loop {
            let mut line = Vec::new();
            let read = (&mut input).take(LONGEST_LINE as u64 + 1).read_until(b'\n', &mut line);
            let whole = line.pop_if(|b| *b == b'\n').is_some();
            let said = match read {
                Err(error) => Err(format!("its stdin cannot be read: {error}")),
                Ok(_) if line.len() > LONGEST_LINE => {
                    Err(format!("a line has more than {LONGEST_LINE} bytes"))
                }
                // The end, or a line that was cut off there: it was never said.
                Ok(_) if !whole => return,
                Ok(_) => Ok(line),
            };
            let over = said.is_err();
            if sender.send(said).is_err() || over {
                return;
            }
        }
    };
    // Without a thread the channel is closed at once, which is told as the end of stdin.
    let _ = std::thread::Builder::new().name("requests".to_owned()).spawn(read);
    receiver
}

/// Writes answers, as many at a time as there are.
fn write(mut output: impl Write, outbox: std::sync::mpsc::Receiver<Answer>) -> std::io::Result<()> {
    while let Ok(answer) = outbox.recv() {
        write_line(&mut output, &answer)?;
        while let Ok(answer) = outbox.try_recv() {
            write_line(&mut output, &answer)?;
        }
        output.flush()?;
    }
    Ok(())
}

fn write_line(output: &mut impl Write, value: &impl serde::Serialize) -> std::io::Result<()> {
    let mut text = serde_json::to_vec(value)?;
    text.push(b'\n');
    output.write_all(&text)
}
