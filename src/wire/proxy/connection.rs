//! One client's connection and its own one to the store: two directions, pumped by one task.

use std::future::pending;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};

use super::ledger::{After, Hear};
use super::rule::{Action, Subject};
use super::rules::Verdict;
use super::shared::{Line, Shared};
use super::source::{PIECE, Source};
use super::transcript::{CommandId, Interference};
use crate::wire::hang_up::HangUp;
use crate::wire::resp::{Args, CommandDecoder, Decoder};

/// How a connection ends.
enum End {
    /// The store closed it, or it was cut.
    Closed,
    ClientReset,
    StoreReset,
}

/// Notes the end of a connection however its task ends.
struct Closing<'a>(&'a Shared, &'a Line);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.1.ledger().close();
        self.0.changed.notify_waiters();
    }
}

pub async fn serve(mut client: HangUp<TcpStream>, shared: Arc<Shared>, line: Line) {
    let _closing = Closing(&shared, &line);
    // A store that does not take the connection, or resets it at once, is passed on as a reset.
    let Ok(store) = TcpStream::connect(shared.upstream).await else { return reset(client) };
    let mut store = HangUp::new(store);
    // Without it the proxy would add up to 40 ms of its own. It fails on a socket that was reset, and
    // that is to be read from it first.
    let _ = (client.set_nodelay(true), store.set_nodelay(true));
    let end = {
        let ((from_client, to_client), (from_store, to_store)) = (client.split(), store.split());
        let pump = Pump { shared: &shared, line: &line };
        tokio::select! {
            biased;
            end = pump.commands(from_client, to_store) => end,
            end = pump.replies(from_store, to_client) => end,
        }
    };
    match end {
        // A reset drops what the other side has not read yet: what a store had not read is never applied.
        End::ClientReset => reset(store),
        End::StoreReset => reset(client),
        End::Closed => read_up(&client),
    }
}

/// One that cannot be reset any more has no peer to tell.
fn reset(socket: HangUp<TcpStream>) {
    let _ = socket.set_zero_linger();
    socket.close();
}

/// Closing a socket with something unread in it is a reset, and takes away what was sent before.
fn read_up(client: &TcpStream) {
    let mut rest = [0; 4096];
    while matches!(client.try_read(&mut rest), Ok(1..)) {}
}

struct Pump<'a> {
    shared: &'a Shared,
    line: &'a Line,
}

impl Pump<'_> {
    async fn commands(&self, from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> End {
        let mut source = Source::new(from, &self.shared.link);
        let mut decoder = CommandDecoder::new(self.shared.limits);
        let mut out = Vec::with_capacity(PIECE);
        let mut streams = false;
        loop {
            let piece = match source.read().await {
                Ok([]) => break,
                Ok(piece) => piece,
                Err(_) => return End::ClientReset,
            };
            decoder.feed(piece);
            while !streams {
                let after = match decoder.next() {
                    Ok(None) => break,
                    Ok(Some((args, raw))) => self.command(args, raw, &mut to, &mut out).await,
                    // The store says itself what is wrong with it.
                    Err(_) => {
                        self.line.ledger().stream_next();
                        After::Stream
                    }
                };
                match after {
                    After::Go => {}
                    After::Stream => streams = true,
                    After::Stop => return self.cut(&mut to, &mut out).await,
                }
            }
            if streams {
                let rest = decoder.rest();
                if !self.shared.link.is_black_hole() {
                    out.extend_from_slice(&rest);
                }
            }
            flush(&mut to, &mut out).await;
        }
        self.shared.link.clear().await;
        // If it fails, the store is gone and its side says so.
        let _ = to.shutdown().await;
        pending().await
    }

    /// Waits for the replies that are still to be given out.
    async fn cut(&self, to: &mut WriteHalf<'_>, out: &mut Vec<u8>) -> End {
        flush(to, out).await;
        let now = self.line.ledger().cuts_now();
        if now { End::Closed } else { pending().await }
    }

    async fn command(&self, args: Args, raw: &[u8], to: &mut WriteHalf<'_>, out: &mut Vec<u8>) -> After {
        // An empty command has no reply.
        if args.is_empty() {
            out.extend_from_slice(raw);
            return After::Go;
        }
        let (id, decision) = self.decide(args);
        let (mut action, named) = match decision {
            Judged::BlackHole => (Action::Drop, false),
            Judged::Passes => (Action::Pass, false),
            Judged::Rule(verdict, named) => (self.wait(id, verdict, to, out).await, named),
        };
        let mut ledger = self.line.ledger();
        if self.shared.link.is_black_hole() {
            ledger.interfere(id, Interference::BlackHole);
            action = Action::Drop;
        }
        ledger.send(raw, action, named, out)
    }

    fn decide(&self, args: Args) -> (CommandId, Judged) {
        let now = (self.shared.clock)();
        let mut ledger = self.line.ledger();
        let id = ledger.begin(args, now);
        if self.shared.link.is_black_hole() {
            return (id, Judged::BlackHole);
        }
        let Some(entry) = ledger.latest() else { return (id, Judged::Passes) };
        let args = &entry.args;
        let subject = Subject {
            connection: id.connection,
            n: entry.n,
            queued: ledger.queues(args),
            args,
            any_key: &|wanted| ledger.any_key(args, wanted),
        };
        match self.shared.rules.decide(&subject, id) {
            None => (id, Judged::Passes),
            Some(decision) => (id, Judged::Rule(decision.verdict, decision.named)),
        }
    }

    /// What a rule finally says. What came before must not wait with it.
    async fn wait(
        &self,
        id: CommandId,
        verdict: Verdict,
        to: &mut WriteHalf<'_>,
        out: &mut Vec<u8>,
    ) -> Action {
        let (action, interference) = match verdict {
            Verdict::Now(Action::Delay(span)) => {
                flush(to, out).await;
                tokio::time::sleep(span).await;
                (Action::Pass, Interference::Rule(Action::Delay(span)))
            }
            Verdict::Now(action) => (action, Interference::Rule(action)),
            Verdict::Later(released) => {
                self.line.ledger().interfere(id, Interference::Rule(Action::Hold));
                flush(to, out).await;
                // A rule that is removed lets go what it holds.
                let action = released.await.unwrap_or(Action::Pass);
                if let Action::Delay(span) = action {
                    tokio::time::sleep(span).await;
                }
                (action, Interference::Held(action))
            }
        };
        self.line.ledger().interfere(id, interference);
        action
    }

    async fn replies(&self, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> End {
        let mut decoder = Decoder::new(self.shared.limits);
        let mut piece = vec![0; PIECE];
        let mut out = Vec::with_capacity(PIECE);
        let mut client_is_there = true;
        loop {
            match from.read(&mut piece).await {
                Ok(0) => break,
                Ok(n) => decoder.feed(&piece[..n]),
                Err(_) => return End::StoreReset,
            }
            let cut = self.hear(&mut decoder, &mut out);
            // A client that is gone hears nothing, but what it sent is still to be applied and noted.
            client_is_there = client_is_there && to.write_all(&out).await.is_ok();
            out.clear();
            self.shared.changed.notify_waiters();
            if cut {
                return End::Closed;
            }
        }
        self.shared.link.clear().await;
        End::Closed
    }

    /// Moves what the client is to hear to `out`; whether the connection is to be cut.
    fn hear(&self, decoder: &mut Decoder, out: &mut Vec<u8>) -> bool {
        let lost = self.shared.link.is_black_hole();
        let mut ledger = self.line.ledger();
        loop {
            if ledger.cuts_now() {
                return true;
            }
            if ledger.streams_now() {
                let rest = decoder.rest();
                if !lost {
                    out.extend_from_slice(&rest);
                }
                return false;
            }
            match decoder.next_raw() {
                Ok(None) => return false,
                Ok(Some(raw)) => match ledger.hear(raw, lost) {
                    Hear::Give => out.extend_from_slice(raw),
                    Hear::Swallow => {}
                    Hear::Cut => return true,
                },
                Err(_) => ledger.lose_track(),
            }
        }
    }
}

enum Judged {
    BlackHole,
    Passes,
    Rule(Verdict, bool),
}

/// If it fails, the store is gone, and its side says so.
async fn flush(to: &mut WriteHalf<'_>, out: &mut Vec<u8>) {
    let _ = to.write_all(out).await;
    out.clear();
}
