//! A step hook that adds to the way to the store: each exchange takes this much longer.

use std::sync::Arc;
use std::time::Duration;

use crate::ports::BoxFuture;
use crate::ports::store::{SharedHook, Step, StepAction, StepHook};

pub struct Far {
    pub round_trip: Duration,
    /// Asked as well.
    pub other: Option<SharedHook>,
}

impl Far {
    pub fn shared(self) -> SharedHook {
        Arc::new(self)
    }
}

impl StepHook for Far {
    /// Half of it on the way there.
    fn before<'a>(&'a self, step: &'a Step) -> BoxFuture<'a, StepAction> {
        Box::pin(async move {
            pause(self.round_trip / 2).await;
            match &self.other {
                Some(hook) => hook.before(step).await,
                None => StepAction::Go,
            }
        })
    }

    /// The other half on the way back.
    fn after<'a>(&'a self, step: &'a Step) -> BoxFuture<'a, StepAction> {
        Box::pin(async move {
            pause(self.round_trip / 2).await;
            match &self.other {
                Some(hook) => hook.after(step).await,
                None => StepAction::Go,
            }
        })
    }
}

/// The runtime's timer counts in milliseconds and is up to two late: the last of a pause are spent looking
/// at the clock, while others work.
#[expect(clippy::disallowed_methods, reason = "a delay finer than the timer")]
async fn pause(span: Duration) {
    const TOO_FINE: Duration = Duration::from_millis(2);
    let until = std::time::Instant::now() + span;
    if span > TOO_FINE * 2 {
        tokio::time::sleep(span - TOO_FINE).await;
    }
    while std::time::Instant::now() < until {
        tokio::task::yield_now().await;
    }
}
