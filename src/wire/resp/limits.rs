//! How much a peer may ask for.

/// Bounds on one frame or command. What exceeds one is refused as soon as it is declared, before
/// anything is allocated for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a string whose length is declared. Redis: `proto-max-bulk-len`, 512 MiB.
    pub bulk: usize,
    /// Bytes of a simple string, an error, a double or a big number.
    pub line: usize,
    /// Bytes of a command typed as a line. Redis: 64 KiB.
    pub inline: usize,
    /// Elements of a frame, those of all its nested aggregates together.
    pub elements: usize,
    /// Aggregates that may lie within each other. A byte, for building and dropping recurse.
    pub depth: u8,
    /// Bytes of a whole frame.
    pub total: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bulk: 512 << 20,
            line: 1 << 20,
            inline: 64 << 10,
            elements: 4 << 20,
            depth: 64,
            total: 1 << 30,
        }
    }
}
