//! The dial port: how a client gets a connection, where it is not to go straight to the server.

use tokio::io::{AsyncRead, AsyncWrite};

/// Both directions of a connection.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// Gives out connections whose other end somebody holds who decides when a command goes on. Clients on
/// them wait for as long as it takes: time is not what the one who holds them tells.
pub trait Dial: Send + Sync {
    fn dial(&self) -> std::io::Result<Box<dyn Stream>>;
}
