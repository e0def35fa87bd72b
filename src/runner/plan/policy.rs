//! A policy as a plan has it: looked up, its parameters checked.

use crate::limiters::policies;
use crate::model::scenario::LimiterRef;
use crate::ports::policy::{PolicySettings, PolicySpec};

/// What is put around a limiter.
#[derive(Debug, Clone)]
pub struct PolicyPlan {
    pub policy: LimiterRef,
    pub spec: &'static PolicySpec,
    pub settings: PolicySettings,
}

impl PolicyPlan {
    pub(super) fn of(wanted: &LimiterRef) -> Result<Self, String> {
        let policy = policies::resolve(wanted)?;
        let spec = policies::find(&policy.name)?;
        let settings = PolicySettings::new(spec, &policy.params)?;
        Ok(Self { policy, spec, settings })
    }
}
