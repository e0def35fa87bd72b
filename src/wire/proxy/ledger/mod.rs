//! One connection's commands: which replies are awaited, what each command did to the store, and what
//! is kept of it all.

mod hear;
pub mod judge;
mod send;

use std::collections::VecDeque;

use judge::Settled;

use super::rule::{Action, is_named};
use super::transcript::{Answer, CommandId, Effects, Entry, Interference, Kept};
use crate::wire::keys::keys_of;
use crate::wire::resp::Args;

pub use hear::Hear;
pub use send::After;

/// What comes next from the store.
enum Awaited {
    Reply(Reply),
    /// From here on it is no sequence of replies.
    Stream,
    /// Everything that was to be answered is: now cut.
    Cut,
}

struct Reply {
    seq: u64,
    fate: Fate,
    /// Of EXEC: the commands it applies.
    block: Vec<u64>,
    /// It was sent within MULTI.
    queued: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Give,
    Lose,
    Cut,
}

/// An open MULTI.
struct Block {
    /// What a rule named MULTI wants of it.
    wanted: Action,
    /// The commands so far, MULTI included, as they came; only if they are to be sent again.
    raw: Vec<u8>,
    multi: u64,
    queued: Vec<(u64, Args)>,
}

struct Record {
    entry: Entry,
    /// How often it was sent, and how many of these times are known to have ended.
    sent: u8,
    settled: u8,
    applied: u8,
    unclear: bool,
}

impl Record {
    fn effects(&self) -> Effects {
        if self.unclear || self.settled < self.sent { Effects::Unknown } else { Effects::Times(self.applied) }
    }
}

pub struct Ledger {
    connection: u64,
    seq: u64,
    counted: u32,
    records: VecDeque<Record>,
    awaited: VecDeque<Awaited>,
    block: Option<Block>,
    /// Replies can no longer be told apart.
    streaming: bool,
    closed: bool,
    kept: Kept,
}

impl Ledger {
    pub fn new(connection: u64, kept: Kept) -> Self {
        Self {
            connection,
            seq: 0,
            counted: 0,
            records: VecDeque::new(),
            awaited: VecDeque::new(),
            block: None,
            streaming: false,
            closed: false,
            kept,
        }
    }

    /// Enters a command that was read. Its arguments are whole until it is sent.
    pub fn begin(&mut self, args: Args, at_ns: u64) -> CommandId {
        self.seq += 1;
        let n = (!judge::is_handshake(&args)).then(|| {
            self.counted += 1;
            self.counted
        });
        let id = CommandId { connection: self.connection, seq: self.seq };
        if self.records.len() >= self.kept.commands.max(1) {
            self.records.pop_front();
        }
        let (interference, answer) = (Interference::None, Answer::None);
        let entry = Entry { id, n, at_ns, args, interference, answer, effects: Effects::Times(0) };
        self.records.push_back(Record { entry, sent: 0, settled: 0, applied: 0, unclear: false });
        id
    }

    /// The command that was entered last.
    pub fn latest(&self) -> Option<&Entry> {
        self.records.back().map(|record| &record.entry)
    }

    /// Whether a command is queued by MULTI, and not one that ends the block.
    pub fn queues(&self, args: &[Vec<u8>]) -> bool {
        self.block.is_some() && !judge::ends_block(args)
    }

    /// Whether one of the command's keys is wanted; EXEC has those of its block.
    pub fn any_key(&self, args: &[Vec<u8>], wanted: &dyn Fn(&[u8]) -> bool) -> bool {
        let any = |args: &[Vec<u8>]| keys_of(args).into_iter().any(wanted);
        match &self.block {
            Some(block) if is_named(args, "EXEC") => block.queued.iter().any(|(_, args)| any(args)),
            _ => any(args),
        }
    }

    /// Notes what came in between.
    pub fn interfere(&mut self, id: CommandId, interference: Interference) {
        if let Some(record) = self.record(id.seq) {
            record.entry.interference = interference;
        }
    }

    fn record(&mut self, seq: u64) -> Option<&mut Record> {
        let first = self.records.front()?.entry.id.seq;
        self.records.get_mut(usize::try_from(seq.checked_sub(first)?).ok()?)
    }

    fn settle(&mut self, seq: u64, settled: Settled) {
        let Some(record) = self.record(seq) else { return };
        match settled {
            Settled::Later => return,
            Settled::Once => record.applied += 1,
            Settled::Not => {}
            Settled::Unclear => record.unclear = true,
        }
        record.settled += 1;
    }

    /// The connection is gone. What MULTI queued and EXEC was never sent for is lost with it.
    pub fn close(&mut self) {
        self.closed = true;
        if let Some(block) = self.block.take() {
            block.queued.iter().for_each(|(seq, _)| self.settle(*seq, Settled::Not));
        }
    }

    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// How often the store applied it; `None` if it is not kept any more, or was never there.
    pub fn effects(&mut self, seq: u64) -> Option<Effects> {
        self.record(seq).map(|record| record.effects())
    }

    /// Whether the store has answered it, or nobody knows any more.
    pub fn is_answered(&mut self, seq: u64) -> bool {
        self.record(seq).is_none_or(|record| record.entry.answer != Answer::None)
    }

    pub fn entries(&self) -> Vec<Entry> {
        self.records.iter().map(|r| Entry { effects: r.effects(), ..r.entry.clone() }).collect()
    }
}
