//! `never-over-limit`: the limiter never admitted more than its own contract allows.
//!
//! Proves, when it fails, that some span holds more admitted calls than the contract's bound,
//! all of them wholly inside the span: no reading of the timestamps excuses it. A pass says that
//! no recorded round shows this, and with what power; it does not exclude a rarer leak.
//! A bound over all keys of a round convicts as well; whether it was put to the test is said. Where a local
//! limiter decides in an outage, the contract promises for it apart: what it admits is held against that, on each
//! node, and does not count against the store's bound. What all of them admit together is for `meets-requirement`.
//! O(n) for fixed windows, O(n log n) for sliding windows and buckets.

use super::bound::{self, Whose};
use crate::model::contract::{Bound, Scope};
use crate::model::history::Cell;
use crate::model::indexed::IndexedCell;
use crate::model::verdict::{Finding, Verdict};
use crate::ports::checker::Checker;

pub struct NeverOverLimit;

impl Checker for NeverOverLimit {
    fn name(&self) -> &'static str {
        "never-over-limit"
    }

    fn proves(&self) -> &'static str {
        "no span holds more admitted calls than the limiter's contract allows"
    }

    fn judge(&self, cell: &Cell) -> Finding {
        self.judge_indexed(&IndexedCell::of(cell))
    }

    fn judge_indexed(&self, cell: &IndexedCell) -> Finding {
        let contract = &cell.header.contract;
        if contract.bound == Bound::None {
            return Finding::unknown("the limiter promises no bound, so nothing can be kept or broken");
        }
        let whose = if contract.fallback.is_some() { Whose::ButFallback } else { Whose::Everybody };
        let own = and_across(cell, bound::judge(cell, &contract.bound, contract.scope, whose), whose);
        let Some(fallback) = contract.fallback else { return own };
        let local = bound::judge(cell, &fallback, Scope::Node, Whose::Fallback);
        match (own.verdict, local.verdict) {
            (Verdict::Fail, _) => own,
            (_, Verdict::Fail) => {
                Finding { because: format!("without the store: {}", local.because), ..local }
            }
            _ => Finding {
                because: format!("{}; without the store, on each node: {}", own.because, local.because),
                ..own
            },
        }
    }
}

/// With the bound over all keys, where there is one.
fn and_across(cell: &IndexedCell, own: Finding, whose: Whose) -> Finding {
    let contract = &cell.header.contract;
    let Some(across) = contract.across_keys else { return own };
    let all = bound::judge_across(cell, &across, contract.scope, whose);
    match (own.verdict, all.verdict) {
        (Verdict::Fail, _) | (_, Verdict::Pass) => own,
        (_, Verdict::Fail) => all,
        _ => Finding {
            because: format!(
                "{}; the bound over all keys ({}) was not broken either, nor put to the test",
                own.because,
                across.in_words()
            ),
            ..own
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::history::Round;
    use crate::model::op::{Op, Outcome};
    use crate::model::units::{Cost, Limit, Nanos, NodeId, OpId, Window};

    /// Two keys, each within its own limit of 2; three admitted over both.
    #[test]
    fn a_bound_over_all_keys_convicts_where_no_key_is_over() {
        let text = r#"{"scenario":"s","limiter":"l","client":"c","backend":"b","server":{"flavour":"","version":""},
            "limit":2,"nodes":1,"rounds":1,"concurrent":false,"requirement":null,"checks":[],
            "contract":{"bound":{"kind":"fixed-window","limit":2,"window":"60s"},"scope":"global","clock":"expiry",
                        "clock_resolution_ms":1,"denials":"free","on_outage":"error","key_ttl_at_most":"60s"}}"#;
        let mut round = Round::starting(1, Nanos(0), None);
        round.complete = true;
        for (n, key) in ["a", "a", "a", "b"].into_iter().enumerate() {
            let (id, at) = (OpId(n as u32), n as i64 * 1_000_000);
            let key = round.key(key);
            let mut op = Op::new(id, NodeId(0), key, Cost::ONE, Nanos(at));
            op.complete = Nanos(at + 1);
            op.outcome = if n == 2 { Outcome::Denied } else { Outcome::Admitted };
            round.ops.push(op);
        }
        let header = serde_json::from_str(text).unwrap();
        let mut cell = Cell { header, epoch_ns_at_zero: 0, rounds: vec![round], honesty: None };
        assert_eq!(NeverOverLimit.judge(&cell).verdict, Verdict::Pass);
        let window = Window::from_millis(60_000).unwrap();
        let across = |limit| Some(Bound::FixedWindow { limit: Limit::new(limit).unwrap(), window });
        cell.header.contract.across_keys = across(3);
        assert_eq!(NeverOverLimit.judge(&cell).verdict, Verdict::Pass);
        cell.header.contract.across_keys = across(2);
        let found = NeverOverLimit.judge(&cell);
        assert_eq!(found.verdict, Verdict::Fail);
        assert!(found.because.contains("all keys together"), "{}", found.because);
    }
}
