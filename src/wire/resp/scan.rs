//! Where a frame ends, told from its headers alone and resumably: bytes looked at once are not looked
//! at again when more arrive.

use super::header::{self, Header, Text};
use super::{Limits, ProtocolError, Why};

/// Finds the end of what begins at the first byte of `bytes`, of which each call sees more.
pub trait Scan: Default {
    /// The length of the whole, or `None` if it has not all arrived.
    fn advance(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<usize>, ProtocolError>;
}

/// Searches for the end of a line, and remembers how far it has looked.
#[derive(Default)]
pub struct LineEnd {
    looked: usize,
}

impl LineEnd {
    /// Where the `\r\n` begins that ends the line from `start` on, at most `limit` bytes further.
    pub fn find(&mut self, bytes: &[u8], start: usize, limit: usize) -> Result<Option<usize>, ProtocolError> {
        let mut from = start + self.looked;
        while let Some(step) = bytes[from..].iter().position(|&b| b == b'\n') {
            let at = from + step;
            if at > start && bytes[at - 1] == b'\r' {
                self.looked = 0;
                let end = at - 1;
                return if end - start > limit { Err(Why::LongLine(limit).at(start)) } else { Ok(Some(end)) };
            }
            from = at + 1;
        }
        self.looked = bytes.len() - start;
        // One more for the carriage return.
        if self.looked > limit + 1 { Err(Why::LongLine(limit).at(start)) } else { Ok(None) }
    }
}

/// A string of declared length that is being waited for.
struct Awaited {
    kind: Text,
    len: usize,
}

#[derive(Default)]
pub struct FrameScan {
    /// Everything before is known to be right.
    pos: usize,
    line: LineEnd,
    awaited: Option<Awaited>,
    /// For each open aggregate, how many of its frames have not begun.
    open: Vec<usize>,
    elements: usize,
}

impl Scan for FrameScan {
    fn advance(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<usize>, ProtocolError> {
        loop {
            let whole = match self.awaited.take() {
                Some(awaited) => self.text(awaited, bytes)?,
                None => self.header(bytes, limits)?,
            };
            if !whole {
                return Ok(None);
            }
            if self.awaited.is_none() && self.settle() {
                return Ok(Some(self.pos));
            }
        }
    }
}

impl FrameScan {
    /// Whether the header was there; it may have been one that awaits a text.
    fn header(&mut self, bytes: &[u8], limits: &Limits) -> Result<bool, ProtocolError> {
        let start = self.pos;
        let Some(&first) = bytes.get(start) else { return Ok(false) };
        let limit = header::line_limit(first, limits).map_err(|why| why.at(start))?;
        let Some(end) = self.line.find(bytes, start + 1, limit)? else {
            return self.bounded(bytes.len(), limits).map(|()| false);
        };
        let header = header::read(&bytes[start..end], limits).map_err(|why| why.at(start))?;
        self.pos = end + 2;
        self.bounded(self.pos, limits)?;
        if let Some(left) = self.open.last_mut() {
            *left -= 1;
        }
        match header {
            Header::Text(kind, len) => {
                self.bounded(self.pos.saturating_add(len).saturating_add(2), limits)?;
                self.awaited = Some(Awaited { kind, len });
            }
            Header::Many(kind, n) => self.enter(kind.frames(n), start, limits)?,
            _ => {}
        }
        Ok(true)
    }

    fn enter(&mut self, frames: usize, start: usize, limits: &Limits) -> Result<(), ProtocolError> {
        self.elements = self.elements.saturating_add(frames);
        if self.elements > limits.elements {
            return Err(Why::ManyElements(limits.elements).at(start));
        }
        if self.open.len() >= usize::from(limits.depth) {
            return Err(Why::Deep(limits.depth).at(start));
        }
        self.open.push(frames);
        Ok(())
    }

    /// Whether the text is all there.
    fn text(&mut self, awaited: Awaited, bytes: &[u8]) -> Result<bool, ProtocolError> {
        let (start, end) = (self.pos, self.pos + awaited.len);
        let Some(tail) = bytes.get(end..end + 2) else {
            self.awaited = Some(awaited);
            return Ok(false);
        };
        if tail != b"\r\n" {
            return Err(Why::NoLineEnd.at(end));
        }
        // Three bytes of format and a colon.
        if awaited.kind == Text::Verbatim && (awaited.len < 4 || bytes[start + 3] != b':') {
            return Err(Why::BadValue.at(start));
        }
        self.pos = end + 2;
        Ok(true)
    }

    /// Closes the aggregates that are complete, and says whether the frame is.
    fn settle(&mut self) -> bool {
        while self.open.last() == Some(&0) {
            self.open.pop();
        }
        self.open.is_empty()
    }

    fn bounded(&self, length: usize, limits: &Limits) -> Result<(), ProtocolError> {
        if length > limits.total { Err(Why::Long(limits.total).at(self.pos)) } else { Ok(()) }
    }
}
