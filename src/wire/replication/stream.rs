//! What a primary sends to a replica, taken apart: a snapshot, then commands.
//!
//! Seen on the wire: `+FULLRESYNC <id> <offset>`, then `$EOF:<40 bytes>` with a snapshot up to those bytes
//! (diskless, the default from 7.0), or `$<length>` with one of that length (6.2); or `+CONTINUE`. Bare line
//! feeds in between keep the connection alive.

use crate::wire::resp::{Args, CommandDecoder, Limits, ProtocolError};

/// A piece of the stream that goes on as a whole.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece {
    pub bytes: Vec<u8>,
    /// The names of the commands in it that change data.
    pub writes: Vec<Vec<u8>>,
}

/// The bytes that end a snapshot whose length is not known beforehand.
const MARK: usize = 40;

enum State {
    /// So many lines answer what the replica said before it asked for the stream.
    Owed(usize),
    /// The line that says what follows.
    Answer,
    /// The line that says how long the snapshot is.
    Header,
    Until {
        mark: Vec<u8>,
        /// The end of what was passed on, in which the mark may have begun.
        tail: Vec<u8>,
    },
    Left(u64),
    Commands,
}

pub struct Stream {
    state: State,
    line: Vec<u8>,
    decoder: CommandDecoder,
    /// What of a block has arrived.
    block: Option<Piece>,
}

impl Stream {
    /// `owed` answers are still to come before that to the request for the stream.
    pub fn new(owed: usize) -> Self {
        let state = if owed == 0 { State::Answer } else { State::Owed(owed) };
        Self { state, line: Vec::new(), decoder: CommandDecoder::new(Limits::default()), block: None }
    }

    /// Takes the next bytes, and gives out what is whole. Snapshots are given out as they come. After an
    /// error nothing can be told apart any more.
    pub fn feed(&mut self, mut bytes: &[u8], out: &mut Vec<Piece>) -> Result<(), ProtocolError> {
        while !bytes.is_empty() {
            let taken = match &mut self.state {
                State::Commands => {
                    self.decoder.feed(bytes);
                    self.commands(out)?;
                    bytes.len()
                }
                State::Left(left) => {
                    let taken = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                    *left -= taken as u64;
                    if *left == 0 {
                        self.state = State::Commands;
                    }
                    out.push(raw(&bytes[..taken]));
                    taken
                }
                State::Until { mark, tail } => {
                    let (taken, found) = find(mark, tail, bytes);
                    if found {
                        self.state = State::Commands;
                    }
                    out.push(raw(&bytes[..taken]));
                    taken
                }
                State::Owed(_) | State::Answer | State::Header => {
                    let end = bytes.iter().position(|&b| b == b'\n').map_or(bytes.len(), |at| at + 1);
                    self.line.extend_from_slice(&bytes[..end]);
                    if self.line.last() == Some(&b'\n') {
                        let line = std::mem::take(&mut self.line);
                        self.line(line.trim_ascii());
                        out.push(raw(&line));
                    }
                    end
                }
            };
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    fn line(&mut self, line: &[u8]) {
        if line.is_empty() {
            return;
        }
        match &mut self.state {
            State::Owed(1) => self.state = State::Answer,
            State::Owed(owed) => *owed -= 1,
            // An old replica says SYNC and gets a snapshot without another word.
            _ if line.starts_with(b"$") => self.state = snapshot(&line[1..]),
            State::Answer if line.starts_with(b"+FULLRESYNC") => self.state = State::Header,
            State::Answer if line.starts_with(b"+CONTINUE") => self.state = State::Commands,
            // Refused; the replica asks again, or goes.
            _ => {}
        }
    }

    fn commands(&mut self, out: &mut Vec<Piece>) -> Result<(), ProtocolError> {
        while let Some((args, bytes)) = self.decoder.next()? {
            let name = args.first().map(|name| name.to_ascii_uppercase()).unwrap_or_default();
            let mut piece = self.block.take().unwrap_or_else(|| raw(&[]));
            let was_open = !piece.bytes.is_empty();
            piece.bytes.extend_from_slice(bytes);
            if is_write(&args, &name) {
                piece.writes.push(name.clone());
            }
            let open = match name.as_slice() {
                b"MULTI" => true,
                b"EXEC" => false,
                _ => was_open,
            };
            if open {
                self.block = Some(piece);
            } else {
                out.push(piece);
            }
        }
        Ok(())
    }
}

fn raw(bytes: &[u8]) -> Piece {
    Piece { bytes: bytes.to_vec(), writes: Vec::new() }
}

/// The stream has no reads, and of what changes no data only these.
fn is_write(args: &Args, name: &[u8]) -> bool {
    const OTHERS: [&[u8]; 8] =
        [b"SELECT", b"PING", b"REPLCONF", b"MULTI", b"EXEC", b"PUBLISH", b"SPUBLISH", b"SCRIPT"];
    !args.is_empty() && !OTHERS.contains(&name)
}

fn snapshot(header: &[u8]) -> State {
    if let Some(mark) = header.strip_prefix(b"EOF:") {
        return State::Until { mark: mark.to_vec(), tail: Vec::new() };
    }
    match std::str::from_utf8(header).ok().and_then(|n| n.parse().ok()) {
        None | Some(0) => State::Commands,
        Some(left) => State::Left(left),
    }
}

/// How many of the bytes belong to the snapshot, and whether its mark ends there.
fn find(mark: &[u8], tail: &mut Vec<u8>, bytes: &[u8]) -> (usize, bool) {
    let before = tail.len();
    tail.extend_from_slice(bytes);
    if let Some(at) = tail.windows(mark.len().max(1)).position(|window| window == mark) {
        return (at + mark.len() - before, true);
    }
    let keep = tail.len().min(MARK - 1);
    tail.drain(..tail.len() - keep);
    (bytes.len(), false)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::resp::encode_command;

    fn command(line: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_command(&line.split(' ').collect::<Vec<_>>(), &mut bytes);
        bytes
    }

    const MARKED: &str = "0123456789abcdef0123456789abcdef01234567";

    /// A whole stream, and the writes in each of its pieces that has some.
    fn example(snapshot: &[u8], marked: bool) -> (Vec<u8>, Vec<Vec<&'static str>>) {
        let mut bytes = b"+OK\r\n+OK\r\n\n+FULLRESYNC 0123 77\r\n\n\n".to_vec();
        if marked {
            bytes.extend(format!("$EOF:{MARKED}\r\n").bytes());
            bytes.extend(snapshot);
            bytes.extend(MARKED.bytes());
        } else {
            bytes.extend(format!("${}\r\n", snapshot.len()).bytes());
            bytes.extend(snapshot);
        }
        for line in ["SELECT 0", "INCR k", "PING", "MULTI", "INCR k", "PEXPIREAT k 9", "EXEC"] {
            bytes.extend(command(line));
        }
        bytes.extend(b"\n");
        for line in ["REPLCONF GETACK *", "PUBLISH c m", "del k"] {
            bytes.extend(command(line));
        }
        (bytes, vec![vec!["INCR"], vec!["INCR", "PEXPIREAT"], vec!["DEL"]])
    }

    fn take_apart(bytes: &[u8], sizes: &[usize]) -> Vec<Piece> {
        let mut stream = Stream::new(2);
        let (mut out, mut rest) = (Vec::new(), bytes);
        for size in sizes.iter().copied().chain(std::iter::repeat(bytes.len())) {
            let (now, later) = rest.split_at(size.min(rest.len()));
            stream.feed(now, &mut out).unwrap();
            rest = later;
            if rest.is_empty() {
                return out;
            }
        }
        out
    }

    proptest! {
        #[test]
        fn every_byte_goes_on_once_and_writes_are_counted_however_it_arrives(
            snapshot in proptest::collection::vec(prop_oneof![Just(b'0'), Just(b'1'), any::<u8>()], 0..120),
            marked: bool,
            sizes in proptest::collection::vec(1_usize..50, 0..40),
        ) {
            let (bytes, expected) = example(&snapshot, marked);
            let pieces = take_apart(&bytes, &sizes);
            let joined: Vec<u8> = pieces.iter().flat_map(|p| p.bytes.clone()).collect();
            prop_assert_eq!(joined, bytes);
            let writes: Vec<Vec<String>> = pieces
                .iter()
                .filter(|p| !p.writes.is_empty())
                .map(|p| p.writes.iter().map(|w| String::from_utf8(w.clone()).unwrap()).collect())
                .collect();
            prop_assert_eq!(writes, expected);
        }
    }

    #[test]
    fn a_stream_that_goes_on_has_no_snapshot() {
        let mut bytes = b"+CONTINUE 0123\r\n".to_vec();
        bytes.extend(command("INCR k"));
        let mut out = Vec::new();
        Stream::new(0).feed(&bytes, &mut out).unwrap();
        assert_eq!(out.iter().map(|p| p.writes.len()).collect::<Vec<_>>(), [0, 1]);
    }
}
