//! A pool of connections to PostgreSQL that is tuned to give up: 200 ms for a connection, 200 ms for an answer, and
//! who hears nothing closes the connection, as pgx does when its context ends or JDBC with a `socketTimeout`. A count
//! is written to disk before it is told, so less than that gives up on servers that are well.
//!
//! A call that waits for its turn, for a new connection and for an answer may take all three.

use std::sync::Arc;
use std::time::Duration;

use super::Profile;
use super::not_configured::NotConfigured;
use super::postgres::{Connections, Manner};

pub static PROFILE: Profile = Profile {
    name: "postgres-fail-fast",
    summary: "the same, tuned to give up: 200 ms for a connection and 200 ms for an answer, as pgx with a deadline",
    connect: |_| Arc::new(NotConfigured),
    rows: Some(|access, statements| Arc::new(Connections::new(access, statements, MANNER))),
};

const PATIENCE: Duration = Duration::from_millis(200);
const MANNER: Manner = Manner { response: Some(PATIENCE), connection: PATIENCE };
