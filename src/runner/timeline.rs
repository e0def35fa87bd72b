//! How the waits of a round go by, and what the clocks of its nodes say.
//!
//! Skipped time is time that everybody agrees has passed: the record's clock, the wall clocks of the
//! nodes, and the expiry of every key of the round move on together, and only while no call is open.
//! A client that waits a minute and one whose minute is skipped then find the same state. What cannot
//! be moved is the server's own clock: whoever reads it by `TIME` is waited for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use super::eye::Eye;
use super::record::{Recorder, Stop};
use crate::model::scenario::PlannedClock;
use crate::model::units::{Nanos, Window};
use crate::ports::BoxFuture;
use crate::ports::clock::Clock;
use crate::ports::store::note_clock;
use crate::ports::workload::Timeline;

/// The wall clock of a node: that of this machine with what was skipped, and what is wrong with it.
pub struct NodeClock {
    pub recorder: Arc<Recorder>,
    /// From when on it is wrong, once that is known, and how.
    pub wrong: Option<(Arc<OnceLock<Nanos>>, PlannedClock)>,
}

impl Clock for NodeClock {
    fn wall_us(&self) -> i64 {
        let ahead = self.wrong.as_ref().map_or(0, |(began, clock)| {
            let passed = began.get().map_or(0, |began| self.recorder.now().0.saturating_sub(began.0));
            clock.ahead_us(Nanos(passed))
        });
        let us = self.recorder.wall_us().saturating_add(ahead);
        note_clock(us);
        us
    }

    fn monotonic(&self) -> Duration {
        Duration::from_nanos(u64::try_from(self.recorder.now().0).unwrap_or(0))
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(span))
    }
}

/// Waits, or skips what it would have waited for.
pub struct RoundTime {
    pub recorder: Arc<Recorder>,
    pub stop: Stop,
    /// What to age when time is skipped; `None` waits.
    pub aging: Option<Arc<Aging>>,
    /// What was skipped before and the limiter's clock does not know of: its windows begin by its own.
    pub apart_us: i64,
}

impl Timeline for RoundTime {
    fn now(&self) -> Nanos {
        self.recorder.now()
    }

    fn next_edge(&self, window: Window) -> Nanos {
        let wall = self.recorder.wall_us().saturating_sub(self.apart_us).saturating_mul(1000);
        let past = wall.rem_euclid(window.nanos());
        let left = if past == 0 { 0 } else { window.nanos() - past };
        Nanos(self.recorder.now().0.saturating_add(left))
    }

    fn until(&self, at: Nanos) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let left = at.0.saturating_sub(self.now().0);
            if left <= 0 {
                return !self.stop.stopped();
            }
            let left = Duration::from_nanos(left.unsigned_abs());
            match &self.aging {
                Some(aging) => self.skip(aging, left).await,
                None => tokio::select! {
                    () = tokio::time::sleep(left) => true,
                    () = self.stop.told() => false,
                },
            }
        })
    }
}

impl RoundTime {
    /// Expiries are kept in whole milliseconds: so much is skipped.
    async fn skip(&self, aging: &Aging, left: Duration) -> bool {
        let ms = u64::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        let aged = aging.age(ms).await;
        if aged {
            self.recorder.skip(Duration::from_millis(ms));
        }
        aged && !self.stop.stopped()
    }
}

/// Moves the expiry of a round's keys.
pub struct Aging {
    /// To each store that keeps some of them.
    stores: Vec<Eye>,
    prefix: String,
    /// Whether the server tells expiries as moments (from 7.0).
    moments: bool,
    aged_ms: AtomicU64,
    failed: Mutex<Option<anyhow::Error>>,
}

/// Lua for when a key expires, in Unix ms by the server's clock, exactly; below 0 where it never does. A server before 7.0
/// tells in how long only, which is of one moment where the clock says the same before and after it.
pub const DUE: &str = "
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function due(key, told)
  if told then return redis.call('PEXPIRETIME', key) end
  for _ = 1, 1000 do
    local before, left = now(), redis.call('PTTL', key)
    if left < 0 then return left end
    if now() == before then return before + left end
  end
  error('the clock of the server does not stand still for a millisecond')
end
";

/// Every key once, however the listing may repeat them. After [`DUE`].
/// `ARGV`: the pattern, by how many ms, whether moments are told.
const AGE: &str = "
local keys, cursor = {}, '0'
repeat
  local page = redis.call('SCAN', cursor, 'MATCH', ARGV[1], 'COUNT', 1000)
  cursor = page[1]
  for _, key in ipairs(page[2]) do keys[key] = true end
until cursor == '0'
for key in pairs(keys) do
  local at = due(key, ARGV[3] == '1')
  if at > 0 then redis.call('PEXPIREAT', key, string.format('%.0f', at - ARGV[2])) end
end
return 1";

impl Aging {
    pub fn new(stores: Vec<Eye>, prefix: &str, moments: bool) -> Self {
        let (prefix, failed) = (prefix.to_owned(), Mutex::new(None));
        Self { stores, prefix, moments, aged_ms: AtomicU64::new(0), failed }
    }

    /// Answers whether it could be done; the reason why not is kept.
    async fn age(&self, ms: u64) -> bool {
        let mut eval = redis::cmd("EVAL");
        eval.arg(format!("{DUE}{AGE}"))
            .arg(0)
            .arg(format!("*{}*", self.prefix))
            .arg(ms)
            .arg(i32::from(self.moments));
        for store in &self.stores {
            let aged = match store.clone() {
                Eye::Keys(mut patient) => eval.exec_async(&mut patient).await.map_err(anyhow::Error::from),
                mut rows => rows.outlive(&self.prefix, ms).await,
            };
            if let Err(error) = aged {
                *self.slot() = Some(error);
                return false;
            }
        }
        self.aged_ms.fetch_add(ms, Ordering::Relaxed);
        true
    }

    fn slot(&self) -> MutexGuard<'_, Option<anyhow::Error>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn aged(&self) -> Duration {
        Duration::from_millis(self.aged_ms.load(Ordering::Relaxed))
    }

    /// Why time could not be skipped, if so.
    pub fn failure(&self) -> Option<anyhow::Error> {
        self.slot().take()
    }
}
