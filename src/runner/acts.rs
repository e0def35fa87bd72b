//! What somebody else does to the store while it is called, done and recorded.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::faults::Faults;
use super::keys::keys_of;
use super::record::Recorder;
use super::stats::Stats;
use crate::clients::patient::Patient;
use crate::model::history::Event;
use crate::model::scenario::{Act, PlannedAct, PlannedFault, WorkloadPlan};
use crate::model::units::{Nanos, Span};
use crate::ports::BoxFuture;
use crate::ports::workload::Actor;

/// Loops until it has taken so long, and at most so many turns.
///
/// From Redis 7.2 on, TIME stands still inside a script: there the turns alone end it, as many as
/// were measured to take that long. Everywhere they bound it.
/// `ARGV`: how long in µs, most turns. Returns the turns, and the µs that TIME says it took.
const BUSY: &str = "
local function now() local t = redis.call('TIME') return t[1] * 1000000 + t[2] end
local began, turns, took = now(), 0, 0
repeat
  for _ = 1, 1000 do end
  turns = turns + 1
  took = now() - began
until took >= tonumber(ARGV[1]) or turns >= tonumber(ARGV[2])
return {turns, took}";

/// Turns to measure the server's pace with: some ten milliseconds.
const TRIAL: u64 = 2_000;

/// The lab's own keys; no limiter's begins so.
const MARKER: &str = "rl-lab-wait";
const FILL: &str = "rl-lab-fill:";

async fn filled(connection: &mut Patient) -> Result<Vec<String>, redis::RedisError> {
    redis::cmd("KEYS").arg(format!("{FILL}*")).query_async(connection).await
}

/// How far a store that is full is left beyond its bound, in bytes.
const BEYOND: u64 = 16 << 20;

/// Takes a store that refuses far beyond its bound, so that it goes on refusing; whether that could be done.
///
/// What its clients' buffers hold counts as used, and so does a table that it is growing out of: it has all of that back
/// within seconds, and room again. A command is refused for what is used before it, so the last one that fits may
/// take as much as it likes; one that carries it all would have to fit as well.
async fn overfill(connection: &mut Patient, written: u32) -> Result<bool, redis::RedisError> {
    for n in (0..written).rev() {
        let mut grow = redis::cmd("SETRANGE");
        match grow.arg(format!("{FILL}beyond")).arg(BEYOND).arg("x").exec_async(connection).await {
            Ok(()) => return Ok(true),
            Err(error) if error.code().is_some() => {}
            Err(error) => return Err(error),
        }
        redis::cmd("DEL").arg(format!("{FILL}{n}")).exec_async(connection).await?;
    }
    Ok(false)
}

pub struct Acts {
    /// To a Redis, where the store is one.
    connection: Option<Patient>,
    recorder: Arc<Recorder>,
    /// What a turn of the busy script takes, in ns.
    turn_ns: u64,
    /// Whether TIME moves inside a script.
    time_moves: bool,
    failed: Mutex<Option<redis::RedisError>>,
    faults: Option<Arc<Faults>>,
    /// What the keys of the round have in their names.
    prefix: Mutex<String>,
}

impl Acts {
    /// Measures the server's pace where a busy script is planned.
    pub async fn new(
        connection: Option<Patient>,
        recorder: Arc<Recorder>,
        plan: &WorkloadPlan,
        faults: Option<Arc<Faults>>,
    ) -> Result<Self, redis::RedisError> {
        let (failed, prefix) = (Mutex::new(None), Mutex::default());
        let mut acts = Self { connection, recorder, turn_ns: 1, time_moves: true, failed, faults, prefix };
        if plan.acts.iter().any(|a| a.act == Act::BusyScript) {
            // The fastest of three: what else runs on the machine only makes it slower.
            let mut fastest = u64::MAX;
            for _ in 0..3 {
                let before = acts.recorder.now();
                let (turns, took) = acts.busy(u64::MAX >> 16, TRIAL).await?;
                let ns = u64::try_from(acts.recorder.now().0 - before.0).unwrap_or(u64::MAX);
                fastest = fastest.min(ns / turns.max(1));
                acts.time_moves = took > 0;
            }
            acts.turn_ns = fastest.max(1);
        }
        Ok(acts)
    }

    /// Does what is planned beside the calls, until those are `over`. An act is not cut short.
    pub async fn beside(&self, plan: &WorkloadPlan, began: Nanos, mut over: oneshot::Receiver<()>) {
        let planned = plan.acts.iter().filter(|a| a.act.is_beside());
        let mut agenda: Vec<(i64, &PlannedAct)> =
            planned.flat_map(|a| a.times().map(move |t| (t, a))).collect();
        agenda.sort_by_key(|(at, _)| *at);
        for (at, act) in agenda {
            let left = began.0.saturating_add(at).saturating_sub(self.recorder.now().0);
            let wait = tokio::time::sleep(Duration::from_nanos(u64::try_from(left).unwrap_or(0)));
            tokio::select! {
                biased;
                _ = &mut over => return,
                () = wait => self.act(act).await,
            }
        }
    }

    /// Tells what the keys of the next round have in their names.
    pub fn begin_round(&self, prefix: &str) {
        prefix.clone_into(&mut self.prefix.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Why an act could not be done, if so.
    pub fn failure(&self) -> Option<redis::RedisError> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn connection(&self) -> Result<Patient, redis::RedisError> {
        let none = || std::io::Error::other("what is planned is done to a Redis, and there is none").into();
        self.connection.clone().ok_or_else(none)
    }

    /// Does it, and says what came of it.
    async fn perform(&self, planned: &PlannedAct) -> Result<Option<String>, redis::RedisError> {
        let mut connection = self.connection()?;
        match planned.act {
            Act::ScriptFlush => redis::cmd("SCRIPT").arg("FLUSH").exec_async(&mut connection).await?,
            Act::BusyScript => {
                let us = planned.lasts.map_or(0, Span::millis) * 1_000;
                let turns = us * 1_000 / self.turn_ns;
                // Where TIME ends it, the turns only keep it from going on for ever.
                let most = if self.time_moves { turns * 10 } else { turns };
                self.busy(us, most.max(1)).await?;
            }
            Act::Wait => {
                redis::cmd("SET").arg(MARKER).arg(1).exec_async(&mut connection).await?;
                let wait = redis::cmd("WAIT").arg(1).arg(500).to_owned();
                let have: u64 = wait.query_async(&mut connection).await?;
                redis::cmd("DEL").arg(MARKER).exec_async(&mut connection).await?;
                return Ok(Some(format!("WAIT 1 500 says {have}")));
            }
            Act::Lift => {
                let prefix = self.prefix.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let listed = keys_of(&mut connection, &prefix).await?;
                for key in &listed {
                    redis::cmd("DEL").arg(key).exec_async(&mut connection).await?;
                }
                return Ok(Some(format!("{} keys removed", listed.len())));
            }
            Act::Fill => return self.fill(planned).await.map(Some),
            Act::Empty => {
                for key in filled(&mut connection).await? {
                    redis::cmd("DEL").arg(key).exec_async(&mut connection).await?;
                }
            }
        }
        Ok(None)
    }

    /// Writes what fills the store. What the store refuses is counted, it is what there is to see.
    async fn fill(&self, planned: &PlannedAct) -> Result<String, redis::RedisError> {
        let mut connection = self.connection()?;
        let (count, bytes) =
            (planned.count.map_or(0, NonZeroU32::get), planned.bytes.map_or(0, NonZeroU32::get));
        let value = vec![b'x'; bytes as usize];
        let before = Stats::of(&mut connection).await?;
        let (mut accepted, mut refusal) = (0, None);
        for n in 0..count {
            let mut set = redis::cmd("SET");
            set.arg(format!("{FILL}{n}")).arg(value.as_slice());
            if let Some(ttl) = planned.ttl {
                set.arg("PX").arg(ttl.millis());
            }
            match set.exec_async(&mut connection).await {
                Ok(()) => accepted += 1,
                Err(error) if error.code().is_some() => {
                    refusal.get_or_insert(error.to_string());
                }
                Err(error) => return Err(error),
            }
        }
        let stays = refusal.is_some() && overfill(&mut connection, count).await?;
        let gone = Stats::of(&mut connection).await?.since(before).evicted_keys;
        let refused = refusal.map(|why| format!(", {} refused: {why}", count - accepted)).unwrap_or_default();
        let full = if stays { "; left full" } else { "" };
        Ok(format!("{accepted} of {count} keys accepted{refused}; {gone} keys evicted{full}"))
    }

    async fn busy(&self, us: u64, turns: u64) -> Result<(u64, u64), redis::RedisError> {
        let mut connection = self.connection()?;
        redis::cmd("EVAL").arg(BUSY).arg(0).arg(us).arg(turns).query_async(&mut connection).await
    }
}

impl Actor for Acts {
    fn unsettled(&self) -> bool {
        self.faults.as_ref().is_some_and(|faults| faults.unsettled())
    }

    fn strike<'a>(&'a self, planned: &'a PlannedFault) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Some(faults) = &self.faults {
                faults.strike(planned).await;
            }
        })
    }

    fn act<'a>(&'a self, planned: &'a PlannedAct) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let invoke = self.recorder.now();
            match self.perform(planned).await {
                Ok(told) => {
                    let complete = self.recorder.now();
                    self.recorder.event(Event::Act { act: planned.act, invoke, complete, told });
                }
                Err(error) => {
                    self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            }
        })
    }
}
