//! A front before a server: whoever wants to reach the server connects to it instead, its replicas too.
//!
//! It passes everything on as it came, but for replicas. Those say who they are before they ask for the
//! stream (`REPLCONF listening-port`, for which each announces the port of its own front), and the stream
//! goes through the [`Link`] of that name: it can be held behind an exact write, cut, or delayed. A link
//! belongs to the replica and not to a front, so it is the same behind whichever primary.
//!
//! What replicas offer to do over a second connection (Redis 8's `rdb-channel-repl`, Valkey's
//! `dual-channel`) is not passed on: the stream that counts is then on one.

mod link;
mod replica;
mod serve;
mod stream;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::listen::{self, Order};
pub use link::Link;

/// The links of the servers that belong together, by the port that each announces.
#[derive(Clone, Default)]
pub struct Links(Arc<Mutex<BTreeMap<u16, Arc<Link>>>>);

impl Links {
    /// The link to the replica that announces this port; a new one at first.
    pub fn to(&self, port: u16) -> Arc<Link> {
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(links.entry(port).or_default())
    }

    fn find(&self, port: u16) -> Option<Arc<Link>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&port).cloned()
    }
}

/// What the front's thread and its owner share.
struct Shared {
    /// `None` until the server is there: until then whoever connects is sent away.
    upstream: Mutex<Option<SocketAddr>>,
    links: Links,
}

/// A front. Dropping it closes everything and waits for its thread.
pub struct Front {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// `None` only while dropping.
    orders: Option<UnboundedSender<Order>>,
    thread: Option<JoinHandle<()>>,
}

impl Front {
    /// Listens at `bind`, port 0 for a free one, and sends away whoever comes until it has a server.
    pub fn start(bind: SocketAddr, links: Links) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let shared = Arc::new(Shared { upstream: Mutex::new(None), links });
        let (orders, inbox) = unbounded_channel();
        let (started, answer) = mpsc::channel();
        let serve = {
            let shared = Arc::clone(&shared);
            move |_, client| serve::serve(client, Arc::clone(&shared))
        };
        let run = listen::run(bind, serve, inbox, started);
        let thread = std::thread::Builder::new()
            .name("rl-lab-front".to_owned())
            .spawn(move || runtime.block_on(run))?;
        let gone = || Err(io::Error::other("the thread of the front is gone"));
        let address = answer.recv().unwrap_or_else(|_| gone())?;
        Ok(Self { address, shared, orders: Some(orders), thread: Some(thread) })
    }

    /// Where it listens: what its server announces.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Leads to this server from now on.
    pub fn lead_to(&self, server: SocketAddr) {
        *self.shared.upstream.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed; there is nothing left to close.
            let _ = thread.join();
        }
    }
}
