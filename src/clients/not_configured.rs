//! A client without a connection: none is configured, and each command is an error at once.
//!
//! As Laravel when the connection that the limiter names is missing from `config/database.php`
//! (`InvalidArgumentException: Redis connection [limiter] not configured`), or any client whose address comes
//! from a setting that nobody made. The application starts all the same: only a call of the limiter finds out.

use std::sync::Arc;

use super::Profile;
use crate::ports::BoxFuture;
use crate::ports::store::{Command, Reply, Script, Session, Store, StoreError, Traffic, next_step};

pub static PROFILE: Profile = Profile {
    name: "not-configured",
    summary: "each command is an error at once, as Laravel's when the limiter's connection is not configured",
    connect: |_| Arc::new(NotConfigured),
    rows: None,
};

pub struct NotConfigured;

/// An exchange that is asked for and cannot begin.
fn refused<'a, T: Send + 'a>() -> BoxFuture<'a, Result<T, StoreError>> {
    let _ = next_step();
    let why = "the limiter's connection is not configured".to_owned();
    Box::pin(std::future::ready(Err(StoreError::NotConnected(why))))
}

impl Store for NotConfigured {
    fn command(&self, _: Command) -> BoxFuture<'_, Result<Reply, StoreError>> {
        refused()
    }

    fn transaction(&self, _: Vec<Command>) -> BoxFuture<'_, Result<Vec<Reply>, StoreError>> {
        refused()
    }

    fn pipeline(&self, _: Vec<Command>) -> BoxFuture<'_, Result<Vec<Reply>, StoreError>> {
        refused()
    }

    fn eval<'a>(
        &'a self,
        _: &'a Script,
        _: &'a [&'a str],
        _: Vec<String>,
    ) -> BoxFuture<'a, Result<Reply, StoreError>> {
        refused()
    }

    fn session(&self) -> BoxFuture<'_, Result<Box<dyn Session + '_>, StoreError>> {
        refused()
    }

    /// The application starts all the same.
    fn warm_up(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn traffic(&self) -> Traffic {
        Traffic::default()
    }
}
