//! `keys-declared-and-one-slot`: each exchange with the store touches the keys it declares, no other,
//! and all of them lie in one hash slot.
//!
//! Proves, when it fails, that a cluster cannot run this exchange (its keys are spread: CROSSSLOT), or
//! cannot know where to (a script touches a key it did not declare: the server refused it to a user
//! who may touch the declared keys only). A pass covers the exchanges that were made, with calls
//! admitted and refused among them; another path through a script may still touch other keys. Needs a
//! scenario that observes keys, or a cluster, which refuses calls for their keys by itself; one whose keys lie in
//! one slot by chance it does not refuse. O(exchanges).

use crate::model::history::{Cell, Round, Touch};
use crate::model::op::Outcome;
use crate::model::slot::slot;
use crate::model::units::Nanos;
use crate::model::verdict::Finding;
use crate::ports::checker::Checker;

pub struct KeysDeclaredAndOneSlot;

impl Checker for KeysDeclaredAndOneSlot {
    fn name(&self) -> &'static str {
        "keys-declared-and-one-slot"
    }

    fn proves(&self) -> &'static str {
        "each exchange touches the keys it declares and no other, all in one hash slot"
    }

    fn judge(&self, cell: &Cell) -> Finding {
        let touches = || cell.rounds.iter().flat_map(|r| r.touches.iter().map(move |t| (r, t)));
        let undeclared: Vec<_> = touches().filter(|(_, t)| t.refused.is_some()).collect();
        let spread: Vec<_> = touches().filter(|(_, t)| spread(t)).collect();
        if let Some((round, touch)) = undeclared.first().or(spread.first()) {
            return Finding::fail(witness(round, touch, undeclared.len(), spread.len()));
        }
        if let Some(refusal) = refused_by_cluster(cell) {
            return Finding::fail(refusal);
        }
        let exchanges = touches().filter(|(_, t)| !t.keys.is_empty()).count();
        if exchanges == 0 && cell.header.contract.key_ttl_at_most.is_none() {
            return Finding::not_applicable("it keeps no keys in the store");
        }
        let clustered = cell.header.topology.as_deref() == Some("cluster");
        if exchanges == 0 && !clustered {
            return Finding::unknown("no exchange was watched: the scenario does not observe keys");
        }
        let whole = cell.rounds.iter().filter(|r| r.complete).count();
        if whole < cell.header.rounds as usize {
            return Finding::unknown(
                "the history is cut short, and what there is touches declared keys only",
            );
        }
        let count = |outcome| cell.rounds.iter().map(|r| r.count(outcome)).sum::<u64>();
        let (admitted, denied) = (count(Outcome::Admitted), count(Outcome::Denied));
        if admitted == 0 || denied == 0 {
            return Finding::unknown(format!(
                "{admitted} calls were admitted and {denied} refused: both ways through the limiter must be seen"
            ));
        }
        if exchanges == 0 {
            return Finding::pass(format!(
                "a cluster ran {admitted} admitted and {denied} refused calls and found no keys in different slots"
            ));
        }
        Finding::pass(format!(
            "{exchanges} exchanges of {admitted} admitted and {denied} refused calls, each with its keys declared \
             and in one slot"
        ))
    }
}

/// What a cluster refused for its keys, if it did.
fn refused_by_cluster(cell: &Cell) -> Option<String> {
    let about_keys = |text: &str| {
        text.contains("CROSSSLOT") || text.contains("CrossSlot") || text.contains("non local key")
    };
    let (text, count) = cell.rounds.iter().flat_map(|r| &r.errors).find(|(text, _)| about_keys(text))?;
    Some(format!("a cluster refused {count} calls: {text}"))
}

/// Whether its keys lie in different slots.
fn spread(touch: &Touch) -> bool {
    let Some((first, others)) = touch.keys.split_first() else { return false };
    !others.is_empty() && {
        let of = |key: &String| slot(key.as_bytes());
        let first = of(first);
        others.iter().any(|key| of(key) != first)
    }
}

fn witness(round: &Round, touch: &Touch, undeclared: usize, spread: usize) -> String {
    let at = Nanos(touch.at.0.saturating_sub(round.began.0));
    let keys: Vec<String> = touch.keys.iter().map(|k| format!("{k} (slot {})", slot(k.as_bytes()))).collect();
    let keys = if keys.is_empty() { "no key".to_owned() } else { keys.join(", ") };
    let what = match &touch.refused {
        Some(text) => format!(
            "it touches a key beside them: a user who may touch those alone was refused ({})",
            text.trim_end_matches('.')
        ),
        None => "they lie in different slots, which a cluster refuses (CROSSSLOT)".to_owned(),
    };
    let also = if undeclared > 0 && spread > 0 {
        format!("; beside it {spread} exchanges with keys in different slots")
    } else {
        String::new()
    };
    format!(
        "round {}, op {}, {at} into it: an exchange declares {keys}, and {what}; so in {} exchanges{also}",
        round.index,
        touch.op,
        if undeclared > 0 { undeclared } else { spread }
    )
}
