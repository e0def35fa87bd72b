//! What commands and replies mean to a proxy, told from their bytes alone.

use crate::wire::proxy::rule::is_named;
use crate::wire::resp::{Args, Frame};

/// What a reply says about the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    Once,
    Not,
    /// Part of it may have been applied.
    Unclear,
    /// EXEC will tell.
    Later,
}

/// Whether a command belongs to what clients send of their own accord when they connect or look after
/// a connection: HELLO, AUTH, CLIENT, SELECT, PING, COMMAND. They are not counted.
pub fn is_handshake(args: &[Vec<u8>]) -> bool {
    ["HELLO", "AUTH", "CLIENT", "SELECT", "PING", "COMMAND"].iter().any(|name| is_named(args, name))
}

/// Whether what the store says after this command is no longer one reply for each command.
pub fn streams(args: &[Vec<u8>]) -> bool {
    const STREAMS: [&str; 10] = [
        "SUBSCRIBE",
        "PSUBSCRIBE",
        "SSUBSCRIBE",
        "UNSUBSCRIBE",
        "PUNSUBSCRIBE",
        "SUNSUBSCRIBE",
        "MONITOR",
        "SYNC",
        "PSYNC",
        "CLIENT REPLY",
    ];
    STREAMS.iter().any(|name| is_named(args, name))
}

pub fn ends_block(args: &[Vec<u8>]) -> bool {
    ["EXEC", "DISCARD", "RESET"].iter().any(|name| is_named(args, name))
}

/// Whether a frame was said unasked. One with attributes in front is a reply: Redis sends none to a push.
pub fn is_push(raw: &[u8]) -> bool {
    raw.first() == Some(&b'>')
}

/// Errors that come before anything runs.
const AT_THE_DOOR: [&[u8]; 12] = [
    b"NOSCRIPT",
    b"MOVED",
    b"ASK",
    b"CROSSSLOT",
    b"CLUSTERDOWN",
    b"LOADING",
    b"MASTERDOWN",
    b"BUSY",
    b"NOAUTH",
    b"NOPERM",
    b"EXECABORT",
    b"NOREPLICAS",
];

/// What the reply to a command says about it. The frame is there unless it is long.
pub fn settled(args: &[Vec<u8>], frame: Option<&Frame>, raw: &[u8], queued: bool) -> Settled {
    let error = frame.map_or_else(|| matches!(raw.first(), Some(b'-' | b'!')), |f| f.error().is_some());
    if queued {
        return if error { Settled::Not } else { Settled::Later };
    }
    if is_named(args, "EXEC") && matches!(frame, Some(Frame::Nil(_))) {
        return Settled::Not;
    }
    if !error {
        return Settled::Once;
    }
    let text = frame.and_then(Frame::error).unwrap_or(raw);
    refused(args, text)
}

/// A script that was refused may have been refused half-way.
fn refused(args: &[Vec<u8>], text: &[u8]) -> Settled {
    let scripts = ["EVAL", "EVALSHA", "FCALL"];
    let code = text.split(|&b| b == b' ').next().unwrap_or_default();
    if scripts.iter().any(|name| is_named(args, name)) && !AT_THE_DOOR.contains(&code) {
        return Settled::Unclear;
    }
    Settled::Not
}

/// What the reply of EXEC says about the command at this place of its block.
pub fn in_block(args: &[Vec<u8>], exec: Option<&Frame>, at: usize, commands: usize) -> Settled {
    match exec {
        Some(Frame::Array(replies)) if replies.len() == commands => {
            settled(args, Some(&replies[at]), b"", false)
        }
        Some(Frame::Nil(_)) => Settled::Not,
        Some(frame) if frame.error().is_some_and(|e| e.starts_with(b"EXECABORT")) => Settled::Not,
        _ => Settled::Unclear,
    }
}

/// Cuts what is longer than is kept.
pub fn shorten(args: &mut Args, bytes: usize) {
    for arg in args.iter_mut().filter(|arg| arg.len() > bytes) {
        *arg = [&arg[..bytes], "…".as_bytes()].concat();
    }
}
