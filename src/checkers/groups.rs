//! What else is known of the calls that count together: their preset, their first touch, their slack.

use crate::model::groups::Group;
use crate::model::history::{Cell, Round};
use crate::model::units::Nanos;

/// What a preset says was used, once: a preset of every node is the same statement made to each.
pub fn preset(round: &Round, group: &Group) -> Option<(u64, Nanos, Nanos)> {
    round
        .presets
        .iter()
        .filter(|p| group.has(p.key, p.node))
        .map(|p| (p.used, p.invoke, p.complete))
        .max_by_key(|(used, ..)| *used)
}

/// When a group's keys were first touched, of all that is known of each key.
pub fn first_touch(touches: &[Nanos], group: &Group) -> Nanos {
    match group.key {
        Some(key) => touches[key.0 as usize],
        None => touches.iter().min().copied().unwrap_or_default(),
    }
}

/// By how much two readings of the limiter's clock may differ from the time that passed: the clock's
/// resolution and any step seen in the round.
pub fn slack_ns(cell: &Cell, round: &Round) -> i64 {
    let resolution = i64::try_from(cell.header.contract.clock_resolution_ms).unwrap_or(i64::MAX);
    resolution.saturating_mul(1_000_000).saturating_add(round.clock_step_ns.saturating_abs())
}

/// Unix time at the run's anchor. The wall clock as it stood in this round: earlier steps are in it.
pub fn epoch_ns(cell: &Cell, round: &Round) -> i64 {
    round.epoch_ns_at_zero.unwrap_or(cell.epoch_ns_at_zero)
}
