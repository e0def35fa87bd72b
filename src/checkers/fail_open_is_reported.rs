//! `fail-open-is-reported`: who is let in without the store is not said to have been let in by it.
//!
//! An application that catches the error of its limiter and goes on looks like one without an outage: every
//! answer is a good one, and nobody is called. The lab knows from its own record how far each call came. It fails
//! if a call was admitted as the store's decision although the store answered none of its exchanges, or
//! answered all of them with errors; that is the witness. Sources that say so (`fail-open`, `fallback`,
//! `local`) are what a limiter counts, and what `rate_limit_fallback_total` is made of.
//!
//! A call that never asked may rest on what its app server holds, but then its source is `local`. A pass needs a
//! call that was admitted without an answer and said so; where it was not recorded how far calls came, as in
//! older histories or by app servers that do not say, the verdict is unknown. Refusals are not its business
//! (`declared-outage-policy`). O(n).

use std::collections::BTreeMap;

use super::common;
use crate::model::contract::OnOutage;
use crate::model::history::{Cell, Round};
use crate::model::op::{Contact, Op, Outcome, Source};
use crate::model::scene::Place;
use crate::model::verdict::Finding;
use crate::ports::checker::Checker;

pub struct FailOpenIsReported;

impl Checker for FailOpenIsReported {
    fn name(&self) -> &'static str {
        "fail-open-is-reported"
    }

    fn proves(&self) -> &'static str {
        "no call that was admitted without an answer of the store is said to be the store's"
    }

    fn judge(&self, cell: &Cell) -> Finding {
        if cell.header.contract.on_outage == OnOutage::Unaffected {
            return Finding::not_applicable("it uses no store");
        }
        let (mut unrecorded, mut reported) = (0_u64, BTreeMap::<&str, u64>::new());
        for round in &cell.rounds {
            for op in round.ops.iter().filter(|op| op.outcome == Outcome::Admitted) {
                let Some(contact) = round.note_of(op.id).contact else {
                    unrecorded += 1;
                    continue;
                };
                match op.source {
                    _ if contact == Contact::Answered => {}
                    Some(Source::Store) => {
                        return Finding::fail(witness(round, op, contact)).seen_at(Place::of(round, [op.id]));
                    }
                    Some(source) if source.is_instead_of_store() || contact > Contact::NotAsked => {
                        *reported.entry(source.name()).or_default() += 1;
                    }
                    _ => {}
                }
            }
        }
        if let Some(cut) = common::cut_short(cell) {
            return cut;
        }
        if unrecorded > 0 {
            return Finding::unknown(format!(
                "of {unrecorded} admitted calls nobody recorded how far they came on their way to the store"
            ));
        }
        if reported.is_empty() {
            return Finding::unknown(
                "nobody was admitted without an answer of the store, so nothing was tried",
            );
        }
        let told: Vec<String> =
            reported.iter().map(|(source, count)| format!("{count} by {source}")).collect();
        Finding::pass(format!(
            "whoever was admitted without an answer of the store was said to be: {}",
            told.join(", ")
        ))
    }
}

fn witness(round: &Round, op: &Op, contact: Contact) -> String {
    let came = match contact {
        Contact::NotAsked => "which it was never asked for",
        Contact::Refused => "which answered with errors only",
        _ => "which never answered it",
    };
    format!("{} was admitted and is said to be decided by the store, {came}", common::op_in_words(round, op))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::op::Note;
    use crate::model::units::{Cost, Nanos, NodeId, OpId};
    use crate::model::verdict::Verdict::{self, Fail, NotApplicable, Pass, Unknown};

    /// One admitted call.
    fn judged(on_outage: &str, source: Source, contact: Option<Contact>) -> Verdict {
        let text = format!(
            r#"{{"scenario":"s","limiter":"l","client":"c","backend":"b","server":{{"flavour":"","version":""}},
                "limit":2,"nodes":1,"rounds":1,"concurrent":false,"requirement":null,"checks":[],
                "contract":{{"bound":{{"kind":"none"}},"scope":"global","clock":"expiry","clock_resolution_ms":1,
                             "denials":"free","on_outage":"{on_outage}","key_ttl_at_most":"60s"}}}}"#
        );
        let mut round = Round::starting(1, Nanos(0), None);
        round.complete = true;
        let key = round.key("a");
        let mut op = Op::new(OpId(0), NodeId(0), key, Cost::ONE, Nanos(0));
        (op.complete, op.outcome, op.source) = (Nanos(1), Outcome::Admitted, Some(source));
        round.ops.push(op);
        round.note(OpId(0), Note { contact, near: false });
        let header = serde_json::from_str(&text).unwrap();
        FailOpenIsReported
            .judge(&Cell { header, epoch_ns_at_zero: 0, rounds: vec![round], honesty: None })
            .verdict
    }

    #[test]
    fn whoever_came_no_further_than_to_an_error_was_not_let_in_by_the_store() {
        for (source, contact, verdict) in [
            (Source::Store, Contact::Answered, Unknown),
            (Source::Store, Contact::NotAsked, Fail),
            (Source::Store, Contact::Unanswered, Fail),
            (Source::Store, Contact::Refused, Fail),
            (Source::FailOpen, Contact::NotAsked, Pass),
            (Source::FailOpen, Contact::Refused, Pass),
            (Source::Fallback, Contact::Unanswered, Pass),
            // Its second exchange may be the one that failed.
            (Source::FailOpen, Contact::Answered, Unknown),
            // From what the app server holds: nothing was tried. After it had asked: it says so.
            (Source::Local, Contact::NotAsked, Unknown),
            (Source::Local, Contact::Unanswered, Pass),
        ] {
            assert_eq!(judged("open", source, Some(contact)), verdict, "{source:?} {contact:?}");
        }
        assert_eq!(judged("open", Source::Store, None), Unknown, "nobody recorded it");
        assert_eq!(judged("unaffected", Source::Local, Some(Contact::NotAsked)), NotApplicable);
    }
}
