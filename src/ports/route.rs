//! The route port: where an app server finds its store, asked at each connect.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use super::BoxFuture;

/// Knows where the primary is, or who to ask.
pub trait Route: Send + Sync {
    /// Where the primary is now, as far as anybody tells.
    fn primary(&self) -> BoxFuture<'_, Result<SocketAddr, String>>;
}

/// An address in an app's configuration, which somebody may change.
pub struct Configured(Mutex<SocketAddr>);

impl Configured {
    pub fn at(address: SocketAddr) -> Arc<Self> {
        Arc::new(Self(Mutex::new(address)))
    }

    pub fn change(&self, address: SocketAddr) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = address;
    }
}

impl Route for Configured {
    fn primary(&self) -> BoxFuture<'_, Result<SocketAddr, String>> {
        let address = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Box::pin(std::future::ready(Ok(address)))
    }
}
