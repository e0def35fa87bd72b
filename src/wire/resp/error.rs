//! Why bytes are not RESP.

/// Where in the frame, and why. After it the stream has no known boundaries any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("byte {at} of the frame: {why}")]
pub struct ProtocolError {
    /// Offset from the first byte of the frame or command.
    pub at: usize,
    pub why: Why,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    #[error("no type of RESP begins with byte {0:#04x}")]
    UnknownType(u8),
    #[error("a length or a number that is none")]
    NotANumber,
    #[error("a negative length")]
    Negative,
    #[error("a streamed value, whose length is not declared")]
    Streamed,
    #[error("a line that is longer than the limit of {0} bytes")]
    LongLine(usize),
    #[error("a string that is longer than the limit of {0} bytes")]
    LongBulk(usize),
    #[error("more elements than the limit of {0}")]
    ManyElements(usize),
    #[error("nested deeper than the limit of {0}")]
    Deep(u8),
    #[error("longer in all than the limit of {0} bytes")]
    Long(usize),
    #[error("a string that does not end where it was declared to")]
    NoLineEnd,
    #[error("a value that its type does not allow")]
    BadValue,
    #[error("a command's argument that begins with byte {0:#04x} instead of '$'")]
    NotABulk(u8),
    #[error("unbalanced quotes in an inline command")]
    Quotes,
}

impl Why {
    pub(super) fn at(self, at: usize) -> ProtocolError {
        ProtocolError { at, why: self }
    }
}
