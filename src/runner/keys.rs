//! The keys of a round, as the store shows them.

use std::collections::BTreeSet;

use super::drive::Drive;
use super::eye::{Closely, Eye, Seen};
use crate::clients::patient::Patient;
use crate::model::history::Event;

/// Which keys are a round's.
pub struct RoundKeys {
    prefix: String,
    /// What was there before, where the keys of the round cannot be told by their names: some libraries keep a
    /// hash of the key that they are given.
    before: Option<BTreeSet<String>>,
}

impl RoundKeys {
    pub async fn from_now(drive: &Drive<'_>, eye: &mut Eye, prefix: &str) -> anyhow::Result<Self> {
        let before = match drive.cell.process() {
            Some(_) => Some(eye.list("").await?.into_iter().collect()),
            None => None,
        };
        Ok(Self { prefix: prefix.to_owned(), before })
    }

    /// What all of them hold, and with them perhaps others.
    pub fn pattern(&self) -> &str {
        if self.before.is_some() { "" } else { &self.prefix }
    }

    pub async fn list(&self, eye: &mut Eye) -> anyhow::Result<Vec<String>> {
        let mut keys = eye.list(self.pattern()).await?;
        if let Some(before) = &self.before {
            keys.retain(|key| !before.contains(key));
        }
        Ok(keys)
    }

    /// Lists the round's keys (a limiter may put something before the key it was given) to the end and records the expiry of each.
    pub async fn probe(&self, drive: &Drive<'_>, eye: &mut Eye) -> anyhow::Result<()> {
        let closely = if drive.cell.setup.observe.memory { Closely::Memory } else { Closely::Expiry };
        for key in self.list(eye).await? {
            let seen = eye.look(&key, closely).await?;
            record(drive, key, seen);
        }
        Ok(())
    }

    /// Takes down which rows are within their windows, and lets those be over: whatever a later look finds stays
    /// until somebody removes it. Keys say themselves how long they live, so nothing is done to them.
    pub async fn outlive(&self, drive: &Drive<'_>, eye: &mut Eye) -> anyhow::Result<()> {
        let (Eye::Rows(..), Some(window)) = (&*eye, drive.cell.contract().key_ttl_at_most) else {
            return Ok(());
        };
        for key in self.list(eye).await? {
            let seen = eye.look(&key, Closely::Expiry).await?;
            if seen.pttl > 0 {
                record(drive, key, seen);
            }
        }
        eye.outlive(self.pattern(), window.millis()).await
    }
}

fn record(drive: &Drive<'_>, key: String, Seen { pttl, kind, holds, bytes }: Seen) {
    let kind = kind.filter(|k| k != "none");
    drive.recorder.event(Event::Probe { key, pttl, at: drive.recorder.now(), holds, bytes, kind });
}

/// The keys that hold this prefix, each once.
pub async fn keys_of(connection: &mut Patient, prefix: &str) -> Result<Vec<String>, redis::RedisError> {
    let mut all = Vec::new();
    let mut cursor: u64 = 0;
    loop {
        let scan = redis::cmd("SCAN")
            .arg(cursor)
            .arg("MATCH")
            .arg(format!("*{prefix}*"))
            .arg("COUNT")
            .arg(1000)
            .to_owned();
        let (next, keys): (u64, Vec<String>) = scan.query_async(connection).await?;
        all.extend(keys);
        cursor = next;
        if cursor == 0 {
            // A key may be told twice while the table grows.
            all.sort();
            all.dedup();
            return Ok(all);
        }
    }
}

/// A counter's value, or how many members the key has.
pub async fn held(connection: &mut Patient, key: &str, kind: &str) -> anyhow::Result<Option<i64>> {
    let ask = match kind {
        "string" => "GET",
        "zset" => "ZCARD",
        "hash" => "HLEN",
        "list" => "LLEN",
        "set" => "SCARD",
        _ => return Ok(None),
    };
    let answer: redis::Value = redis::cmd(ask).arg(key).query_async(connection).await?;
    Ok(redis::from_redis_value(answer).ok())
}

/// What the server says the key takes, all its members counted.
pub async fn memory(connection: &mut Patient, key: &str) -> anyhow::Result<Option<u64>> {
    let ask = redis::cmd("MEMORY").arg("USAGE").arg(key).arg("SAMPLES").arg(0).to_owned();
    Ok(ask.query_async(connection).await?)
}
