//! A client's end of the wire, held by the search: every command it sends is seen here and goes on when
//! the search says so.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::model::op::Completion;
use crate::ports::BoxFuture;
use crate::ports::clock::Clock;
use crate::ports::dial::{Dial, Stream};
use crate::ports::store::note_clock;
use crate::wire::resp::{Decoder, Frame, Limits};

/// What a client does that the search has to know of.
pub enum Event {
    /// It connected.
    Opened {
        line: u32,
        write: WriteHalf<DuplexStream>,
        pump: JoinHandle<()>,
    },
    Bytes {
        line: u32,
        bytes: Vec<u8>,
    },
    Closed {
        line: u32,
    },
    /// It waits for this long before it does anything else.
    Sleeping {
        span: Duration,
        wake: oneshot::Sender<()>,
    },
    /// Its call has ended.
    Done(Completion),
}

/// Gives a client connections that end at the search.
pub struct Port {
    pub events: UnboundedSender<Event>,
    next: AtomicU32,
}

impl Port {
    pub fn new(events: UnboundedSender<Event>) -> Self {
        Self { events, next: AtomicU32::new(0) }
    }
}

impl Dial for Port {
    fn dial(&self) -> std::io::Result<Box<dyn Stream>> {
        let (theirs, ours) = tokio::io::duplex(64 * 1024);
        let line = self.next.fetch_add(1, Ordering::Relaxed);
        let (read, write) = tokio::io::split(ours);
        let pump = tokio::spawn(pump(read, line, self.events.clone()));
        // Whoever is not listening any more has given the client up.
        let _ = self.events.send(Event::Opened { line, write, pump });
        Ok(Box::new(theirs))
    }
}

async fn pump(mut read: ReadHalf<DuplexStream>, line: u32, events: UnboundedSender<Event>) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let event = match read.read(&mut buffer).await {
            Ok(0) | Err(_) => Event::Closed { line },
            Ok(n) => Event::Bytes { line, bytes: buffer[..n].to_vec() },
        };
        let over = matches!(event, Event::Closed { .. });
        if events.send(event).is_err() || over {
            return;
        }
    }
}

/// The clock of a client: it stands still until the search moves it, and the same for all.
pub struct HeldClock {
    /// Unix time in ms at the schedule's zero.
    pub epoch_ms: i64,
    pub now_ms: Arc<AtomicI64>,
    pub events: UnboundedSender<Event>,
}

impl Clock for HeldClock {
    fn wall_us(&self) -> i64 {
        let us = (self.epoch_ms + self.now_ms.load(Ordering::Relaxed)) * 1000;
        note_clock(us);
        us
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.now_ms.load(Ordering::Relaxed)).unwrap_or(0))
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        let (wake, woken) = oneshot::channel();
        let _ = self.events.send(Event::Sleeping { span, wake });
        Box::pin(async move {
            let _ = woken.await;
        })
    }
}

/// A connection of the search's own to the server, one for each line of a client.
///
/// It blocks: while the server is at work everybody is held, and there is nothing else to do.
pub struct Upstream {
    stream: TcpStream,
    decoder: Decoder,
    buffer: Vec<u8>,
    /// The server keeps something for this connection: watched keys, or a transaction.
    pub attached: bool,
}

/// How long the server may take for one command.
const PATIENCE: Duration = Duration::from_secs(10);

impl Upstream {
    pub fn connect(address: std::net::SocketAddr) -> std::io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let (decoder, buffer) = (Decoder::new(Limits::default()), vec![0; 16 * 1024]);
        Ok(Self { stream, decoder, buffer, attached: false })
    }

    /// Sends a command and waits for its reply, as a value and as bytes.
    pub fn exchange(&mut self, command: &[u8]) -> std::io::Result<(Frame, Vec<u8>)> {
        self.stream.write_all(command)?;
        self.reply()
    }

    /// The same with another command before it, in one round trip; what that is told is dropped.
    pub fn exchange_behind(&mut self, first: &[u8], command: &[u8]) -> std::io::Result<(Frame, Vec<u8>)> {
        self.stream.write_all(&[first, command].concat())?;
        self.reply()?;
        self.reply()
    }

    fn reply(&mut self) -> std::io::Result<(Frame, Vec<u8>)> {
        loop {
            let next = self.decoder.next().map_err(std::io::Error::other)?;
            if let Some((frame, bytes)) = next {
                if !frame.is_push() {
                    return Ok((frame, bytes.to_vec()));
                }
                continue;
            }
            let n = self.stream.read(&mut self.buffer)?;
            if n == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            self.decoder.feed(&self.buffer[..n]);
        }
    }
}
