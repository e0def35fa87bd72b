//! Calls that surely lie in one window, overlapping as they like: is there an order that explains
//! what their callers were told? Of cost 1 there is a rule ([`one_window`]), of mixed costs a search
//! ([`linear`]) that counts its steps instead of looking at a clock: the verdict on a history is the
//! same everywhere.

use super::{Case, Said, told, until};
use crate::checkers::groups::{epoch_ns, preset, slack_ns};
use crate::model::algorithms::Algorithm;
use crate::model::contract::Bound;
use crate::model::linear::counter::{Call, Counter};
use crate::model::linear::one_window::{self, Objection, objection};
use crate::model::linear::{self, Answer, Stuck, Timed};
use crate::model::op::Op;
use crate::model::units::{Cost, Limit};

/// A few seconds.
const MOST_STEPS: u64 = 3_000_000;
/// Calls that a search takes on.
const MOST_CALLS: usize = 100_000;

/// `None` if the calls are not surely in one window, or their model is none of windows.
pub fn say(case: &Case<'_>) -> Option<Said> {
    let limit = one_window_of(case)?;
    let used = preset(case.round, &case.group).map_or(0, |(used, ..)| used);
    if case.calls().all(|op| op.cost == Cost::ONE) {
        return Some(unit_costs(case, limit, used));
    }
    let Algorithm::FixedWindow { denials, .. } = case.algorithm else {
        return Some(Said::NoModel("no model of such windows knows mixed costs".to_owned()));
    };
    Some(mixed_costs(case, Counter { limit, used, denials }))
}

/// The limit of the window in which all calls with an answer surely lie. One without may take effect
/// after it, where it changes nothing for them.
fn one_window_of(case: &Case<'_>) -> Option<Limit> {
    let first = case.first_touch.0;
    let last = case.calls().filter(|op| told(op).is_some()).map(|op| op.complete.0).max()?;
    let slack = slack_ns(case.cell, case.round);
    match case.cell.header.contract.bound {
        // The first hit opened it no earlier than the first touch.
        Bound::FixedWindow { limit, window } => {
            let ends = first.saturating_add(window.nanos().saturating_sub(slack));
            (last < ends).then_some(limit)
        }
        Bound::AlignedWindow { limit, window } => {
            let epoch = epoch_ns(case.cell, case.round);
            let number = |at: i64| at.saturating_add(epoch).div_euclid(window.nanos());
            (number(first.saturating_sub(slack)) == number(last.saturating_add(slack))).then_some(limit)
        }
        _ => None,
    }
}

fn unit_costs(case: &Case<'_>, limit: Limit, used: u64) -> Said {
    let calls = case.calls().map(|op| one_window::Call {
        op: op.id,
        invoke: op.invoke,
        complete: until(op),
        allowed: told(op),
    });
    match objection(calls, limit.get(), used) {
        None => Said::Agrees {
            decisions: case.decisions(),
            how: "in an order of the calls of each window that their times allow",
        },
        Some(objection) => Said::Differs(explain(case, objection, limit, used)),
    }
}

fn explain(case: &Case<'_>, objection: Objection, limit: Limit, used: u64) -> String {
    let describe = |call: one_window::Call| case.describe(&case.round.ops[call.op.0 as usize]);
    let before = if used > 0 { format!(", of which {used} were used before it,") } else { String::new() };
    match objection {
        Objection::TooMany { admitted } => {
            format!(
                "{admitted} calls were admitted in one window of {limit}{before} which fits no order of them"
            )
        }
        Objection::AdmittedAfter { refused, admitted } => format!(
            "{}, although by then the window's limit had been reached: {}",
            describe(admitted),
            describe(refused)
        ),
        Objection::RefusedWithRoom { refused, counted } => format!(
            "{}, when of the window's limit of {limit} at most {counted} can have been used",
            describe(refused)
        ),
    }
}

fn mixed_costs(case: &Case<'_>, model: Counter) -> Said {
    let ops: Vec<&Op> = case.calls().collect();
    if ops.len() > MOST_CALLS {
        return Said::Unclear(format!("{} calls of mixed costs are too many for a search", ops.len()));
    }
    let calls: Vec<Timed<Call>> = ops
        .iter()
        .map(|op| Timed {
            invoke: op.invoke,
            complete: Some(until(op)).filter(|end| *end != Op::NEVER),
            call: Call { cost: op.cost.get(), allowed: told(op) },
        })
        .collect();
    let mut steps = 0;
    let answer = linear::search(&model, &calls, || {
        steps += 1;
        steps > MOST_STEPS
    });
    match answer {
        Answer::Linearizable(_) => Said::Agrees {
            decisions: case.decisions(),
            how: "in an order of the calls of each window that their times allow",
        },
        Answer::Not(stuck) => Said::Differs(no_order(case, &ops, &stuck)),
        Answer::GaveUp => {
            Said::Unclear(format!("no order was found and none ruled out in {MOST_STEPS} steps"))
        }
    }
}

fn no_order(case: &Case<'_>, ops: &[&Op], stuck: &Stuck) -> String {
    let ids = |places: &[usize]| {
        let all: Vec<String> = places.iter().map(|n| ops[*n].id.to_string()).collect();
        let from = all.len().saturating_sub(12);
        format!("{}{}", if from > 0 { "… " } else { "" }, all[from..].join(" "))
    };
    let mut text = format!("no order of the calls explains {}", case.describe(ops[stuck.at]));
    if !stuck.open.is_empty() {
        text.push_str(&format!("; open beside it: ops {}", ids(&stuck.open)));
    }
    if let Some(before) = stuck.before.as_ref().filter(|b| !b.is_empty()) {
        let counted = case.at(ops[stuck.at].complete).beside(case.at(ops[stuck.at].invoke));
        text.push_str(&format!("; what ended before {counted} fits in the order {}", ids(before)));
    }
    text
}
