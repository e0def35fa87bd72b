//! redis-rs 1.x, multiplexed connections with its default timeouts: 500 ms for a response, 1 s to
//! connect, no retry, no offline queue.
//!
//! Two things differ from its defaults and are said here: TCP_NODELAY is on (Nagle's algorithm
//! would measure itself), and `CLIENT SETINFO` is off (it would count as a command). A connection
//! that broke is replaced at the next call on its lane.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ErrorKind, IntoConnectionInfo, RedisError, Value};

use super::pooled::Pool;
use super::{Access, Profile};
use crate::ports::BoxFuture;
use crate::ports::store::{
    Command, Reply, Script, Step, StepAction, Store, StoreError, Traffic, mark_sent, next_step,
};

pub static PROFILE: Profile = Profile {
    name: "redis-rs-multiplexed",
    summary: "redis-rs 1.x defaults: multiplexed, 500 ms response timeout, no retry, no offline queue",
    connect: |access| Arc::new(RedisStore::new(access, None)),
};

const RESPONSE_TIMEOUT: Duration = Duration::from_millis(500);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

pub struct RedisStore {
    access: Access,
    lanes: Vec<Lane>,
    /// Who may use which lane; each caller has its own where absent, and shares it.
    pool: Option<Pool>,
    commands: AtomicU64,
    round_trips: AtomicU64,
    /// The node died at a step: nothing is sent any more.
    dead: AtomicBool,
}

/// One connection, made when it is first needed.
#[derive(Default)]
struct Lane {
    current: Mutex<Option<MultiplexedConnection>>,
    /// Held while connecting, so that callers of a lane share one attempt.
    connecting: tokio::sync::Mutex<()>,
}

impl RedisStore {
    pub fn new(access: Access, pool: Option<Pool>) -> Self {
        let lanes = (0..access.connections.max(1)).map(|_| Lane::default()).collect();
        Self {
            access,
            lanes,
            pool,
            commands: AtomicU64::new(0),
            round_trips: AtomicU64::new(0),
            dead: AtomicBool::new(false),
        }
    }

    async fn connect(&self) -> Result<MultiplexedConnection, StoreError> {
        let not_connected = |e: RedisError| StoreError::NotConnected(describe(&e));
        let url = format!("redis://{}/", self.access.address);
        let info = url.into_connection_info().map_err(not_connected)?;
        let tcp = info.tcp_settings().clone().set_nodelay(true);
        let mut redis = info.redis_settings().clone().set_skip_set_lib_name();
        if let Some(user) = &self.access.user {
            redis = redis.set_username(user).set_password("");
        }
        let client =
            Client::open(info.set_tcp_settings(tcp).set_redis_settings(redis)).map_err(not_connected)?;
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(Some(RESPONSE_TIMEOUT))
            .set_connection_timeout(Some(CONNECT_TIMEOUT));
        client.get_multiplexed_async_connection_with_config(&config).await.map_err(not_connected)
    }

    async fn connection(&self, lane: &Lane) -> Result<MultiplexedConnection, StoreError> {
        if let Some(connection) = lane.get() {
            return Ok(connection);
        }
        let _turn = lane.connecting.lock().await;
        if let Some(connection) = lane.get() {
            return Ok(connection);
        }
        let fresh = self.connect().await?;
        *lane.slot() = Some(fresh.clone());
        Ok(fresh)
    }

    /// One exchange with the server: hook, send, count, hook.
    async fn exchange<T, F>(
        &self,
        name: impl FnOnce() -> String,
        commands: u64,
        send: impl FnOnce(MultiplexedConnection) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, RedisError>>,
    {
        let (op, lane, index) = next_step();
        let step = self.access.hook.as_ref().map(|hook| (hook, Step { op, index, command: name() }));
        if self.dead.load(Ordering::Relaxed) {
            return Err(StoreError::NodeDied);
        }
        let (lane, _lease) = match &self.pool {
            Some(pool) => pool.lane().await?,
            None => (lane as usize % self.lanes.len(), None),
        };
        if let Some((hook, step)) = &step {
            let action = hook.before(step).await;
            self.obey(action)?;
        }
        let lane = &self.lanes[lane];
        let connection = self.connection(lane).await?;
        self.commands.fetch_add(commands, Ordering::Relaxed);
        self.round_trips.fetch_add(1, Ordering::Relaxed);
        let answer = send(connection).await;
        let outcome = match answer {
            Ok(value) => {
                mark_sent();
                Ok(value)
            }
            Err(error) => Err(self.judge(lane, &error)),
        };
        if let Some((hook, step)) = &step {
            let action = hook.after(step).await;
            self.obey(action)?;
        }
        outcome
    }

    fn obey(&self, action: StepAction) -> Result<(), StoreError> {
        match action {
            StepAction::Go => Ok(()),
            StepAction::Fail(error) => Err(error),
            StepAction::Die => {
                self.dead.store(true, Ordering::Relaxed);
                Err(StoreError::NodeDied)
            }
        }
    }

    fn judge(&self, lane: &Lane, error: &RedisError) -> StoreError {
        if answered(error) {
            return StoreError::Refused(describe(error));
        }
        mark_sent();
        // A timed-out connection still works; a broken one never will.
        if !error.is_timeout() {
            *lane.slot() = None;
        }
        StoreError::NoAnswer(describe(error))
    }
}

impl Lane {
    fn slot(&self) -> std::sync::MutexGuard<'_, Option<MultiplexedConnection>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self) -> Option<MultiplexedConnection> {
        self.slot().clone()
    }
}

/// Whether the server itself refused, as opposed to not being heard.
fn answered(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension)
}

fn describe(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ if error.is_timeout() => format!("timed out after {} ms", RESPONSE_TIMEOUT.as_millis()),
        _ => error.to_string(),
    }
}

/// A script or a transaction that was refused may have been refused half-way, after some of its
/// commands were applied: unless the code is one that comes before anything runs.
fn mark_if_inside(error: &StoreError) {
    const AT_THE_DOOR: [&str; 10] = [
        "NOSCRIPT",
        "MOVED",
        "ASK",
        "CROSSSLOT",
        "CLUSTERDOWN",
        "LOADING",
        "MASTERDOWN",
        "BUSY",
        "NOAUTH",
        "EXECABORT",
    ];
    if let StoreError::Refused(text) = error
        && !AT_THE_DOOR.iter().any(|code| text.split(' ').next() == Some(code))
    {
        mark_sent();
    }
}

fn reply(value: Value) -> Reply {
    match value {
        Value::Int(n) => Reply::Int(n),
        Value::BulkString(bytes) => Reply::Text(String::from_utf8_lossy(&bytes).into_owned()),
        Value::SimpleString(text) => Reply::Text(text),
        Value::Okay => Reply::Text("OK".to_owned()),
        Value::Array(items) => Reply::List(items.into_iter().map(reply).collect()),
        Value::Nil => Reply::Nil,
        other => Reply::Text(format!("{other:?}")),
    }
}

fn command(from: &Command) -> redis::Cmd {
    let mut cmd = redis::Cmd::with_capacity(from.args.len(), from.args.iter().map(Vec::len).sum());
    for arg in &from.args {
        cmd.arg(arg.as_slice());
    }
    cmd
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
            let cmd = command(&from);
            let send = |mut c: MultiplexedConnection| async move { cmd.query_async::<Value>(&mut c).await };
            self.exchange(|| from.name(), 1, send).await.map(reply)
        })
    }

    fn transaction(&self, commands: Vec<Command>) -> BoxFuture<'_, Result<Vec<Reply>, StoreError>> {
        Box::pin(async move {
            let mut pipe = redis::pipe();
            pipe.atomic();
            for c in &commands {
                pipe.add_command(command(c));
            }
            let count = commands.len() as u64 + 2;
            let send =
                |mut c: MultiplexedConnection| async move { pipe.query_async::<Vec<Value>>(&mut c).await };
            let values =
                self.exchange(|| "MULTI".to_owned(), count, send).await.inspect_err(mark_if_inside)?;
            Ok(values.into_iter().map(reply).collect())
        })
    }

    fn pipeline(&self, commands: Vec<Command>) -> BoxFuture<'_, Result<Vec<Reply>, StoreError>> {
        Box::pin(async move {
            let mut pipe = redis::pipe();
            for c in &commands {
                pipe.add_command(command(c));
            }
            let count = commands.len() as u64;
            let send =
                |mut c: MultiplexedConnection| async move { pipe.query_async::<Vec<Value>>(&mut c).await };
            let name = || "PIPELINE".to_owned();
            // One refused command says nothing about the others: they were applied.
            let values = self.exchange(name, count, send).await.inspect_err(mark_if_inside)?;
            Ok(values.into_iter().map(reply).collect())
        })
    }

    fn eval<'a>(
        &'a self,
        script: &'a Script,
        keys: &'a [&'a str],
        args: Vec<String>,
    ) -> BoxFuture<'a, Result<Reply, StoreError>> {
        Box::pin(async move {
            let by_sha = script_command("EVALSHA", &script.sha, keys, &args);
            let send =
                |mut c: MultiplexedConnection| async move { by_sha.query_async::<Value>(&mut c).await };
            let mut outcome = self.exchange(|| "EVALSHA".to_owned(), 1, send).await;
            if matches!(&outcome, Err(StoreError::Refused(text)) if text.starts_with("NOSCRIPT")) {
                let by_body = script_command("EVAL", script.body, keys, &args);
                let send =
                    |mut c: MultiplexedConnection| async move { by_body.query_async::<Value>(&mut c).await };
                outcome = self.exchange(|| "EVAL".to_owned(), 1, send).await;
            }
            outcome.inspect_err(mark_if_inside).map(reply)
        })
    }

    fn warm_up(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            for lane in &self.lanes {
                let mut connection = self.connection(lane).await?;
                // The kernel connects before the server accepts: only an answer shows that the
                // server reads from here, and a race needs all of them read at once.
                let answer: Result<(), RedisError> = redis::cmd("PING").query_async(&mut connection).await;
                answer.map_err(|e| self.judge(lane, &e))?;
            }
            Ok(())
        })
    }

    fn traffic(&self) -> Traffic {
        Traffic {
            commands: self.commands.load(Ordering::Relaxed),
            round_trips: self.round_trips.load(Ordering::Relaxed),
        }
    }
}
