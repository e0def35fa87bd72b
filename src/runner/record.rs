//! The recorder: stamps what happens, streams it to `history.jsonl`, and keeps the open cell in
//! memory for the judge.
//!
//! One monotonic anchor per run. A call is stamped just before the limiter is called and just
//! after it answered. Lines go to a buffer that a thread of its own writes out every 50 ms, so a
//! lab that is killed loses at most that; the file is whole up to its last line.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::model::history::{self, Cell, Event, Round};
use crate::model::op::{Completion, Op, Trace, ceil_millis};
use crate::model::pages;
use crate::model::report::CellHonesty;
use crate::model::units::{Cost, Limit, Nanos, NodeId, OpId};
use crate::ports::clock::{Clock, SystemClock};
use crate::ports::workload::Record;

/// Text that may wait for the disk before the load is made to wait for it.
const MOST_PENDING: usize = 64 << 20;
const FLUSH_EVERY: Duration = Duration::from_millis(50);

/// Told once, heard everywhere: the run is to stop, and with which exit code.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<StopState>);

#[derive(Debug, Default)]
struct StopState {
    /// 0 while the run goes on.
    code: AtomicU8,
    told: tokio::sync::Notify,
}

impl Stop {
    /// Tells the run to stop. The first code stays.
    pub fn now(&self, code: u8) {
        let _ = self.0.code.compare_exchange(0, code, Ordering::SeqCst, Ordering::SeqCst);
        self.0.told.notify_waiters();
    }

    pub fn stopped(&self) -> bool {
        self.0.code.load(Ordering::Relaxed) != 0
    }

    /// The exit code to stop with, if the run is to stop.
    pub fn code(&self) -> Option<u8> {
        Some(self.0.code.load(Ordering::SeqCst)).filter(|c| *c != 0)
    }

    /// Returns when the run is to stop.
    pub async fn told(&self) {
        let told = self.0.told.notified();
        tokio::pin!(told);
        // Listening before looking: a word spoken in between is not lost.
        told.as_mut().enable();
        if !self.stopped() {
            told.await;
        }
    }
}

pub struct Recorder {
    shared: Arc<Shared>,
    /// Cells that are driven at the same time have a lane each: their lines say which.
    lane: Option<u32>,
    open: Mutex<Open>,
}

/// What the lanes of a run have in common: one anchor and one file.
struct Shared {
    anchor: Instant,
    epoch_ns_at_zero: i64,
    /// Time that was skipped: it counts as passed for the record and for the clocks of the nodes.
    skipped_ns: AtomicI64,
    stop: Stop,
    state: Mutex<State>,
    /// Signalled when there is text to write, when it was written, and at the end.
    changed: Condvar,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// The cell that a lane is at.
struct Open {
    cell: Option<Cell>,
    limit: Limit,
    /// Exchanges with the store by decided calls of the open round: all, and the most of any one.
    trips: (u64, u32),
}

struct State {
    text: Vec<u8>,
    closed: bool,
    /// The writer holds text that is not on its way to the file yet.
    writing: bool,
    /// Why the history could not be written; what follows is kept in memory only.
    failed: Option<String>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) -> Result<(), String> {
        self.state().closed = true;
        self.changed.notify_all();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer
            && writer.join().is_err()
        {
            return Err("the thread that writes the history broke".to_owned());
        }
        self.state().failed.take().map_or(Ok(()), Err)
    }
}

impl Open {
    fn new() -> Self {
        Self { cell: None, limit: Limit::new(1).expect("1 is a limit"), trips: (0, 0) }
    }
}

impl Recorder {
    /// Starts the anchor. Without a file the history is kept in memory only.
    #[expect(clippy::disallowed_methods, reason = "the run's one monotonic anchor")]
    pub fn start(file: Option<PathBuf>, stop: Stop) -> Arc<Self> {
        let (anchor, wall_us) = (Instant::now(), SystemClock.wall_us());
        let mut failed = None;
        let file = file.and_then(|path| match File::create(&path) {
            Ok(file) => Some(file),
            Err(error) => {
                failed = Some(format!("cannot write {}: {error}", path.display()));
                None
            }
        });
        let state = State { text: Vec::new(), closed: false, writing: false, failed };
        let shared = Arc::new(Shared {
            anchor,
            epoch_ns_at_zero: wall_us.saturating_mul(1000),
            skipped_ns: AtomicI64::new(0),
            stop,
            state: Mutex::new(state),
            changed: Condvar::new(),
            writer: Mutex::new(None),
        });
        let for_writer = Arc::clone(&shared);
        let writer = std::thread::Builder::new()
            .name("history".to_owned())
            .spawn(move || write_out(&for_writer, file))
            .expect("a thread for the history");
        *shared.writer.lock().unwrap_or_else(PoisonError::into_inner) = Some(writer);
        Arc::new(Self { shared, lane: None, open: Mutex::new(Open::new()) })
    }

    /// A recorder of the same run for a cell that is driven beside others.
    pub fn lane(&self, lane: u32) -> Arc<Self> {
        Arc::new(Self { shared: Arc::clone(&self.shared), lane: Some(lane), open: Mutex::new(Open::new()) })
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a line, with the lane in front where there is one.
    fn begin_line(&self, text: &mut Vec<u8>) {
        match self.lane {
            Some(lane) => {
                push_number(text, history::LANE, lane);
                text.push(b',');
            }
            None => text.push(b'{'),
        }
    }

    pub fn now(&self) -> Nanos {
        let elapsed = i64::try_from(self.shared.anchor.elapsed().as_nanos()).unwrap_or(i64::MAX);
        Nanos(elapsed.saturating_add(self.shared.skipped_ns.load(Ordering::Relaxed)))
    }

    /// Lets this much time have passed. Only while no call is open.
    pub fn skip(&self, span: Duration) {
        let ns = i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
        self.shared.skipped_ns.fetch_add(ns, Ordering::Relaxed);
    }

    pub fn stop(&self) -> Stop {
        self.shared.stop.clone()
    }

    /// The wall clock of this machine, with what was skipped, in µs since 1970.
    pub fn wall_us(&self) -> i64 {
        SystemClock.wall_us().saturating_add(self.skipped_us())
    }

    /// How much time was skipped so far, in µs.
    pub fn skipped_us(&self) -> i64 {
        self.shared.skipped_ns.load(Ordering::Relaxed) / 1000
    }

    pub fn epoch_ns_at_zero(&self) -> i64 {
        self.shared.epoch_ns_at_zero
    }

    /// How far the wall clock is ahead of where the monotonic one puts it.
    pub fn wall_drift_ns(&self) -> i64 {
        self.wall_us().saturating_mul(1000) - self.epoch_ns_at_zero() - self.now().0
    }

    /// Writes an event that is not an op.
    pub fn event(&self, event: Event) {
        let mut open = self.open();
        {
            let text = &mut self.shared.state().text;
            self.begin_line(text);
            push_rest(text, &event);
        }
        match event {
            Event::Cell(header) => {
                open.limit = header.limit;
                let epoch_ns_at_zero = self.epoch_ns_at_zero();
                open.cell =
                    Some(Cell { header: *header, epoch_ns_at_zero, rounds: Vec::new(), honesty: None });
            }
            Event::Round { index, at, epoch_ns_at_zero } => {
                open.trips = (0, 0);
                if let Some(cell) = &mut open.cell {
                    cell.rounds.push(Round::starting(index, at, epoch_ns_at_zero));
                }
            }
            Event::CellEnd { honesty } => {
                if let Some(cell) = &mut open.cell {
                    cell.honesty = Some(honesty);
                }
            }
            Event::Run(_) | Event::Ground { .. } | Event::Scenario(_) | Event::End { .. } => {}
            of_round => {
                let limit = open.limit;
                if let Some(round) = open.cell.as_mut().and_then(|c| c.rounds.last_mut()) {
                    let applied = history::apply(round, limit, of_round);
                    debug_assert_eq!(applied, Ok(()));
                }
            }
        }
    }

    /// Makes room for the ops of the open round in one step.
    pub fn expect_ops(&self, count: usize) {
        if let Some(round) = self.open().cell.as_mut().and_then(|c| c.rounds.last_mut()) {
            pages::reserve_exact(&mut round.ops, count);
        }
    }

    /// Calls that the open round has made so far.
    pub fn ops_of_round(&self) -> u32 {
        let open = self.open();
        let round = open.cell.as_ref().and_then(|c| c.rounds.last());
        round.map_or(0, |r| u32::try_from(r.ops.len()).unwrap_or(u32::MAX))
    }

    /// Exchanges with the store by decided calls of the open round: all, and the most of any one.
    pub fn trips_of_round(&self) -> (u64, u32) {
        self.open().trips
    }

    /// Ends the cell and hands it over to be judged.
    pub fn take_cell(&self, honesty: CellHonesty) -> Option<Cell> {
        self.event(Event::CellEnd { honesty });
        self.open().cell.take()
    }

    /// Returns when everything so far was handed to the file, or cannot be.
    pub fn flush(&self) {
        let mut state = self.shared.state();
        self.shared.changed.notify_all();
        while (!state.text.is_empty() || state.writing) && !state.closed {
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the history: everything is on disk when this returns, or the reason why not.
    pub fn close(&self) -> Result<(), String> {
        self.shared.close()
    }

    /// Why the history is not being written, if so.
    pub fn failed(&self) -> Option<String> {
        self.shared.state().failed.clone()
    }
}

impl Drop for Recorder {
    /// The history ends with the run's own recorder; a lane may end before.
    fn drop(&mut self) {
        if self.lane.is_none() {
            let _ = self.close();
        }
    }
}

impl Record for Recorder {
    fn invoke(&self, node: NodeId, key: &str, cost: Cost) -> OpId {
        let mut open = self.open();
        let round =
            open.cell.as_mut().and_then(|c| c.rounds.last_mut()).expect("a call belongs to an open round");
        let id = OpId(u32::try_from(round.ops.len()).expect("at most 10 million ops a round"));
        let key_id = round.key(key);
        let mut state = self.shared.state();
        while state.text.len() > MOST_PENDING && state.failed.is_none() {
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        // The last thing before the limiter is called.
        let at = self.now();
        round.ops.push(Op::new(id, node, key_id, cost, at));
        let text = &mut state.text;
        self.begin_line(text);
        push_number(text, r#""type":"invoke","op":"#, id.0);
        push_number(text, r#","node":"#, node.0);
        text.extend_from_slice(br#","key":"#);
        push_text(text, key);
        push_number(text, r#","cost":"#, cost.get());
        push_number(text, r#","at":"#, at.0);
        text.extend_from_slice(b"}\n");
        id
    }

    fn complete(&self, op: OpId, completion: &Completion, mut trace: Trace) {
        // The first thing after it answered.
        let at = self.now();
        let mut open = self.open();
        // What a policy decided instead of the store says nothing of what the limiter asks it.
        if matches!(completion, Completion::Ok(decision) if !decision.source.is_instead_of_store()) {
            open.trips = (open.trips.0 + u64::from(trace.trips), open.trips.1.max(trace.trips));
        }
        let limit = open.limit;
        let cell = open.cell.as_mut().expect("a call belongs to an open round");
        let answer = trace.answer.take().map(|answer| Event::Http { op, answer: *answer });
        // Only a call that ran alone can be compared with a model, to the microsecond.
        let clock_us = trace.clock_us.filter(|_| !cell.header.concurrent);
        let round = cell.rounds.last_mut().expect("a call belongs to an open round");
        let applied = history::complete(round, op, at, completion);
        debug_assert_eq!(applied, Ok(()));
        if let Some(op) = round.ops.get_mut(op.0 as usize) {
            op.clock_us = clock_us.and_then(|us| u64::try_from(us).ok()).into();
        }
        if matches!(completion, Completion::Ok(_)) {
            round.note(op, trace.note);
        }
        let mut state = self.shared.state();
        if let Some(event) = answer {
            self.begin_line(&mut state.text);
            push_rest(&mut state.text, &event);
            let applied = history::apply(round, limit, event);
            debug_assert_eq!(applied, Ok(()));
        }
        self.begin_line(&mut state.text);
        push_completion(&mut state.text, op, at, completion, Trace { clock_us, ..trace });
    }

    fn began(&self, at: Nanos) {
        self.event(Event::Begin { at });
    }

    fn changed(&self, what: String) {
        self.event(Event::Change { what, at: self.now() });
    }

    fn aside(&self, invoke: Nanos, complete: Nanos) {
        self.event(Event::Aside { invoke, complete });
    }

    fn stopped(&self) -> bool {
        self.shared.stop.stopped()
    }
}

/// What follows the brace. By hand, because a million of them are written while the clock runs. The test below holds it
/// to what serde would write.
fn push_completion(text: &mut Vec<u8>, op: OpId, at: Nanos, completion: &Completion, trace: Trace) {
    match completion {
        Completion::Ok(d) => {
            push_number(text, r#""type":"ok","op":"#, op.0);
            let allowed: &[u8] = if d.allowed { br#","allowed":true"# } else { br#","allowed":false"# };
            text.extend_from_slice(allowed);
            if let Some(remaining) = d.remaining {
                push_number(text, r#","remaining":"#, remaining);
            }
            if let Some(wait) = d.retry_after {
                push_number(text, r#","retry_after_ms":"#, ceil_millis(wait));
            }
            text.extend_from_slice(br#","source":""#);
            text.extend_from_slice(d.source.name().as_bytes());
            push_number(text, r#"","at":"#, at.0);
            if let Some(us) = trace.clock_us {
                push_number(text, r#","clock_us":"#, us);
            }
            if let Some(contact) = trace.note.contact {
                text.extend_from_slice(br#","contact":""#);
                text.extend_from_slice(contact.name().as_bytes());
                text.push(b'"');
            }
            if trace.note.near {
                text.extend_from_slice(br#","near":true"#);
            }
            text.extend_from_slice(b"}\n");
        }
        Completion::Fail(error) => push_rest(text, &Event::Fail { op, error: error.clone(), at }),
        Completion::Info(error) => push_rest(text, &Event::Info { op, error: error.clone(), at }),
    }
}

fn push_number(text: &mut Vec<u8>, before: &str, number: impl itoa::Integer) {
    text.extend_from_slice(before.as_bytes());
    text.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// An event without its first brace, and the end of its line.
fn push_rest(text: &mut Vec<u8>, event: &Event) {
    let json = serde_json::to_vec(event).expect("an event is plain data");
    text.extend_from_slice(&json[1..]);
    text.push(b'\n');
}

fn push_text(text: &mut Vec<u8>, value: &str) {
    serde_json::to_writer(text, value).expect("a string is plain data");
}

/// The writer thread: takes what has gathered, writes it, until the recorder closes.
fn write_out(shared: &Shared, mut file: Option<File>) {
    let mut spare = Vec::new();
    loop {
        let mut state = shared.state();
        if state.text.is_empty() && !state.closed {
            state = shared.changed.wait_timeout(state, FLUSH_EVERY).unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::swap(&mut state.text, &mut spare);
        let last = state.closed && spare.is_empty();
        state.writing = true;
        drop(state);
        shared.changed.notify_all();
        if last {
            return;
        }
        if let Some(out) = &mut file
            && let Err(error) = out.write_all(&spare)
        {
            shared.state().failed = Some(format!("cannot write the history: {error}"));
            file = None;
        }
        spare.clear();
        let mut state = shared.state();
        state.writing = false;
        shared.changed.notify_all();
        if !state.closed && state.text.len() < MOST_PENDING / 2 {
            // Gather for a while: one write for many ops.
            drop(shared.changed.wait_timeout(state, FLUSH_EVERY));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::history::CellHeader;
    use crate::model::op::{Contact, Decision, Note, Source};

    fn header() -> CellHeader {
        serde_json::from_str(
            r#"{"scenario":"s","limiter":"l","client":"c","backend":"b","server":{"flavour":"","version":""},
                "limit":1,"nodes":1,"rounds":1,"concurrent":false,"requirement":null,"checks":[],
                "contract":{"bound":{"kind":"none"},"scope":"global","clock":"app","clock_resolution_ms":1,
                            "denials":"free","on_outage":"error","key_ttl_at_most":null}}"#,
        )
        .unwrap()
    }

    #[test]
    fn the_hand_written_invocation_is_the_one_serde_reads() {
        let recorder = Recorder::start(None, Stop::default());
        recorder.event(Event::Cell(Box::new(header())));
        recorder.event(Event::Round { index: 1, at: Nanos(0), epoch_ns_at_zero: None });
        recorder.shared.state().text.clear();
        let id = recorder.invoke(NodeId(3), "a \"key\" \u{e9}\n", Cost::new(7).unwrap());
        let text = recorder.shared.state().text.clone();
        let at = recorder.open().cell.as_ref().unwrap().rounds[0].ops[0].invoke;
        let expected = Event::Invoke {
            op: id,
            node: NodeId(3),
            key: "a \"key\" \u{e9}\n".to_owned(),
            cost: Cost::new(7).unwrap(),
            at,
        };
        assert_eq!(serde_json::from_slice::<Event>(&text).unwrap(), expected);
    }

    #[test]
    fn the_hand_written_line_is_the_one_serde_reads() {
        let decision = |remaining, retry_after| Decision {
            allowed: remaining == Some(3),
            remaining,
            limit: Limit::new(10).unwrap(),
            retry_after,
            reset: None,
            source: Source::FailOpen,
        };
        for d in [
            decision(Some(3), None),
            decision(None, Some(Duration::from_micros(1500))),
            decision(Some(0), Some(Duration::ZERO)),
        ] {
            let mut text = vec![b'{'];
            let clock_us = d.remaining.map(|_| 1_800_000_000_000_000);
            let note = Note { contact: d.retry_after.map(|_| Contact::NotAsked), near: d.allowed };
            let trace = Trace { clock_us, note, ..Trace::default() };
            push_completion(&mut text, OpId(7), Nanos(42), &Completion::Ok(d.clone()), trace);
            let read: Event = serde_json::from_slice(&text).unwrap();
            let expected = Event::Ok {
                op: OpId(7),
                allowed: d.allowed,
                remaining: d.remaining,
                retry_after_ms: d.retry_after.map(ceil_millis),
                source: d.source,
                at: Nanos(42),
                clock_us,
                contact: note.contact,
                near: note.near,
            };
            assert_eq!(read, expected);
        }
    }

    #[test]
    fn cells_that_are_driven_at_the_same_time_are_read_back_apart() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("history.jsonl");
        let recorder = Recorder::start(Some(path.clone()), Stop::default());
        let run = r#"{"type":"run","schema":1,"lab":"0","id":"r","seed":1,"command":[],"started":"","epoch_ns_at_zero":0}"#;
        recorder.event(serde_json::from_str(run).unwrap());
        let lanes = [recorder.lane(1), recorder.lane(2)];
        for (lane, name) in lanes.iter().zip(["first", "second"]) {
            let mut header = header();
            header.limiter = name.to_owned();
            lane.event(Event::Cell(Box::new(header)));
            lane.event(Event::Round { index: 1, at: Nanos(0), epoch_ns_at_zero: None });
        }
        // One call of the first, two of the second, in turn.
        for place in [1, 0, 1] {
            let op = lanes[place].invoke(NodeId(0), "k", Cost::ONE);
            lanes[place].complete(op, &Completion::Fail("refused".to_owned()), Trace::default());
        }
        let kept: Vec<Cell> =
            lanes.iter().map(|lane| lane.take_cell(CellHonesty::default()).unwrap()).collect();
        recorder.close().unwrap();
        let mut builder = history::Builder::default();
        for line in std::fs::read_to_string(path).unwrap().lines() {
            builder.line(line).unwrap();
        }
        let read = builder.finish().unwrap().cells;
        let told = |cells: &[Cell]| -> Vec<(String, usize)> {
            cells.iter().map(|c| (c.header.limiter.clone(), c.rounds[0].ops.len())).collect()
        };
        assert_eq!(told(&read), [("first".to_owned(), 1), ("second".to_owned(), 2)]);
        assert_eq!(
            read.iter().map(|c| &c.rounds).collect::<Vec<_>>(),
            kept.iter().map(|c| &c.rounds).collect::<Vec<_>>()
        );
    }
}
