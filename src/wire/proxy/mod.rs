//! A proxy between clients and a Redis server that can interfere at a chosen step of the protocol.
//!
//! It runs on a thread of its own and takes streams apart into commands and replies. Without rules and
//! faults it passes on every byte as it came.
//!
//! * Connections are numbered from 1 in the order in which they are accepted, commands from 1 on each.
//!   The handshake ([`is_handshake`]) passes uncounted: the n-th command is the n-th of the application.
//! * A pipeline is its commands, one by one. Replies are paired with commands in their order; what the
//!   store says unasked (a push of RESP3) belongs to none.
//! * From SUBSCRIBE and its sisters, MONITOR, SYNC, PSYNC and CLIENT REPLY on, and from the first bytes on
//!   that are no RESP, a connection is passed through as a stream: no rule sees it any more.
//! * A command is passed on when it has arrived as a whole.
//! * The end of either side's stream is passed on, and so is a reset: a store that reads a reset drops what
//!   it has not read yet, and one that reads the end of the stream does not.

mod connection;
mod glob;
mod ledger;
mod link;
mod rule;
mod rules;
mod shared;
mod source;
mod transcript;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use shared::Shared;

use super::listen::{self, Order};
use super::resp::Limits;
pub use ledger::judge::is_handshake;
pub use link::Latency;
pub use rule::{Action, Match, Rule};
pub use rules::{Held, RuleHandle};
pub use transcript::{Answer, CommandId, Effects, Entry, Interference, Kept};

/// Nanoseconds since a moment that the caller knows.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// How a proxy is set up.
#[derive(Clone)]
pub struct Options {
    /// Where it listens. Port 0 asks for a free one.
    pub bind: SocketAddr,
    /// The server it stands before.
    pub upstream: SocketAddr,
    pub limits: Limits,
    pub kept: Kept,
    /// What stamps the entries of transcripts.
    pub clock: Clock,
}

impl Options {
    /// On a free port of the loopback, with a clock that begins now.
    pub fn before(upstream: SocketAddr) -> Self {
        Self {
            bind: (Ipv4Addr::LOCALHOST, 0).into(),
            upstream,
            limits: Limits::default(),
            kept: Kept::default(),
            clock: clock(),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the default for those who have no clock of the run")]
fn clock() -> Clock {
    let start = std::time::Instant::now();
    Arc::new(move || u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// A running proxy. Dropping it closes everything and waits for its thread.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// `None` only while dropping.
    orders: Option<UnboundedSender<Order>>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Returns when it listens.
    pub fn start(options: Options) -> io::Result<Self> {
        let Options { bind, upstream, limits, kept, clock } = options;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let shared = Arc::new(Shared::new(upstream, limits, clock, kept));
        let (orders, inbox) = unbounded_channel();
        let (started, answer) = mpsc::channel();
        let serve = {
            let shared = Arc::clone(&shared);
            move |number, client| {
                let line = shared.open(number);
                connection::serve(client, Arc::clone(&shared), line)
            }
        };
        let run = listen::run(bind, serve, inbox, started);
        let thread = std::thread::Builder::new()
            .name("rl-lab-proxy".to_owned())
            .spawn(move || runtime.block_on(run))?;
        let address = answer.recv().unwrap_or_else(|_| Err(gone()))?;
        Ok(Self { address, shared, orders: Some(orders), thread: Some(thread) })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Installs a rule behind those that are there. When this returns it is in force: no command that is
    /// sent later escapes it.
    pub fn install(&self, rule: Rule) -> RuleHandle {
        self.shared.rules.install(rule)
    }

    /// Swallows everything in both directions, whole commands and whole replies; connections stay open,
    /// and new ones are accepted and get no answer. What was swallowed does not come back: a client
    /// that goes on to use its connection afterwards takes the next reply for the missing one. In force
    /// when this returns.
    pub fn black_hole(&self, on: bool) {
        self.shared.link.set_black_hole(on);
    }

    /// Adds this to the way to the store, from the next piece of a stream on. A pipeline is late once.
    pub fn latency(&self, latency: Option<Latency>) {
        self.shared.link.set_latency(latency);
    }

    /// Refuses new connections, as a host does where nothing listens; those there are stay. In force
    /// when this returns.
    pub fn refuse(&self, on: bool) -> io::Result<()> {
        self.ask(|done| Order::Refuse(on, done))?
    }

    /// Closes all connections at once, and says how many that were. None is open when this returns.
    pub fn cut_all(&self) -> io::Result<usize> {
        self.ask(Order::CutAll)
    }

    fn ask<T>(&self, order: impl FnOnce(mpsc::Sender<T>) -> Order) -> io::Result<T> {
        let (done, answer) = mpsc::channel();
        let orders = self.orders.as_ref().ok_or_else(gone)?;
        orders.send(order(done)).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())
    }

    /// The connections that are open, in the order in which they were accepted.
    pub fn connections(&self) -> Vec<u64> {
        self.shared.connections()
    }

    /// What was said on a connection, the oldest first, as far as [`Kept`] reaches.
    pub fn transcript(&self, connection: u64) -> Vec<Entry> {
        self.shared.line(connection).map(|line| line.ledger().entries()).unwrap_or_default()
    }

    /// What was said on all connections, in the order in which it was read.
    pub fn transcripts(&self) -> Vec<Entry> {
        let mut all: Vec<Entry> = self.shared.lines().iter().flat_map(|l| l.ledger().entries()).collect();
        all.sort_by_key(|entry| (entry.at_ns, entry.id));
        all
    }

    /// How often the store applied a command; `None` if nothing is known of it (any more).
    pub fn effects(&self, id: CommandId) -> Option<Effects> {
        self.shared.line(id.connection)?.ledger().effects(id.seq)
    }

    /// Returns when the store has answered the command, or the connection is closed. A command that was
    /// dropped is never answered.
    pub async fn wait_answered(&self, id: CommandId) {
        let answered = || {
            let Some(line) = self.shared.line(id.connection) else { return true };
            let mut ledger = line.ledger();
            ledger.is_closed() || ledger.is_answered(id.seq)
        };
        loop {
            let mut changed = std::pin::pin!(self.shared.changed.notified());
            // From here on a change is not missed.
            changed.as_mut().enable();
            if answered() {
                return;
            }
            changed.await;
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed; there is nothing left to close.
            let _ = thread.join();
        }
    }
}

fn gone() -> io::Error {
    io::Error::other("the thread of the proxy is gone")
}
