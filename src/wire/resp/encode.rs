//! From values to bytes.

use std::io::Write;

use super::{Frame, Nil};

/// Appends the frame. `parse` gives it back, unless a type that is one line holds a line end: there
/// each of its bytes becomes a space, as Redis itself does it.
pub fn encode(frame: &Frame, out: &mut Vec<u8>) {
    match frame {
        Frame::Simple(text) => line(b'+', text, out),
        Frame::Error(text) => line(b'-', text, out),
        Frame::Int(n) => number(b':', n, out),
        Frame::Bulk(text) => bulk(b'$', text, out),
        Frame::Nil(Nil::Bulk) => out.extend_from_slice(b"$-1\r\n"),
        Frame::Nil(Nil::Array) => out.extend_from_slice(b"*-1\r\n"),
        Frame::Nil(Nil::Null) => out.extend_from_slice(b"_\r\n"),
        Frame::Array(frames) => many(b'*', frames, out),
        Frame::Bool(value) => out.extend_from_slice(if *value { b"#t\r\n" } else { b"#f\r\n" }),
        Frame::Double(text) => line(b',', text, out),
        Frame::BigNumber(text) => line(b'(', text, out),
        Frame::BulkError(text) => bulk(b'!', text, out),
        Frame::Verbatim { format, text } => {
            number(b'=', format.len() + 1 + text.len(), out);
            out.extend_from_slice(format);
            out.push(b':');
            out.extend_from_slice(text);
            out.extend_from_slice(b"\r\n");
        }
        Frame::Map(pairs) => map(b'%', pairs, out),
        Frame::Set(frames) => many(b'~', frames, out),
        Frame::Push(frames) => many(b'>', frames, out),
        Frame::Attributed { attributes, frame } => {
            map(b'|', attributes, out);
            encode(frame, out);
        }
    }
}

/// Appends a command as clients send it, as an array of bulk strings.
pub fn encode_command<A: AsRef<[u8]>>(args: &[A], out: &mut Vec<u8>) {
    number(b'*', args.len(), out);
    for arg in args {
        bulk(b'$', arg.as_ref(), out);
    }
}

fn line(first: u8, text: &[u8], out: &mut Vec<u8>) {
    out.push(first);
    out.extend(text.iter().map(|&b| if matches!(b, b'\r' | b'\n') { b' ' } else { b }));
    out.extend_from_slice(b"\r\n");
}

fn number(first: u8, n: impl std::fmt::Display, out: &mut Vec<u8>) {
    out.push(first);
    // Writing to a vector cannot fail.
    let _ = write!(out, "{n}\r\n");
}

fn bulk(first: u8, text: &[u8], out: &mut Vec<u8>) {
    number(first, text.len(), out);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

fn many(first: u8, frames: &[Frame], out: &mut Vec<u8>) {
    number(first, frames.len(), out);
    frames.iter().for_each(|frame| encode(frame, out));
}

fn map(first: u8, pairs: &[(Frame, Frame)], out: &mut Vec<u8>) {
    number(first, pairs.len(), out);
    for (key, value) in pairs {
        encode(key, out);
        encode(value, out);
    }
}
