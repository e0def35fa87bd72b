//! Work that goes on behind the calls: owned by the limiter whose it is, and over when that is.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::task::JoinSet;

/// How many at a time is up to the limiter; what ends is forgotten as the next one begins.
#[derive(Default)]
pub struct Background(Mutex<JoinSet<()>>);

impl Background {
    fn tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn begin(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(work);
    }

    /// Ends all that was begun, wherever it is.
    pub async fn end(&self) {
        let mut begun = std::mem::take(&mut *self.tasks());
        begun.shutdown().await;
    }

    /// Returns when all that was begun is over.
    pub async fn settle(&self) {
        let mut begun = std::mem::take(&mut *self.tasks());
        while begun.join_next().await.is_some() {}
    }
}
