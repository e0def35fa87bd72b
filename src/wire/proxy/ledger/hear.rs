//! The way back: which command a reply belongs to, and whether the caller is to hear it.

use super::judge::{self, Settled};
use super::{Awaited, Fate, Ledger, Reply};
use crate::wire::proxy::rule::is_named;
use crate::wire::proxy::transcript::{Answer, Interference};
use crate::wire::resp::{self, Limits};

/// What to do with a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hear {
    Give,
    Swallow,
    Cut,
}

impl Ledger {
    /// Takes a whole frame from the store. `lost`: the link swallows it.
    pub fn hear(&mut self, raw: &[u8], lost: bool) -> Hear {
        let given = if lost { Hear::Swallow } else { Hear::Give };
        let reply = match self.awaited.front() {
            Some(Awaited::Reply(_)) if !judge::is_push(raw) => self.awaited.pop_front(),
            // Said unasked, as "max number of clients reached".
            _ => None,
        };
        let Some(Awaited::Reply(reply)) = reply else { return given };
        self.note(&reply, raw);
        match reply.fate {
            Fate::Cut => Hear::Cut,
            Fate::Lose => Hear::Swallow,
            Fate::Give => {
                if let (true, Some(record)) = (lost, self.record(reply.seq)) {
                    record.entry.interference = Interference::BlackHole;
                }
                given
            }
        }
    }

    fn note(&mut self, reply: &Reply, raw: &[u8]) {
        let bytes = self.kept.bytes;
        let Some(record) = self.record(reply.seq) else { return };
        let args = &record.entry.args;
        let short = raw.len() <= bytes;
        // A frame that was told apart is one that parses.
        let whole = short || is_named(args, "EXEC");
        let frame = if whole { resp::parse(raw, &Limits::default()).ok().flatten() } else { None };
        let frame = frame.map(|(frame, _)| frame);
        let settled = judge::settled(args, frame.as_ref(), raw, reply.queued);
        let no_block = settled == Settled::Not && is_named(args, "MULTI");
        if record.entry.answer == Answer::None {
            record.entry.answer = match &frame {
                Some(frame) if short => Answer::Frame(frame.clone()),
                _ => Answer::Long(raw.len()),
            };
        }
        self.settle(reply.seq, settled);
        if no_block {
            self.block.take_if(|block| block.multi == reply.seq);
        }
        // Those that were refused when they should have been queued are not in the reply.
        let applied: Vec<u64> = reply.block.iter().copied().filter(|&seq| self.is_open(seq)).collect();
        for (at, &seq) in applied.iter().enumerate() {
            let Some(record) = self.record(seq) else { continue };
            let settled = judge::in_block(&record.entry.args, frame.as_ref(), at, applied.len());
            self.settle(seq, settled);
        }
    }

    fn is_open(&mut self, seq: u64) -> bool {
        self.record(seq).is_none_or(|record| record.settled < record.sent)
    }

    /// What comes from the store is no sequence of replies any more, and nothing waits for one.
    pub fn lose_track(&mut self) {
        self.streaming = true;
        self.awaited.clear();
    }

    /// Whether what comes now is a stream.
    pub fn streams_now(&mut self) -> bool {
        if matches!(self.awaited.front(), Some(Awaited::Stream)) {
            self.lose_track();
        }
        self.streaming
    }

    /// Whether everything is answered that was to be before a cut.
    pub fn cuts_now(&self) -> bool {
        matches!(self.awaited.front(), Some(Awaited::Cut))
    }
}
