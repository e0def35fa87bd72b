//! An app server that is a process of its own, talked to in lines (`model/protocol.rs`).
//!
//! Many calls are in flight; whoever answers one that nobody made, answers twice, or says what is no line has
//! failed, and what it said before is worth nothing either: the failure is kept for whoever started it. A
//! process that ends is something else: its open calls are those of a node that died.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use super::{Waiting, heard};
use crate::model::op::{Decision, Source};
use crate::model::protocol::{Answer, Hello, LONGEST_LINE, PRESET, Ready, Request, TRAFFIC, What};
use crate::model::units::{Cost, Limit};
use crate::ports::BoxFuture;
use crate::ports::limiter::Limiter;
use crate::ports::store::{StoreError, Traffic, mark_sent, note_clock, note_contact, note_near, note_trips};

/// Longer than any client here waits for its store, and than guarded work takes.
const PATIENCE: Duration = Duration::from_secs(600);
/// For a process to start, and to connect.
pub const GREETING: Duration = Duration::from_secs(60);

/// The two ends of a process.
pub struct Ends {
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
}

/// What whoever starts it knows, and it does not.
#[derive(Clone)]
pub struct Around {
    /// Returns when the store has read whatever a process that is gone had sent; `false` if nobody can tell.
    pub settled: Arc<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>,
    /// How much time was skipped so far, in µs.
    pub skipped_us: Arc<dyn Fn() -> i64 + Send + Sync>,
}

pub struct Worker {
    shared: Arc<Shared>,
    lines: mpsc::UnboundedSender<Vec<u8>>,
    around: Around,
    limit: Limit,
    tasks: [AbortHandle; 2],
    ready: Ready,
    /// How long a call waits for its answer. Whoever is late has none, and is not to be blamed; without one, it
    /// has broken the protocol by then.
    deadline: Option<Duration>,
}

/// How long one is waited for.
#[derive(Debug, Clone, Copy)]
pub struct Waits {
    pub greeting: Duration,
    pub deadline: Option<Duration>,
}

impl Waits {
    /// For a process of the lab's own.
    pub const OWN: Self = Self { greeting: GREETING, deadline: None };
}

#[derive(Default)]
struct Shared(Mutex<State>);

type Told = Result<Answer, StoreError>;

#[derive(Default)]
struct State {
    open: HashMap<u64, oneshot::Sender<Told>>,
    /// The last id that was given out.
    last: u64,
    /// What every later call is told.
    ended: Option<StoreError>,
    failure: Option<String>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, open: &StoreError, later: StoreError) {
        let mut state = self.state();
        state.ended.get_or_insert(later);
        for (_, call) in state.open.drain() {
            let _ = call.send(Err(open.clone()));
        }
    }

    fn fail(&self, why: &str) -> StoreError {
        let error = StoreError::Unexpected(why.to_owned());
        self.state().failure.get_or_insert_with(|| why.to_owned());
        self.end(&error, error.clone());
        error
    }

    fn answer(&self, line: &[u8]) -> Result<(), String> {
        let answer: Answer = serde_json::from_slice(line)
            .map_err(|e| format!("it said what is no answer ({e}): {}", shown(line)))?;
        let mut state = self.state();
        let id = answer.id;
        match state.open.remove(&id) {
            // Who asked may have gone.
            Some(call) => drop(call.send(Ok(answer))),
            None if (1..=state.last).contains(&id) => return Err(format!("it answered request {id} twice")),
            None => return Err(format!("it answered request {id}, which nobody made")),
        }
        Ok(())
    }
}

impl Worker {
    /// Says hello, and returns when it is ready; why not, otherwise.
    pub async fn greet(
        ends: Ends,
        hello: &Hello,
        around: Around,
        waits: Waits,
    ) -> Result<(Self, Ready), String> {
        let Ends { mut stdin, stdout } = ends;
        let mut lines = Lines { from: stdout, held: Vec::new(), begin: 0 };
        let greeting = async {
            // Who is gone does not hear it, and that is told by what it says.
            let _ = stdin.write_all(&line(hello)).await;
            lines.next().await
        };
        let said = tokio::time::timeout(waits.greeting, greeting).await;
        let said =
            said.map_err(|_| format!("it was not ready within {} ms", waits.greeting.as_millis()))??;
        let said = said.ok_or("it ended before it was ready")?;
        let ready: Ready = serde_json::from_slice(&said).map_err(|e| {
            format!("its first line does not say whether it is ready ({e}): {}", shown(&said))
        })?;
        if !ready.ready {
            return Err(ready.error.unwrap_or_else(|| "it is not ready, and does not say why".to_owned()));
        }
        let shared = Arc::new(Shared::default());
        let (sender, outbox) = mpsc::unbounded_channel();
        let settled = Arc::clone(&around.settled);
        let reading = tokio::spawn(read(lines, Arc::clone(&shared), settled)).abort_handle();
        let writing = tokio::spawn(write(stdin, outbox)).abort_handle();
        let tasks = [reading, writing];
        let (limit, deadline) = (hello.limit, waits.deadline);
        Ok((Self { shared, lines: sender, around, limit, tasks, ready: ready.clone(), deadline }, ready))
    }

    /// What it did wrong, if anything: then no answer of it is to be believed.
    pub fn failure(&self) -> Option<String> {
        self.shared.state().failure.clone()
    }

    /// What it sent to the store so far; nothing where it cannot say any more.
    pub async fn traffic(&self) -> Traffic {
        if !self.ready.can(TRAFFIC) {
            return Traffic::default();
        }
        let Ok(answer) = self.ask(What::Traffic).await else { return Traffic::default() };
        Traffic { commands: answer.commands.unwrap_or(0), round_trips: answer.round_trips.unwrap_or(0) }
    }

    async fn ask(&self, what: What) -> Result<Answer, StoreError> {
        let (tell, told) = oneshot::channel();
        let id = {
            let mut state = self.shared.state();
            if let Some(error) = &state.ended {
                return Err(error.clone());
            }
            state.last += 1;
            let id = state.last;
            state.open.insert(id, tell);
            id
        };
        let request = Request { id, what, skipped_us: (self.around.skipped_us)() };
        // Where nobody writes any more the end is told by the reader.
        let _ = self.lines.send(line(&request));
        let waiting = Waiting::begin();
        let told = tokio::time::timeout(self.deadline.unwrap_or(PATIENCE), told).await;
        if told.is_ok() {
            waiting.heard();
        }
        match told {
            Ok(Ok(told)) => told,
            Ok(Err(_)) => Err(StoreError::NodeDied),
            // What it still says of it is nobody's any more.
            Err(_) if self.deadline.is_some() => {
                let within = self.deadline.unwrap_or_default().as_millis();
                Err(StoreError::NoAnswer(format!("its app server did not answer within {within} ms")))
            }
            Err(_) => {
                Err(self.shared.fail(&format!("it did not answer request {id} in {} s", PATIENCE.as_secs())))
            }
        }
    }

    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let what = What::Acquire { key: key.to_owned(), cost, lane: Some(crate::ports::store::lane()) };
        let answer = self.ask(what).await?;
        if answer.sent != Some(false) {
            mark_sent();
        }
        note_trips(answer.round_trips.and_then(|n| u32::try_from(n).ok()).unwrap_or(0));
        if let Some(us) = answer.clock_us {
            note_clock(us);
        }
        note_contact(answer.contact);
        if answer.near {
            note_near();
        }
        if let Some(failure) = answer.error {
            return Err(heard(failure));
        }
        let Some(allowed) = answer.allowed else {
            let why = format!("it answered request {} with neither a decision nor an error", answer.id);
            return Err(self.shared.fail(&why));
        };
        Ok(Decision {
            allowed,
            remaining: answer.remaining,
            limit: answer.limit.unwrap_or(self.limit),
            retry_after: answer.retry_after_ms.map(Duration::from_millis),
            reset: answer.reset_ms.map(Duration::from_millis),
            source: answer.source.unwrap_or(Source::Store),
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Limiter for Worker {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            if !self.ready.can(PRESET) {
                return super::preset_by_calls(self, key, used).await;
            }
            let answer = self.ask(What::Preset { key: key.to_owned(), used }).await?;
            answer.error.map_or(Ok(()), |failure| Err(heard(failure)))
        })
    }
}

/// Hands out what it says, until it ends or fails.
async fn read(
    mut lines: Lines,
    shared: Arc<Shared>,
    settled: Arc<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>,
) {
    let why = loop {
        match lines.next().await {
            Ok(Some(line)) => match shared.answer(&line) {
                Ok(()) => {}
                Err(why) => break why,
            },
            Ok(None) => {
                // What it had sent may still be on its way: a call of the dead is over only when nothing is.
                let open = match settled().await {
                    true => StoreError::NodeDied,
                    false => StoreError::NoAnswer("the node died, and the store cannot be asked".to_owned()),
                };
                return shared.end(&open, StoreError::NodeDied);
            }
            Err(why) => break why,
        }
    };
    shared.fail(&why);
}

/// Writes what is to be said, as much at a time as there is.
async fn write(mut stdin: Box<dyn AsyncWrite + Send + Unpin>, mut outbox: mpsc::UnboundedReceiver<Vec<u8>>) {
    while let Some(mut text) = outbox.recv().await {
        while let Ok(more) = outbox.try_recv() {
            text.extend(more);
        }
        if stdin.write_all(&text).await.is_err() {
            return;
        }
    }
}

fn line(value: &impl serde::Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec(value).expect("a line is plain data");
    text.push(b'\n');
    text
}

/// The beginning of a line that nobody expected.
fn shown(line: &[u8]) -> String {
    const SHOWN: usize = 200;
    format!("{:?}", String::from_utf8_lossy(&line[..line.len().min(SHOWN)]))
}

/// Lines of a stream, none of them longer than is read.
struct Lines {
    from: Box<dyn AsyncRead + Send + Unpin>,
    held: Vec<u8>,
    /// Where in it the next line begins.
    begin: usize,
}

impl Lines {
    /// `None` at the end; a line that was cut off there was never said.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
        let mut searched = 0;
        loop {
            let rest = &self.held[self.begin..];
            if let Some(length) = rest[searched..].iter().position(|b| *b == b'\n') {
                let line = rest[..searched + length].to_vec();
                self.begin += line.len() + 1;
                return Ok(Some(line));
            }
            searched = rest.len();
            if searched > LONGEST_LINE {
                return Err(format!("it said a line of more than {LONGEST_LINE} bytes"));
            }
            self.held.drain(..self.begin);
            self.begin = 0;
            match self.from.read_buf(&mut self.held).await {
                Ok(0) => return Ok(None),
                Ok(_) => {}
                Err(error) => return Err(format!("what it says cannot be read: {error}")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::op::Completion;
    use crate::ports::store::{Call, as_call};

    const HELLO: &str =
        r#"{"hello":1,"redis":"redis://h:1","limit":3,"window_ms":9,"node":0,"connections":1}"#;

    fn around(settled: bool) -> Around {
        let settled = Arc::new(move || -> BoxFuture<'static, bool> { Box::pin(std::future::ready(settled)) });
        Around { settled, skipped_us: Arc::new(|| 0) }
    }

    /// A process that says one thing at once and another when it is asked, and then ends if it is to.
    async fn greet(first: &str, then: &str, ends: bool, settled: bool) -> Result<Worker, String> {
        let (stdin, mut asked) = tokio::io::duplex(1 << 16);
        let (stdout, mut says) = tokio::io::duplex(4 << 20);
        let (first, then) = (first.to_owned(), then.to_owned());
        tokio::spawn(async move {
            says.write_all(first.as_bytes()).await.unwrap();
            let mut heard = Vec::new();
            while !then.is_empty() && !String::from_utf8_lossy(&heard).contains("acquire") {
                asked.read_buf(&mut heard).await.unwrap();
            }
            let _ = says.write_all(then.as_bytes()).await;
            if !ends {
                std::future::pending::<()>().await;
            }
        });
        let hello: Hello = serde_json::from_str(HELLO).unwrap();
        let ends = Ends { stdin: Box::new(stdin), stdout: Box::new(stdout) };
        Worker::greet(ends, &hello, around(settled), Waits::OWN).await.map(|(worker, _)| worker)
    }

    async fn call(worker: &Worker) -> Completion {
        let (answer, trace) = as_call(Call::new(0, 0), worker.acquire("k", Cost::ONE)).await;
        answer.map_or_else(|error| error.completion(trace.sent), Completion::Ok)
    }

    const READY: &str = "{\"ready\":true}\n";

    #[tokio::test]
    async fn who_breaks_the_protocol_has_failed_and_decides_nothing_more() {
        let twice = "{\"id\":1,\"allowed\":true}\n".repeat(2);
        let huge = format!("{{\"id\":{}", "1".repeat(LONGEST_LINE + 1));
        for (said, why) in [
            ("nonsense\n", "no answer"),
            ("{\"id\":7,\"allowed\":true}\n", "request 7, which nobody made"),
            (twice.as_str(), "request 1 twice"),
            (huge.as_str(), "more than 1048576 bytes"),
            ("{\"id\":1}\n", "neither a decision nor an error"),
            ("{\"id\":1,\"allowed\":\"yes\"}\n", "no answer"),
        ] {
            let worker = greet(READY, said, false, true).await.unwrap();
            let first = call(&worker).await;
            assert_eq!(matches!(first, Completion::Ok(_)), said == twice, "{why}: {first:?}");
            while worker.failure().is_none() {
                tokio::task::yield_now().await;
            }
            assert!(worker.failure().unwrap().contains(why), "{:?}", worker.failure());
            assert!(matches!(call(&worker).await, Completion::Info(_)));
        }
    }

    #[tokio::test]
    async fn the_open_calls_of_a_process_that_ends_are_over_only_when_its_store_has_settled() {
        let cut = "{\"id\":1,\"allo";
        for (settled, dead) in [(true, true), (false, false)] {
            let worker = greet(READY, cut, true, settled).await.unwrap();
            let Completion::Info(why) = call(&worker).await else { panic!("it was not answered") };
            assert_eq!(why == StoreError::NodeDied.to_string(), dead, "{why}");
            assert_eq!(call(&worker).await, Completion::Info(StoreError::NodeDied.to_string()));
            assert_eq!(worker.failure(), None, "to die is no breach");
        }
    }

    #[tokio::test]
    async fn who_is_not_ready_says_why() {
        let refused = async |said: &str| greet(said, "", true, true).await.err().unwrap();
        assert_eq!(refused("{\"ready\":false,\"error\":\"no such limiter\"}\n").await, "no such limiter");
        assert_eq!(refused("").await, "it ended before it was ready");
        assert!(refused("hi\n").await.contains("does not say whether it is ready"));
    }
}
