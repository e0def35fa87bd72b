//! What clients of PostgreSQL share: a pool of connections, an exchange with the server, and the way from its
//! errors to those of the port.
//!
//! Every statement is prepared when a connection is made, as drivers do that keep prepared statements, so that a
//! decision is as many round trips as it has statements. A connection is one call's while the call takes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::error::{DbError, Severity};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Statement};

use super::Access;
use super::patient::awake;
use super::pooled::{Lease, Pool};
use crate::model::op::Contact;
use crate::ports::BoxFuture;
use crate::ports::backend::{DATABASE, DATABASE_USER};
use crate::ports::database::{Arg, Database, Row, Transaction};
use crate::ports::store::{Step, StepAction, StoreError, Traffic, mark_sent, next_step, note_reply};

/// How a client behaves while the server does not answer.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// How long it waits for an answer, after which the connection is closed; for ever where absent.
    pub response: Option<Duration>,
    /// How long for a connection out of the pool, and how long for a new one, which is made all the same and serves
    /// whoever comes next.
    pub connection: Duration,
}

/// A connection. Its task ends with it, and the socket with the task: as if the process that had it was gone.
pub struct Connection {
    pub client: Client,
    prepared: Vec<(String, Statement)>,
    task: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Connection {
    /// Connects and prepares what will be asked.
    pub async fn open(access: &Access, statements: &[String]) -> Result<Self, String> {
        let address = access.route.primary().await?;
        let stream = TcpStream::connect(address).await.map_err(|e| e.to_string())?;
        stream.set_nodelay(true).map_err(|e| e.to_string())?;
        let mut config = Config::new();
        config.user(DATABASE_USER).dbname(DATABASE).application_name("rl-lab");
        let (client, driver) = config.connect_raw(stream, NoTls).await.map_err(|e| describe(&e))?;
        let task = tokio::spawn(async move { drop(driver.await) });
        let mut connection = Self { client, prepared: Vec::new(), task };
        for text in statements {
            let statement = connection.client.prepare(text).await.map_err(|e| describe(&e))?;
            connection.prepared.push((text.clone(), statement));
        }
        Ok(connection)
    }

    async fn query(&self, text: &str, args: &[Arg<'_>]) -> Result<Vec<Row>, tokio_postgres::Error> {
        let known = self.prepared.iter().find(|(own, _)| own == text);
        let (_, statement) = known.expect("a limiter names its statements before it is built");
        let args: Vec<&(dyn ToSql + Sync)> = args
            .iter()
            .map(|arg| match arg {
                Arg::Text(text) => text as &(dyn ToSql + Sync),
                Arg::Int(n) => n,
            })
            .collect();
        let rows = self.client.query(statement, &args).await?;
        rows.iter().map(|row| (0..row.len()).map(|n| row.try_get::<_, i64>(n)).collect()).collect()
    }
}

pub fn describe(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(told) => format!("{} {}", told.code().code(), told.message()),
        None => {
            let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
            format!("{error}{}", cause.unwrap_or_default())
        }
    }
}

/// Whether the server refused what it was asked, as opposed to ending the connection, whatever became of that.
fn refuses(told: &DbError) -> bool {
    !matches!(told.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
}

/// One of the pool's connections. Whoever holds it is alone with it.
#[derive(Default)]
struct Lane {
    current: Mutex<Option<Arc<Connection>>>,
    /// The attempt that goes on.
    opening: tokio::sync::Mutex<Option<Opening>>,
}

/// An attempt to connect; given up when dropped.
struct Opening(JoinHandle<Result<Connection, String>>);

impl Drop for Opening {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A node's connections to a PostgreSQL.
pub struct Connections {
    access: Access,
    manner: Manner,
    statements: Arc<[String]>,
    lanes: Vec<Lane>,
    pool: Pool,
    commands: AtomicU64,
    round_trips: AtomicU64,
    /// The node died at a step: nothing is sent any more.
    dead: AtomicBool,
}

/// Which of the connections, and the right to it where that is not the call's.
struct Held {
    lane: usize,
    _lease: Option<Lease>,
}

impl Connections {
    pub fn new(access: Access, statements: Vec<String>, manner: Manner) -> Self {
        let size = access.connections.max(1);
        Self {
            access,
            manner,
            statements: statements.into(),
            lanes: (0..size).map(|_| Lane::default()).collect(),
            pool: Pool::new(size, manner.connection),
            commands: AtomicU64::new(0),
            round_trips: AtomicU64::new(0),
            dead: AtomicBool::new(false),
        }
    }

    fn slot(&self, lane: usize) -> MutexGuard<'_, Option<Arc<Connection>>> {
        self.lanes[lane].current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hang_up(&self, lane: usize) {
        *self.slot(lane) = None;
    }

    async fn hold(&self) -> Result<Held, StoreError> {
        let (lane, lease) = self.pool.lane().await?;
        Ok(Held { lane, _lease: lease })
    }

    /// Nobody else connects this one: it is held.
    async fn connection(&self, lane: usize) -> Result<Arc<Connection>, StoreError> {
        let current = self.slot(lane).clone();
        if let Some(current) = current.filter(|c| !c.client.is_closed()) {
            return Ok(current);
        }
        let mut attempt = self.lanes[lane].opening.lock().await;
        let opening = attempt.get_or_insert_with(|| {
            let (access, statements) = (self.access.clone(), Arc::clone(&self.statements));
            Opening(tokio::spawn(async move { Connection::open(&access, &statements).await }))
        });
        let Ok(opened) = timeout(self.manner.connection, &mut opening.0).await else {
            let ms = self.manner.connection.as_millis();
            return Err(StoreError::NotConnected(format!("no connection within {ms} ms")));
        };
        *attempt = None;
        let opened = opened.map_err(|e| e.to_string()).flatten().map_err(StoreError::NotConnected)?;
        let fresh = Arc::new(opened);
        *self.slot(lane) = Some(Arc::clone(&fresh));
        Ok(fresh)
    }

    /// One exchange with the server: hook, send, count, hook. `applies` says whether what is sent changes anything
    /// when it arrives; within a transaction only its COMMIT does.
    async fn exchange<T>(
        &self,
        lane: usize,
        name: &str,
        applies: bool,
        send: impl AsyncFnOnce(&Connection) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, StoreError> {
        let (op, index) = next_step();
        let step = Step { op, index, command: name.to_owned() };
        if self.dead.load(Ordering::Relaxed) {
            return Err(StoreError::NodeDied);
        }
        if let Some(hook) = &self.access.hook {
            let action = hook.before(&step).await;
            self.obey(action)?;
        }
        let connection = self.connection(lane).await?;
        self.commands.fetch_add(1, Ordering::Relaxed);
        self.round_trips.fetch_add(1, Ordering::Relaxed);
        let answer = match self.manner.response {
            Some(limit) => timeout(limit, send(&connection)).await.ok(),
            None => Some(send(&connection).await),
        };
        let outcome = match answer {
            Some(Ok(value)) => {
                if applies {
                    mark_sent();
                }
                note_reply(Contact::Answered);
                Ok(value)
            }
            Some(Err(error)) if error.as_db_error().is_some_and(refuses) => {
                note_reply(Contact::Refused);
                Err(StoreError::Refused(describe(&error)))
            }
            failed => {
                // What was asked may still be at work; whoever asks next must not wait behind it.
                self.hang_up(lane);
                if applies {
                    mark_sent();
                }
                let late = || {
                    let ms = self.manner.response.unwrap_or_default().as_millis();
                    format!("timed out after {ms} ms")
                };
                let why = failed.and_then(Result::err).map_or_else(late, |error| describe(&error));
                Err(StoreError::NoAnswer(why))
            }
        };
        if let Some(hook) = &self.access.hook {
            let action = hook.after(&step).await;
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
                // The kernel closes what a dead process had open, and the server undoes what was not committed:
                // whoever waits for its locks waits no longer.
                (0..self.lanes.len()).for_each(|lane| self.hang_up(lane));
                Err(StoreError::NodeDied)
            }
        }
    }
}

/// The word that a statement begins with.
fn verb(statement: &str) -> String {
    statement.split_whitespace().next().unwrap_or_default().to_uppercase()
}

impl Database for Connections {
    fn query<'a>(
        &'a self,
        statement: &'a str,
        args: &'a [Arg<'a>],
    ) -> BoxFuture<'a, Result<Vec<Row>, StoreError>> {
        Box::pin(async move {
            let held = self.hold().await?;
            let send = async |c: &Connection| c.query(statement, args).await;
            self.exchange(held.lane, &verb(statement), true, send).await
        })
    }

    fn begin(&self) -> BoxFuture<'_, Result<Box<dyn Transaction + '_>, StoreError>> {
        Box::pin(async move {
            let held = self.hold().await?;
            let open = Open { all: self, held, over: false };
            open.say("BEGIN", false).await?;
            Ok(Box::new(open) as Box<dyn Transaction + '_>)
        })
    }

    /// Nobody measures a client yet: the lab waits.
    fn warm_up(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            for lane in 0..self.lanes.len() {
                let opened = awake(Connection::open(&self.access, &self.statements)).await;
                let opened = opened.unwrap_or_else(|| Err("no answer".to_owned()));
                *self.slot(lane) = Some(Arc::new(opened.map_err(StoreError::NotConnected)?));
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

struct Open<'p> {
    all: &'p Connections,
    held: Held,
    over: bool,
}

impl Open<'_> {
    async fn say(&self, word: &'static str, applies: bool) -> Result<(), StoreError> {
        let send = async |c: &Connection| c.client.batch_execute(word).await;
        self.all.exchange(self.held.lane, word, applies, send).await
    }

    async fn end(mut self: Box<Self>, word: &'static str, applies: bool) -> Result<(), StoreError> {
        let outcome = self.say(word, applies).await;
        self.over = outcome.is_ok();
        outcome
    }
}

/// A connection in the middle of a transaction would take its next holder into it.
impl Drop for Open<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.all.hang_up(self.held.lane);
        }
    }
}

impl Transaction for Open<'_> {
    fn query<'a>(
        &'a mut self,
        statement: &'a str,
        args: &'a [Arg<'a>],
    ) -> BoxFuture<'a, Result<Vec<Row>, StoreError>> {
        Box::pin(async move {
            let send = async |c: &Connection| c.query(statement, args).await;
            self.all.exchange(self.held.lane, &verb(statement), false, send).await
        })
    }

    fn commit<'a>(self: Box<Self>) -> BoxFuture<'a, Result<(), StoreError>>
    where
        Self: 'a,
    {
        Box::pin(self.end("COMMIT", true))
    }

    fn roll_back<'a>(self: Box<Self>) -> BoxFuture<'a, Result<(), StoreError>>
    where
        Self: 'a,
    {
        Box::pin(self.end("ROLLBACK", false))
    }
}
