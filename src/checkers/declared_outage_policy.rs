//! `declared-outage-policy`: while the store is away, callers get what the contract says they get.
//!
//! Fail-open: nobody gets an error, and nobody is refused but by the store. Fail-closed: nobody gets an error,
//! and nobody is admitted but by the store. Fallback: nobody gets an error, and who is decided without the store
//! is decided by the local limiter, which `never-over-limit` holds to its own bound. Error: nobody gets a decision
//! that the store did not make. Who decided is what the decision itself says; that it was the store is not
//! believed of a call that lies wholly inside an outage of it, where there is no other server.
//!
//! Proves, when it fails, that one call got something else: it is the witness. A pass needs a call that was
//! decided, or failed, without the store. It cannot tell who decided where the limiter does not say so and
//! the store was there. O(n × faults).

use super::bounded_latency::in_words;
use super::common;
use crate::model::contract::OnOutage;
use crate::model::history::{Cell, Faulted, Round};
use crate::model::op::{Op, Outcome, Source};
use crate::model::scene::Place;
use crate::model::verdict::Finding;
use crate::ports::checker::Checker;

pub struct DeclaredOutagePolicy;

impl Checker for DeclaredOutagePolicy {
    fn name(&self) -> &'static str {
        "declared-outage-policy"
    }

    fn proves(&self) -> &'static str {
        "without the store, callers get what the contract says"
    }

    fn judge(&self, cell: &Cell) -> Finding {
        let declared = cell.header.contract.on_outage;
        if declared == OnOutage::Unaffected {
            return Finding::not_applicable("it uses no store");
        }
        let mut without = 0_u64;
        for round in &cell.rounds {
            for op in &round.ops {
                if let Some(outage) = impossible(round, op).filter(|_| cell.header.topology.is_none()) {
                    return Finding::fail(format!(
                        "{} got a decision that is said to be the store's, during {}",
                        common::op_in_words(round, op),
                        in_words(round, outage)
                    ))
                    .seen_at(Place::of(round, [op.id]));
                }
                match objection(declared, op) {
                    Some(got) => {
                        let witness = witness(round, op, declared, got);
                        return Finding::fail(witness).seen_at(Place::of(round, [op.id]));
                    }
                    None => without += u64::from(is_without_store(op)),
                }
            }
        }
        if let Some(cut) = common::cut_short(cell) {
            return cut;
        }
        if without == 0 {
            return Finding::unknown("every call is said to be decided by the store, so nothing was tried");
        }
        Finding::pass(format!("{without} calls had to do without the store, and all got what is declared"))
    }
}

/// Faults that keep the store from deciding anything at all.
fn is_outage(fault: &Faulted) -> bool {
    fault.on == "primary" && matches!(fault.fault.as_str(), "freeze" | "kill" | "black-hole")
}

/// The outage inside which the store is said to have decided this.
fn impossible<'r>(round: &'r Round, op: &Op) -> Option<&'r Faulted> {
    let decided = op.outcome.is_decided() && matches!(op.source, Some(Source::Store | Source::Shadow));
    round.faults.iter().find(|f| decided && is_outage(f) && f.covers(op.invoke, op.complete))
}

fn is_without_store(op: &Op) -> bool {
    match op.outcome {
        Outcome::Failed | Outcome::Unknown => true,
        Outcome::Admitted | Outcome::Denied => op.source.is_some_and(Source::is_instead_of_store),
    }
}

/// What the call got instead of what is declared.
fn objection(declared: OnOutage, op: &Op) -> Option<&'static str> {
    let got = match (op.outcome, op.source) {
        (Outcome::Failed | Outcome::Unknown, _) => OnOutage::Error,
        (_, Some(Source::FailOpen)) => OnOutage::Open,
        (_, Some(Source::FailClosed)) => OnOutage::Closed,
        (_, Some(Source::Fallback)) => OnOutage::Fallback,
        _ => return None,
    };
    let kept = got == declared
        && match got {
            OnOutage::Open => op.outcome == Outcome::Admitted,
            OnOutage::Closed => op.outcome == Outcome::Denied,
            _ => true,
        };
    (!kept).then_some(match got {
        OnOutage::Error => "an error",
        OnOutage::Open => "a decision by fail-open",
        OnOutage::Closed => "a decision by fail-closed",
        _ => "a decision by a fallback",
    })
}

fn witness(round: &Round, op: &Op, declared: OnOutage, got: &str) -> String {
    let declares = match declared {
        OnOutage::Open => "that callers are admitted",
        OnOutage::Closed => "that callers are refused",
        OnOutage::Fallback => "that a local limiter decides",
        OnOutage::Error | OnOutage::Unaffected => "that callers get an error",
    };
    format!("the contract says {declares} without the store; {} got {got}", common::op_in_words(round, op))
}
