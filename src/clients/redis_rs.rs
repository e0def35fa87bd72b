//! What profiles on redis-rs share: connecting, an exchange with the server, and the way from its
//! replies and errors to those of the port.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ErrorKind, IntoConnectionInfo, RedisConnectionInfo, RedisError, Value,
};

use super::Access;
use super::patient::{self, patiently};
use crate::ports::dial::Dial;
use crate::ports::store::{Command, Reply, Step, StepAction, StoreError, Traffic, mark_sent, next_step};

/// How long a profile waits.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    pub response: Duration,
    pub connect: Duration,
}

/// What the connections of one node have in common.
pub struct Wire {
    access: Access,
    patience: Patience,
    commands: AtomicU64,
    round_trips: AtomicU64,
    /// The node died at a step: nothing is sent any more.
    dead: AtomicBool,
}

/// One connection, made when it is first needed and made anew when it broke.
#[derive(Default)]
pub struct Line {
    current: Mutex<Option<MultiplexedConnection>>,
    /// Held while connecting, so that those who share a line share one attempt.
    connecting: tokio::sync::Mutex<()>,
}

impl Line {
    fn slot(&self) -> MutexGuard<'_, Option<MultiplexedConnection>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self) -> Option<MultiplexedConnection> {
        self.slot().clone()
    }

    /// Closes the connection: the next exchange makes another one.
    pub fn hang_up(&self) {
        *self.slot() = None;
    }
}

impl Wire {
    pub fn new(access: Access, patience: Patience) -> Self {
        Self {
            access,
            patience,
            commands: AtomicU64::new(0),
            round_trips: AtomicU64::new(0),
            dead: AtomicBool::new(false),
        }
    }

    fn client(&self) -> Result<Client, StoreError> {
        let not_connected = |e: RedisError| StoreError::NotConnected(self.describe(&e));
        let url = format!("redis://{}/", self.access.address);
        let info = url.into_connection_info().map_err(not_connected)?;
        let tcp = info.tcp_settings().clone().set_nodelay(true);
        let mut redis = info.redis_settings().clone().set_skip_set_lib_name();
        if let Some(user) = &self.access.user {
            redis = redis.set_username(user).set_password("");
        }
        Client::open(info.set_tcp_settings(tcp).set_redis_settings(redis)).map_err(not_connected)
    }

    /// A connection whose other end is held by whoever decides when a command goes on.
    async fn dialled(&self, dial: &dyn Dial) -> Result<MultiplexedConnection, StoreError> {
        let stream = dial.dial().map_err(|e| StoreError::NotConnected(e.to_string()))?;
        let settings = RedisConnectionInfo::default().set_skip_set_lib_name();
        let endless = AsyncConnectionConfig::new().set_response_timeout(None);
        let connecting = MultiplexedConnection::new_with_config(&settings, stream, endless).await;
        let (connection, driver) = connecting.map_err(|e| StoreError::NotConnected(self.describe(&e)))?;
        tokio::spawn(driver);
        Ok(connection)
    }

    async fn connect(&self) -> Result<MultiplexedConnection, StoreError> {
        if let Some(dial) = &self.access.dial {
            return self.dialled(&**dial).await;
        }
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(Some(self.patience.response))
            .set_connection_timeout(Some(self.patience.connect));
        let connecting = self.client()?;
        let connecting = connecting.get_multiplexed_async_connection_with_config(&config);
        connecting.await.map_err(|e| StoreError::NotConnected(self.describe(&e)))
    }

    pub async fn connection(&self, line: &Line) -> Result<MultiplexedConnection, StoreError> {
        if let Some(connection) = line.get() {
            return Ok(connection);
        }
        let _turn = line.connecting.lock().await;
        if let Some(connection) = line.get() {
            return Ok(connection);
        }
        let fresh = self.connect().await?;
        *line.slot() = Some(fresh.clone());
        Ok(fresh)
    }

    /// Connects before a round, and returns when the server reads from the connection: the kernel connects
    /// before the server accepts, only an answer shows it, and a race needs all of them read at once.
    ///
    /// Nobody measures a client yet: the lab waits, for a server that is still at work for somebody else too.
    pub async fn warm_up(&self, line: &Line) -> Result<(), StoreError> {
        let _turn = line.connecting.lock().await;
        let mut connection = match line.get() {
            Some(connection) => connection,
            None => {
                let fresh = patient::connect(&self.client()?, AsyncConnectionConfig::new()).await;
                fresh.map_err(|e| StoreError::NotConnected(self.describe(&e)))?
            }
        };
        let greeting = redis::cmd("PING");
        let answer: Result<(), RedisError> = patiently(greeting.query_async(&mut connection)).await;
        answer.map_err(|e| StoreError::NoAnswer(e.to_string()))?;
        connection.set_response_timeout(self.patience.response);
        *line.slot() = Some(connection);
        Ok(())
    }

    /// One exchange with the server: hook, send, count, hook.
    pub async fn exchange<T, F>(
        &self,
        line: &Line,
        name: impl FnOnce() -> String,
        commands: u64,
        send: impl FnOnce(MultiplexedConnection) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, RedisError>>,
    {
        let (op, index) = next_step();
        let step = self.access.hook.as_ref().map(|hook| (hook, Step { op, index, command: name() }));
        if self.dead.load(Ordering::Relaxed) {
            return Err(StoreError::NodeDied);
        }
        if let Some((hook, step)) = &step {
            let action = hook.before(step).await;
            self.obey(action)?;
        }
        let connection = self.connection(line).await?;
        self.commands.fetch_add(commands, Ordering::Relaxed);
        self.round_trips.fetch_add(1, Ordering::Relaxed);
        let answer = send(connection).await;
        let outcome = match answer {
            Ok(value) => {
                mark_sent();
                Ok(value)
            }
            Err(error) => Err(self.judge(line, &error)),
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

    pub fn judge(&self, line: &Line, error: &RedisError) -> StoreError {
        if answered(error) {
            return StoreError::Refused(self.describe(error));
        }
        mark_sent();
        // A timed-out connection still works; a broken one never will.
        if !error.is_timeout() {
            line.hang_up();
        }
        StoreError::NoAnswer(self.describe(error))
    }

    fn describe(&self, error: &RedisError) -> String {
        match (error.code(), error.detail()) {
            (Some(code), Some(detail)) => format!("{code} {detail}"),
            _ if error.is_timeout() => format!("timed out after {} ms", self.patience.response.as_millis()),
            _ => error.to_string(),
        }
    }

    pub fn traffic(&self) -> Traffic {
        Traffic {
            commands: self.commands.load(Ordering::Relaxed),
            round_trips: self.round_trips.load(Ordering::Relaxed),
        }
    }

    pub async fn command(&self, line: &Line, from: Command) -> Result<Reply, StoreError> {
        let cmd = command(&from);
        let send = |mut c: MultiplexedConnection| async move { cmd.query_async::<Value>(&mut c).await };
        self.exchange(line, || from.name(), 1, send).await.map(reply)
    }

    pub async fn pipeline(&self, line: &Line, commands: Vec<Command>) -> Result<Vec<Reply>, StoreError> {
        let mut pipe = redis::pipe();
        for c in &commands {
            pipe.add_command(command(c));
        }
        let count = commands.len() as u64;
        let send = |mut c: MultiplexedConnection| async move { pipe.query_async::<Vec<Value>>(&mut c).await };
        let name = || "PIPELINE".to_owned();
        // One refused command says nothing about the others: they were applied.
        let values = self.exchange(line, name, count, send).await.inspect_err(mark_if_inside)?;
        Ok(values.into_iter().map(reply).collect())
    }

    /// `None` if EXEC applied nothing because a watched key was touched.
    pub async fn transaction(
        &self,
        line: &Line,
        commands: Vec<Command>,
    ) -> Result<Option<Vec<Reply>>, StoreError> {
        let mut pipe = redis::pipe();
        pipe.atomic();
        for c in &commands {
            pipe.add_command(command(c));
        }
        let count = commands.len() as u64 + 2;
        let send = |mut c: MultiplexedConnection| async move { pipe.query_async::<Value>(&mut c).await };
        let name = || "MULTI".to_owned();
        let value = self.exchange(line, name, count, send).await.inspect_err(mark_if_inside)?;
        match reply(value) {
            Reply::List(replies) => Ok(Some(replies)),
            Reply::Nil => Ok(None),
            other => Err(StoreError::Unexpected(format!("{other:?} instead of the replies of EXEC"))),
        }
    }
}

/// Whether the server itself refused, as opposed to not being heard.
fn answered(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension)
}

/// A script or a transaction that was refused may have been refused half-way, after some of its
/// commands were applied: unless the code is one that comes before anything runs.
pub fn mark_if_inside(error: &StoreError) {
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

pub fn reply(value: Value) -> Reply {
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
