//! A node's clocks and randomness. Injected, so that a node's clock can later be offset, drift,
//! jump or be virtual; nothing on floor 2 may ask the operating system for the time.

use std::sync::Arc;
use std::time::Duration;

use super::BoxFuture;

/// The wall clock of one app server.
pub trait Clock: Send + Sync {
    /// Microseconds since the Unix epoch, as this node believes it to be.
    fn wall_us(&self) -> i64;

    /// How long it is since some moment, by a clock that nobody sets.
    fn monotonic(&self) -> Duration {
        Duration::from_micros(u64::try_from(self.wall_us()).unwrap_or(0))
    }

    /// Returns when this much time has passed on this node.
    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()>;
}

/// The clock of the machine the lab runs on.
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place where node time comes from")]
    fn wall_us(&self) -> i64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |d| i64::try_from(d.as_micros()).unwrap_or(i64::MAX))
    }

    #[expect(clippy::disallowed_methods, reason = "the one place where node time comes from")]
    fn monotonic(&self) -> Duration {
        static START: std::sync::LazyLock<std::time::Instant> =
            std::sync::LazyLock::new(std::time::Instant::now);
        START.elapsed()
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(span))
    }
}

/// The clock every node gets unless a scenario says otherwise.
pub fn system() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}
