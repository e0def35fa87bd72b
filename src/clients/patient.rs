//! The lab's own connection to a server, for what is no call of an application: looking at keys, moving
//! expiries on, acting beside the calls, and greeting the server before a round.
//!
//! How long it waits is told by how long the lab itself was awake. On a clock's time a machine that stood
//! still for longer than the patience would end the run: by the time it goes on, the answer is late, and
//! nobody was to blame.

use std::net::SocketAddr;
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Client, Cmd, Pipeline, RedisError, RedisFuture, Value};

/// A standstill, however long, is one of these.
const NAP: Duration = Duration::from_millis(100);
/// Ten seconds of a lab that is awake.
const NAPS: u32 = 100;

#[derive(Clone)]
pub struct Patient(MultiplexedConnection);

impl Patient {
    pub async fn connect(address: SocketAddr) -> Result<Self, RedisError> {
        let client = Client::open(format!("redis://{address}/"))?;
        Ok(Self(connect(&client, AsyncConnectionConfig::new()).await?))
    }
}

/// Connects as configured, but for the time it takes.
pub async fn connect(
    client: &Client,
    config: AsyncConnectionConfig,
) -> Result<MultiplexedConnection, RedisError> {
    let config = config.set_response_timeout(None).set_connection_timeout(None);
    patiently(client.get_multiplexed_async_connection_with_config(&config)).await
}

/// The answer, unless the lab was awake for ten seconds without one.
pub async fn patiently<T>(answer: impl Future<Output = Result<T, RedisError>>) -> Result<T, RedisError> {
    for_naps(NAPS, NAP, answer).await
}

async fn for_naps<T>(
    naps: u32,
    nap: Duration,
    answer: impl Future<Output = Result<T, RedisError>>,
) -> Result<T, RedisError> {
    within(naps, nap, answer).await.unwrap_or_else(|| {
        let text = format!("no answer in {} s", nap.as_secs_f64() * f64::from(naps));
        Err(std::io::Error::new(std::io::ErrorKind::TimedOut, text).into())
    })
}

/// The same of anything else: `None` without an answer.
pub async fn awake<T>(answer: impl Future<Output = T>) -> Option<T> {
    within(NAPS, NAP, answer).await
}

async fn within<T>(naps: u32, nap: Duration, answer: impl Future<Output = T>) -> Option<T> {
    let mut answer = std::pin::pin!(answer);
    for _ in 0..naps {
        tokio::select! {
            biased;
            answer = &mut answer => return Some(answer),
            () = tokio::time::sleep(nap) => {}
        }
    }
    None
}

impl ConnectionLike for Patient {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(patiently(self.0.req_packed_command(cmd)))
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(patiently(self.0.req_packed_commands(pipeline, offset, count)))
    }

    fn get_db(&self) -> i64 {
        self.0.get_db()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A standstill of thirty times the patience, in one poll as a machine's would be.
    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "this is what a standstill is")]
    async fn a_standstill_is_waited_out_and_silence_is_not() {
        let nap = Duration::from_millis(1);
        let late = async {
            std::thread::sleep(nap * 300);
            tokio::task::yield_now().await;
            Ok(7)
        };
        assert_eq!(for_naps(10, nap, late).await.unwrap(), 7);
        let silence = std::future::pending::<Result<(), RedisError>>();
        assert!(for_naps(10, nap, silence).await.unwrap_err().to_string().contains("no answer in 0.01 s"));
    }
}
