//! redis-rs 1.x, `ConnectionManager` with its defaults: 500 ms for a response, 1 s to connect, up to six
//! attempts with growing pauses. A call that comes while it reconnects waits for that, whatever the
//! response timeout says, and it keeps the address that it was made with.

use std::sync::Arc;

use super::Profile;
use super::redis_rs::{Manner, Unconnected};
use super::redis_rs_multiplexed::{DEFAULTS, RedisStore};

pub static PROFILE: Profile = Profile {
    name: "redis-rs-manager",
    summary: "redis-rs 1.x ConnectionManager with its defaults: a call waits while it reconnects",
    connect: |access| Arc::new(RedisStore::new(access, MANNER, None)),
    rows: None,
};

const MANNER: Manner = Manner { unconnected: Unconnected::Managed, ..DEFAULTS };
