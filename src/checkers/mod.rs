//! The checkers, one file each. A new one is a file and its line in [`ALL`].
//!
//! Each has a good and a bad recorded history under `tests/fixtures/histories/` that it must tell
//! apart.

mod bound;
pub mod bounded_latency;
pub mod clock_independent;
mod common;
pub mod cost;
pub mod declared_outage_policy;
pub mod denial_changes_nothing;
pub mod effects_once;
pub mod every_key_expires;
pub mod fail_open_is_reported;
mod groups;
pub mod headers_honest;
pub mod keys_declared;
pub mod matches_model;
pub mod meets_requirement;
pub mod never_over_limit;
pub mod no_false_denial;
pub mod no_lost_permit;
pub mod recovers;
pub mod remaining_consistent;
pub mod retry_after_honest;
mod rooms;
pub mod steady_client_served;

use crate::model::names;
use crate::ports::checker::Checker;

pub static ALL: &[&dyn Checker] = &[
    &never_over_limit::NeverOverLimit,
    &meets_requirement::MeetsRequirement,
    &every_key_expires::EveryKeyExpires,
    &steady_client_served::SteadyClientServed,
    &keys_declared::KeysDeclaredAndOneSlot,
    &no_false_denial::NoFalseDenial,
    &no_lost_permit::NoLostPermit,
    &denial_changes_nothing::DenialChangesNothing,
    &recovers::Recovers,
    &remaining_consistent::RemainingConsistent,
    &retry_after_honest::RetryAfterHonest,
    &matches_model::MatchesModel,
    &cost::CostChecker,
    &bounded_latency::BoundedLatency,
    &declared_outage_policy::DeclaredOutagePolicy,
    &fail_open_is_reported::FailOpenIsReported,
    &effects_once::EffectsOnce,
    &clock_independent::ClockIndependent,
    &headers_honest::HeadersHonest,
];

pub fn find(name: &str) -> Result<&'static dyn Checker, String> {
    let found = ALL.iter().find(|c| c.name() == name).copied();
    found.ok_or_else(|| names::unknown("check", name, &ALL.iter().map(|c| c.name()).collect::<Vec<_>>()))
}
