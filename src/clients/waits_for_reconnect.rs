//! A client that waits: a minute for a response, and until there is a connection for a call that finds none.
//!
//! As phpredis and Predis with PHP's `default_socket_timeout` of 60 s do, and clients with an offline queue
//! and no command timeout: the caller stands for as long as the store does.

use std::sync::Arc;
use std::time::Duration;

use super::Profile;
use super::redis_rs::{Manner, Unconnected};
use super::redis_rs_multiplexed::RedisStore;

pub static PROFILE: Profile = Profile {
    name: "waits-for-reconnect",
    summary: "60 s for a response and as long for a connection, as phpredis with PHP's default_socket_timeout",
    connect: |access| Arc::new(RedisStore::new(access, MANNER, None)),
    rows: None,
};

const MANNER: Manner = Manner {
    response: Some(Duration::from_secs(60)),
    connect: Duration::from_secs(5),
    unconnected: Unconnected::Waits,
    replays: 0,
};
