//! redis-rs 1.x, multiplexed connections with its default timeouts: 500 ms for a response, 1 s to
//! connect, no retry, no offline queue.
//!
//! Two things differ from its defaults and are said here: TCP_NODELAY is on (Nagle's algorithm
//! would measure itself), and `CLIENT SETINFO` is off (it would count as a command). A connection
//! that broke is replaced at the next call on its lane.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::pooled::{Lease, Pool};
use super::redis_rs::{Connection, Line, Manner, Unconnected, Wire, mark_if_inside, reply};
use super::redis_rs_session;
use super::{Access, Profile};
use crate::ports::BoxFuture;
use crate::ports::store::{Command, Reply, Script, Session, Store, StoreError, Traffic, lane};

pub static PROFILE: Profile = Profile {
    name: "redis-rs-multiplexed",
    summary: "redis-rs 1.x defaults: multiplexed, 500 ms response timeout, no retry, no offline queue",
    connect: |access| Arc::new(RedisStore::new(access, DEFAULTS, None)),
    rows: None,
};

/// redis-rs 1.x as it comes.
pub const DEFAULTS: Manner = Manner {
    response: Some(Duration::from_millis(500)),
    connect: Duration::from_secs(1),
    unconnected: Unconnected::Connects,
    replays: 0,
};

pub struct RedisStore {
    wire: Wire,
    lanes: Vec<Arc<Line>>,
    /// Who may use which lane; each caller has its own where absent, and shares it.
    pool: Option<Pool>,
    sessions: redis_rs_session::Pool,
}

impl RedisStore {
    pub fn new(access: Access, manner: Manner, pool: Option<Pool>) -> Self {
        let connections = access.connections.max(1);
        Self {
            wire: Wire::new(access, manner),
            lanes: (0..connections).map(|_| Arc::default()).collect(),
            pool,
            sessions: redis_rs_session::Pool::new(connections),
        }
    }

    /// The connection of the current call; outside a call it is held as long as the lease.
    async fn line(&self) -> Result<(&Arc<Line>, Option<Lease>), StoreError> {
        let (lane, lease) = match &self.pool {
            Some(pool) => pool.lane().await?,
            None => (lane() as usize % self.lanes.len(), None),
        };
        Ok((&self.lanes[lane], lease))
    }
}

fn script_command(name: &str, script: &str, keys: &[&str], args: &[String]) -> redis::Cmd {
    let mut cmd = redis::cmd(name);
    cmd.arg(script).arg(keys.len());
    for key in keys {
        cmd.arg(*key);
    }
    for arg in args {
        cmd.arg(arg.as_str());
    }
    cmd
}

impl Store for RedisStore {
    fn command(&self, from: Command) -> BoxFuture<'_, Result<Reply, StoreError>> {
        Box::pin(async move {
            let (line, _lease) = self.line().await?;
            self.wire.command(line, from).await
        })
    }

    fn transaction(&self, commands: Vec<Command>) -> BoxFuture<'_, Result<Vec<Reply>, StoreError>> {
        Box::pin(async move {
            let (line, _lease) = self.line().await?;
            let replies = self.wire.transaction(line, commands).await?;
            replies
                .ok_or_else(|| StoreError::Unexpected("EXEC was aborted, though nothing is watched".into()))
        })
    }

    fn pipeline(&self, commands: Vec<Command>) -> BoxFuture<'_, Result<Vec<Reply>, StoreError>> {
        Box::pin(async move {
            let (line, _lease) = self.line().await?;
            self.wire.pipeline(line, commands).await
        })
    }

    fn eval<'a>(
        &'a self,
        script: &'a Script,
        keys: &'a [&'a str],
        args: Vec<String>,
    ) -> BoxFuture<'a, Result<Reply, StoreError>> {
        Box::pin(async move {
            let (line, _lease) = self.line().await?;
            let by_sha = &script_command("EVALSHA", &script.sha, keys, &args);
            let send = |mut c: Connection| async move { by_sha.query_async::<Value>(&mut c).await };
            let mut outcome = self.wire.exchange(line, || "EVALSHA".to_owned(), 1, send).await;
            if matches!(&outcome, Err(StoreError::Refused(text)) if text.starts_with("NOSCRIPT")) {
                let by_body = &script_command("EVAL", script.body, keys, &args);
                let send = |mut c: Connection| async move { by_body.query_async::<Value>(&mut c).await };
                outcome = self.wire.exchange(line, || "EVAL".to_owned(), 1, send).await;
            }
            outcome.inspect_err(mark_if_inside).map(reply)
        })
    }

    fn session(&self) -> BoxFuture<'_, Result<Box<dyn Session + '_>, StoreError>> {
        Box::pin(async move { Ok(self.sessions.open(&self.wire).await) })
    }

    fn warm_up(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            for line in &self.lanes {
                self.wire.warm_up(line).await?;
            }
            Ok(())
        })
    }

    fn traffic(&self) -> Traffic {
        self.wire.traffic()
    }
}
