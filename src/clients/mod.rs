//! Client profiles: how an app server talks to the store. One file each, named after the library
//! and the configuration it stands for.
//!
//! A profile decides what a caller sees while the store is slow or away, so results name it.

pub mod at_step;
pub mod declared_keys;
pub mod fail_fast;
pub mod far;
pub mod not_configured;
pub mod patient;
pub mod pooled;
mod postgres;
pub mod postgres_fail_fast;
pub mod postgres_pool;
pub mod postgres_rows;
mod redis_rs;
pub mod redis_rs_cluster;
pub mod redis_rs_manager;
pub mod redis_rs_multiplexed;
mod redis_rs_session;
pub mod replays_in_flight;
pub mod retries_on_timeout;
pub mod sentinel;
pub mod waits_for_reconnect;

use std::net::SocketAddr;
use std::sync::Arc;

use crate::model::names;
use crate::ports::database::Database;
use crate::ports::dial::Dial;
use crate::ports::route::Route;
use crate::ports::store::{SharedHook, Store};

/// A profile as `rl-lab list` shows it.
#[derive(Debug)]
pub struct Profile {
    pub name: &'static str,
    /// What it is modelled on, and what it does when the store does not answer.
    pub summary: &'static str,
    pub connect: fn(Access) -> Arc<dyn Store>,
    /// How it asks a database these statements, where it is a client of one: no Redis is configured there.
    pub rows: Option<InRows>,
}

/// Connects to a database, which is then asked these statements and no other.
pub type InRows = fn(Access, Vec<String>) -> Arc<dyn Database>;

/// What a node needs to reach the store.
#[derive(Clone)]
pub struct Access {
    pub route: Arc<dyn Route>,
    /// Some nodes of a cluster, for clients that ask them where the slots are.
    pub seeds: Vec<SocketAddr>,
    /// Connections of this node.
    pub connections: usize,
    /// Asked at every step; `None` costs nothing.
    pub hook: Option<SharedHook>,
    /// Who it talks as, without a password; the server's default user where absent.
    pub user: Option<String>,
    /// Where connections come from instead of an address.
    pub dial: Option<Arc<dyn Dial>>,
}

impl Access {
    #[must_use]
    pub fn of_user(self, user: &str) -> Self {
        Self { user: Some(user.to_owned()), ..self }
    }
}

pub static ALL: &[&Profile] = &[
    &redis_rs_multiplexed::PROFILE,
    &redis_rs_manager::PROFILE,
    &redis_rs_cluster::PROFILE,
    &pooled::PROFILE,
    &fail_fast::PROFILE,
    &waits_for_reconnect::PROFILE,
    &replays_in_flight::PROFILE,
    &retries_on_timeout::PROFILE,
    &not_configured::PROFILE,
    &postgres_pool::PROFILE,
    &postgres_fail_fast::PROFILE,
];

/// The profile a variant gets unless it names another.
pub const DEFAULT: &str = "redis-rs-multiplexed";

/// The same where the limiter keeps its counters in rows.
pub const DEFAULT_ROWS: &str = "postgres-pool";

pub fn find(name: &str) -> Result<&'static Profile, String> {
    let found = ALL.iter().find(|p| p.name == name).copied();
    found.ok_or_else(|| names::unknown("client", name, &ALL.iter().map(|p| p.name).collect::<Vec<_>>()))
}
