//! redis-rs 1.x, its cluster client with its defaults: finds the slots by itself, follows redirections, keeps a
//! connection to every node, and tries any command again, INCR included, up to sixteen times. It has no response
//! timeout of its own.

use std::sync::Arc;
use std::time::Duration;

use super::Profile;
use super::redis_rs::{Manner, Unconnected};
use super::redis_rs_multiplexed::RedisStore;

pub static PROFILE: Profile = Profile {
    name: "redis-rs-cluster",
    summary: "redis-rs 1.x cluster client with its defaults: finds the slots, follows redirections, tries again",
    connect: |access| Arc::new(RedisStore::new(access, MANNER, None)),
    rows: None,
};

const MANNER: Manner = Manner {
    response: None,
    connect: Duration::from_secs(1),
    unconnected: Unconnected::Clustered,
    replays: 0,
};
