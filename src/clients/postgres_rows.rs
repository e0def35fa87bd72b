//! The lab's own connection to a PostgreSQL: it makes the tables, reads back what is in them, and moves the ends of
//! windows on.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio_postgres::Error;

use super::Access;
use super::patient::awake;
use super::postgres::{Connection, describe};
use crate::ports::database::Table;
use crate::ports::route::Configured;

/// A row as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub count: i64,
    /// Until its window ends; 0 or less where that is over.
    pub left_ms: i64,
}

#[derive(Clone)]
pub struct Rows {
    connection: Arc<Connection>,
}

impl Rows {
    pub async fn connect(address: SocketAddr) -> Result<Self, String> {
        let access = Access {
            route: Configured::at(address),
            seeds: Vec::new(),
            connections: 1,
            hook: None,
            user: None,
            dial: None,
        };
        let opened = awake(Connection::open(&access, &[])).await;
        let connection = opened.unwrap_or_else(|| Err("no answer".to_owned()))?;
        Ok(Self { connection: Arc::new(connection) })
    }

    /// The answer, unless the lab was awake for ten seconds without one.
    async fn ask<T>(&self, question: impl Future<Output = Result<T, Error>>) -> Result<T, String> {
        match awake(question).await {
            Some(answer) => answer.map_err(|e| describe(&e)),
            None => Err("PostgreSQL does not answer".to_owned()),
        }
    }

    pub async fn version(&self) -> Result<String, String> {
        let told = self.ask(self.connection.client.query_one("SHOW server_version", &[])).await?;
        let words: String = told.get(0);
        Ok(words.split_whitespace().next().unwrap_or("unknown").to_owned())
    }

    pub async fn make(&self, tables: &[Table]) -> Result<(), String> {
        for table in tables {
            self.ask(self.connection.client.batch_execute(&table.definition())).await?;
        }
        Ok(())
    }

    /// The keys of the rows that hold this text in their key.
    pub async fn keys(&self, table: Table, text: &str) -> Result<Vec<String>, String> {
        let statement = format!("SELECT key FROM {} WHERE position($1 IN key) > 0 ORDER BY key", table.name);
        let rows = self.ask(self.connection.client.query(&statement, &[&text])).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// The row of a key; nothing where there is none.
    pub async fn look(&self, table: Table, key: &str) -> Result<Option<Found>, String> {
        let statement = format!(
            "SELECT count, ceil(extract(epoch FROM ends_at - now()) * 1000)::bigint FROM {} WHERE key = $1",
            table.name
        );
        let row = self.ask(self.connection.client.query_opt(&statement, &[&key])).await?;
        Ok(row.map(|row| Found { count: row.get(0), left_ms: row.get(1) }))
    }

    pub async fn remove(&self, table: Table, key: &str) -> Result<(), String> {
        let statement = format!("DELETE FROM {} WHERE key = $1", table.name);
        self.ask(self.connection.client.execute(&statement, &[&key])).await.map(|_| ())
    }

    /// Lets so much time pass for these rows: their windows end so much earlier.
    pub async fn age(&self, table: Table, text: &str, ms: i64) -> Result<(), String> {
        let statement = format!(
            "UPDATE {} SET ends_at = ends_at - $2::bigint * interval '1 millisecond' WHERE position($1 IN key) > 0",
            table.name
        );
        self.ask(self.connection.client.execute(&statement, &[&text, &ms])).await.map(|_| ())
    }
}
