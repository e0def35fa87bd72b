//! One connection through a front: first it is found out whose it is.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;

use super::Shared;
use super::link::{Link, Member};
use super::replica;
use crate::wire::hang_up::HangUp;
use crate::wire::resp::{Args, CommandDecoder, Limits, encode_command};

pub const CHUNK: usize = 16 << 10;

/// How long a server may take to accept. Whoever connects here is already accepted, so where the server's address
/// is gone with it, the front has to say so.
const PATIENCE: Duration = Duration::from_millis(500);

pub async fn serve(mut client: HangUp<TcpStream>, shared: Arc<Shared>) {
    let upstream = *shared.upstream.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(upstream) = upstream else { return };
    let connecting = tokio::time::timeout(PATIENCE, TcpStream::connect(upstream)).await;
    let Ok(Ok(server)) = connecting else { return reset(client) };
    let mut server = HangUp::new(server);
    // A socket that was reset refuses it, and says so when it is read.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let mut talk = Talk { owed: 0, port: None, decoder: CommandDecoder::new(Limits::default()) };
    match talk.listen(&shared, &mut client, &mut server).await {
        Who::Gone => {}
        Who::Reset => {
            reset(client);
            reset(server);
        }
        Who::Client => {
            // Both ends of the stream are passed on, and so is a reset.
            if copy_bidirectional(&mut *client, &mut *server).await.is_err() {
                reset(client);
                reset(server);
            }
        }
        Who::Replica(link, ask) => {
            let Some(member) = admitted(&link, &mut client).await else { return };
            if server.write_all(&ask).await.is_ok() {
                replica::stream(&link, talk.owed, &mut client, &mut server).await;
            }
            // Whoever cut the link and waits for its members finds the sockets closed.
            drop((client, server));
            drop(member);
        }
    }
}

/// One that cannot be reset any more has no peer to tell.
fn reset(socket: HangUp<TcpStream>) {
    let _ = socket.set_zero_linger();
    socket.close();
}

/// `None` if the link is cut, or the replica goes before it is let in.
async fn admitted<'a>(link: &'a Link, client: &mut TcpStream) -> Option<Member<'a>> {
    let mut byte = [0];
    tokio::select! {
        biased;
        () = link.until(|link| link.is_cut() || !link.is_holding()) => Member::join(link),
        // A replica says nothing more until it is answered.
        _ = client.peek(&mut byte) => None,
    }
}

enum Who {
    /// It went without saying.
    Gone,
    Reset,
    Client,
    /// With what it asked for the stream, which was not passed on yet.
    Replica(Arc<Link>, Vec<u8>),
}

/// What is said until it is clear who speaks: replicas begin with PING, AUTH and REPLCONF.
struct Talk {
    /// Answers that are still to come, each of them a line.
    owed: usize,
    /// What a replica announces.
    port: Option<u16>,
    decoder: CommandDecoder,
}

impl Talk {
    async fn listen(&mut self, shared: &Shared, client: &mut TcpStream, server: &mut TcpStream) -> Who {
        let (mut asked, mut told) = (vec![0; CHUNK], vec![0; CHUNK]);
        loop {
            tokio::select! {
                read = client.read(&mut asked) => {
                    let Ok(n) = read else { return Who::Reset };
                    if n == 0 {
                        return Who::Gone;
                    }
                    self.decoder.feed(&asked[..n]);
                    let mut out = Vec::new();
                    let who = self.commands(shared, &mut out);
                    if server.write_all(&out).await.is_err() {
                        return Who::Reset;
                    }
                    if let Some(who) = who {
                        return who;
                    }
                }
                read = server.read(&mut told) => {
                    let Ok(n) = read else { return Who::Reset };
                    if n == 0 {
                        return Who::Gone;
                    }
                    let lines = told[..n].iter().filter(|&&b| b == b'\n').count();
                    self.owed = self.owed.saturating_sub(lines);
                    if client.write_all(&told[..n]).await.is_err() {
                        return Who::Reset;
                    }
                }
            }
        }
    }

    /// Moves what goes on to `out`, until it is clear who speaks.
    fn commands(&mut self, shared: &Shared, out: &mut Vec<u8>) -> Option<Who> {
        loop {
            let (args, raw) = match self.decoder.next() {
                Ok(None) => return None,
                Ok(Some(command)) => command,
                Err(_) => {
                    out.extend(self.decoder.rest());
                    return Some(Who::Client);
                }
            };
            let name = args.first().map(|name| name.to_ascii_uppercase()).unwrap_or_default();
            match name.as_slice() {
                b"PING" | b"AUTH" => out.extend_from_slice(raw),
                b"REPLCONF" => {
                    self.port = listening_port(&args).or(self.port);
                    encode_command(&on_one_connection(&args), out);
                }
                b"PSYNC" | b"SYNC" => {
                    if let Some(link) = self.port.and_then(|port| shared.links.find(port)) {
                        let ask = raw.to_vec();
                        return Some(Who::Replica(link, ask));
                    }
                    out.extend_from_slice(raw);
                    out.extend(self.decoder.rest());
                    return Some(Who::Client);
                }
                _ => {
                    out.extend_from_slice(raw);
                    out.extend(self.decoder.rest());
                    return Some(Who::Client);
                }
            }
            self.owed += 1;
        }
    }
}

fn listening_port(args: &Args) -> Option<u16> {
    let at = args.iter().position(|arg| arg.eq_ignore_ascii_case(b"listening-port"))?;
    std::str::from_utf8(args.get(at + 1)?).ok()?.parse().ok()
}

/// The command without the offer to use a second connection; with nothing left it is answered all the same.
fn on_one_connection(args: &Args) -> Vec<&[u8]> {
    let (name, pairs) = args.split_at(1);
    let offered = pairs.chunks(2).filter(|pair| {
        let second = [b"rdb-channel-repl".as_slice(), b"dual-channel"];
        !(pair[0].eq_ignore_ascii_case(b"capa")
            && pair.get(1).is_some_and(|capability| second.contains(&capability.as_slice())))
    });
    name.iter().chain(offered.flatten()).map(Vec::as_slice).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Args {
        line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn only_the_offer_of_a_second_connection_is_left_out() {
        let kept = |line: &str| {
            let args = args(line);
            on_one_connection(&args).join(&b' ')
        };
        let offer = "REPLCONF capa eof capa rdb-channel-repl capa psync2 capa dual-channel";
        assert_eq!(kept(offer), b"REPLCONF capa eof capa psync2");
        assert_eq!(kept("REPLCONF capa dual-channel"), b"REPLCONF");
        assert_eq!(kept("REPLCONF listening-port 7 ip-address h"), b"REPLCONF listening-port 7 ip-address h");
        assert_eq!(listening_port(&args("REPLCONF ip-address h listening-port 7")), Some(7));
        assert_eq!(listening_port(&args("REPLCONF capa eof")), None);
    }
}
