//! A pool of connections to PostgreSQL as it comes: half a minute for one of them, and for ever for an answer.
//!
//! As sqlx's pool, bb8 or HikariCP wait for thirty seconds for a connection, and as no driver gives up on a
//! statement that was sent unless it is told to (`statement_timeout` is the server's own, and a server that stands
//! still does not count its seconds).

use std::sync::Arc;
use std::time::Duration;

use super::Profile;
use super::not_configured::NotConfigured;
use super::postgres::{Connections, Manner};

pub static PROFILE: Profile = Profile {
    name: "postgres-pool",
    summary: "a pool of connections to PostgreSQL, as sqlx or HikariCP with their defaults: 30 s for a connection, \
              no timeout for an answer",
    connect: |_| Arc::new(NotConfigured),
    rows: Some(|access, statements| Arc::new(Connections::new(access, statements, MANNER))),
};

const MANNER: Manner = Manner { response: None, connection: Duration::from_secs(30) };
