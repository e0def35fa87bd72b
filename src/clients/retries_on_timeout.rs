//! A client that sends again what was not answered: up to three times, as redis-py from 6.0 on (its
//! default `Retry`), go-redis (`MaxRetries: 3`) and Jedis' cluster client do.
//!
//! A command without an answer may have been applied all the same. Sent again it is applied once more:
//! an INCR charges twice, and a script that admits takes two permits for one call. Their waits between
//! attempts are left out; they change when, not what. Sessions are not retried: what WATCH watched is gone
//! with the connection.
//!
//! Otherwise it is `redis-rs-multiplexed`, with its timeouts.

use std::sync::Arc;

use super::Profile;
use super::redis_rs_multiplexed::{DEFAULTS, RedisStore};
use crate::ports::BoxFuture;
use crate::ports::store::{Command, Reply, Script, Session, Store, StoreError, Traffic};

pub static PROFILE: Profile = Profile {
    name: "retries-on-timeout",
    summary: "sends again what was not answered, up to 3 times, as redis-py from 6.0 on and go-redis do",
    connect: |access| Arc::new(Retrying { inner: RedisStore::new(access, DEFAULTS, None) }),
    rows: None,
};

const RETRIES: u32 = 3;

struct Retrying {
    inner: RedisStore,
}

/// Tries again while nothing was heard.
async fn again<T, F>(mut attempt: impl FnMut() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let mut left = RETRIES;
    loop {
        match attempt().await {
            Err(StoreError::NoAnswer(_) | StoreError::NotConnected(_)) if left > 0 => left -= 1,
            outcome => return outcome,
        }
    }
}

impl Store for Retrying {
    fn command(&self, command: Command) -> BoxFuture<'_, Result<Reply, StoreError>> {
        Box::pin(async move { again(|| self.inner.command(command.clone())).await })
    }

    fn transaction(&self, commands: Vec<Command>) -> BoxFuture<'_, Result<Vec<Reply>, StoreError>> {
        Box::pin(async move { again(|| self.inner.transaction(commands.clone())).await })
    }

    fn pipeline(&self, commands: Vec<Command>) -> BoxFuture<'_, Result<Vec<Reply>, StoreError>> {
        Box::pin(async move { again(|| self.inner.pipeline(commands.clone())).await })
    }

    fn eval<'a>(
        &'a self,
        script: &'a Script,
        keys: &'a [&'a str],
        args: Vec<String>,
    ) -> BoxFuture<'a, Result<Reply, StoreError>> {
        Box::pin(async move { again(|| self.inner.eval(script, keys, args.clone())).await })
    }

    fn session(&self) -> BoxFuture<'_, Result<Box<dyn Session + '_>, StoreError>> {
        self.inner.session()
    }

    fn warm_up(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.warm_up()
    }

    fn traffic(&self) -> Traffic {
        self.inner.traffic()
    }
}
