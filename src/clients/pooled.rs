//! A pool of connections, each of which is one call's for as long as the call takes.
//!
//! As redis-py's `BlockingConnectionPool`, Jedis with a `maxWait`, go-redis or deadpool hand them out
//! to code that takes a connection, decides, and gives it back: a caller that finds all of them in use
//! waits for its turn and, when that takes too long, fails without having sent anything. Their own
//! defaults wait from four (go-redis) or twenty seconds (redis-py) to for ever (Jedis); this one waits as
//! long as for a response, which is what one sets who wants to answer at all.
//!
//! Otherwise it is `redis-rs-multiplexed`, with its timeouts.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Profile;
use super::redis_rs_multiplexed::{DEFAULTS, RedisStore};
use crate::ports::store::{StoreError, keep, kept};

pub static PROFILE: Profile = Profile {
    name: "pooled",
    summary: "a pool, as redis-py's BlockingConnectionPool or go-redis': a connection is one call's at a time, \
              500 ms to get one, then the call fails",
    rows: None,
    connect: |access| {
        let pool = Pool::new(access.connections.max(1), POOL_TIMEOUT);
        Arc::new(RedisStore::new(access, DEFAULTS, Some(pool)))
    },
};

const POOL_TIMEOUT: Duration = Duration::from_millis(500);

/// Hands out connections by their number, in the order in which they are asked for.
pub struct Pool {
    size: usize,
    patience: Duration,
    turns: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<usize>>>,
}

/// A connection that is in use; given back when this goes.
pub struct Lease {
    lane: usize,
    idle: Arc<Mutex<Vec<usize>>>,
    _turn: OwnedSemaphorePermit,
}

impl Pool {
    /// Of so many; a caller that finds all of them in use waits so long.
    pub fn new(size: usize, patience: Duration) -> Self {
        let idle = Arc::new(Mutex::new((0..size).rev().collect()));
        Self { size, patience, turns: Arc::new(Semaphore::new(size)), idle }
    }

    /// The number of the connection that the current call holds, taken now if it has none. Outside a
    /// call it is held as long as the lease that comes with it.
    pub async fn lane(&self) -> Result<(usize, Option<Lease>), StoreError> {
        if let Some(lane) = kept(|lease: &Lease| lease.lane) {
            return Ok((lane, None));
        }
        let lease = self.lease().await?;
        let lane = lease.lane;
        Ok((lane, keep(lease).err()))
    }

    async fn lease(&self) -> Result<Lease, StoreError> {
        let turn = tokio::time::timeout(self.patience, Arc::clone(&self.turns).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else {
            let ms = self.patience.as_millis();
            let text = format!("pool timed out: all {} connections were in use for {ms} ms", self.size);
            return Err(StoreError::NotConnected(text));
        };
        let lane = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let lane = lane.expect("as many idle connections as turns");
        Ok(Lease { lane, idle: Arc::clone(&self.idle), _turn: turn })
    }
}

impl Drop for Lease {
    /// Before the turn passes on, which the field's own end does.
    fn drop(&mut self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(self.lane);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::store::{Call, as_call};

    #[tokio::test]
    async fn a_connection_is_one_calls_until_the_call_ends_and_others_wait_or_fail() {
        let pool = Pool::new(1, Duration::from_millis(50));
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let holds = as_call(Call::new(0, 0), async {
            let first = pool.lane().await.map(|(lane, _)| lane);
            let again = pool.lane().await.map(|(lane, _)| lane);
            let _ = ended.await;
            (first, again)
        });
        let waits = async {
            let answer = as_call(Call::new(1, 0), pool.lane()).await.0;
            let _ = end.send(());
            answer.map(|(lane, _)| lane)
        };
        let ((held, _), failed) = tokio::join!(holds, waits);
        assert_eq!(held, (Ok(0), Ok(0)), "the same one for the whole call");
        let Err(StoreError::NotConnected(text)) = failed else { panic!("{failed:?}") };
        assert!(text.starts_with("pool timed out"), "{text}");
        assert!(pool.lane().await.is_ok(), "given back when the call had ended");
    }
}
