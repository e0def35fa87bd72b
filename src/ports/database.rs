//! The database port: the handle of a limiter that keeps its counters in rows, asked in SQL.
//!
//! It counts, knows which call it sends for and asks the step hook as a store does (`ports::store`). A statement by
//! itself is applied as a whole or not at all; those of a transaction are when its COMMIT is, and before that
//! nothing of them.

use super::BoxFuture;
use super::store::{StoreError, Traffic};

/// What limiters keep their counters in: a row for each key, with its count and the moment its window ends. The
/// lab makes the tables, reads the rows back, and moves those moments on where time is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    pub name: &'static str,
    /// Not written ahead to disk: cheaper, and empty after a crash of the server.
    pub unlogged: bool,
}

impl Table {
    pub fn definition(&self) -> String {
        let kind = if self.unlogged { "UNLOGGED TABLE" } else { "TABLE" };
        format!(
            "CREATE {kind} IF NOT EXISTS {} \
             (key text PRIMARY KEY, count bigint NOT NULL, ends_at timestamptz NOT NULL)",
            self.name
        )
    }
}

/// An argument of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arg<'a> {
    Text(&'a str),
    Int(i64),
}

/// A row that is answered. Whole numbers are all that limiters ask for.
pub type Row = Vec<i64>;

/// The handle a limiter is given. Every statement was named when it connected.
pub trait Database: Send + Sync {
    /// One statement, one round trip.
    fn query<'a>(
        &'a self,
        statement: &'a str,
        args: &'a [Arg<'a>],
    ) -> BoxFuture<'a, Result<Vec<Row>, StoreError>>;

    /// BEGIN, one round trip, on a connection that nobody else sends on meanwhile.
    fn begin(&self) -> BoxFuture<'_, Result<Box<dyn Transaction + '_>, StoreError>>;

    /// Connects whatever is not connected yet.
    fn warm_up(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// What was sent so far.
    fn traffic(&self) -> Traffic;
}

/// An open transaction. Whoever drops it closes its connection, and the server undoes it.
pub trait Transaction: Send {
    /// One statement, one round trip.
    fn query<'a>(
        &'a mut self,
        statement: &'a str,
        args: &'a [Arg<'a>],
    ) -> BoxFuture<'a, Result<Vec<Row>, StoreError>>;

    /// COMMIT, one round trip: all of it is applied.
    fn commit<'a>(self: Box<Self>) -> BoxFuture<'a, Result<(), StoreError>>
    where
        Self: 'a;

    /// ROLLBACK, one round trip: nothing of it is.
    fn roll_back<'a>(self: Box<Self>) -> BoxFuture<'a, Result<(), StoreError>>
    where
        Self: 'a;
}
