//! A client tuned to give up: 50 ms for a response, no queue while there is no connection, no retry.
//!
//! As ioredis with `commandTimeout: 50`, `enableOfflineQueue: false` and `maxRetriesPerRequest: 0`, or Lettuce
//! with `REJECT_COMMANDS` and a command timeout: a call that finds no connection fails at once, while
//! connecting goes on beside the calls, 50 ms later after each failed attempt and never more than 2 s apart
//! (ioredis' default `retryStrategy`). So the store may be back for that long before calls reach it.

use std::sync::Arc;
use std::time::Duration;

use super::Profile;
use super::redis_rs::{Manner, Unconnected};
use super::redis_rs_multiplexed::RedisStore;

pub static PROFILE: Profile = Profile {
    name: "fail-fast",
    summary: "50 ms for a response, no queue, no retry, as ioredis or Lettuce when tuned to give up",
    connect: |access| Arc::new(RedisStore::new(access, MANNER, None)),
    rows: None,
};

const MANNER: Manner = Manner {
    response: Some(Duration::from_millis(50)),
    connect: Duration::from_millis(50),
    unconnected: Unconnected::Fails,
    replays: 0,
};
