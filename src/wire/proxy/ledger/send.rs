//! The way to the store: what is sent of a command, and which reply is then awaited.

use super::judge::{self, Settled};
use super::{Awaited, Block, Fate, Ledger, Reply};
use crate::wire::proxy::rule::{Action, is_named};

/// How the way to the store goes on after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    Go,
    /// What follows is passed on as it is.
    Stream,
    /// Nothing follows: the connection is about to be cut.
    Stop,
}

/// A command on its way.
struct Sending<'a> {
    seq: u64,
    raw: &'a [u8],
    /// Of EXEC: the commands it applies.
    block: Vec<u64>,
    queued: bool,
    streams: bool,
}

impl Ledger {
    /// Puts the command, which is the latest, on its way: appends to `out` what the store is to get.
    /// `named`: the rule that wants this asked for it by its name.
    pub fn send(&mut self, raw: &[u8], action: Action, named: bool, out: &mut Vec<u8>) -> After {
        let (seq, bytes) = (self.seq, self.kept.bytes);
        let Some(record) = self.records.back_mut() else { return After::Go };
        let args = &mut record.entry.args;
        let (begins, ends) = (is_named(args, "MULTI"), judge::ends_block(args));
        let exec = is_named(args, "EXEC");
        let queued = self.block.is_some() && !ends;
        let whole = queued.then(|| args.clone());
        let streams = judge::streams(args);
        judge::shorten(args, bytes);
        let sending = Sending { seq, raw, block: vec![], queued, streams };
        match (&mut self.block, whole) {
            (Some(block), Some(args)) => {
                if block.wanted == Action::Drop {
                    return After::Go;
                }
                block.queued.push((seq, args));
                if block.wanted == Action::Duplicate {
                    block.raw.extend_from_slice(raw);
                }
                self.deliver(sending, action, out)
            }
            (Some(_), None) => self.end_block(sending, exec, action, out),
            (None, _) if begins => self.begin_block(sending, action, named, out),
            (None, _) => self.deliver(sending, action, out),
        }
    }

    /// Asked for by its name, MULTI stands for the whole block, and most of it is for EXEC to do.
    fn begin_block(&mut self, sending: Sending, action: Action, named: bool, out: &mut Vec<u8>) -> After {
        let wanted = if named { action } else { Action::Pass };
        let (now, opens) = match action {
            Action::CutBefore => (action, false),
            Action::Drop => (action, named),
            _ if named => (Action::Pass, true),
            _ => (action, true),
        };
        if opens {
            let raw = if wanted == Action::Duplicate { sending.raw.to_vec() } else { Vec::new() };
            self.block = Some(Block { wanted, raw, multi: sending.seq, queued: Vec::new() });
        }
        self.deliver(sending, now, out)
    }

    fn end_block(&mut self, mut sending: Sending, exec: bool, action: Action, out: &mut Vec<u8>) -> After {
        let Some(block) = self.block.take() else { return After::Go };
        let seqs: Vec<u64> = block.queued.iter().map(|(seq, _)| *seq).collect();
        let action = match action {
            Action::Pass | Action::Delay(_) | Action::Hold if exec || block.wanted == Action::Drop => {
                block.wanted
            }
            own => own,
        };
        let reaches = !matches!(action, Action::Drop | Action::CutBefore);
        if !exec || !reaches {
            // Discarded, or never to be applied: a connection that stays keeps a block open for good.
            seqs.iter().for_each(|&seq| self.settle(seq, Settled::Not));
            return self.deliver(sending, action, out);
        }
        sending.block = seqs.clone();
        if action != block.wanted || action != Action::Duplicate {
            return self.deliver(sending, action, out);
        }
        let (seq, raw) = (sending.seq, sending.raw);
        let after = self.deliver(sending, Action::Pass, out);
        out.extend_from_slice(&block.raw);
        out.extend_from_slice(raw);
        self.await_echo(block.multi, vec![], false);
        seqs.iter().for_each(|&seq| self.await_echo(seq, vec![], true));
        self.await_echo(seq, seqs, false);
        after
    }

    fn deliver(&mut self, sending: Sending, action: Action, out: &mut Vec<u8>) -> After {
        let fate = match action {
            Action::Drop => return After::Go,
            Action::CutBefore => {
                self.awaited.push_back(Awaited::Cut);
                return After::Stop;
            }
            Action::Pass | Action::Delay(_) | Action::Hold | Action::Duplicate => Fate::Give,
            Action::LoseReply => Fate::Lose,
            Action::CutAfter => Fate::Cut,
        };
        let Sending { seq, raw, block, queued, streams } = sending;
        out.extend_from_slice(raw);
        if streams && fate != Fate::Cut {
            // Its own reply, if it has one, is part of the stream.
            self.count_sent(seq);
            self.stream_next();
            return After::Stream;
        }
        self.await_reply(Reply { seq, fate, block, queued });
        if action == Action::Duplicate {
            out.extend_from_slice(raw);
            self.await_echo(seq, vec![], queued);
        }
        if fate == Fate::Cut { After::Stop } else { After::Go }
    }

    fn await_reply(&mut self, reply: Reply) {
        self.count_sent(reply.seq);
        if !self.streaming {
            self.awaited.push_back(Awaited::Reply(reply));
        }
    }

    fn await_echo(&mut self, seq: u64, block: Vec<u64>, queued: bool) {
        self.await_reply(Reply { seq, fate: Fate::Lose, block, queued });
    }

    fn count_sent(&mut self, seq: u64) {
        if let Some(record) = self.record(seq) {
            record.sent += 1;
        }
    }

    /// What is sent from here on is no sequence of commands any more.
    pub fn stream_next(&mut self) {
        self.awaited.push_back(Awaited::Stream);
    }
}
