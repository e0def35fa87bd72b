//! One window of a counter: whoever fits into what is left of the limit is admitted.

use super::Sequential;
use crate::model::contract::Denials;
use crate::model::units::Limit;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Call {
    pub cost: u32,
    /// `None` if the caller was not told.
    pub allowed: Option<bool>,
}

#[derive(Debug, Clone, Copy)]
pub struct Counter {
    pub limit: Limit,
    /// Admitted before the first call.
    pub used: u64,
    pub denials: Denials,
}

impl Sequential for Counter {
    /// What is counted; a limit that is used up and one that is overdrawn refuse alike.
    type State = u64;
    type Call = Call;

    fn start(&self) -> u64 {
        self.used.min(self.limit.get())
    }

    fn apply(&self, counted: &u64, call: &Call) -> Option<u64> {
        let with_it = counted.saturating_add(call.cost.into());
        let fits = with_it <= self.limit.get();
        if call.allowed.is_some_and(|told| told != fits) {
            return None;
        }
        let charged = fits || self.denials == Denials::Charged;
        Some(if charged { with_it.min(self.limit.get()) } else { *counted })
    }
}
