//! A counter in a row of PostgreSQL: the lock of the row is what makes callers take turns.
//!
//! `form=upsert` is one statement, which inserts the row or counts on it and answers with the count: exact, in one
//! round trip. `form=for-update` locks the row in a transaction, decides in the app, and writes: exact as well, at
//! four round trips, during which everybody else who asks about that key waits. `form=read-then-write` does the same
//! without the lock: check-then-act, and whoever reads before the first writer writes is admitted.
//!
//! The window ends at a moment that stands in the row, by the server's clock as `now()` tells it: one value for a
//! whole statement or transaction, so that a count and the end of its window are decided by the same. Whoever had
//! to wait for the lock decides by when it began.
//!
//! Rows do not go away by themselves: without `sweep` there is one for every key there ever was. With it, each app
//! server removes those whose window is over, every so often, behind the calls.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::background::Background;
use super::common;
use crate::model::contract::{Contract, Denials};
use crate::model::op::{Decision, Source};
use crate::model::units::Cost;
use crate::ports::BoxFuture;
use crate::ports::clock::Clock;
use crate::ports::database::{Arg, Database, Row, Table};
use crate::ports::limiter::{Build, Limiter, Needs, Param, ParamKind, Settings, Spec};
use crate::ports::store::StoreError;

pub static SPEC: Spec = Spec {
    id: "L30",
    name: "postgres-row",
    summary: "fixed window: a row of PostgreSQL, counted on in one statement",
    sends: "INSERT … ON CONFLICT DO UPDATE … RETURNING; 1 round trip",
    known: "exact; rows stay for ever unless somebody removes them",
    params: &[
        Param {
            name: "form",
            default: "upsert",
            kind: ParamKind::OneOf(&["upsert", "for-update", "read-then-write"]),
            help: "one statement; SELECT … FOR UPDATE in a transaction; or read, then write, without a lock",
        },
        Param {
            name: "table",
            default: "logged",
            kind: ParamKind::OneOf(&["logged", "unlogged"]),
            help: "whether a count is on disk before it is told, or gone after a crash of the server",
        },
        Param {
            name: "sweep",
            default: "",
            kind: ParamKind::Span,
            help: "how often rows are removed whose window is over; never where it is not given",
        },
    ],
    foreign: None,
    needs_server: Some(Needs::Rows { table, statements }),
    check,
    contract,
    build: |build| Arc::new(PostgresRow::of(build)),
};

const LOGGED: Table = Table { name: "rate_limit", unlogged: false };
const UNLOGGED: Table = Table { name: "rate_limit_unlogged", unlogged: true };

/// Every table that a limiter here keeps its rows in.
pub static TABLES: &[Table] = &[LOGGED, UNLOGGED];

fn table(settings: &Settings) -> Table {
    if settings.param("table") == "unlogged" { UNLOGGED } else { LOGGED }
}

fn check(settings: &Settings) -> Result<(), String> {
    match settings.span_if_given("sweep") {
        Some(every) if every.is_zero() => {
            Err("sweep=0s would do nothing else; leave it out for never".to_owned())
        }
        _ => Ok(()),
    }
}

fn contract(settings: &Settings) -> Contract {
    let (denials, trips) = match settings.param("form") {
        "for-update" => (Denials::Free, 6),
        "read-then-write" => (Denials::Free, 2),
        _ => (Denials::Charged, 1),
    };
    Contract {
        algorithm: common::fixed_window(settings, denials),
        round_trips_at_most: Some(trips),
        in_background: settings.span_if_given("sweep").is_some(),
        ..common::counter_contract(settings, denials)
    }
}

/// What it asks, all of it about one table.
struct Sql {
    upsert: String,
    read: String,
    lock: String,
    place: String,
    open: String,
    count: String,
    sweep: String,
}

impl Sql {
    fn of(settings: &Settings) -> Self {
        let table = table(settings).name;
        let end = "now() + $3::bigint * interval '1 millisecond'";
        let left = "ceil(extract(epoch FROM ends_at - now()) * 1000)::bigint";
        let read = format!("SELECT count, {left} FROM {table} WHERE key = $1");
        Self {
            upsert: format!(
                "INSERT INTO {table} AS r (key, count, ends_at) VALUES ($1, $2, {end}) \
                 ON CONFLICT (key) DO UPDATE SET \
                 count = CASE WHEN r.ends_at <= now() THEN excluded.count ELSE r.count + excluded.count END, \
                 ends_at = CASE WHEN r.ends_at <= now() THEN excluded.ends_at ELSE r.ends_at END \
                 RETURNING count, {left}"
            ),
            lock: format!("{read} FOR UPDATE"),
            read,
            // For somebody to lock; its window is over as it begins.
            place: format!(
                "INSERT INTO {table} (key, count, ends_at) VALUES ($1, 0, now()) ON CONFLICT (key) DO NOTHING"
            ),
            open: format!(
                "INSERT INTO {table} (key, count, ends_at) VALUES ($1, $2, {end}) \
                 ON CONFLICT (key) DO UPDATE SET count = excluded.count, ends_at = excluded.ends_at"
            ),
            count: format!("UPDATE {table} SET count = $2 WHERE key = $1"),
            // Two who sweep at the same time do not wait for each other's rows.
            sweep: format!(
                "DELETE FROM {table} WHERE key IN \
                 (SELECT key FROM {table} WHERE ends_at <= now() FOR UPDATE SKIP LOCKED)"
            ),
        }
    }
}

fn statements(settings: &Settings) -> Vec<String> {
    let Sql { upsert, read, lock, place, open, count, sweep } = Sql::of(settings);
    let own = match settings.param("form") {
        "for-update" => vec![lock, place, count],
        "read-then-write" => vec![read, count],
        _ => vec![upsert],
    };
    own.into_iter().chain([open, sweep]).collect()
}

struct PostgresRow {
    settings: Settings,
    sql: Sql,
    database: Arc<dyn Database>,
    clock: Arc<dyn Clock>,
    sweeping: Background,
    /// How often it has swept; nobody has begun to where absent.
    swept: std::sync::Mutex<Option<watch::Receiver<u64>>>,
}

/// What a row says: its count, unless its window is over, and how long that has left.
struct Seen {
    count: u64,
    left_ms: Option<u64>,
}

impl Seen {
    fn in_rows(rows: &[Row]) -> Result<Option<Self>, StoreError> {
        let Some(row) = rows.first() else { return Ok(None) };
        let [count, left] = row.as_slice() else {
            return Err(StoreError::Unexpected(format!("{row:?} instead of a count and what is left")));
        };
        let left_ms = u64::try_from(*left).ok().filter(|ms| *ms > 0);
        let count = left_ms.map_or(0, |_| u64::try_from(*count).unwrap_or(0));
        Ok(Some(Self { count, left_ms }))
    }
}

impl PostgresRow {
    fn of(build: Build) -> Self {
        let database = build.database.expect("who needs rows is built with a database");
        Self {
            sql: Sql::of(&build.settings),
            settings: build.settings,
            database,
            clock: build.clock,
            sweeping: Background::default(),
            swept: std::sync::Mutex::default(),
        }
    }

    fn window_ms(&self) -> Arg<'static> {
        Arg::Int(i64::try_from(self.settings.window.millis()).unwrap_or(i64::MAX))
    }

    async fn upsert(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let args = [Arg::Text(key), Arg::Int(cost.get().into()), self.window_ms()];
        let rows = self.database.query(&self.sql.upsert, &args).await?;
        let seen = Seen::in_rows(&rows)?;
        let seen =
            seen.ok_or_else(|| StoreError::Unexpected("no row instead of the one counted on".into()))?;
        let left = seen.left_ms.map(Duration::from_millis);
        let count = i64::try_from(seen.count).unwrap_or(i64::MAX);
        Ok(common::counted(&self.settings, cost, count, left))
    }

    /// What follows from what was read: a decision, and what to write if it is admitted.
    fn decide<'k>(&self, key: &'k str, seen: &Seen, cost: Cost) -> (Decision, Option<(&str, Vec<Arg<'k>>)>) {
        let limit = self.settings.limit.get();
        let after = seen.count.saturating_add(cost.get().into());
        let allowed = after <= limit;
        let left = seen.left_ms.map(Duration::from_millis);
        let never = u64::from(cost.get()) > limit;
        let decision = Decision {
            allowed,
            remaining: Some(limit.saturating_sub(if allowed { after } else { seen.count })),
            limit: self.settings.limit,
            retry_after: left.filter(|_| !allowed && !never),
            reset: left.or(allowed.then(|| self.settings.window.duration())),
            source: Source::Store,
        };
        let count = Arg::Int(i64::try_from(after).unwrap_or(i64::MAX));
        let write = match seen.left_ms {
            Some(_) => (self.sql.count.as_str(), vec![Arg::Text(key), count]),
            None => (self.sql.open.as_str(), vec![Arg::Text(key), count, self.window_ms()]),
        };
        (decision, allowed.then_some(write))
    }

    async fn read_then_write(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let rows = self.database.query(&self.sql.read, &[Arg::Text(key)]).await?;
        let seen = Seen::in_rows(&rows)?.unwrap_or(Seen { count: 0, left_ms: None });
        let (decision, write) = self.decide(key, &seen, cost);
        if let Some((statement, args)) = write {
            self.database.query(statement, &args).await?;
        }
        Ok(decision)
    }

    async fn for_update(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        // Somebody may sweep the row away between its making and its lock, and then again.
        const ATTEMPTS: usize = 8;
        let mut open = self.database.begin().await?;
        for _ in 0..ATTEMPTS {
            let rows = open.query(&self.sql.lock, &[Arg::Text(key)]).await?;
            let Some(seen) = Seen::in_rows(&rows)? else {
                open.query(&self.sql.place, &[Arg::Text(key)]).await?;
                continue;
            };
            let (decision, write) = self.decide(key, &seen, cost);
            let Some((statement, args)) = write else {
                open.roll_back().await?;
                return Ok(decision);
            };
            open.query(statement, &args).await?;
            open.commit().await?;
            return Ok(decision);
        }
        Err(StoreError::Refused("the row was swept away before it was locked, again and again".to_owned()))
    }

    /// Begins to sweep with the first call, where it is to.
    fn sweep(&self) {
        let Some(every) = self.settings.span_if_given("sweep") else { return };
        let mut swept = self.swept.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if swept.is_some() {
            return;
        }
        let (done, times) = watch::channel(0);
        *swept = Some(times);
        let (database, clock, statement) =
            (Arc::clone(&self.database), Arc::clone(&self.clock), self.sql.sweep.clone());
        self.sweeping.begin(async move {
            loop {
                clock.sleep(every).await;
                // What cannot be swept now is the next time.
                let _ = database.query(&statement, &[]).await;
                done.send_modify(|times| *times += 1);
            }
        });
    }

    /// Returns when all was swept that is over now: the pass that goes on may have looked before.
    async fn have_swept(&self) {
        let times = self.swept.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let Some(mut times) = times else { return };
        let now = *times.borrow();
        let _ = times.wait_for(|times| *times >= now + 2).await;
    }
}

impl Limiter for PostgresRow {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(async move {
            self.sweep();
            match self.settings.param("form") {
                "for-update" => self.for_update(key, cost).await,
                "read-then-write" => self.read_then_write(key, cost).await,
                _ => self.upsert(key, cost).await,
            }
        })
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let used = Arg::Int(i64::try_from(used).unwrap_or(i64::MAX));
            self.database.query(&self.sql.open, &[Arg::Text(key), used, self.window_ms()]).await.map(|_| ())
        })
    }

    fn settle(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.have_swept())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_whose_window_is_over_counts_for_nothing() {
        let seen = |row: Vec<i64>| Seen::in_rows(&[row]).unwrap().unwrap();
        assert_eq!((seen(vec![7, 1]).count, seen(vec![7, 1]).left_ms), (7, Some(1)));
        for left in [0, -1] {
            assert_eq!((seen(vec![7, left]).count, seen(vec![7, left]).left_ms), (0, None));
        }
        assert!(Seen::in_rows(&[]).unwrap().is_none());
        assert!(Seen::in_rows(&[vec![7]]).is_err());
    }
}
