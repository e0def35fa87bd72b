//! A client that sends again what was in flight when its connection broke, and waits meanwhile.
//!
//! As ioredis (`autoResendUnfulfilledCommands`, at most `maxRetriesPerRequest: 20` times) and Lettuce (at least
//! once by default) do, neither with a command timeout of its own. What the store had applied before the
//! connection broke is applied once more.

use std::sync::Arc;
use std::time::Duration;

use super::Profile;
use super::redis_rs::{Manner, Unconnected};
use super::redis_rs_multiplexed::RedisStore;

pub static PROFILE: Profile = Profile {
    name: "replays-in-flight",
    summary: "no timeout; sends again what was in flight when the connection broke, as ioredis and Lettuce do",
    connect: |access| Arc::new(RedisStore::new(access, MANNER, None)),
    rows: None,
};

const MANNER: Manner =
    Manner { response: None, connect: Duration::from_secs(10), unconnected: Unconnected::Waits, replays: 20 };
