//! Lets starts in until the run ends, and lets the end wait for those that are inside.
//!
//! A start whose future is dropped half-way has perhaps asked an engine for a container that
//! appears half a second later, when nobody looks any more. So starts run as tasks of their own to
//! their end, and clean-up begins when the last one is out.

use std::sync::Arc;

use tokio::sync::{OwnedRwLockReadGuard, RwLock, watch};

use crate::ports::backend::BackendError;

#[derive(Clone)]
pub struct Gate {
    inside: Arc<RwLock<()>>,
    closed: watch::Sender<bool>,
}

impl Gate {
    pub fn new() -> Self {
        Self { inside: Arc::default(), closed: watch::Sender::new(false) }
    }

    /// Held while something is being started. `Interrupted` once the gate is closed.
    pub async fn enter(&self) -> Result<OwnedRwLockReadGuard<()>, BackendError> {
        let guard = Arc::clone(&self.inside).read_owned().await;
        if *self.closed.borrow() { Err(BackendError::Interrupted) } else { Ok(guard) }
    }

    /// Lets nobody in any more, tells those inside, and waits until they are out.
    pub async fn close(&self) {
        self.closed.send_replace(true);
        drop(self.inside.write().await);
    }

    /// Completes when the gate is closed: whoever waits for a server stops waiting.
    pub async fn closed(&self) {
        // The sender lives in self, so the channel cannot end.
        let _ = self.closed.subscribe().wait_for(|closed| *closed).await;
    }
}

/// Runs a start to its end, whatever becomes of the caller's future.
pub async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, BackendError>> + Send + 'static,
) -> Result<T, BackendError> {
    tokio::spawn(work).await.unwrap_or_else(|error| {
        Err(BackendError::Engine { what: "starting a server".to_owned(), why: error.to_string() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_waits_for_whoever_is_inside() {
        let gate = Gate::new();
        let inside = gate.enter().await.unwrap();
        let mut end = tokio::spawn({
            let gate = gate.clone();
            async move { gate.close().await }
        });
        gate.closed().await;
        assert!(tokio::time::timeout(std::time::Duration::from_millis(20), &mut end).await.is_err());
        drop(inside);
        end.await.unwrap();
        assert!(matches!(gate.enter().await, Err(BackendError::Interrupted)));
    }
}
