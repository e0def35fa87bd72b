//! Frames and commands out of a stream that arrives in pieces.

use std::ops::Range;

use super::command::{self, CommandScan};
use super::scan::{FrameScan, Scan};
use super::{Args, Frame, Limits, ProtocolError, parse};

/// Takes bytes as they arrive and gives out whole units. After an error it gives only that error; the
/// bytes from the refused unit on are still there for [`Stream::rest`].
struct Stream<S> {
    limits: Limits,
    buffer: Vec<u8>,
    /// Where the unit begins that is being scanned.
    start: usize,
    scan: S,
    broken: Option<ProtocolError>,
}

impl<S: Scan> Stream<S> {
    fn new(limits: Limits) -> Self {
        Self { limits, buffer: Vec::new(), start: 0, scan: S::default(), broken: None }
    }

    fn feed(&mut self, bytes: &[u8]) {
        // Moving what is left only when it is the smaller part keeps the whole linear.
        if self.start > 0 && self.start >= self.buffer.len() - self.start {
            self.buffer.drain(..self.start);
            self.start = 0;
            // One huge value must not be paid for as long as the connection lives.
            if self.buffer.is_empty() && self.buffer.capacity() > 1 << 20 {
                self.buffer = Vec::new();
            }
        }
        self.buffer.extend_from_slice(bytes);
    }

    fn next(&mut self) -> Result<Option<Range<usize>>, ProtocolError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        if self.start == self.buffer.len() {
            return Ok(None);
        }
        match self.scan.advance(&self.buffer[self.start..], &self.limits) {
            Ok(None) => Ok(None),
            Ok(Some(len)) => {
                let range = self.start..self.start + len;
                self.start = range.end;
                self.scan = S::default();
                Ok(Some(range))
            }
            Err(error) => {
                self.broken = Some(error);
                Err(error)
            }
        }
    }

    fn rest(&mut self) -> Vec<u8> {
        let rest = self.buffer.split_off(self.start);
        self.buffer.clear();
        self.start = 0;
        self.scan = S::default();
        rest
    }
}

/// Replies out of a stream.
pub struct Decoder(Stream<FrameScan>);

impl Decoder {
    pub fn new(limits: Limits) -> Self {
        Self(Stream::new(limits))
    }

    /// Takes the next piece of the stream.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.0.feed(bytes);
    }

    /// The next frame that is whole, with the bytes it came in; `None` if more are needed. Once it has
    /// refused something it refuses everything: the boundaries are lost.
    #[expect(clippy::should_implement_trait, reason = "an iterator would be over at the first gap")]
    pub fn next(&mut self) -> Result<Option<(Frame, &[u8])>, ProtocolError> {
        let Some(range) = self.0.next()? else { return Ok(None) };
        let raw = &self.0.buffer[range];
        Ok(Some((parse::build(raw, &self.0.limits)?, raw)))
    }

    /// Like [`Self::next`] without building the frame.
    pub fn next_raw(&mut self) -> Result<Option<&[u8]>, ProtocolError> {
        Ok(self.0.next()?.map(|range| &self.0.buffer[range]))
    }

    /// Takes out the bytes that were not given out, and begins anew after them.
    pub fn rest(&mut self) -> Vec<u8> {
        self.0.rest()
    }
}

/// Commands out of a stream.
pub struct CommandDecoder(Stream<CommandScan>);

impl CommandDecoder {
    pub fn new(limits: Limits) -> Self {
        Self(Stream::new(limits))
    }

    /// Takes the next piece of the stream.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.0.feed(bytes);
    }

    /// The next command that is whole, with the bytes it came in; `None` if more are needed. An empty
    /// command is one without arguments, see [`super::parse_command`]. Errors are for good, as in
    /// [`Decoder::next`].
    #[expect(clippy::should_implement_trait, reason = "an iterator would be over at the first gap")]
    pub fn next(&mut self) -> Result<Option<(Args, &[u8])>, ProtocolError> {
        let Some(range) = self.0.next()? else { return Ok(None) };
        let raw = &self.0.buffer[range];
        Ok(Some((command::arguments(raw)?, raw)))
    }

    /// Takes out the bytes that were not given out, and begins anew after them.
    pub fn rest(&mut self) -> Vec<u8> {
        self.0.rest()
    }
}
