//! Histories of other tools, judged by themselves: is there an order that explains them?
//!
//! Reads what Jepsen and Knossos record, as JSON: an array of events or one after the other, each with
//! `process`, `type` (invoke, ok, fail, info), `f`, `value`, `time` in nanoseconds, and `key` where
//! there are several objects. Names may begin with a colon, as exporters of EDN leave them.

mod events;
mod objects;

use crate::model::linear::{self, Answer, Stuck, Timed};
use crate::model::units::Limit;
use crate::model::verdict::Verdict;

pub use events::{BadInput, Foreign};
pub use objects::Object;

/// What was found about one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfKey {
    pub key: Option<String>,
    /// Calls that were not certainly without effect, and how many of them nobody knows about.
    pub calls: usize,
    pub unanswered: usize,
    pub verdict: Verdict,
    pub because: String,
    pub witness: Option<Witness>,
}

/// The shortest beginning of the history that no order explains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Witness {
    /// The call whose end cannot be explained.
    pub at: String,
    /// What was open besides when it ended.
    pub open: Vec<String>,
    /// An order of what had ended before, where there was time to find one.
    pub before: Option<Vec<String>>,
}

/// Judges every object of a history. `give_up` is asked at every step of a search.
pub fn judge(
    history: &Foreign,
    object: Object,
    mut give_up: impl FnMut() -> bool,
) -> Result<Vec<OfKey>, BadInput> {
    match object {
        Object::Register => {
            let mut values = objects::Values::default();
            let model = linear::register::Register;
            each(history, &model, |op| values.register(op), &mut give_up)
        }
        Object::FixedWindow { limit, denials } => {
            let model = linear::counter::Counter { limit, used: 0, denials };
            each(history, &model, objects::counter, &mut give_up)
        }
    }
}

/// What the whole history comes to: the worst, and no calls at all are no pass.
pub fn overall(keys: &[OfKey]) -> Verdict {
    let calls: usize = keys.iter().map(|k| k.calls).sum();
    let worst = keys.iter().map(|k| k.verdict).max();
    worst.filter(|_| calls > 0).unwrap_or(Verdict::Unknown)
}

fn each<M: linear::Sequential>(
    history: &Foreign,
    model: &M,
    mut call_of: impl FnMut(&events::Op) -> Result<Option<M::Call>, BadInput>,
    give_up: &mut impl FnMut() -> bool,
) -> Result<Vec<OfKey>, BadInput> {
    // Everything is read before anything is judged: bad input is told at once.
    let mut read = Vec::new();
    for (key, ops) in history.by_key() {
        let mut calls = Vec::new();
        let mut of_calls = Vec::new();
        for op in ops {
            if let Some(call) = call_of(op)? {
                calls.push(Timed { invoke: op.invoke, complete: op.complete, call });
                of_calls.push(op);
            }
        }
        read.push((key, calls, of_calls));
    }
    Ok(read
        .into_iter()
        .map(|(key, calls, ops)| {
            let answer = linear::search(model, &calls, &mut *give_up);
            let unanswered = calls.iter().filter(|c| c.complete.is_none()).count();
            let (verdict, because, witness) = said(answer, &ops);
            OfKey { key: key.map(str::to_owned), calls: calls.len(), unanswered, verdict, because, witness }
        })
        .collect())
}

fn said(answer: Answer, ops: &[&events::Op]) -> (Verdict, String, Option<Witness>) {
    match answer {
        Answer::Linearizable(_) => (Verdict::Pass, "an order explains it".to_owned(), None),
        Answer::GaveUp => {
            (Verdict::Unknown, "no order was found and none ruled out in the time there was".to_owned(), None)
        }
        Answer::Not(Stuck { at, open, before }) => {
            let tell = |places: Vec<usize>| places.into_iter().map(|n| ops[n].to_string()).collect();
            let witness = Witness { at: ops[at].to_string(), open: tell(open), before: before.map(tell) };
            let because = format!("no order explains {}", witness.at);
            (Verdict::Fail, because, Some(witness))
        }
    }
}

/// `--model` and what goes with it.
pub fn object(
    name: &str,
    limit: Option<Limit>,
    denials: crate::model::contract::Denials,
) -> Result<Object, String> {
    match (name, limit) {
        ("register", None) => Ok(Object::Register),
        ("register", Some(_)) => {
            Err("a register has no limit: --limit goes with --model fixed-window".to_owned())
        }
        ("fixed-window", Some(limit)) => Ok(Object::FixedWindow { limit, denials }),
        ("fixed-window", None) => Err("a fixed window has a limit: give it with --limit".to_owned()),
        (other, _) => Err(crate::model::names::unknown("model", other, &["register", "fixed-window"])),
    }
}
