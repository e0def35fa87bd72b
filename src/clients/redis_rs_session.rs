//! Sessions on redis-rs: connections that one call has for itself, taken from a pool and given back.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::redis_rs::{Line, Wire};
use crate::ports::BoxFuture;
use crate::ports::store::{Command, Reply, Session, StoreError};

/// The sessions of one node.
pub struct Pool {
    lines: Vec<Arc<Line>>,
    /// Indices of the lines that nobody has. One permit each.
    free: Mutex<Vec<usize>>,
    permits: Semaphore,
}

impl Pool {
    pub fn new(size: usize) -> Self {
        Self {
            lines: (0..size).map(|_| Arc::default()).collect(),
            free: Mutex::new((0..size).rev().collect()),
            permits: Semaphore::new(size),
        }
    }

    fn free(&self) -> MutexGuard<'_, Vec<usize>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub async fn open<'a>(&'a self, wire: &'a Wire) -> Box<dyn Session + 'a> {
        let permit = self.permits.acquire().await.expect("the semaphore is never closed");
        let line = self.free().pop().expect("as many lines as permits");
        Box::new(Held { pool: self, wire, line, clean: true, watching: false, _permit: permit })
    }
}

struct Held<'a> {
    pool: &'a Pool,
    wire: &'a Wire,
    line: usize,
    /// Every exchange begun so far was answered, and nothing is watched.
    clean: bool,
    watching: bool,
    _permit: SemaphorePermit<'a>,
}

/// A connection that may still watch something, or owe an answer, would do so for its next holder.
impl Drop for Held<'_> {
    fn drop(&mut self) {
        if !self.clean {
            self.pool.lines[self.line].hang_up();
        }
        // Before the permit goes, which is after this.
        self.pool.free().push(self.line);
    }
}

impl Held<'_> {
    fn line(&self) -> &Arc<Line> {
        &self.pool.lines[self.line]
    }

    /// Notes what these commands do to the connection, before they are sent.
    fn begin(&mut self, commands: &[Command]) {
        self.clean = false;
        for command in commands {
            match command.name().as_str() {
                "WATCH" => self.watching = true,
                "UNWATCH" => self.watching = false,
                _ => {}
            }
        }
    }

    fn end<T>(&mut self, outcome: Result<T, StoreError>) -> Result<T, StoreError> {
        self.clean = outcome.is_ok() && !self.watching;
        outcome
    }
}

impl Session for Held<'_> {
    fn command(&mut self, command: Command) -> BoxFuture<'_, Result<Reply, StoreError>> {
        Box::pin(async move {
            self.begin(std::slice::from_ref(&command));
            let outcome = self.wire.command(self.line(), command).await;
            self.end(outcome)
        })
    }

    fn pipeline(&mut self, commands: Vec<Command>) -> BoxFuture<'_, Result<Vec<Reply>, StoreError>> {
        Box::pin(async move {
            self.begin(&commands);
            let outcome = self.wire.pipeline(self.line(), commands).await;
            self.end(outcome)
        })
    }

    fn transaction(
        &mut self,
        commands: Vec<Command>,
    ) -> BoxFuture<'_, Result<Option<Vec<Reply>>, StoreError>> {
        Box::pin(async move {
            self.clean = false;
            self.watching = false;
            let outcome = self.wire.transaction(self.line(), commands).await;
            self.end(outcome)
        })
    }
}
