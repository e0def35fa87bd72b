//! The lab's own look at a store, between the calls: at the keys of a Redis, or at the rows of a PostgreSQL.
//!
//! A row has no expiry. What stands in it is when its window is over, and until then it is shown like a key that
//! lives as long: that decides whether a crash locks somebody out. Who is still there afterwards stays, and is
//! shown without an expiry.

use std::net::SocketAddr;

use anyhow::{Context, anyhow, bail};

use super::keys::{held, keys_of, memory};
use crate::clients::patient::Patient;
use crate::clients::postgres_rows::Rows;
use crate::model::report::ServerInfo;
use crate::ports::backend::{Server, ServerProgram};
use crate::ports::database::Table;

#[derive(Clone)]
pub enum Eye {
    Keys(Patient),
    Rows(Rows, Table),
}

/// A key as the store shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// In ms, −1 without expiry, −2 gone.
    pub pttl: i64,
    pub kind: Option<String>,
    pub holds: Option<i64>,
    pub bytes: Option<u64>,
}

/// How closely a key is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closely {
    Expiry,
    /// And what it holds.
    Content,
    /// And what that takes.
    Memory,
}

impl Eye {
    /// At the rows of this table, or at keys where there is none.
    pub async fn on(address: SocketAddr, table: Option<Table>) -> anyhow::Result<Self> {
        match table {
            Some(table) => Ok(Self::Rows(rows(address).await?, table)),
            None => super::drive::admin(address).await.map(Self::Keys),
        }
    }

    /// The connection to a Redis, for what only that knows.
    pub fn keys(&self) -> anyhow::Result<&Patient> {
        match self {
            Self::Keys(patient) => Ok(patient),
            Self::Rows(..) => bail!("this is asked of a Redis, and there is none"),
        }
    }

    /// The keys that hold this text, each once.
    pub async fn list(&mut self, text: &str) -> anyhow::Result<Vec<String>> {
        match self {
            Self::Keys(patient) => Ok(keys_of(patient, text).await?),
            Self::Rows(rows, table) => rows.keys(*table, text).await.map_err(|e| anyhow!(e)),
        }
    }

    pub async fn look(&mut self, key: &str, closely: Closely) -> anyhow::Result<Seen> {
        match self {
            Self::Keys(patient) => look_at_key(patient, key, closely).await,
            Self::Rows(rows, table) => {
                let found = rows.look(*table, key).await.map_err(|e| anyhow!(e))?;
                let pttl = found.as_ref().map_or(-2, |row| if row.left_ms > 0 { row.left_ms } else { -1 });
                let kind = found.as_ref().map(|_| "row".to_owned());
                Ok(Seen { pttl, kind, holds: found.map(|row| row.count), bytes: None })
            }
        }
    }

    pub async fn remove(&mut self, key: &str) -> anyhow::Result<()> {
        match self {
            Self::Keys(patient) => Ok(redis::cmd("DEL").arg(key).exec_async(patient).await?),
            Self::Rows(rows, table) => rows.remove(*table, key).await.map_err(|e| anyhow!(e)),
        }
    }

    /// Lets the windows of these rows be over: what is there then stays until somebody removes it. Nothing of keys,
    /// which say themselves how long they live.
    pub async fn outlive(&mut self, text: &str, window_ms: u64) -> anyhow::Result<()> {
        let Self::Rows(rows, table) = self else { return Ok(()) };
        rows.age(*table, text, i64::try_from(window_ms)?).await.map_err(|e| anyhow!(e))
    }
}

async fn look_at_key(patient: &mut Patient, key: &str, closely: Closely) -> anyhow::Result<Seen> {
    let pttl: i64 = redis::cmd("PTTL").arg(key).query_async(patient).await?;
    let mut seen = Seen { pttl, kind: None, holds: None, bytes: None };
    if closely != Closely::Expiry {
        let kind: String = redis::cmd("TYPE").arg(key).query_async(patient).await?;
        seen.holds = held(patient, key, &kind).await?;
        if closely == Closely::Memory {
            seen.bytes = memory(patient, key).await?;
        }
        seen.kind = Some(kind);
    }
    Ok(seen)
}

async fn rows(address: SocketAddr) -> anyhow::Result<Rows> {
    let connected = Rows::connect(address).await.map_err(|e| anyhow!(e));
    connected.with_context(|| format!("the PostgreSQL at {address} cannot be reached"))
}

/// How the server introduces itself. One that keeps rows is given its tables here.
pub async fn introduced(server: &dyn Server, tables: &[Table]) -> anyhow::Result<ServerInfo> {
    if server.program() != ServerProgram::Postgres {
        return super::drive::server_info(&mut super::drive::admin(server.address()).await?).await;
    }
    let rows = rows(server.address()).await?;
    rows.make(tables).await.map_err(|e| anyhow!(e)).context("its tables cannot be made")?;
    let version = rows.version().await.map_err(|e| anyhow!(e))?;
    Ok(ServerInfo { flavour: "postgresql".to_owned(), version })
}

/// Whether a server that was struck answers again.
pub async fn answers(server: &dyn Server) -> Result<(), String> {
    match server.program() {
        ServerProgram::Postgres => Rows::connect(server.address()).await?.version().await.map(|_| ()),
        ServerProgram::Server | ServerProgram::Sentinel => {
            let pinged = async {
                let mut connection = Patient::connect(server.address()).await?;
                redis::cmd("PING").exec_async(&mut connection).await
            };
            pinged.await.map_err(|e: redis::RedisError| e.to_string())
        }
    }
}
