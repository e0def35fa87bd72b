//! What profiles on redis-rs share: connecting, an exchange with the server, and the way from its
//! replies and errors to those of the port.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig, MultiplexedConnection};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, IntoConnectionInfo, Pipeline, RedisConnectionInfo,
    RedisError, RedisFuture, Value,
};

use super::Access;
use super::patient::{self, patiently};
use crate::model::op::Contact;
use crate::ports::dial::Dial;
use crate::ports::store::{
    Command, Reply, Step, StepAction, StoreError, Traffic, mark_sent, next_step, note_answer,
};

/// How a profile behaves while the store does not answer.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// How long it waits for a response; for ever where absent.
    pub response: Option<Duration>,
    pub connect: Duration,
    pub unconnected: Unconnected,
    /// How often what was in flight on a connection that broke is sent again.
    pub replays: u32,
}

/// What a call does that finds its connection gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unconnected {
    /// Connects, once, and fails if that fails.
    Connects,
    /// Fails at once: connecting goes on beside the calls, more slowly each time.
    Fails,
    /// Waits until there is a connection.
    Waits,
    /// Never finds it gone: redis-rs' `ConnectionManager` makes it anew in its own way.
    Managed,
    /// The same of redis-rs' cluster client, which keeps a connection to every node.
    Clustered,
}

impl Unconnected {
    /// Whether the library makes broken connections anew by itself.
    fn mends_itself(self) -> bool {
        matches!(self, Self::Managed | Self::Clustered)
    }
}

/// Between two attempts to connect beside the calls: so much longer each time, as ioredis' default does.
const BACKOFF: Duration = Duration::from_millis(50);
const LONGEST_BACKOFF: Duration = Duration::from_secs(2);

/// Whoever waits for a connection waits so long between attempts, and not for longer than this in all.
const RETRY: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Longer than any run.
const NEVER: Duration = Duration::from_secs(24 * 3600);

/// What the connections of one node have in common.
pub struct Wire {
    access: Access,
    manner: Manner,
    commands: AtomicU64,
    round_trips: AtomicU64,
    /// The node died at a step: nothing is sent any more.
    dead: AtomicBool,
}

/// A connection, of either kind.
#[derive(Clone)]
pub enum Connection {
    Multiplexed(MultiplexedConnection),
    Managed(ConnectionManager),
    Cluster(ClusterConnection),
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::Multiplexed(connection) => connection.req_packed_command(cmd),
            Self::Managed(connection) => connection.req_packed_command(cmd),
            Self::Cluster(connection) => connection.req_packed_command(cmd),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::Multiplexed(connection) => connection.req_packed_commands(pipeline, offset, count),
            Self::Managed(connection) => connection.req_packed_commands(pipeline, offset, count),
            Self::Cluster(connection) => connection.req_packed_commands(pipeline, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        0
    }
}

/// One connection, made when it is first needed and made anew when it broke.
#[derive(Default)]
pub struct Line {
    current: Mutex<Option<Connection>>,
    /// Held while connecting, so that those who share a line share one attempt.
    connecting: tokio::sync::Mutex<()>,
    /// Whether somebody connects beside the calls.
    beside: AtomicBool,
}

impl Line {
    fn slot(&self) -> MutexGuard<'_, Option<Connection>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self) -> Option<Connection> {
        self.slot().clone()
    }

    /// Closes the connection: the next exchange makes another one.
    pub fn hang_up(&self) {
        *self.slot() = None;
    }
}

/// Where to connect, and as whom.
async fn client(access: &Access) -> Result<Client, StoreError> {
    let address = access.route.primary().await.map_err(StoreError::NotConnected)?;
    let not_connected = |e: RedisError| StoreError::NotConnected(e.to_string());
    let info = format!("redis://{address}/").into_connection_info().map_err(not_connected)?;
    let tcp = info.tcp_settings().clone().set_nodelay(true);
    let mut redis = info.redis_settings().clone().set_skip_set_lib_name();
    if let Some(user) = &access.user {
        redis = redis.set_username(user).set_password("");
    }
    Client::open(info.set_tcp_settings(tcp).set_redis_settings(redis)).map_err(not_connected)
}

/// One attempt.
async fn connect(access: &Access, manner: Manner) -> Result<Connection, StoreError> {
    let not_connected = |e: RedisError| StoreError::NotConnected(describe(&e, manner));
    if let Some(dial) = &access.dial {
        return dialled(&**dial).await.map(Connection::Multiplexed);
    }
    let client = client(access).await?;
    let config = AsyncConnectionConfig::new()
        .set_response_timeout(manner.response)
        .set_connection_timeout(Some(manner.connect));
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    connecting.await.map(Connection::Multiplexed).map_err(not_connected)
}

/// A connection whose other end is held by whoever decides when a command goes on.
async fn dialled(dial: &dyn Dial) -> Result<MultiplexedConnection, StoreError> {
    let stream = dial.dial().map_err(|e| StoreError::NotConnected(e.to_string()))?;
    let settings = RedisConnectionInfo::default().set_skip_set_lib_name();
    let endless = AsyncConnectionConfig::new().set_response_timeout(None);
    let connecting = MultiplexedConnection::new_with_config(&settings, stream, endless).await;
    let (connection, driver) = connecting.map_err(|e| StoreError::NotConnected(e.to_string()))?;
    tokio::spawn(driver);
    Ok(connection)
}

/// Connects beside the calls, for as long as the line is there and nobody else has.
async fn connect_beside(line: Weak<Line>, access: Access, manner: Manner) {
    for attempt in 1_u32.. {
        let outcome = connect(&access, manner).await;
        let Some(line) = line.upgrade() else { return };
        if let Ok(connection) = outcome {
            *line.slot() = Some(connection);
            line.beside.store(false, Ordering::SeqCst);
            return;
        }
        drop(line);
        tokio::time::sleep((BACKOFF * attempt).min(LONGEST_BACKOFF)).await;
    }
}

impl Wire {
    pub fn new(access: Access, manner: Manner) -> Self {
        Self {
            access,
            manner,
            commands: AtomicU64::new(0),
            round_trips: AtomicU64::new(0),
            dead: AtomicBool::new(false),
        }
    }

    pub async fn connection(&self, line: &Arc<Line>) -> Result<Connection, StoreError> {
        if let Some(connection) = line.get() {
            return Ok(connection);
        }
        if self.manner.unconnected == Unconnected::Fails && self.access.dial.is_none() {
            if !line.beside.swap(true, Ordering::SeqCst) {
                tokio::spawn(connect_beside(Arc::downgrade(line), self.access.clone(), self.manner));
            }
            return Err(StoreError::NotConnected("connecting goes on beside the calls".to_owned()));
        }
        let _turn = line.connecting.lock().await;
        if let Some(connection) = line.get() {
            return Ok(connection);
        }
        let fresh = match self.manner.unconnected {
            Unconnected::Waits => self.connect_at_last().await?,
            Unconnected::Managed if self.access.dial.is_none() => self.manager().await?,
            Unconnected::Clustered if self.access.dial.is_none() => self.cluster().await?,
            _ => connect(&self.access, self.manner).await?,
        };
        *line.slot() = Some(fresh.clone());
        Ok(fresh)
    }

    async fn connect_at_last(&self) -> Result<Connection, StoreError> {
        let mut waited = tokio::time::interval(RETRY);
        let attempts = async {
            loop {
                waited.tick().await;
                if let Ok(connection) = connect(&self.access, self.manner).await {
                    return connection;
                }
            }
        };
        let late = |_| StoreError::NotConnected(format!("no connection for {} s", LONGEST_WAIT.as_secs()));
        tokio::time::timeout(LONGEST_WAIT, attempts).await.map_err(late)
    }

    async fn manager(&self) -> Result<Connection, StoreError> {
        let config = ConnectionManagerConfig::new()
            .set_response_timeout(self.manner.response)
            .set_connection_timeout(Some(self.manner.connect));
        let client = client(&self.access).await?;
        let connecting = client.get_connection_manager_with_config(config).await;
        connecting.map(Connection::Managed).map_err(|e| StoreError::NotConnected(self.describe(&e)))
    }

    async fn cluster(&self) -> Result<Connection, StoreError> {
        let not_connected = |e: RedisError| StoreError::NotConnected(self.describe(&e));
        let seeds = match self.access.seeds.as_slice() {
            [] => vec![self.access.route.primary().await.map_err(StoreError::NotConnected)?],
            seeds => seeds.to_vec(),
        };
        let seeds = seeds.iter().map(|seed| format!("redis://{seed}/"));
        let tcp = redis::io::tcp::TcpSettings::default().set_nodelay(true);
        let client = ClusterClientBuilder::new(seeds).tcp_settings(tcp).build().map_err(not_connected)?;
        client.get_async_connection().await.map(Connection::Cluster).map_err(not_connected)
    }

    /// Connects before a round, and returns when the server reads from the connection: the kernel connects
    /// before the server accepts, only an answer shows it, and a race needs all of them read at once.
    ///
    /// Nobody measures a client yet: the lab waits, for a server that is still at work for somebody else too.
    pub async fn warm_up(&self, line: &Line) -> Result<(), StoreError> {
        let _turn = line.connecting.lock().await;
        let connection = match line.get() {
            Some(connection) => connection,
            None if self.manner.unconnected == Unconnected::Managed => self.manager().await?,
            None if self.manner.unconnected == Unconnected::Clustered => self.cluster().await?,
            None => {
                let client = client(&self.access).await?;
                let fresh = patient::connect(&client, AsyncConnectionConfig::new()).await;
                Connection::Multiplexed(fresh.map_err(|e| StoreError::NotConnected(self.describe(&e)))?)
            }
        };
        let mut used = connection.clone();
        let greeting = redis::cmd("PING");
        let answer: Result<(), RedisError> = patiently(greeting.query_async(&mut used)).await;
        answer.map_err(|e| StoreError::NoAnswer(e.to_string()))?;
        let connection = match connection {
            Connection::Multiplexed(mut connection) => {
                // A timeout that nobody lives to see is none.
                connection.set_response_timeout(self.manner.response.unwrap_or(NEVER));
                Connection::Multiplexed(connection)
            }
            managed => managed,
        };
        *line.slot() = Some(connection);
        Ok(())
    }

    /// One exchange with the server: hook, send, count, hook.
    pub async fn exchange<T, F>(
        &self,
        line: &Arc<Line>,
        name: impl FnOnce() -> String,
        commands: u64,
        send: impl Fn(Connection) -> F,
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
        let mut replays = self.manner.replays;
        let outcome = loop {
            let connection = self.connection(line).await?;
            self.commands.fetch_add(commands, Ordering::Relaxed);
            self.round_trips.fetch_add(1, Ordering::Relaxed);
            match send(connection).await {
                Ok(value) => {
                    mark_sent();
                    note_answer(Contact::Answered);
                    break Ok(value);
                }
                Err(error) => {
                    let broke = !answered(&error) && !error.is_timeout();
                    let judged = self.judge(line, &error);
                    if !broke || replays == 0 {
                        break Err(judged);
                    }
                    // Once more, whatever became of it.
                    replays -= 1;
                    tokio::time::sleep(RETRY).await;
                }
            }
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
            note_answer(Contact::Refused);
            return StoreError::Refused(self.describe(error));
        }
        mark_sent();
        // A timed-out connection still works; a broken one never will, unless it has a manager.
        if !error.is_timeout() && !self.manner.unconnected.mends_itself() {
            line.hang_up();
        }
        StoreError::NoAnswer(self.describe(error))
    }

    fn describe(&self, error: &RedisError) -> String {
        describe(error, self.manner)
    }

    pub fn traffic(&self) -> Traffic {
        Traffic {
            commands: self.commands.load(Ordering::Relaxed),
            round_trips: self.round_trips.load(Ordering::Relaxed),
        }
    }

    pub async fn command(&self, line: &Arc<Line>, from: Command) -> Result<Reply, StoreError> {
        let cmd = &command(&from);
        let send = |mut c: Connection| async move { cmd.query_async::<Value>(&mut c).await };
        self.exchange(line, || from.name(), 1, send).await.map(reply)
    }

    pub async fn pipeline(&self, line: &Arc<Line>, commands: Vec<Command>) -> Result<Vec<Reply>, StoreError> {
        let mut pipe = redis::pipe();
        for c in &commands {
            pipe.add_command(command(c));
        }
        let count = commands.len() as u64;
        let pipe = &pipe;
        let send = |mut c: Connection| async move { pipe.query_async::<Vec<Value>>(&mut c).await };
        let name = || "PIPELINE".to_owned();
        // One refused command says nothing about the others: they were applied.
        let values = self.exchange(line, name, count, send).await.inspect_err(mark_if_inside)?;
        Ok(values.into_iter().map(reply).collect())
    }

    /// `None` if EXEC applied nothing because a watched key was touched.
    pub async fn transaction(
        &self,
        line: &Arc<Line>,
        commands: Vec<Command>,
    ) -> Result<Option<Vec<Reply>>, StoreError> {
        let mut pipe = redis::pipe();
        pipe.atomic();
        for c in &commands {
            pipe.add_command(command(c));
        }
        let count = commands.len() as u64 + 2;
        let pipe = &pipe;
        let send = |mut c: Connection| async move { pipe.query_async::<Value>(&mut c).await };
        let name = || "MULTI".to_owned();
        let value = self.exchange(line, name, count, send).await.inspect_err(mark_if_inside)?;
        match reply(value) {
            Reply::List(replies) => Ok(Some(replies)),
            Reply::Nil => Ok(None),
            other => Err(StoreError::Unexpected(format!("{other:?} instead of the replies of EXEC"))),
        }
    }
}

fn describe(error: &RedisError, manner: Manner) -> String {
    match (error.code(), error.detail(), manner.response) {
        (Some(code), Some(detail), _) => format!("{code} {detail}"),
        (.., Some(after)) if error.is_timeout() => format!("timed out after {} ms", after.as_millis()),
        _ => error.to_string(),
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
