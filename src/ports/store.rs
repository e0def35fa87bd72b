//! The store port: the handle a built-in limiter talks through.
//!
//! A store counts what it sends, knows which call it is sending for, and asks a [`StepHook`]
//! before and after each command, so that a node can be held, failed or killed at an exact step.
//! Dropping a limiter's future is *not* such a death: the command may still run.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

use super::BoxFuture;
use crate::model::http;
use crate::model::op::{Completion, Contact, NODE_DIED, Note, Trace};

/// A command: name and arguments, as bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    pub args: Vec<Vec<u8>>,
}

impl Command {
    pub fn new(name: &str) -> Self {
        Self { args: vec![name.as_bytes().to_vec()] }
    }

    #[must_use]
    pub fn arg(mut self, value: impl ToString) -> Self {
        self.args.push(value.to_string().into_bytes());
        self
    }

    pub fn name(&self) -> String {
        self.args.first().map(|n| String::from_utf8_lossy(n).to_uppercase()).unwrap_or_default()
    }
}

/// A Lua script with its SHA-1, sent by EVALSHA and, if the server does not know it, by EVAL.
pub struct Script {
    pub body: &'static str,
    pub sha: String,
}

impl Script {
    pub fn new(body: &'static str) -> Self {
        Self { body, sha: redis::Script::new(body).get_hash().to_owned() }
    }
}

/// What the server answers. Integers and strings are all a limiter's reply is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Nil,
    Int(i64),
    Text(String),
    List(Vec<Reply>),
}

impl Reply {
    /// An integer, or a string that holds one. `None` for anything else.
    pub fn int(&self) -> Option<i64> {
        match self {
            Self::Int(n) => Some(*n),
            Self::Text(t) => t.parse().ok(),
            _ => None,
        }
    }

    /// An integer reply; anything else is an error that names what came instead.
    pub fn expect_int(&self) -> Result<i64, StoreError> {
        self.int().ok_or_else(|| StoreError::Unexpected(format!("{self:?} instead of an integer")))
    }

    /// A list of exactly `n` replies.
    pub fn expect_list(self, n: usize) -> Result<Vec<Reply>, StoreError> {
        match self {
            Self::List(items) if items.len() == n => Ok(items),
            other => Err(StoreError::Unexpected(format!("{other:?} instead of {n} replies"))),
        }
    }
}

/// Why a command did not answer. The distinction that counts is [`StoreError::completion`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The server answered with an error: it did not apply the command.
    #[error("{0}")]
    Refused(String),
    /// No connection could be made: nothing was sent.
    #[error("not connected: {0}")]
    NotConnected(String),
    /// Sent, and no answer: it may have been applied.
    #[error("no answer: {0}")]
    NoAnswer(String),
    /// Answered with something the limiter cannot read.
    #[error("unexpected reply: {0}")]
    Unexpected(String),
    /// The node died at this step (a fault, not an error of the store).
    #[error("{NODE_DIED}")]
    NodeDied,
}

impl StoreError {
    /// `fail` only if nothing of this call can have been applied. `sent` says whether an earlier
    /// command of the same call was applied or may have been.
    pub fn completion(&self, sent: bool) -> Completion {
        match self {
            Self::Refused(_) | Self::NotConnected(_) if !sent => Completion::Fail(self.to_string()),
            _ => Completion::Info(self.to_string()),
        }
    }
}

/// The handle a limiter is given.
pub trait Store: Send + Sync {
    /// One command, one round trip.
    fn command(&self, command: Command) -> BoxFuture<'_, Result<Reply, StoreError>>;

    /// MULTI, the commands, EXEC: one round trip, applied as one. The replies of the commands.
    fn transaction(&self, commands: Vec<Command>) -> BoxFuture<'_, Result<Vec<Reply>, StoreError>>;

    /// Several commands in one round trip, each applied by itself: others may come between. The
    /// replies of the commands; the first error, if one was refused.
    fn pipeline(&self, commands: Vec<Command>) -> BoxFuture<'_, Result<Vec<Reply>, StoreError>>;

    /// A script by EVALSHA; by EVAL, a second round trip, where the server does not know it.
    fn eval<'a>(
        &'a self,
        script: &'a Script,
        keys: &'a [&'a str],
        args: Vec<String>,
    ) -> BoxFuture<'a, Result<Reply, StoreError>>;

    /// A connection for this call alone, until it is dropped. A node has as many as it has
    /// connections for commands, apart from those; who finds none free waits for one.
    fn session(&self) -> BoxFuture<'_, Result<Box<dyn Session + '_>, StoreError>>;

    /// Connects whatever is not connected yet; sessions connect when they are first opened.
    fn warm_up(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// What was sent so far.
    fn traffic(&self) -> Traffic;
}

/// A connection that nobody else sends on: WATCH is a state of the connection, and on a shared one it
/// would watch for whoever comes next. Each exchange is counted and is a step, as on the store.
///
/// Dropping it gives the connection back, or throws it away if keys are still watched on it or an
/// answer is outstanding.
pub trait Session: Send {
    /// One command, one round trip.
    fn command(&mut self, command: Command) -> BoxFuture<'_, Result<Reply, StoreError>>;

    /// Several commands in one round trip, each applied by itself.
    fn pipeline(&mut self, commands: Vec<Command>) -> BoxFuture<'_, Result<Vec<Reply>, StoreError>>;

    /// MULTI, the commands, EXEC: one round trip. `None` if a watched key was touched since: then
    /// nothing was applied. Either way nothing is watched any more.
    fn transaction(
        &mut self,
        commands: Vec<Command>,
    ) -> BoxFuture<'_, Result<Option<Vec<Reply>>, StoreError>>;
}

/// Counted by the store, not by the limiter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    pub commands: u64,
    pub round_trips: u64,
}

/// What to do at a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepAction {
    Go,
    /// The command fails with this error instead of being sent.
    Fail(StoreError),
    /// The node dies here: this command and all later ones of the node answer `NodeDied`.
    Die,
}

/// A step: the k-th exchange with the store that a call makes (from 1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub op: u32,
    pub index: u32,
    pub command: String,
}

/// Decides at each step. To hold a node, do not complete the future.
pub trait StepHook: Send + Sync {
    /// Before the command is sent.
    fn before<'a>(&'a self, step: &'a Step) -> BoxFuture<'a, StepAction>;
    /// After the store applied it, before the limiter sees the reply.
    fn after<'a>(&'a self, step: &'a Step) -> BoxFuture<'a, StepAction>;
}

/// The call a task is working on. The workload enters it; the store reads it.
pub struct Call {
    pub op: u32,
    /// Which of the node's connections serves this caller (taken modulo their number).
    pub lane: u32,
    /// Exchanges begun so far.
    steps: Cell<u32>,
    /// Whether anything may have reached the store.
    sent: Cell<bool>,
    /// How often the node's clock was read, and what it last said.
    clock: Cell<(u32, i64)>,
    /// What it was answered over HTTP.
    answer: Cell<Option<Box<http::Answer>>>,
    /// How far it came.
    contact: Cell<Option<Contact>>,
    /// Whether somebody reports that most of the limit is used.
    near: Cell<bool>,
    /// What the store keeps for it.
    kept: RefCell<Option<Box<dyn Any + Send>>>,
}

impl Call {
    pub fn new(op: u32, lane: u32) -> Self {
        let (steps, sent, clock) = (Cell::new(0), Cell::new(false), Cell::new((0, 0)));
        let (contact, near) = (Cell::new(Some(Contact::NotAsked)), Cell::new(false));
        let (answer, kept) = (Cell::new(None), RefCell::new(None));
        Self { op, lane, steps, sent, clock, contact, near, answer, kept }
    }
}

tokio::task_local! {
    static CALL: Call;
}

/// Runs `work` as the given call. Answers with its output and what it did on the way.
pub async fn as_call<F: Future>(call: Call, work: F) -> (F::Output, Trace) {
    CALL.scope(call, async {
        let output = work.await;
        let trace = CALL.with(|c| Trace {
            sent: c.sent.get(),
            trips: c.steps.get(),
            clock_us: (c.clock.get().0 == 1).then_some(c.clock.get().1),
            answer: c.answer.take(),
            note: Note { contact: c.contact.get(), near: c.near.get() },
        });
        (output, trace)
    })
    .await
}

/// Notes that the current call read its node's clock.
pub fn note_clock(us: i64) {
    let _ = CALL.try_with(|c| c.clock.set((c.clock.get().0 + 1, us)));
}

/// Notes what the current call was answered over HTTP.
pub fn note_http(answer: http::Answer) {
    let _ = CALL.try_with(|c| c.answer.set(Some(Box::new(answer))));
}

/// Notes exchanges that somebody else made for the current call.
pub fn note_trips(count: u32) {
    let _ = CALL.try_with(|c| c.steps.set(c.steps.get().saturating_add(count)));
}

/// The next step of the current call: op and the step's number from 1. Outside a call (presets,
/// probes) both are 0.
pub fn next_step() -> (u32, u32) {
    CALL.try_with(|c| {
        c.steps.set(c.steps.get() + 1);
        c.contact.set(c.contact.get().max(Some(Contact::Unanswered)));
        (c.op, c.steps.get())
    })
    .unwrap_or((0, 0))
}

/// Notes what came back of an exchange of the current call: [`Contact::Answered`], or [`Contact::Refused`].
pub fn note_reply(contact: Contact) {
    let _ = CALL.try_with(|c| c.contact.set(c.contact.get().max(Some(contact))));
}

/// Notes how far the current call came where somebody else made its exchanges; `None` if that one does not say.
pub fn note_contact(contact: Option<Contact>) {
    let _ = CALL.try_with(|c| c.contact.set(contact));
}

/// Notes that somebody reports, with the current call, that most of the limit is used.
pub fn note_near() {
    let _ = CALL.try_with(|c| c.near.set(true));
}

/// The lane of the current call: which of its node's connections serves it.
pub fn lane() -> u32 {
    CALL.try_with(|c| c.lane).unwrap_or(0)
}

/// The op that the current call is; 0 outside a call.
pub fn current_op() -> u32 {
    CALL.try_with(|c| c.op).unwrap_or(0)
}

/// Notes that something of the current call may have reached the store.
pub fn mark_sent() {
    let _ = CALL.try_with(|c| c.sent.set(true));
}

/// Keeps something for the current call until it ends, such as the connection it took out of a pool.
/// Outside a call it is handed back.
pub fn keep<T: Send + 'static>(value: T) -> Result<(), T> {
    let mut value = Some(value);
    let _ =
        CALL.try_with(|c| *c.kept.borrow_mut() = value.take().map(|v| Box::new(v) as Box<dyn Any + Send>));
    value.map_or(Ok(()), Err)
}

/// Reads what was kept for the current call.
pub fn kept<T: 'static, R>(read: impl FnOnce(&T) -> R) -> Option<R> {
    CALL.try_with(|c| c.kept.borrow().as_ref()?.downcast_ref().map(read)).ok().flatten()
}

/// A hook shared by the stores of a run.
pub type SharedHook = Arc<dyn StepHook>;
