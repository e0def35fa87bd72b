//! From bytes to a frame.

use super::header::{self, Header, Many, Text};
use super::scan::{FrameScan, Scan};
use super::{Frame, Limits, ProtocolError, Why};

/// The frame that `bytes` begins with, and how many of them are its own; `None` if more are needed.
///
/// Begins anew with each call: for a stream in pieces there is [`super::Decoder`].
pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Option<(Frame, usize)>, ProtocolError> {
    let Some(len) = FrameScan::default().advance(bytes, limits)? else { return Ok(None) };
    Ok(Some((build(&bytes[..len], limits)?, len)))
}

/// Builds a frame out of bytes that were scanned and are exactly one.
pub fn build(bytes: &[u8], limits: &Limits) -> Result<Frame, ProtocolError> {
    Reader { bytes, pos: 0, limits }.frame()
}

struct Reader<'a> {
    bytes: &'a [u8],
    pos: usize,
    limits: &'a Limits,
}

impl Reader<'_> {
    fn frame(&mut self) -> Result<Frame, ProtocolError> {
        let start = self.pos;
        let rest = &self.bytes[start..];
        let end = rest.windows(2).position(|w| w == b"\r\n").ok_or(Why::NoLineEnd.at(start))?;
        self.pos = start + end + 2;
        Ok(match header::read(&rest[..end], self.limits).map_err(|why| why.at(start))? {
            Header::Simple(text) => Frame::Simple(text.to_vec()),
            Header::Error(text) => Frame::Error(text.to_vec()),
            Header::Int(n) => Frame::Int(n),
            Header::Bool(value) => Frame::Bool(value),
            Header::Double(text) => Frame::Double(text.to_vec()),
            Header::BigNumber(text) => Frame::BigNumber(text.to_vec()),
            Header::Nil(nil) => Frame::Nil(nil),
            Header::Text(kind, len) => self.text(kind, len)?,
            Header::Many(kind, n) => self.many(kind, n)?,
        })
    }

    fn text(&mut self, kind: Text, len: usize) -> Result<Frame, ProtocolError> {
        let text = self.bytes.get(self.pos..self.pos + len).ok_or(Why::NoLineEnd.at(self.pos))?;
        let frame = match (kind, text) {
            (Text::Bulk, _) => Frame::Bulk(text.to_vec()),
            (Text::Error, _) => Frame::BulkError(text.to_vec()),
            (Text::Verbatim, &[a, b, c, b':', ref text @ ..]) => {
                Frame::Verbatim { format: [a, b, c], text: text.to_vec() }
            }
            (Text::Verbatim, _) => return Err(Why::BadValue.at(self.pos)),
        };
        self.pos += len + 2;
        Ok(frame)
    }

    /// The count is safe to reserve for: each of the frames is there, with three bytes or more.
    fn many(&mut self, kind: Many, n: usize) -> Result<Frame, ProtocolError> {
        Ok(match kind {
            Many::Array => Frame::Array(self.frames(n)?),
            Many::Set => Frame::Set(self.frames(n)?),
            Many::Push => Frame::Push(self.frames(n)?),
            Many::Map => Frame::Map(self.pairs(n)?),
            Many::Attribute => {
                Frame::Attributed { attributes: self.pairs(n)?, frame: Box::new(self.frame()?) }
            }
        })
    }

    fn frames(&mut self, n: usize) -> Result<Vec<Frame>, ProtocolError> {
        (0..n).map(|_| self.frame()).collect()
    }

    fn pairs(&mut self, n: usize) -> Result<Vec<(Frame, Frame)>, ProtocolError> {
        (0..n).map(|_| Ok((self.frame()?, self.frame()?))).collect()
    }
}
