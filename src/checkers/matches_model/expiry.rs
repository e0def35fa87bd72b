//! One call after the other on a fixed window that ends when the store lets its key expire.
//!
//! Nobody read a clock, so nobody knows when the window was opened: at some moment while the call that
//! opened it was open. And a call that was open around the window's end may have found it or not. So
//! every state is followed that the window may be in; a call that may find it open and may find it
//! gone leads to both, and what the caller was told rules out the rest. If nothing is left, no
//! reading of the times explains the call.
//!
//! A window may last longer or shorter than its length by the slack of the round and a millisecond:
//! the store keeps times to live in whole ones. States with the same count are one, opened at any
//! moment at which one of them was: more than there are, never fewer.

use super::{Case, Said, told};
use crate::checkers::groups::{preset, slack_ns};
use crate::model::algorithms::Algorithm;
use crate::model::contract::Denials;
use crate::model::op::Op;
use crate::model::units::Nanos;

/// More states than a history of sense leads to.
const MOST_STATES: usize = 1_000;

#[derive(Debug, Clone, Copy)]
struct Rules {
    limit: u64,
    charged: bool,
    /// The shortest and the longest that a window can last.
    shortest: i64,
    longest: i64,
}

/// A window that is open, and when it may have been opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Open {
    from: i64,
    to: i64,
    counted: u64,
}

/// Every state that the key may be in.
#[derive(Debug, Clone)]
struct States {
    /// There may be no window.
    none: bool,
    open: Vec<Open>,
}

pub fn say(case: &Case<'_>) -> Said {
    let Algorithm::FixedWindow { limit, window, denials } = case.algorithm else {
        return Said::NoModel("no model says what the expiry of its keys decides".to_owned());
    };
    let slack = slack_ns(case.cell, case.round).saturating_add(1_000_000);
    let rules = Rules {
        limit: limit.get(),
        charged: denials == Denials::Charged,
        shortest: window.nanos().saturating_sub(slack),
        longest: window.nanos().saturating_add(slack),
    };
    let mut states = match preset(case.round, &case.group) {
        Some((used, from, to)) => {
            States { none: false, open: vec![Open { from: from.0, to: to.0, counted: used }] }
        }
        None => States { none: true, open: Vec::new() },
    };
    for op in case.calls().filter(|op| told(op).is_some()) {
        let next = states.after(op, rules);
        if !next.none && next.open.is_empty() {
            return Said::Differs(format!(
                "{}{}; {}",
                case.describe(op),
                op.remaining.get().map(|r| format!(", with {r} left")).unwrap_or_default(),
                states.expected(case, op, rules)
            ));
        }
        if next.open.len() > MOST_STATES {
            return Said::Unclear("too many states of its window are possible to follow them all".to_owned());
        }
        states = next;
    }
    Said::Agrees {
        decisions: case.decisions(),
        how: "call by call, whenever each window may have begun and ended",
    }
}

impl Rules {
    /// What a call does to a count: whether it is admitted, and the count after it.
    fn step(self, counted: u64, op: &Op) -> (bool, u64) {
        let with_it = counted.saturating_add(op.cost.get().into());
        let allowed = with_it <= self.limit;
        (allowed, if allowed || self.charged { with_it } else { counted })
    }

    /// Whether the caller may have been told what this step says.
    fn fits(self, op: &Op, (allowed, counted): (bool, u64)) -> bool {
        let left = self.limit.saturating_sub(counted);
        told(op) == Some(allowed) && op.remaining.get().is_none_or(|told| told == left)
    }
}

impl Open {
    fn may_be_open(self, op: &Op, rules: Rules) -> bool {
        op.invoke.0 < self.to.saturating_add(rules.longest)
    }

    fn may_be_over(self, op: &Op, rules: Rules) -> bool {
        op.complete.0 >= self.from.saturating_add(rules.shortest)
    }
}

impl States {
    /// Whether the call may find no window.
    fn may_open_one(&self, op: &Op, rules: Rules) -> bool {
        self.none || self.open.iter().any(|o| o.may_be_over(op, rules))
    }

    fn after(&self, op: &Op, rules: Rules) -> Self {
        let mut next = Self { none: false, open: Vec::new() };
        for open in self.open.iter().filter(|o| o.may_be_open(op, rules)) {
            let step = rules.step(open.counted, op);
            if rules.fits(op, step) {
                // It was still open: so it was not opened too long ago.
                let from = open.from.max(op.invoke.0.saturating_sub(rules.longest));
                next.add(Open { from, to: open.to, counted: step.1 });
            }
        }
        if self.may_open_one(op, rules) {
            let step = rules.step(0, op);
            if rules.fits(op, step) {
                if step.0 || rules.charged {
                    next.add(Open { from: op.invoke.0, to: op.complete.0, counted: step.1 });
                } else {
                    next.none = true;
                }
            }
        }
        next
    }

    fn add(&mut self, open: Open) {
        match self.open.iter_mut().find(|o| o.counted == open.counted) {
            Some(known) => {
                (known.from, known.to) = (known.from.min(open.from), known.to.max(open.to));
            }
            None => self.open.push(open),
        }
    }

    /// What would have been possible.
    fn expected(&self, case: &Case<'_>, op: &Op, rules: Rules) -> String {
        let say = |(allowed, counted): (bool, u64)| {
            let left = rules.limit.saturating_sub(counted);
            format!("{} with {left} left", if allowed { "admitted" } else { "refused" })
        };
        let mut ways: Vec<String> = Vec::new();
        for open in self.open.iter().filter(|o| o.may_be_open(op, rules)).take(3) {
            let (from, to) = (case.at(Nanos(open.from)), case.at(Nanos(open.to)));
            let (from, to) = (from.beside(to), to.beside(from));
            let of = format!("the window opened between {from} and {to} had counted {}", open.counted);
            ways.push(format!("{of} and makes it {}", say(rules.step(open.counted, op))));
        }
        if self.may_open_one(op, rules) {
            ways.push(format!("a window that it opens makes it {}", say(rules.step(0, op))));
        }
        ways.join("; ")
    }
}
