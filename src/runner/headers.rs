//! Asks a service until it refuses, waits as long as it says, and judges what it said by the rules of
//! `headers-honest`.
//!
//! Nothing is known of the service but its answers. A wait of two seconds or more is looked into a tenth of a second
//! before it would be too long by one. Who is refused then may be told of another end, since a service may count that
//! refusal, or always say the same: where it is later by more than rounding tells, somebody comes back at the first end
//! as well, and waits out what is said last.

use std::sync::Arc;
use std::time::Duration;

use super::record::{Recorder, Stop};
use crate::checkers::headers_honest::{HeadersHonest, Rule, rules};
use crate::limiters::external::http::{Http, PATIENCE, Target};
use crate::model::contract::{Bound, Contract, DecidingClock, Denials, OnOutage, Scope};
use crate::model::history::{Cell, CellHeader, Event};
use crate::model::http::Answer;
use crate::model::indexed::IndexedCell;
use crate::model::op::{Completion, Outcome};
use crate::model::report::{CellHonesty, ServerInfo};
use crate::model::units::{Cost, Limit, NodeId};
use crate::model::verdict::Finding;
use crate::ports::checker::Checker;
use crate::ports::limiter::Limiter;
use crate::ports::store::{Call, as_call};
use crate::ports::workload::Record;

/// What is to be asked.
pub struct Ask {
    pub target: Target,
    /// Requests until it refuses, at most.
    pub requests: u32,
    /// The longest wait that is waited out.
    pub patience: Duration,
}

/// What came of it.
pub struct Told {
    pub finding: Finding,
    pub rules: Vec<Rule>,
    pub admitted: u64,
    pub refused: u64,
    pub unanswered: u64,
    /// The last answer, a refusal if there was one.
    pub answer: Option<Answer>,
    /// Why less was tried than could have been.
    pub notes: Vec<String>,
}

/// Why it cannot be asked.
#[derive(Debug)]
pub enum Cannot {
    /// Nobody answers there.
    Reach(String),
    /// It answers, but takes no such request.
    Use(String),
}

/// Who asks, in the record.
const CALLER: &str = "caller";

/// Asks and judges.
pub async fn ask(ask: Ask) -> Result<Told, Cannot> {
    let limit = Limit::new(1).expect("1 is a limit");
    let recorder = Recorder::start(None, Stop::default());
    recorder.event(Event::Cell(Box::new(header(limit))));
    recorder.event(Event::Round { index: 1, at: recorder.now(), epoch_ns_at_zero: None });
    let before = recorder.wall_drift_ns();
    let mut asking = Asking {
        http: Http::new(ask.target.as_it_is(), limit, PATIENCE, None),
        recorder: Arc::clone(&recorder),
        calls: 0,
        notes: Vec::new(),
    };
    asking.all(ask.requests, ask.patience).await?;
    let at = recorder.now();
    recorder.event(Event::ProbesComplete { at });
    let clock_step_ns = recorder.wall_drift_ns() - before;
    let ops = asking.calls;
    recorder.event(Event::RoundEnd { at, ops, clock_step_ns, trips: 0, most_trips: 0 });
    let cell = recorder.take_cell(CellHonesty::default()).expect("its cell is open");
    Ok(judged(&cell, asking.notes))
}

fn judged(cell: &Cell, notes: Vec<String>) -> Told {
    let indexed = IndexedCell::of(cell);
    let round = &cell.rounds[0];
    let answers = || round.http.values().rev();
    Told {
        finding: HeadersHonest.judge_indexed(&indexed),
        rules: rules(&indexed),
        admitted: round.count(Outcome::Admitted),
        refused: round.count(Outcome::Denied),
        unanswered: round.count(Outcome::Failed) + round.count(Outcome::Unknown),
        answer: answers().find(|a| a.refused()).or_else(|| answers().next()).cloned(),
        notes,
    }
}

/// Promises nothing that is known, and costs one a call.
fn header(limit: Limit) -> CellHeader {
    CellHeader {
        scenario: "headers".to_owned(),
        limiter: "service".to_owned(),
        params: Default::default(),
        variation: None,
        policy: None,
        client: "http".to_owned(),
        client_named: false,
        backend: String::new(),
        server: ServerInfo::default(),
        http: true,
        foreign: false,
        topology: None,
        limit,
        nodes: 1,
        versions: 0,
        rounds: 1,
        concurrent: false,
        time: Default::default(),
        not_run: None,
        place: None,
        replay: String::new(),
        contract: Contract {
            bound: Bound::None,
            scope: Scope::Global,
            clock: DecidingClock::Server,
            clock_resolution_ms: 1000,
            denials: Denials::Charged,
            on_outage: OnOutage::Error,
            key_ttl_at_most: None,
            lockout: None,
            across_keys: None,
            algorithm: None,
            round_trips_at_most: None,
            in_background: false,
            fallback: None,
        },
        requirement: None,
        outage: None,
        clocks: Vec::new(),
        checks: Vec::new(),
    }
}

struct Asking {
    http: Http,
    recorder: Arc<Recorder>,
    calls: u32,
    notes: Vec<String>,
}

/// What a call came to.
enum Came {
    Admitted,
    Refused(Option<Duration>),
    Nothing,
}

impl Asking {
    async fn all(&mut self, requests: u32, patience: Duration) -> Result<(), Cannot> {
        let mut refusal = None;
        for _ in 0..requests {
            match self.call().await? {
                Came::Admitted => {}
                Came::Refused(wait) => {
                    refusal = Some(wait);
                    break;
                }
                Came::Nothing => {
                    self.notes.push("a request was not answered, and no more were made".to_owned());
                    return Ok(());
                }
            }
        }
        match refusal {
            None => {
                self.notes.push(format!("none of {requests} requests was refused: --requests asks for more"))
            }
            Some(None) => self.notes.push("the refusal tells no wait, so none was waited out".to_owned()),
            Some(Some(wait)) => self.come_back(wait, patience).await?,
        }
        Ok(())
    }

    /// Comes back when that was told, and before the end of it if it may be too long.
    async fn come_back(&mut self, mut wait: Duration, patience: Duration) -> Result<(), Cannot> {
        const EARLY: Duration = Duration::from_millis(1100);
        const LATE: Duration = Duration::from_millis(5);
        // A whole second for rounding up, and what the answers took.
        const ROUNDED: Duration = Duration::from_millis(1200);
        let too_long = |wait: Duration| {
            let (told, most) = (wait.as_secs(), patience.as_secs());
            format!("it tells to wait {told} s, longer than the {most} s of --patience: not waited out")
        };
        if wait > patience {
            self.notes.push(too_long(wait));
            return Ok(());
        }
        if wait >= Duration::from_secs(2) {
            tokio::time::sleep(wait - EARLY).await;
            let Came::Refused(Some(again)) = self.call().await? else { return Ok(()) };
            let first_end = EARLY + LATE;
            wait = again;
            if again > EARLY + ROUNDED {
                tokio::time::sleep(first_end).await;
                let Came::Refused(Some(last)) = self.call().await? else { return Ok(()) };
                wait = last;
            }
            if wait > patience {
                self.notes.push(too_long(wait));
                return Ok(());
            }
        }
        tokio::time::sleep(wait + LATE).await;
        self.call().await.map(|_| ())
    }

    async fn call(&mut self) -> Result<Came, Cannot> {
        let op = self.recorder.invoke(NodeId(0), CALLER, Cost::ONE);
        let (answer, trace) = as_call(Call::new(op.0, 0), self.http.acquire(CALLER, Cost::ONE)).await;
        self.calls += 1;
        let status = trace.answer.as_ref().map(|a| a.status);
        let completion = match answer {
            Ok(decision) => Completion::Ok(decision),
            Err(error) => error.completion(trace.sent),
        };
        self.recorder.complete(op, &completion, trace);
        let first = self.calls == 1;
        Ok(match (completion, status) {
            // Neither admitted nor refused for its rate: it is not what the limit is about.
            (_, Some(status @ (100..=199 | 300..=428 | 430..=499))) => {
                let why =
                    format!("it answers {status}, which is no answer of a limit: a status of 2xx or 429 is");
                return Err(Cannot::Use(why));
            }
            (Completion::Ok(decision), _) if decision.allowed => Came::Admitted,
            (Completion::Ok(decision), _) => Came::Refused(decision.retry_after),
            (Completion::Fail(why) | Completion::Info(why), None) if first => return Err(Cannot::Reach(why)),
            (Completion::Fail(why) | Completion::Info(why), _) => {
                self.notes.push(why);
                Came::Nothing
            }
        })
    }
}
