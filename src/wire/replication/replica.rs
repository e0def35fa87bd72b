//! The connection of a replica, from its request for the stream on.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::Notify;
use tokio::time::{Sleep, sleep};

use super::link::{Fate, Link};
use super::serve::CHUNK;
use super::stream::{Piece, Stream};

/// Bytes that may wait for the replica. Beyond them the primary waits, as with a full window.
const WAITING: usize = 64 << 20;

/// Returns when the connection is over: either side closed it, or the link is cut.
pub async fn stream(link: &Link, owed: usize, replica: &mut TcpStream, primary: &mut TcpStream) {
    let ((from_replica, to_replica), (from_primary, to_primary)) = (replica.split(), primary.split());
    let queue = Queue::new(link);
    tokio::select! {
        biased;
        () = link.until(Link::is_cut) => {}
        () = pass_on(from_replica, to_primary) => {}
        () = queue.fill(from_primary, owed) => {}
        () = queue.empty(to_replica) => {}
    }
}

/// What the replica says: that it is there, and how far it has come.
async fn pass_on(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) {
    let mut chunk = vec![0; CHUNK];
    while let Ok(n @ 1..) = from.read(&mut chunk).await {
        if to.write_all(&chunk[..n]).await.is_err() {
            return;
        }
    }
}

/// What the primary has sent and the replica not been told.
struct Queue<'a> {
    link: &'a Link,
    pieces: Mutex<Pieces>,
    more: Notify,
    less: Notify,
}

#[derive(Default)]
struct Pieces {
    waiting: VecDeque<(Piece, Option<Pin<Box<Sleep>>>)>,
    /// Of all that was not sent yet.
    bytes: usize,
}

impl Drop for Queue<'_> {
    fn drop(&mut self) {
        let lost: usize = self.pieces().waiting.iter().map(|(piece, _)| piece.writes.len()).sum();
        self.link.forget(lost as u64);
    }
}

impl<'a> Queue<'a> {
    fn new(link: &'a Link) -> Self {
        Self { link, pieces: Mutex::default(), more: Notify::new(), less: Notify::new() }
    }

    fn pieces(&self) -> MutexGuard<'_, Pieces> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when the primary is gone, or says what cannot be told apart, and what may still go has gone.
    async fn fill(&self, mut from: ReadHalf<'_>, owed: usize) {
        let mut stream = Stream::new(owed);
        let mut chunk = vec![0; CHUNK];
        let mut read = Vec::new();
        while let Ok(n @ 1..) = from.read(&mut chunk).await {
            let understood = stream.feed(&chunk[..n], &mut read).is_ok();
            self.push(read.drain(..));
            if !understood {
                break;
            }
            while self.pieces().bytes > WAITING {
                self.less.notified().await;
            }
        }
        // A primary that died takes with it what is held; what is merely late arrives.
        let mut changes = self.link.changes();
        while !self.link.is_holding() && self.pieces().bytes > 0 {
            tokio::select! {
                () = self.less.notified() => {}
                _ = changes.changed() => {}
            }
        }
    }

    fn push(&self, read: impl Iterator<Item = Piece>) {
        let delay = self.link.delay_now();
        for piece in read {
            self.link.arrived(&piece);
            let mut pieces = self.pieces();
            pieces.bytes += piece.bytes.len();
            pieces.waiting.push_back((piece, delay.map(|by| Box::pin(sleep(by)))));
        }
        self.more.notify_one();
    }

    /// Returns when the replica is gone, or the link is cut.
    async fn empty(&self, mut to: WriteHalf<'_>) {
        let mut changes = self.link.changes();
        let mut out = Vec::new();
        loop {
            let next = self.next(&mut out);
            if matches!(next, Next::Fate(Fate::Goes)) && out.len() < CHUNK {
                continue;
            }
            if to.write_all(&out).await.is_err() {
                return;
            }
            self.pieces().bytes -= out.len();
            out.clear();
            self.less.notify_one();
            match next {
                Next::Nothing => self.more.notified().await,
                Next::Late(due) => due.await,
                Next::Fate(Fate::Goes) => {}
                // It cannot end: the sender lives in the link.
                Next::Fate(Fate::Waits) => drop(changes.changed().await),
                Next::Fate(Fate::Lost) => return,
            }
        }
    }

    /// Moves the first piece to `out` if it may go.
    fn next(&self, out: &mut Vec<u8>) -> Next {
        let mut pieces = self.pieces();
        let Some((piece, due)) = pieces.waiting.front_mut() else { return Next::Nothing };
        // Waited for once: whoever takes it out of the queue's front waits.
        if let Some(due) = due.take() {
            return Next::Late(due);
        }
        let fate = self.link.fate(piece);
        if fate == Fate::Goes {
            out.extend_from_slice(&piece.bytes);
            pieces.waiting.pop_front();
        }
        Next::Fate(fate)
    }
}

enum Next {
    Nothing,
    Late(Pin<Box<Sleep>>),
    Fate(Fate),
}
