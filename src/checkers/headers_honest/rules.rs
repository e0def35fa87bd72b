//! The rules that look at one answer at a time, and what the field of what is left says of the next call.

use super::super::groups::epoch_ns;
use super::super::remaining_consistent::RemainingConsistent;
use super::{Heard, heard, over, refused};
use crate::model::contract::Bound;
use crate::model::history::Cell;
use crate::model::http::{DRAFT, Family, PROBLEM_JSON, RetryAfter, X, quota, whole};
use crate::model::indexed::IndexedCell;
use crate::model::op::Outcome;
use crate::model::units::Cost;
use crate::model::verdict::{Finding, Verdict};
use crate::ports::checker::Checker;

const DAY_S: u64 = 86_400;
/// The longest window there is.
const LONGEST_S: u64 = 366 * DAY_S;
/// The one may be rounded down and the other up, a date leaves out a second.
const ROUNDED_S: u64 = 2;
const NOBODY: &str = "no call was refused";

pub fn status(cell: &Cell) -> Finding {
    let mut refusals = 0;
    let mut known = false;
    for case in heard(cell) {
        let Some(decided) = case.answer.decided else { continue };
        let allowed = decided.allowed;
        known = true;
        let said = if case.answer.undecided() { None } else { Some(!case.answer.refused()) };
        if said != Some(allowed) {
            let had = if allowed { "admitted" } else { "refused" };
            return Finding::fail(case.witness(&format!("and the limiter had {had} it")));
        }
        refusals += u64::from(!allowed);
    }
    match (known, refusals) {
        (false, _) => Finding::not_applicable("what the limiter behind it decided is not known"),
        (_, 0) => Finding::unknown(NOBODY),
        (_, n) => Finding::pass(format!("{n} refusals and every admission as the limiter had it")),
    }
}

pub fn retry_after(cell: &Cell) -> Finding {
    let tried = over(refused(cell), |h| {
        let Some(text) = &h.answer.retry_after else {
            return Err("without Retry-After".to_owned());
        };
        match (h.answer.retry_after(), h.answer.wait_s()) {
            (None, _) => Err(format!("with Retry-After: {text}, which is neither whole seconds nor a date")),
            (Some(RetryAfter::Seconds(0)), _) => Err("with Retry-After: 0, which is at once".to_owned()),
            (Some(RetryAfter::At(_)), Some(0)) => {
                Err(format!("with Retry-After: {text}, which is not after its own date"))
            }
            _ => Ok(true),
        }
    });
    tried.map_or_else(|fail| fail, |n| told(n, NOBODY, "refusals say when to come back"))
}

pub fn reset(cell: &Cell) -> Finding {
    let later = std::cell::Cell::new(None);
    let of_waits = over(refused(cell), |h| {
        let Some(wait) = h.answer.wait_s() else { return Ok(false) };
        for (name, after) in resets(cell, h) {
            if after.saturating_add(ROUNDED_S) < wait {
                let what = "who comes back at the reset comes too early by Retry-After";
                return Err(format!("with {name} {after} s ahead and a wait of {wait} s: {what}"));
            }
            if after > wait.saturating_add(ROUNDED_S) {
                later.set(later.take().or(Some((name, after, wait))));
            }
        }
        Ok(true)
    });
    if let Err(fail) = of_waits {
        return fail;
    }
    if cell.header.contract.bound == Bound::None {
        // Of an admission a reset may be when all is there again, as long as that is before the longest wait.
        let longest = refused(cell).filter_map(|h| h.answer.wait_s()).max();
        let admitted = || heard(cell).filter(|h| h.op.outcome == Outcome::Admitted);
        let far = longest.and_then(|longest| {
            let mut all = admitted().flat_map(|h| resets(cell, &h));
            all.find(|(_, after)| *after > longest.saturating_add(ROUNDED_S))
                .map(|(name, after)| (name, after, longest))
        });
        later.set(later.take().or(far));
    }
    let tried = over(heard(cell), |h| {
        let [draft, x] = [&h.answer.draft.reset, &h.answer.x.reset];
        if let Some(text) = draft {
            match whole(text) {
                None => return Err(format!("with RateLimit-Reset: {text}, which is no whole number")),
                Some(s) if s > LONGEST_S => {
                    let why = "no number of seconds until then; a Unix time belongs into X-RateLimit-Reset";
                    return Err(format!("with RateLimit-Reset: {text}, which is {why}"));
                }
                Some(_) => {}
            }
        }
        if let Some(text) = x {
            let (from, to) = dated(cell, h);
            match whole(text) {
                None => return Err(format!("with X-RateLimit-Reset: {text}, which is no whole number")),
                Some(at) if at.saturating_add(ROUNDED_S) < from && at.saturating_add(DAY_S) >= from => {
                    return Err(format!(
                        "with X-RateLimit-Reset: {text}, {} s before its own date",
                        from - at
                    ));
                }
                Some(at) if at.saturating_add(DAY_S) < from => {
                    let why = "no Unix time near its own date: how long it takes, and not when it is";
                    return Err(format!("with X-RateLimit-Reset: {text}, which is {why}"));
                }
                Some(at) if at > to.saturating_add(LONGEST_S + DAY_S) => {
                    let why = "more than a year ahead: no Unix time in seconds";
                    return Err(format!("with X-RateLimit-Reset: {text}, which is {why}"));
                }
                Some(_) => {}
            }
        }
        Ok(draft.is_some() || x.is_some())
    });
    let off = heard(cell).find_map(|h| {
        let absolute =
            h.answer.x.reset.is_some() || matches!(h.answer.retry_after(), Some(RetryAfter::At(_)));
        off_by(cell, &h).filter(|_| absolute)
    });
    match (tried, later.take()) {
        (Err(fail), _) => fail,
        (Ok(_), _) if off.is_some() => Finding::unknown(format!(
            "it tells moments, and the clock that its Date is of is {} s from the one of this machine: who goes by a clock of \
             his own comes back too early or too late",
            off.unwrap_or_default()
        )),
        // It may well mean when all of the limit is there again; but that is not looked into.
        (Ok(_), Some((name, after, wait))) => Finding::unknown(format!(
            "an answer has {name} {after} s ahead, and a refusal a wait of {wait} s; whether it is then that all is there again, nobody \
             looked"
        )),
        (Ok(n), None) => told(n, "no answer tells a reset", "answers tell one of their kind"),
    }
}

/// How many seconds ahead the resets of an answer are, as far as they can be read.
fn resets(cell: &Cell, h: &Heard) -> Vec<(&'static str, u64)> {
    let draft = h.answer.draft.reset.as_deref().and_then(whole).filter(|s| *s <= LONGEST_S);
    let (from, _) = dated(cell, h);
    let x = h.answer.x.reset.as_deref().and_then(whole);
    let x = x.filter(|at| at.saturating_add(DAY_S) >= from).map(|at| at.saturating_sub(from));
    let named = [("RateLimit-Reset", draft), ("X-RateLimit-Reset", x)];
    named.into_iter().filter_map(|(name, after)| Some((name, after?))).collect()
}

pub fn remaining(cell: &IndexedCell) -> Finding {
    let tried = over(heard(cell), |h| {
        let families = [(DRAFT, &h.answer.draft), (X, &h.answer.x)];
        let denied = h.op.outcome == Outcome::Denied && h.op.cost == Cost::ONE;
        families.into_iter().try_fold(false, |tried, (names, family)| {
            let left = family.remaining.as_deref().and_then(whole).filter(|left| denied && *left > 0);
            match left {
                Some(left) => {
                    Err(format!("with {}: {left}, where a call that costs 1 was refused", names[1]))
                }
                None => Ok(within(names, family)? || tried),
            }
        })
    });
    let tried = match tried {
        Err(fail) => return fail,
        Ok(0) => return Finding::unknown("no answer tells both what is left and of how much"),
        Ok(tried) => tried,
    };
    if cell.header.contract.bound.burst().is_none() {
        return if cell.header.concurrent {
            Finding::unknown("calls overlap and no bound is known: what is left may be another call's doing")
        } else {
            counted_down(cell, tried)
        };
    }
    let Finding { verdict, because, place } = RemainingConsistent.judge_indexed(cell);
    let verdict = if verdict == Verdict::NotApplicable { Verdict::Unknown } else { verdict };
    Finding { verdict, because, place }
}

/// What is left, of calls that follow each other under a bound that nobody knows: no less is given than was told
/// before somebody is refused. More may be, since some may come back meanwhile.
fn counted_down(cell: &Cell, tried: u64) -> Finding {
    let (mut exact, mut less) = (0u64, 0u64);
    for round in &cell.rounds {
        let of_round = || heard(cell).filter(move |h| std::ptr::eq(h.round, round));
        for key in 0..round.keys.len() {
            let calls = || of_round().filter(|h| h.op.key.0 as usize == key && h.op.cost == Cost::ONE);
            // From the last of them on: how many were admitted before the next refusal, where there is one.
            let mut given: Option<u64> = None;
            for call in calls().collect::<Vec<_>>().into_iter().rev() {
                if call.op.outcome != Outcome::Admitted {
                    given = (call.op.outcome == Outcome::Denied).then_some(0);
                    continue;
                }
                let Some(given) = &mut given else { continue };
                let either =
                    [&call.answer.draft, &call.answer.x].map(|f| f.remaining.as_deref().and_then(whole));
                if let Some(left) = either.into_iter().flatten().next() {
                    if left > *given {
                        let what =
                            format!("with {left} left, and {given} were admitted before a call was refused");
                        return Finding::fail(call.witness(&what));
                    }
                    exact += u64::from(left == *given);
                    less += u64::from(left < *given);
                }
                *given += 1;
            }
        }
    }
    if let Some(why) = short_of_the_limit(cell) {
        return Finding::unknown(why);
    }
    match (exact, less) {
        (0, 0) => Finding::unknown("nobody was refused after being told what is left"),
        (0, less) => Finding::unknown(format!(
            "{less} times more was given than was told to be left; some may have come back meanwhile"
        )),
        (_, 1..) => Finding::unknown(format!(
            "{less} times more was given than was told to be left, and {exact} times as much; some may have come back \
             meanwhile"
        )),
        (exact, 0) => Finding::pass(format!(
            "{tried} times no more than the limit is left, and {exact} times as much was given before a refusal"
        )),
    }
}

/// Where a key's calls were refused before what is said to be the limit was given, and where the limit is another from answer
/// to answer.
fn short_of_the_limit(cell: &Cell) -> Option<String> {
    let said = |h: &Heard, place: usize, read: fn(&str) -> Option<u64>| {
        let fields = [h.answer.draft.fields()[place], h.answer.x.fields()[place]];
        fields.into_iter().flatten().find_map(read)
    };
    for round in &cell.rounds {
        let mut limits =
            heard(cell).filter(|h| std::ptr::eq(h.round, round)).filter_map(|h| said(&h, 0, quota));
        let Some(limit) = limits.next() else { continue };
        if let Some(other) = limits.find(|other| *other != limit) {
            return Some(format!("the limit is {limit} in one answer and {other} in another"));
        }
        for key in 0..round.keys.len() {
            let mut calls = round.ops.iter().filter(|op| op.key.0 as usize == key && op.outcome.is_decided());
            let given = calls.by_ref().take_while(|op| op.outcome == Outcome::Admitted);
            let given: u64 = given.map(|op| u64::from(op.cost.get())).sum();
            let refused =
                round.ops.iter().any(|op| op.key.0 as usize == key && op.outcome == Outcome::Denied);
            if refused && given < limit {
                return Some(format!(
                    "{given} were given before a refusal, and the limit is said to be {limit}; whether the rest was used by \
                     somebody before, nobody knows: a caller that is new would tell"
                ));
            }
        }
    }
    None
}

/// Whether a family tells both, and so that they can be true.
fn within([of, left, _]: [&str; 3], family: &Family) -> Result<bool, String> {
    let read = |name: &str, text: &Option<String>, read: fn(&str) -> Option<u64>| match text {
        None => Ok(None),
        Some(text) => {
            read(text).map(Some).ok_or_else(|| format!("with {name}: {text}, which is no whole number"))
        }
    };
    match (read(of, &family.limit, quota)?, read(left, &family.remaining, whole)?) {
        (Some(limit), Some(remaining)) if remaining > limit => {
            Err(format!("with {left}: {remaining}, which is more than {of}: {limit}"))
        }
        (limit, remaining) => Ok(limit.is_some() && remaining.is_some()),
    }
}

pub fn families(cell: &Cell) -> Finding {
    if let Some(names) = heard(cell).find_map(|h| h.answer.unread.as_deref()) {
        return Finding::unknown(format!(
            "{names} of a later draft is there, and what it says is not read here"
        ));
    }
    let both = heard(cell).filter(|h| !h.answer.draft.is_absent() && !h.answer.x.is_absent());
    let tried = over(both, |h| {
        let (draft, x) = (&h.answer.draft, &h.answer.x);
        let differ = |a: &Option<String>, b: &Option<String>, read: fn(&str) -> Option<u64>| {
            a.as_deref().and_then(read).zip(b.as_deref().and_then(read)).filter(|(a, b)| a != b)
        };
        for (name, found) in [
            ("Limit", differ(&draft.limit, &x.limit, quota)),
            ("Remaining", differ(&draft.remaining, &x.remaining, whole)),
        ] {
            if let Some((a, b)) = found {
                return Err(format!("with RateLimit-{name}: {a} and X-RateLimit-{name}: {b}"));
            }
        }
        let resets = draft.reset.as_deref().and_then(whole).zip(x.reset.as_deref().and_then(whole));
        if let Some((after, at)) = resets {
            // Each of the two may be rounded either way.
            let (from, to) = dated(cell, h);
            let made = at.checked_sub(after);
            if made.is_none_or(|made| made.abs_diff(made.clamp(from, to)) > ROUNDED_S) {
                let date = h.answer.date.as_deref().unwrap_or("none");
                let both = format!("RateLimit-Reset: {after} and X-RateLimit-Reset: {at}");
                return Err(format!("with {both}, which are two moments (its date: {date})"));
            }
        }
        Ok(true)
    });
    match tried {
        Err(fail) => fail,
        Ok(0) => Finding::not_applicable("no answer has both families"),
        Ok(n) => Finding::pass(format!("{n} answers say the same in both")),
    }
}

pub fn problem(cell: &Cell) -> Finding {
    let tried = over(heard(cell).filter(|h| h.answer.refused()), |h| {
        match h.answer.media_type.as_deref() {
            Some(PROBLEM_JSON) => {}
            Some(other) => return Err(format!("with a body of {other}, and not {PROBLEM_JSON}")),
            None => return Err(format!("without a body of {PROBLEM_JSON}")),
        }
        let Some(problem) = &h.answer.problem else {
            return Err("with a problem that is no JSON object".to_owned());
        };
        for (name, there) in [
            ("type", problem.kind.is_some()),
            ("title", problem.title.is_some()),
            ("status", problem.status.is_some()),
        ] {
            if !there {
                return Err(format!("with a problem that has no {name}"));
            }
        }
        match problem.status {
            Some(status) if status != u64::from(h.answer.status) => {
                Err(format!("with a problem of status {status}"))
            }
            _ => Ok(true),
        }
    });
    tried.map_or_else(|fail| fail, |n| told(n, NOBODY, "refusals have one"))
}

fn told(tried: u64, nobody: &str, what: &str) -> Finding {
    if tried == 0 { Finding::unknown(nobody) } else { Finding::pass(format!("{tried} {what}")) }
}

/// By how many seconds an answer's own date is off the time at which it came, where that is more than it takes.
fn off_by(cell: &Cell, heard: &Heard) -> Option<u64> {
    const CLOSE_S: u64 = 5;
    let date = heard.answer.date_s()?;
    let (from, to) = recorded(cell, heard);
    let off = if date > to { date - to } else { from.saturating_sub(date) };
    (off > CLOSE_S).then_some(off)
}

/// When an answer was made, in Unix seconds, from and to: by its own account, else by the record.
fn dated(cell: &Cell, heard: &Heard) -> (u64, u64) {
    if let Some(date) = heard.answer.date_s() {
        return (date, date.saturating_add(1));
    }
    recorded(cell, heard)
}

/// The same by the record.
fn recorded(cell: &Cell, heard: &Heard) -> (u64, u64) {
    let epoch = epoch_ns(cell, heard.round);
    let second = |at: i64| u64::try_from(epoch.saturating_add(at).div_euclid(1_000_000_000)).unwrap_or(0);
    (second(heard.op.invoke.0), second(heard.op.complete.0).saturating_add(1))
}
