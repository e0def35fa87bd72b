//! The history of a run: what the lab saw, in order, one JSON object per line.
//!
//! Written while the run goes on and readable up to its last whole line, so a lab that was
//! killed loses nothing it had seen. [`Builder`] turns events back into rounds that a checker can
//! judge; the lab's own verdicts and `rl-lab analyze` both come from it.
//!
//! All times are nanoseconds since the run's one monotonic anchor.

mod crash;
mod reader;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use super::claims::ClaimsPlan;
use super::contract::{Contract, Requirement};
use super::gate::GatePlan;
use super::http;
use super::matrix::Column;
use super::op::{Contact, KeyId, Note, Op, Outcome, Source};
use super::order::most_open;
use super::report::{CellHonesty, CellReport, Honesty, ScenarioSummary, ServerInfo};
use super::scenario::{Act, OutageNeeds, PlannedClock, Time};
use super::units::{Cost, Limit, Nanos, NodeId, OpId, Seed};
use super::verdict::Verdict;

pub use crash::{CrashPoint, Crashed, KeyLeft};
pub use reader::{Builder, HistoryError, apply, complete};

/// The version of the format. A reader refuses what it does not know.
pub const SCHEMA: u32 = 1;

/// How a line begins that belongs to one of several cells which are driven at the same time; their number
/// follows, from 1. It is the first field of the line.
pub const LANE: &str = r#"{"lane":"#;

/// One line of `history.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Event {
    Run(RunHeader),
    /// What the figures rest on, once the servers are there.
    Ground {
        honesty: Honesty,
    },
    /// The cells that follow belong to this scenario.
    Scenario(ScenarioSummary),
    Cell(Box<CellHeader>),
    /// What a search through schedules came to: it makes no calls that would be recorded one by one.
    Searched(Box<CellReport>),
    Round {
        /// From 1.
        index: u32,
        at: Nanos,
        /// Unix time in nanoseconds at the anchor, as the wall clock stands now: it may have been set
        /// since the run began.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        epoch_ns_at_zero: Option<i64>,
    },
    /// A key was given a state as if `used` had been admitted before the round.
    Preset {
        key: String,
        used: u64,
        node: NodeId,
        invoke: Nanos,
        complete: Nanos,
    },
    Invoke {
        op: OpId,
        node: NodeId,
        key: String,
        cost: Cost,
        at: Nanos,
    },
    Ok {
        op: OpId,
        allowed: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remaining: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
        source: Source,
        at: Nanos,
        /// What the node's clock said, in µs since 1970, if the call read it exactly once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clock_us: Option<i64>,
        /// How far the call came on its way to the store.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        contact: Option<Contact>,
        /// Whether it was reported that most of the limit is used.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        near: bool,
    },
    Fail {
        op: OpId,
        error: String,
        at: Nanos,
    },
    Info {
        op: OpId,
        error: String,
        at: Nanos,
    },
    /// What a call was answered over HTTP, before what was made of it.
    Http {
        op: OpId,
        #[serde(flatten)]
        answer: http::Answer,
    },
    /// A key as the store showed it while no op was open: PTTL in ms, −1 without expiry, −2 gone.
    Probe {
        key: String,
        pttl: i64,
        at: Nanos,
        /// A counter's value, which may be negative, or how many members a set, list or hash has.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        holds: Option<i64>,
        /// What the server says the key takes in memory.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
        /// The server's word for what kind of key it is: `string`, `zset`, `hash`, …
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kind: Option<String>,
    },
    /// One exchange with the store, sent as a user who may touch the keys it declares and no other.
    Touch {
        op: OpId,
        /// As declared: the keys of a command, of a transaction, or of a script's KEYS.
        keys: Vec<String>,
        /// The server's refusal to let it touch another key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<String>,
        at: Nanos,
    },
    /// What somebody else did to the store.
    Act {
        #[serde(rename = "do")]
        act: Act,
        invoke: Nanos,
        complete: Nanos,
        /// What came of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        told: Option<String>,
    },
    /// A fault is in force.
    Fault {
        /// From 1, in the order in which they were injected.
        id: u32,
        #[serde(rename = "do")]
        fault: String,
        on: String,
        /// Just before it was injected.
        asked: Nanos,
        /// Acknowledged.
        at: Nanos,
        /// What there is to say about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        told: Option<String>,
    },
    /// A fault was taken back.
    FaultEnd {
        id: u32,
        asked: Nanos,
        /// Acknowledged, and what was struck answered again.
        at: Nanos,
    },
    /// The edge of a window at which the round begins, where it was waited for.
    Begin {
        at: Nanos,
    },
    /// The app servers are others from now on: more of them, or another version.
    Change {
        what: String,
        at: Nanos,
    },
    /// What an app server of somebody else's says it is: a library and its version.
    Adapter {
        name: String,
        at: Nanos,
    },
    /// What a node of a cluster did in the round, for the lab among others: the commands it processed, and the CPU time
    /// of all its threads.
    Load {
        node: String,
        commands: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cpu_us: Option<u64>,
        at: Nanos,
    },
    /// What a server did in the round: keys it evicted, whoever's they were, and scripts it was asked for and did
    /// not know.
    Stats {
        evicted_keys: u64,
        /// Absent where it does not count them (before 6.2).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        noscript: Option<u64>,
        at: Nanos,
    },
    /// The thread that makes the calls stood still: whatever was open then took that much longer.
    Stall {
        from: Nanos,
        at: Nanos,
    },
    /// A request on a route without a limiter, which waited for a worker like any other.
    Aside {
        invoke: Nanos,
        complete: Nanos,
    },
    /// The node of the round's first call died in it; what the store then held.
    Crash {
        #[serde(flatten)]
        point: CrashPoint,
        left: Vec<KeyLeft>,
        at: Nanos,
    },
    /// An app server of the round broke the protocol it is asked in: nothing it said is to be believed.
    Disbelieved {
        why: String,
        at: Nanos,
    },
    /// The key space was listed to its end: every key the round touched has a `Probe`.
    ProbesComplete {
        at: Nanos,
    },
    /// Nothing more belongs to the round; `ops` calls do.
    RoundEnd {
        at: Nanos,
        ops: u32,
        clock_step_ns: i64,
        /// Exchanges with the store, all decided calls together, and the most of any one of them.
        #[serde(default)]
        trips: u64,
        #[serde(default)]
        most_trips: u32,
    },
    CellEnd {
        honesty: CellHonesty,
    },
    /// The run came to its end: with this exit code by its own account, and with what went wrong.
    End {
        exit: u8,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
}

/// First line of every history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunHeader {
    pub schema: u32,
    pub lab: String,
    pub id: String,
    pub seed: Seed,
    pub command: Vec<String>,
    pub started: String,
    /// Unix time in nanoseconds at the anchor.
    pub epoch_ns_at_zero: i64,
    /// The columns of the matrix that the run is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<Vec<Column>>,
    /// The claims that the run is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claims: Option<ClaimsPlan>,
    /// The gate that the run is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<GatePlan>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_none(n: &u32) -> bool {
    *n == 0
}

/// Everything a judge needs to know about one cell: a limiter under one scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellHeader {
    pub scenario: String,
    pub limiter: String,
    #[serde(default)]
    pub params: BTreeMap<String, String>,
    /// Which variation of the scenario this is, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variation: Option<String>,
    #[serde(default)]
    pub policy: Option<String>,
    pub client: String,
    /// Whether the client is one of several that are compared.
    #[serde(default)]
    pub client_named: bool,
    pub backend: String,
    pub server: ServerInfo,
    /// Whether calls went over HTTP, to a front before each node.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub http: bool,
    /// Whether the limiter runs in processes of somebody else's: what they do not tell of themselves is not known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub foreign: bool,
    /// Which servers there are; one where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<String>,
    pub limit: Limit,
    pub nodes: u16,
    /// Versions of the limiter that are rolled out meanwhile.
    #[serde(default, skip_serializing_if = "is_none")]
    pub versions: u32,
    /// Rounds that were planned; a history with fewer is cut short.
    pub rounds: u32,
    /// Whether calls were meant to overlap. If they were and did not, nothing was tried.
    pub concurrent: bool,
    /// How the round's waits went by.
    #[serde(default)]
    pub time: Time,
    /// Which cell of its scenario it is, from 0, in the order of the plan: it may be driven at another time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<u32>,
    /// Why the cell was not driven at all, such as a server too old for the limiter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_run: Option<String>,
    /// The command that shows this cell again.
    #[serde(default)]
    pub replay: String,
    pub contract: Contract,
    pub requirement: Option<Requirement>,
    /// What callers need while the store is away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outage: Option<OutageNeeds>,
    /// The clocks that were not right.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clocks: Vec<PlannedClock>,
    /// The checks to make, with what the scenario expects of them.
    pub checks: Vec<PlannedCheck>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedCheck {
    pub check: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Verdict>,
}

/// A key given a state before the round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    pub key: KeyId,
    pub node: NodeId,
    pub used: u64,
    pub invoke: Nanos,
    pub complete: Nanos,
}

/// A key as the store showed it between ops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    pub key: String,
    pub pttl: i64,
    pub at: Nanos,
    pub holds: Option<i64>,
    pub bytes: Option<u64>,
    pub kind: Option<String>,
}

impl Probe {
    /// What a counter says; `None` for anything that is not a number.
    pub fn counted(&self) -> Option<i64> {
        self.holds.filter(|_| self.kind.as_deref() == Some("string"))
    }

    /// How many values the key keeps: what a string says is one, whatever number it is.
    pub fn entries(&self) -> Option<u64> {
        if self.kind.as_deref() == Some("string") {
            return Some(1);
        }
        self.holds.and_then(|members| u64::try_from(members).ok())
    }
}

/// One exchange with the store under a user limited to the keys it declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touch {
    pub op: OpId,
    pub keys: Vec<String>,
    pub refused: Option<String>,
    pub at: Nanos,
}

/// What somebody else did to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acted {
    pub act: Act,
    pub invoke: Nanos,
    pub complete: Nanos,
    pub told: Option<String>,
}

/// A fault that was in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faulted {
    pub id: u32,
    pub fault: String,
    pub on: String,
    /// Not in force before `asked`, in force from `from` to `lifted` for certain, and no more after `over`;
    /// the last two are absent while it lasts, or where it stays.
    pub asked: Nanos,
    pub from: Nanos,
    pub lifted: Option<Nanos>,
    pub over: Option<Nanos>,
    pub told: Option<String>,
}

impl Faulted {
    /// Whether all of this lies where the fault was in force for certain.
    pub fn covers(&self, invoke: Nanos, complete: Nanos) -> bool {
        self.from <= invoke && self.lifted.is_none_or(|lifted| complete <= lifted)
    }

    /// Whether some of this lies where it may have been in force.
    pub fn touches(&self, invoke: Nanos, complete: Nanos) -> bool {
        self.asked <= complete && self.over.is_none_or(|over| invoke <= over)
    }
}

/// One round of a cell: fresh key, fresh limiters.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Round {
    /// From 1.
    pub index: u32,
    pub began: Nanos,
    /// `ops[i].id == OpId(i)`.
    pub ops: Vec<Op>,
    pub keys: Vec<String>,
    pub presets: Vec<Preset>,
    pub probes: Vec<Probe>,
    pub probes_complete: bool,
    pub touches: Vec<Touch>,
    pub acts: Vec<Acted>,
    pub faults: Vec<Faulted>,
    /// What was changed of the app servers, and when.
    pub changes: Vec<(Nanos, String)>,
    /// What app servers of somebody else's say they are.
    pub adapters: BTreeSet<String>,
    /// Commands that each node of a cluster processed, and the CPU time that each took, in µs.
    pub loads: Vec<u64>,
    pub cpus_us: Vec<u64>,
    /// Keys that the servers evicted, all together, and scripts they were asked for and did not know.
    pub evicted_keys: Option<u64>,
    pub noscript: Option<u64>,
    /// When the thread that makes the calls stood still.
    pub stalls: Vec<(Nanos, Nanos)>,
    /// Requests on a route without a limiter, from arrival to answer.
    pub asides: Vec<(Nanos, Nanos)>,
    /// The crash of the first call's node, where the round is about one.
    pub crash: Option<Crashed>,
    /// What calls were answered over HTTP, by their number.
    pub http: BTreeMap<u32, http::Answer>,
    /// How an app server broke the protocol it is asked in, if one did.
    pub disbelieved: Option<String>,
    /// Exchanges with the store, all decided calls together, and the most of any one of them.
    pub trips: u64,
    pub most_trips: u32,
    /// By the number of the call; as far as anything was noted of any.
    notes: Vec<Note>,
    /// When callers got their answers that leave open what the store did.
    answers: BTreeMap<u32, Nanos>,
    /// Error texts with how often each came up.
    pub errors: BTreeMap<String, u64>,
    /// How much further the wall clock moved than the monotonic one.
    pub clock_step_ns: i64,
    /// Unix time in nanoseconds at the anchor, as the wall clock stood in this round.
    pub epoch_ns_at_zero: Option<i64>,
    /// Where in `keys` each key is.
    places: HashMap<String, u32>,
    /// Calls that have completed, whatever came of them.
    answered: u32,
    /// Those of them that may still be at work in the store.
    at_work: u32,
    /// Whether the round was recorded to its end.
    pub complete: bool,
}

impl Round {
    pub fn starting(index: u32, at: Nanos, epoch_ns_at_zero: Option<i64>) -> Self {
        Self { index, began: at, epoch_ns_at_zero, ..Self::default() }
    }

    /// The key's place in the table, made if it is new.
    pub fn key(&mut self, key: &str) -> KeyId {
        if let Some(place) = self.places.get(key) {
            return KeyId(*place);
        }
        let place = u32::try_from(self.keys.len()).expect("fewer than 2^32 keys in a round");
        self.keys.push(key.to_owned());
        self.places.insert(key.to_owned(), place);
        KeyId(place)
    }

    /// When the caller got an answer that leaves open what the store did.
    pub fn answered_at(&self, op: OpId) -> Option<Nanos> {
        self.answers.get(&op.0).copied()
    }

    /// What was noted of a call beside its decision.
    pub fn note_of(&self, op: OpId) -> Note {
        self.notes.get(op.0 as usize).copied().unwrap_or_default()
    }

    /// Notes something of a call that was made.
    pub fn note(&mut self, op: OpId, note: Note) {
        let place = op.0 as usize;
        if note == Note::default() || place >= self.ops.len() {
            return;
        }
        if self.notes.len() <= place {
            // As many as there is room for calls: they come in about the order of their numbers.
            self.notes.reserve(self.ops.capacity() - self.notes.len());
            self.notes.resize(place + 1, Note::default());
        }
        self.notes[place] = note;
    }

    /// Whether nothing of the round's calls can still be under way to the store.
    pub fn settled(&self) -> bool {
        self.answered as usize == self.ops.len() && self.at_work == 0
    }

    pub fn count(&self, outcome: Outcome) -> u64 {
        self.ops.iter().filter(|o| o.outcome == outcome).count() as u64
    }

    /// The largest number of decided calls that were open at the same moment. A call without a
    /// decision may be open for ever, and raced with nobody for all that is known.
    pub fn overlap(&self) -> usize {
        // A call of no length is open at no moment.
        let decided =
            |o: &&Op| matches!(o.outcome, Outcome::Admitted | Outcome::Denied) && o.complete > o.invoke;
        let intervals = self.ops.iter().filter(decided).map(|o| (o.invoke, o.complete));
        if self.ops.is_sorted_by_key(|o| o.invoke) {
            return most_open(intervals);
        }
        let mut sorted: Vec<_> = intervals.collect();
        sorted.sort_unstable();
        most_open(sorted.into_iter())
    }
}

/// One limiter under one scenario, as recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    pub header: CellHeader,
    pub epoch_ns_at_zero: i64,
    pub rounds: Vec<Round>,
    pub honesty: Option<CellHonesty>,
}

/// A whole history.
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    pub header: RunHeader,
    pub ground: Honesty,
    pub scenarios: Vec<ScenarioSummary>,
    pub cells: Vec<Cell>,
    /// What was searched besides, already judged.
    pub searched: Vec<CellReport>,
    /// How the run ended by its own account, `None` if it was killed: exit code and error.
    pub ended: Option<(u8, Option<String>)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(round: &mut Round, invoke: i64, complete: i64) {
        let id = OpId(round.ops.len() as u32);
        let mut op = Op::new(id, NodeId(0), KeyId(0), Cost::ONE, Nanos(invoke));
        op.complete = Nanos(complete);
        op.outcome = Outcome::Denied;
        round.ops.push(op);
    }

    #[test]
    fn calls_that_only_touch_do_not_overlap() {
        let mut round = Round::default();
        op(&mut round, 0, 10);
        op(&mut round, 10, 20);
        assert_eq!(round.overlap(), 1);
        op(&mut round, 5, 12);
        assert_eq!(round.overlap(), 2);
    }

    #[test]
    fn a_call_without_a_decision_overlaps_with_nobody() {
        let mut round = Round::default();
        op(&mut round, 0, 10);
        op(&mut round, 20, 30);
        let id = OpId(2);
        round.ops.push(Op::new(id, NodeId(0), KeyId(0), Cost::ONE, Nanos(0)));
        assert_eq!(round.overlap(), 1);
    }
}
