//! A value of RESP.

/// The three ways to say nothing. RESP2 has two of them, RESP3 the third.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Nil {
    /// `$-1`
    Bulk,
    /// `*-1`
    Array,
    /// `_`
    Null,
}

/// A value. Strings are bytes; whether they are text is for those who read them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Frame {
    /// `+OK`
    Simple(Vec<u8>),
    /// `-ERR …`, code included.
    Error(Vec<u8>),
    /// `:1`
    Int(i64),
    /// `$3`
    Bulk(Vec<u8>),
    Nil(Nil),
    /// `*2`
    Array(Vec<Frame>),
    /// `#t`
    Bool(bool),
    /// `,1.5`, `,inf`, `,nan`: as it was written, since a float would not give it back.
    Double(Vec<u8>),
    /// `(3492…`: as it was written.
    BigNumber(Vec<u8>),
    /// `!21`
    BulkError(Vec<u8>),
    /// `=15`, three bytes of format, a colon, and the text.
    Verbatim {
        format: [u8; 3],
        text: Vec<u8>,
    },
    /// `%2`: in the order in which it was sent.
    Map(Vec<(Frame, Frame)>),
    /// `~2`: in the order in which it was sent.
    Set(Vec<Frame>),
    /// `>2`: not the answer to a command.
    Push(Vec<Frame>),
    /// `|1`: said about the frame that follows, and no element of its own.
    Attributed {
        attributes: Vec<(Frame, Frame)>,
        frame: Box<Frame>,
    },
}

impl Frame {
    /// The message of an error of either kind, behind attributes too.
    pub fn error(&self) -> Option<&[u8]> {
        match self {
            Self::Error(text) | Self::BulkError(text) => Some(text),
            Self::Attributed { frame, .. } => frame.error(),
            _ => None,
        }
    }

    /// Whether it was sent unasked.
    pub fn is_push(&self) -> bool {
        match self {
            Self::Push(_) => true,
            Self::Attributed { frame, .. } => frame.is_push(),
            _ => false,
        }
    }
}
