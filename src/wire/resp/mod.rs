//! RESP2 and RESP3, the protocol of Redis (<https://redis.io/docs/latest/develop/reference/protocol-spec/>).
//!
//! Bytes are first *scanned*: checked against the grammar and the [`Limits`] without allocating, and
//! resumably, so that a frame that arrives in a thousand pieces is read once. Only a frame that is whole
//! is built. What a peer declares (a length, a count, a nesting) therefore never decides what is
//! allocated: the bytes that arrived do.
//!
//! Streamed strings and aggregates (`$?`, `*?`) are refused: no server sends them unasked.

mod command;
mod decoder;
mod encode;
mod error;
mod frame;
mod header;
mod inline;
mod limits;
mod parse;
mod scan;
#[cfg(test)]
mod tests;

pub use command::{Args, parse_command};
pub use decoder::{CommandDecoder, Decoder};
pub use encode::{encode, encode_command};
pub use error::{ProtocolError, Why};
pub use frame::{Frame, Nil};
pub use limits::Limits;
pub use parse::parse;
