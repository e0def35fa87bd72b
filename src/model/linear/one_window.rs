//! Calls of cost 1 within one fixed window, judged exactly in O(n).
//!
//! The counter admits until `limit` calls have taken effect, and refuses from then on. There is one
//! moment, the one at which the limit is reached, and an explanation exists if and only if it can be
//! put somewhere:
//!
//! * Everything admitted took effect before the moment: together with what was used before the window's
//!   calls it is at most the limit, and nothing admitted was invoked after the moment.
//! * Everything refused took effect after it, so no refusal had ended before the moment. The latest
//!   moment that leaves every refusal its place is the end of the first refusal to end, and a later one
//!   is only better for what was admitted. So the moment is that end.
//! * By then the limit was reached: what was used before, what was admitted, and calls without an answer
//!   that had been invoked by then come to the limit. Such a call may have taken effect or not, so any
//!   number of them up to all will do.
//!
//! Without a refusal the moment need not come: only the first part remains. Whether refused calls are
//! charged makes no difference: a limit that is reached stays reached, and a charge on top of it
//! refuses nobody who would not be refused anyway. That holds at cost 1 only: a refused call of cost 2
//! may leave room for one of cost 1, and whether it still does is then the question.
//!
//! Ends belong to intervals: a call that is invoked in the very nanosecond in which a refusal ends may
//! have come before it.

use crate::model::units::{Nanos, OpId};

/// A call of cost 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    pub op: OpId,
    pub invoke: Nanos,
    pub complete: Nanos,
    /// `None` if the caller was not told.
    pub allowed: Option<bool>,
}

/// Why no order of the calls explains what was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Objection {
    /// More were admitted than fit.
    TooMany { admitted: u64 },
    /// The limit was reached by the time `refused` ended, and `admitted` was invoked later.
    AdmittedAfter { refused: Call, admitted: Call },
    /// When it ended, at most so many can have been counted.
    RefusedWithRoom { refused: Call, counted: u64 },
}

/// The first objection to the calls of one window, of which `used` had been used before.
pub fn objection(calls: impl Iterator<Item = Call> + Clone, limit: u64, used: u64) -> Option<Objection> {
    let used = used.min(limit);
    let (mut admitted, mut first_refused) = (0, None::<Call>);
    for call in calls.clone() {
        match call.allowed {
            Some(true) => admitted += 1,
            Some(false) if first_refused.is_none_or(|r| call.complete < r.complete) => {
                first_refused = Some(call);
            }
            Some(false) | None => {}
        }
    }
    if admitted > limit - used {
        return Some(Objection::TooMany { admitted });
    }
    let refused = first_refused?;
    let mut unknown = 0;
    for call in calls {
        let in_time = call.invoke <= refused.complete;
        if call.allowed == Some(true) && !in_time {
            return Some(Objection::AdmittedAfter { refused, admitted: call });
        }
        unknown += u64::from(call.allowed.is_none() && in_time);
    }
    let counted = used + admitted + unknown;
    (counted < limit).then_some(Objection::RefusedWithRoom { refused, counted })
}
