//! Requests: an array of bulk strings, or a line that somebody typed.

use super::header;
use super::scan::{LineEnd, Scan};
use super::{Limits, ProtocolError, Why, inline};

/// The name of a command and its arguments.
pub type Args = Vec<Vec<u8>>;

/// The command that `bytes` begins with, and how many of them are its own; `None` if more are needed.
///
/// An empty command (`*0`, or an empty line) has no arguments, and Redis does not answer it. A nil array
/// is refused, although Redis ignores it: a client that sends one is mistaken.
pub fn parse_command(bytes: &[u8], limits: &Limits) -> Result<Option<(Args, usize)>, ProtocolError> {
    let Some(len) = CommandScan::default().advance(bytes, limits)? else { return Ok(None) };
    Ok(Some((arguments(&bytes[..len])?, len)))
}

/// The arguments of a command that was scanned.
pub fn arguments(bytes: &[u8]) -> Result<Args, ProtocolError> {
    if bytes.first() != Some(&b'*') {
        return inline::split(bytes.trim_ascii_end()).ok_or(Why::Quotes.at(0));
    }
    let (count, mut pos) = counted(bytes, 0)?;
    let mut args = Vec::with_capacity(count);
    for _ in 0..count {
        let (len, start) = counted(bytes, pos)?;
        args.push(bytes.get(start..start + len).ok_or(Why::NoLineEnd.at(start))?.to_vec());
        pos = start + len + 2;
    }
    Ok(args)
}

/// The number of a header and where the next byte after it is.
fn counted(bytes: &[u8], start: usize) -> Result<(usize, usize), ProtocolError> {
    let digits = &bytes[start + 1..];
    let end = digits.iter().position(|&b| b == b'\r').ok_or(Why::NoLineEnd.at(start))?;
    let n = header::natural(&digits[..end]).map_err(|why| why.at(start))?;
    Ok((n, start + 1 + end + 2))
}

#[derive(Default)]
pub struct CommandScan {
    /// Everything before is known to be right.
    pos: usize,
    line: LineEnd,
    /// The arguments that have not begun, once the count is known.
    left: Option<usize>,
    /// The length of the argument that is being waited for.
    awaited: Option<usize>,
}

/// Digits of a length; Redis reads no number that is longer.
const NUMBER: usize = 20;

impl Scan for CommandScan {
    fn advance(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<usize>, ProtocolError> {
        if bytes.first().is_some_and(|&b| b != b'*') {
            return self.inline(bytes, limits);
        }
        loop {
            if let Some(len) = self.awaited {
                let end = self.pos + len;
                match bytes.get(end..end + 2) {
                    None => return Ok(None),
                    Some(b"\r\n") => self.pos = end + 2,
                    Some(_) => return Err(Why::NoLineEnd.at(end)),
                }
                self.awaited = None;
            }
            if self.left == Some(0) {
                return Ok(Some(self.pos));
            }
            if !self.header(bytes, limits)? {
                return Ok(None);
            }
        }
    }
}

impl CommandScan {
    fn header(&mut self, bytes: &[u8], limits: &Limits) -> Result<bool, ProtocolError> {
        let start = self.pos;
        let Some(&first) = bytes.get(start) else { return Ok(false) };
        if self.left.is_some() && first != b'$' {
            return Err(Why::NotABulk(first).at(start));
        }
        let Some(end) = self.line.find(bytes, start + 1, NUMBER)? else { return Ok(false) };
        let digits = &bytes[start + 1..end];
        self.pos = end + 2;
        let mut least = self.pos;
        match &mut self.left {
            None => {
                let n = header::natural(digits).map_err(|why| why.at(start))?;
                if n > limits.elements {
                    return Err(Why::ManyElements(limits.elements).at(start));
                }
                self.left = Some(n);
            }
            Some(left) => {
                let len = header::length(digits, limits).map_err(|why| why.at(start))?;
                *left -= 1;
                self.awaited = Some(len);
                least = least.saturating_add(len).saturating_add(2);
            }
        }
        if least > limits.total { Err(Why::Long(limits.total).at(start)) } else { Ok(true) }
    }

    /// A line ends at its line feed, whether or not a carriage return comes before it.
    fn inline(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<usize>, ProtocolError> {
        let found = bytes[self.pos..].iter().position(|&b| b == b'\n').map(|step| self.pos + step + 1);
        self.pos = bytes.len();
        if found.unwrap_or(bytes.len()) > limits.inline + 2 {
            return Err(Why::LongLine(limits.inline).at(0));
        }
        let Some(end) = found else { return Ok(None) };
        self.pos = end;
        if inline::split(bytes[..end].trim_ascii_end()).is_none() {
            return Err(Why::Quotes.at(0));
        }
        Ok(Some(end))
    }
}
