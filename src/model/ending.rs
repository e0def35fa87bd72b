//! What may be said of a store and its limiter once every call of a schedule has ended.
//!
//! Time stood still but for the ticks, so what counts is not who came first but what is left: after the
//! calls, a client that comes alone asks until it is refused (*drains* what is left), and once more after
//! everything must have been given back. A permit that was lost shows in what it got, whatever the order
//! was; so does one that was given out twice.

use super::bounds::{self, Admitted, TimeContext};
use super::contract::{Contract, Denials, Scope};
use super::op::Outcome;
use super::schedule::letter;
use super::units::{Nanos, OpId};

/// The properties judged here, in the order in which they are shown.
pub const CHECKS: [&str; 6] = [
    "never-over-limit",
    "every-key-expires",
    "recovers",
    "no-lost-permit",
    "denial-changes-nothing",
    "effects-once",
];

/// One call, in ms of the schedule's time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallSeen {
    pub client: u8,
    pub begun_ms: i64,
    pub ended_ms: i64,
    pub outcome: Outcome,
    /// Of a call that failed or whose outcome nobody knows.
    pub error: Option<String>,
}

/// A key that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySeen {
    pub name: String,
    /// What it holds, for people.
    pub holds: String,
    /// How long it has to live; `None` if for ever.
    pub left_ms: Option<i64>,
}

/// All that a judgement rests on.
#[derive(Debug, Clone)]
pub struct Evidence<'a> {
    pub contract: &'a Contract,
    /// Unix time in ms at the schedule's zero.
    pub epoch_ms: i64,
    pub calls: &'a [CallSeen],
    /// When the last of them had ended.
    pub now_ms: i64,
    pub keys: &'a [KeySeen],
    /// How many calls the client that came alone was granted at `now_ms` before it was refused.
    pub drained: u64,
    /// Whether it was refused in the end, or nobody asked so often.
    pub refused: bool,
    /// When it asked again, and whether it was granted that.
    pub again_ms: i64,
    pub again: bool,
    /// Replies that were lost while their client lived on: what was applied may have been applied again.
    pub lost: u64,
    /// Commands that were applied more than once for one call, in words.
    pub twice: &'a [String],
}

/// What does not hold, with the witness.
pub fn judge(evidence: &Evidence<'_>) -> Vec<(&'static str, String)> {
    let mut broken = Vec::new();
    let mut tell = |check, witness: Option<String>| broken.extend(witness.map(|w| (check, w)));
    if evidence.contract.scope == Scope::Global {
        tell("never-over-limit", over_limit(evidence));
        tell("recovers", stuck(evidence));
        if let Some((check, witness)) = lost(evidence) {
            tell(check, Some(witness));
        }
    }
    tell("every-key-expires", immortal(evidence));
    let twice = (!evidence.twice.is_empty()).then(|| evidence.twice.join("; "));
    tell("effects-once", twice);
    broken
}

fn over_limit(e: &Evidence<'_>) -> Option<String> {
    let ns = |ms: i64| Nanos(ms.saturating_mul(1_000_000));
    let granted = e.calls.iter().filter(|c| c.outcome == Outcome::Admitted);
    let granted = granted.map(|c| (ns(c.begun_ms), ns(c.ended_ms)));
    let drained = (0..e.drained).map(|_| (ns(e.now_ms), ns(e.now_ms)));
    let ops: Vec<Admitted> = (0..)
        .zip(granted.chain(drained))
        .map(|(n, (invoke, complete))| Admitted { op: Some(OpId(n)), invoke, complete, cost: 1 })
        .collect();
    let first_touch = e.calls.iter().map(|c| ns(c.begun_ms)).min().unwrap_or(ns(e.now_ms));
    let time = TimeContext {
        first_touch,
        slack_ns: i64::try_from(e.contract.clock_resolution_ms).unwrap_or(i64::MAX).saturating_mul(1_000_000),
        epoch_ns_at_zero: e.epoch_ms.saturating_mul(1_000_000),
    };
    let excess = bounds::excess(&e.contract.bound, &ops, time)?;
    let members = || excess.members.iter().map(|m| &ops[*m]);
    let from = members().map(|o| o.invoke.0).min().unwrap_or(0);
    let to = members().map(|o| o.complete.0).max().unwrap_or(0);
    let span = match (to - from) / 1_000_000 {
        0 => "at one moment".to_owned(),
        ms => format!("within {ms} ms"),
    };
    let afterwards = match e.drained {
        0 => String::new(),
        n => format!(", {n} of them to a client that came alone afterwards"),
    };
    Some(format!(
        "{} admitted {span}{afterwards}; {} allowed: {}",
        excess.admitted, excess.allowed, excess.rule
    ))
}

fn stuck(e: &Evidence<'_>) -> Option<String> {
    let quiet = e.again_ms - e.now_ms;
    (!e.again).then(|| {
        format!(
            "after {quiet} ms without a call a client that comes alone is refused; all is given back after {} ms",
            e.contract.gives_back_within_ns().unwrap_or(0) / 1_000_000
        )
    })
}

/// A permit is lost if fewer calls are granted afterwards than the bound leaves over, however many of
/// the calls whose outcome nobody knows were counted.
fn lost(e: &Evidence<'_>) -> Option<(&'static str, String)> {
    let across = e.contract.across_keys.as_ref().and_then(|b| b.burst());
    let capacity = e.contract.bound.burst()?.min(across.unwrap_or(u64::MAX));
    let count = |outcome| e.calls.iter().filter(|c| c.outcome == outcome).count() as u64;
    let (admitted, denied, unknown) =
        (count(Outcome::Admitted), count(Outcome::Denied), count(Outcome::Unknown) + e.lost);
    let charged = if e.contract.denials == Denials::Charged { denied } else { 0 };
    let room = capacity.saturating_sub(admitted + unknown + charged);
    if e.drained >= room || !e.refused {
        return None;
    }
    let unknown = match unknown {
        0 => String::new(),
        n => format!(" and {n} with an outcome that nobody knows"),
    };
    let used = format!("{capacity} allowed, {admitted} admitted{unknown}");
    let left = format!("{} granted afterwards instead of {room}", e.drained);
    Some(if e.drained + denied >= room && denied > 0 && charged == 0 {
        ("denial-changes-nothing", format!("{used}, {denied} refused: {left}; refusals took permits"))
    } else {
        ("no-lost-permit", format!("{used}: {left}"))
    })
}

fn immortal(e: &Evidence<'_>) -> Option<String> {
    e.keys.iter().find_map(|key| {
        let KeySeen { name, holds, left_ms } = key;
        match (left_ms, e.contract.key_ttl_at_most) {
            (None, _) => Some(format!("no call is open and {name} ({holds}) has no expiry")),
            (Some(left), Some(most)) if *left > i64::try_from(most.millis()).unwrap_or(i64::MAX) => {
                Some(format!("no call is open and {name} has {left} ms to live, above {most}"))
            }
            _ => None,
        }
    })
}

/// `a admitted, b refused, c died`.
pub fn outcomes(calls: &[CallSeen]) -> String {
    let word = |call: &CallSeen| {
        let what = match call.outcome {
            Outcome::Admitted => "admitted",
            Outcome::Denied => "refused",
            Outcome::Failed => "failed",
            Outcome::Unknown if call.error.as_deref() == Some(super::op::NODE_DIED) => "died",
            Outcome::Unknown => "does not know",
        };
        format!("{} {what}", letter(call.client))
    };
    calls.iter().map(word).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::contract::{Bound, DecidingClock, OnOutage};
    use crate::model::units::{Limit, Window};

    fn contract(limit: u64, denials: Denials) -> Contract {
        let (limit, window) = (Limit::new(limit).unwrap(), Window::from_millis(60_000).unwrap());
        Contract {
            bound: Bound::FixedWindow { limit, window },
            scope: Scope::Global,
            clock: DecidingClock::Expiry,
            clock_resolution_ms: 1,
            denials,
            on_outage: OnOutage::Error,
            fallback: None,
            key_ttl_at_most: Some(window),
            lockout: None,
            across_keys: None,
            algorithm: None,
            round_trips_at_most: None,
        }
    }

    fn call(client: u8, at_ms: i64, outcome: Outcome) -> CallSeen {
        CallSeen { client, begun_ms: at_ms, ended_ms: at_ms, outcome, error: None }
    }

    fn checks(contract: &Contract, calls: &[CallSeen], drained: u64) -> Vec<&'static str> {
        let evidence = Evidence {
            contract,
            epoch_ms: 1_800_000_000_000,
            calls,
            now_ms: calls.iter().map(|c| c.ended_ms).max().unwrap_or(0),
            keys: &[],
            drained,
            refused: true,
            again_ms: 200_000,
            again: true,
            twice: &[],
            lost: 0,
        };
        judge(&evidence).into_iter().map(|(check, _)| check).collect()
    }

    #[test]
    fn what_is_granted_afterwards_counts_against_the_limit() {
        let (c, calls) = (contract(2, Denials::Free), [call(0, 0, Outcome::Admitted)]);
        assert!(checks(&c, &calls, 1).is_empty());
        assert_eq!(checks(&c, &calls, 2), ["never-over-limit"]);
    }

    #[test]
    fn a_window_that_opened_after_a_tick_is_another_one() {
        let c = contract(1, Denials::Free);
        let apart = [call(0, 0, Outcome::Admitted), call(1, 60_001, Outcome::Admitted)];
        assert!(checks(&c, &apart, 0).is_empty());
        // Begun before the tick, ended after it: it may have counted in the first window.
        let open = CallSeen { begun_ms: 0, ..call(1, 60_001, Outcome::Admitted) };
        assert!(checks(&c, &[call(0, 0, Outcome::Admitted), open], 0).is_empty());
    }

    #[test]
    fn a_permit_is_lost_only_if_no_open_outcome_explains_it() {
        let c = contract(2, Denials::Free);
        assert_eq!(checks(&c, &[call(0, 0, Outcome::Admitted)], 0), ["no-lost-permit"]);
        assert!(checks(&c, &[call(0, 0, Outcome::Admitted), call(1, 0, Outcome::Unknown)], 0).is_empty());
        let failed = [call(0, 0, Outcome::Admitted), call(1, 0, Outcome::Failed)];
        assert_eq!(checks(&c, &failed, 0), ["no-lost-permit"]);
    }

    #[test]
    fn refusals_that_are_charged_by_contract_take_nothing_that_was_promised() {
        let calls = [call(0, 0, Outcome::Admitted), call(1, 0, Outcome::Denied)];
        assert_eq!(checks(&contract(2, Denials::Free), &calls, 0), ["denial-changes-nothing"]);
        assert!(checks(&contract(2, Denials::Charged), &calls, 0).is_empty());
    }

    #[test]
    fn a_key_without_expiry_and_one_that_lives_too_long_are_told() {
        let c = contract(1, Denials::Free);
        let key = |left_ms| KeySeen { name: "k".to_owned(), holds: "1".to_owned(), left_ms };
        let keys = [key(Some(60_000)), key(None)];
        let evidence = Evidence {
            contract: &c,
            epoch_ms: 0,
            calls: &[],
            now_ms: 0,
            keys: &keys,
            drained: 1,
            refused: true,
            again_ms: 1,
            again: false,
            twice: &["INCR twice".to_owned()],
            lost: 0,
        };
        let told = judge(&evidence);
        let checks: Vec<_> = told.iter().map(|(c, _)| *c).collect();
        assert_eq!(checks, ["recovers", "every-key-expires", "effects-once"]);
        assert!(told[1].1.contains("k (1) has no expiry"));
        let long = [key(Some(60_001))];
        assert!(judge(&Evidence { keys: &long, twice: &[], again: true, ..evidence })[0].1.contains("60001"));
    }
}
