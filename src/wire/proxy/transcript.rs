//! What was said on a connection, as far as it is kept.

use std::fmt;

use super::rule::Action;
use crate::wire::resp::{Frame, Nil};

/// Names a command: its connection, and its place on it, from 1, the handshake included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId {
    pub connection: u64,
    pub seq: u64,
}

/// How often the store applied a command, as far as the wire tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effects {
    Times(u8),
    /// It was sent and not answered, or refused in a way that part of it may have been applied.
    Unknown,
}

/// What came between a command and its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interference {
    None,
    Rule(Action),
    /// Held, and released with this.
    Held(Action),
    BlackHole,
}

/// What the store answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    None,
    Frame(Frame),
    /// So many bytes: more than are kept.
    Long(usize),
}

/// A command and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub id: CommandId,
    /// The number that rules know it by; none in a handshake.
    pub n: Option<u32>,
    /// When it was read, by the proxy's clock.
    pub at_ns: u64,
    /// Arguments that are too long are cut, see [`Kept`].
    pub args: Vec<Vec<u8>>,
    pub interference: Interference,
    /// What the store answered, whether or not the caller heard it.
    pub answer: Answer,
    pub effects: Effects,
}

/// How much is kept.
#[derive(Debug, Clone, Copy)]
pub struct Kept {
    /// Commands of each connection; the oldest go first.
    pub commands: usize,
    /// Bytes of one argument, and of one reply.
    pub bytes: usize,
    /// Connections that are closed; the oldest go first.
    pub closed: usize,
}

impl Default for Kept {
    fn default() -> Self {
        Self { commands: 1024, bytes: 4096, closed: 256 }
    }
}

/// `1  INCR rl-lab:x  → (integer) 3`, and in brackets what came between.
impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.id.connection)?;
        for arg in &self.args {
            write!(f, " {}", word(arg))?;
        }
        write!(f, "  → ")?;
        match &self.answer {
            Answer::None => write!(f, "no answer")?,
            Answer::Frame(frame) => write_frame(f, frame)?,
            Answer::Long(len) => write!(f, "({len} bytes)")?,
        }
        match &self.interference {
            Interference::None => Ok(()),
            Interference::Rule(action) => write!(f, "  [{}]", said(action)),
            Interference::Held(Action::Pass | Action::Hold) => write!(f, "  [held]"),
            Interference::Held(action) => write!(f, "  [held, then {}]", said(action)),
            Interference::BlackHole => write!(f, "  [lost in a black hole]"),
        }
    }
}

fn said(action: &Action) -> String {
    match action {
        Action::Pass => "passed".to_owned(),
        Action::Delay(span) => format!("delayed by {} ms", span.as_millis()),
        Action::Hold => "held".to_owned(),
        Action::Drop => "dropped".to_owned(),
        Action::CutBefore => "cut before the store saw it".to_owned(),
        Action::CutAfter => "cut before the reply".to_owned(),
        Action::LoseReply => "reply lost".to_owned(),
        Action::Duplicate => "sent twice".to_owned(),
    }
}

/// As it would be typed into redis-cli.
fn word(arg: &[u8]) -> String {
    let plain =
        !arg.is_empty() && arg.iter().all(|b| b.is_ascii_graphic() && !matches!(b, b'"' | b'\'' | b'\\'));
    if plain { String::from_utf8_lossy(arg).into_owned() } else { quoted(arg) }
}

fn quoted(text: &[u8]) -> String {
    format!("\"{}\"", text.escape_ascii()).replace("\\'", "'")
}

fn write_frame(f: &mut fmt::Formatter<'_>, frame: &Frame) -> fmt::Result {
    match frame {
        Frame::Simple(text) | Frame::Double(text) | Frame::BigNumber(text) => {
            write!(f, "{}", text.escape_ascii())
        }
        Frame::Error(text) | Frame::BulkError(text) => write!(f, "(error) {}", text.escape_ascii()),
        Frame::Int(n) => write!(f, "(integer) {n}"),
        Frame::Bulk(text) | Frame::Verbatim { text, .. } => write!(f, "{}", quoted(text)),
        Frame::Nil(Nil::Array | Nil::Bulk | Nil::Null) => write!(f, "(nil)"),
        Frame::Bool(value) => write!(f, "({value})"),
        Frame::Array(frames) | Frame::Set(frames) | Frame::Push(frames) => {
            write_list(f, ('[', ']'), frames.iter(), write_frame)
        }
        Frame::Map(pairs) => write_list(f, ('{', '}'), pairs.iter(), |f, (key, value)| {
            write_frame(f, key)?;
            write!(f, " => ")?;
            write_frame(f, value)
        }),
        Frame::Attributed { frame, .. } => write_frame(f, frame),
    }
}

fn write_list<T>(
    f: &mut fmt::Formatter<'_>,
    brackets: (char, char),
    items: impl Iterator<Item = T>,
    write_one: impl Fn(&mut fmt::Formatter<'_>, T) -> fmt::Result,
) -> fmt::Result {
    write!(f, "{}", brackets.0)?;
    for (i, item) in items.enumerate() {
        if i > 0 {
            write!(f, ", ")?;
        }
        write_one(f, item)?;
    }
    write!(f, "{}", brackets.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(args: &[&[u8]], frame: Option<Frame>, interference: Interference) -> String {
        let id = CommandId { connection: 1, seq: 2 };
        let args = args.iter().map(|a| a.to_vec()).collect();
        let answer = frame.map_or(Answer::None, Answer::Frame);
        Entry { id, n: Some(1), at_ns: 0, args, interference, answer, effects: Effects::Unknown }.to_string()
    }

    #[test]
    fn lines_read_as_in_redis_cli() {
        let none = Interference::None;
        assert_eq!(
            line(&[b"INCR", b"rl-lab:x"], Some(Frame::Int(3)), none),
            "1  INCR rl-lab:x  → (integer) 3"
        );
        let list = Frame::Array(vec![Frame::Nil(Nil::Bulk), Frame::Bulk(b"it's\n".to_vec())]);
        assert_eq!(
            line(&[b"MGET", b"a b", b""], Some(list), none),
            r#"1  MGET "a b" ""  → [(nil), "it's\n"]"#
        );
        let map = Frame::Map(vec![(Frame::Simple(b"k".to_vec()), Frame::Bool(true))]);
        assert_eq!(line(&[b"X"], Some(map), none), "1  X  → {k => (true)}");
        let wrong = Frame::Error(b"ERR no".to_vec());
        let cut = Interference::Rule(Action::CutAfter);
        assert_eq!(line(&[b"X"], Some(wrong), cut), "1  X  → (error) ERR no  [cut before the reply]");
        let held = Interference::Held(Action::Drop);
        assert_eq!(line(&[b"X"], None, held), "1  X  → no answer  [held, then dropped]");
    }
}
