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
                    Some(Source::Store) => return Finding::fail(witness(round, op, contact)),
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
