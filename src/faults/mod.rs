//! The faults, one file each. A new one is a file and its line in [`ALL`].
//!
//! Three outages that are not the same: a frozen server still acknowledges what it is sent, so only a
//! timeout saves the caller; a dead one ends its connections and refuses new ones; a black hole says
//! nothing at all, and what was sent into it arrives when it closes.

pub mod black_hole;
pub mod cut;
pub mod cut_link;
pub mod delay_link;
pub mod demote;
pub mod freeze;
pub mod hold_link;
pub mod kill;
pub mod lost_reply;
pub mod promote;
pub mod slow;

use crate::model::names;
use crate::model::scenario::PlannedFault;
use crate::ports::fault::{Fault, Lasting};

pub static ALL: &[&dyn Fault] = &[
    &freeze::Freeze,
    &kill::Kill,
    &black_hole::BlackHole,
    &slow::Slow,
    &cut::Cut,
    &lost_reply::LostReply,
    &hold_link::HoldLink,
    &cut_link::CutLink,
    &delay_link::DelayLink,
    &promote::Promote,
    &demote::Demote,
];

pub fn find(name: &str) -> Result<&'static dyn Fault, String> {
    let found = ALL.iter().find(|f| f.name() == name).copied();
    found.ok_or_else(|| names::unknown("fault", name, &ALL.iter().map(|f| f.name()).collect::<Vec<_>>()))
}

/// Whether a fault as planned is one that can be done.
pub fn check(planned: &PlannedFault) -> Result<(), String> {
    let fault = find(&planned.fault)?;
    let name = fault.name();
    if fault.lasting() == Lasting::No && planned.lasts.is_some() {
        return Err(format!("{name} is done at once: for does not belong to it"));
    }
    fault.check(planned)
}

/// For faults that take neither of two fields.
fn takes_none(planned: &PlannedFault) -> Result<(), String> {
    let name = &planned.fault;
    match (planned.by, planned.after) {
        _ if planned.named.is_some() => Err(format!("{name} takes no named")),
        (Some(_), _) => Err(format!("{name} takes no by")),
        (_, Some(_)) => Err(format!("{name} takes no after")),
        _ => Ok(()),
    }
}

/// For faults that strike a replica or the link to it.
fn on_a_replica(planned: &PlannedFault) -> Result<(), String> {
    if planned.on.starts_with("replica-") {
        return Ok(());
    }
    Err(format!("{} is on a replica, such as \"replica-1\", not on '{}'", planned.fault, planned.on))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for (n, fault) in ALL.iter().enumerate() {
            assert!(ALL[n + 1..].iter().all(|f| f.name() != fault.name()));
            assert_eq!(find(fault.name()).map(|f| f.name()), Ok(fault.name()));
        }
        assert!(find("freze").err().unwrap().contains("did you mean 'freeze'"));
    }
}
