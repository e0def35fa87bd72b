//! The wire between a client and a Redis server: what is said on it, and a proxy that can interfere.
//!
//! | module | what lives there |
//! |---|---|
//! | [`resp`] | RESP2 and RESP3 as bytes and as values; requests; decoders for a stream in pieces |
//! | [`keys`] | which of a command's arguments are keys |
//! | [`proxy`] | stands between clients and a server: rules, faults of the link, transcripts |
//! | [`replication`] | stands before a server and steers what it sends to each of its replicas |

mod hang_up;
pub mod keys;
mod listen;
pub mod proxy;
pub mod replication;
pub mod resp;
