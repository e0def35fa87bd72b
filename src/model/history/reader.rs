//! From events, in the order in which they were written, to a history. What does not follow is refused with
//! its line.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    Acted, Cell, Crashed, Event, Faulted, History, LANE, Preset, Probe, Round, RunHeader, SCHEMA, Touch,
};
use crate::model::op::{Completion, Decision, NODE_DIED, Note, Op};
use crate::model::report::{CellReport, Honesty, ScenarioSummary};
use crate::model::units::{Limit, Nanos, OpId};

/// Why a history cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    #[error("line {line}: not a history event: {why}")]
    Line { line: usize, why: String },
    #[error("line {line}: {why}")]
    Order { line: usize, why: &'static str },
    #[error("history schema {found} is not known here (this is {SCHEMA}); use the rl-lab that wrote it")]
    Schema { found: u64 },
    #[error("the history is empty")]
    Empty,
}

/// Reads events in the order they were written.
#[derive(Debug, Default)]
pub struct Builder {
    header: Option<RunHeader>,
    ground: Honesty,
    scenarios: Vec<ScenarioSummary>,
    cells: Vec<Cell>,
    searched: Vec<CellReport>,
    /// Where in `cells` the open one of each lane is.
    lanes: BTreeMap<u32, usize>,
    ended: Option<(u8, Option<String>)>,
    line: usize,
    /// A line that did not parse: forgiven if it turns out to be the last.
    broken: Option<HistoryError>,
}

impl Builder {
    /// Takes one line. The last line of a history may be cut; any other must be whole.
    pub fn line(&mut self, text: &str) -> Result<(), HistoryError> {
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        self.line += 1;
        if self.ended.is_some() && !text.trim().is_empty() {
            return Err(self.order("text after the end of the run"));
        }
        if text.trim().is_empty() {
            return Ok(());
        }
        match serde_json::from_str::<Event>(text) {
            Ok(event) => self.event(lane_of(text), event),
            Err(error) => {
                // A newer format may not even parse: say so rather than point at a field.
                if self.line == 1 {
                    let found =
                        serde_json::from_str::<Value>(text).ok().and_then(|v| v.get("schema")?.as_u64());
                    if let Some(found) = found.filter(|f| *f != u64::from(SCHEMA)) {
                        return Err(HistoryError::Schema { found });
                    }
                }
                self.broken = Some(HistoryError::Line { line: self.line, why: error.to_string() });
                Ok(())
            }
        }
    }

    fn order(&self, why: &'static str) -> HistoryError {
        HistoryError::Order { line: self.line, why }
    }

    fn event(&mut self, lane: Option<u32>, event: Event) -> Result<(), HistoryError> {
        if self.ended.is_some() {
            return Err(self.order("an event after the end of the run"));
        }
        match event {
            Event::Run(header) => {
                if self.header.is_some() {
                    return Err(self.order("a second header"));
                }
                if header.schema != SCHEMA {
                    return Err(HistoryError::Schema { found: header.schema.into() });
                }
                self.header = Some(header);
                return Ok(());
            }
            Event::End { exit, error } => {
                self.ended = Some((exit, error));
                return Ok(());
            }
            Event::Ground { honesty } => {
                self.ground = honesty;
                return Ok(());
            }
            Event::Scenario(summary) => {
                self.scenarios.push(summary);
                return Ok(());
            }
            Event::Searched(cell) => {
                self.searched.push(*cell);
                return Ok(());
            }
            Event::Cell(header) => {
                let Some(run) = &self.header else {
                    return Err(self.order("a cell before the run's header"));
                };
                self.lanes.insert(lane.unwrap_or(0), self.cells.len());
                self.cells.push(Cell {
                    header: *header,
                    epoch_ns_at_zero: run.epoch_ns_at_zero,
                    rounds: Vec::new(),
                    honesty: None,
                });
                return Ok(());
            }
            _ => {}
        }
        let line = self.line;
        let place = self.lanes.get(&lane.unwrap_or(0)).copied();
        let Some(cell) = place.and_then(|place| self.cells.get_mut(place)) else {
            return Err(HistoryError::Order { line, why: "an event before the first cell" });
        };
        if cell.honesty.is_some() {
            return Err(HistoryError::Order { line, why: "an event after the end of its cell" });
        }
        match event {
            Event::CellEnd { honesty } => cell.honesty = Some(honesty),
            Event::Round { index, at, epoch_ns_at_zero } => {
                let next = cell.rounds.len() as u64 + 1;
                if u64::from(index) != next || index > cell.header.rounds {
                    return Err(HistoryError::Order {
                        line,
                        why: "rounds are not numbered from 1 as planned",
                    });
                }
                cell.rounds.push(Round::starting(index, at, epoch_ns_at_zero));
            }
            other => {
                let Some(round) = cell.rounds.last_mut() else {
                    return Err(HistoryError::Order { line, why: "an event before the first round" });
                };
                apply(round, cell.header.limit, other).map_err(|why| HistoryError::Order { line, why })?;
            }
        }
        Ok(())
    }

    /// The history read so far, however much of it there is.
    pub fn finish(self) -> Result<History, HistoryError> {
        let header = match (self.header, self.broken) {
            (Some(header), _) => header,
            (None, Some(error)) => return Err(error),
            (None, None) => return Err(HistoryError::Empty),
        };
        Ok(History {
            header,
            ground: self.ground,
            scenarios: self.scenarios,
            cells: self.cells,
            searched: self.searched,
            ended: self.ended,
        })
    }
}

/// The lane that a line names, which is the first thing it says.
fn lane_of(line: &str) -> Option<u32> {
    let rest = line.strip_prefix(LANE)?;
    rest[..rest.find(',')?].parse().ok()
}

/// Applies an event that belongs to a round.
pub fn apply(round: &mut Round, limit: Limit, event: Event) -> Result<(), &'static str> {
    if round.complete {
        return Err("an event after the end of its round");
    }
    let completion = match event {
        Event::Preset { key, used, node, invoke, complete } => {
            if complete < invoke {
                return Err("a preset that completes before it was invoked");
            }
            let key = round.key(&key);
            round.presets.push(Preset { key, node, used, invoke, complete });
            return Ok(());
        }
        Event::Invoke { op, node, key, cost, at } => {
            if op.0 as usize != round.ops.len() {
                return Err("ops are not numbered in the order of their invocation");
            }
            let key = round.key(&key);
            round.ops.push(Op::new(op, node, key, cost, at));
            return Ok(());
        }
        Event::Http { op, answer } => {
            let known = (op.0 as usize) < round.ops.len();
            if !known || round.http.insert(op.0, answer).is_some() {
                return Err("an answer to no call, or a second one");
            }
            return Ok(());
        }
        Event::Probe { key, pttl, at, holds, bytes, kind } => {
            round.probes.push(Probe { key, pttl, at, holds, bytes, kind });
            return Ok(());
        }
        Event::Crash { point, left, at } => {
            if round.crash.is_some() {
                return Err("a second crash of the first call's node");
            }
            round.crash = Some(Crashed { point, left, at });
            return Ok(());
        }
        Event::Touch { op, keys, refused, at } => {
            round.touches.push(Touch { op, keys, refused, at });
            return Ok(());
        }
        Event::Act { act, invoke, complete, told } => {
            if complete < invoke {
                return Err("an act that completes before it was begun");
            }
            round.acts.push(Acted { act, invoke, complete, told });
            return Ok(());
        }
        Event::Begin { at } => {
            if !round.ops.is_empty() {
                return Err("a round that begins after its first call");
            }
            round.began = at;
            return Ok(());
        }
        Event::Adapter { name, .. } => {
            round.adapters.insert(name);
            return Ok(());
        }
        Event::Change { what, at } => {
            round.changes.push((at, what));
            return Ok(());
        }
        Event::Fault { id, fault, on, asked, at, told } => {
            if at < asked || id as usize != round.faults.len() + 1 {
                return Err("faults are not numbered in the order of their injection");
            }
            round.faults.push(Faulted { id, fault, on, asked, from: at, lifted: None, over: None, told });
            return Ok(());
        }
        Event::FaultEnd { id, asked, at } => {
            let known = round.faults.iter_mut().find(|f| f.id == id && f.over.is_none());
            let fault = known.ok_or("the end of a fault that was not in force")?;
            if at < asked || asked < fault.from {
                return Err("a fault that ends before it was injected");
            }
            (fault.lifted, fault.over) = (Some(asked), Some(at));
            return Ok(());
        }
        Event::Load { commands, cpu_us, .. } => {
            round.loads.push(commands);
            round.cpus_us.extend(cpu_us);
            return Ok(());
        }
        Event::Stats { evicted_keys, noscript, .. } => {
            round.evicted_keys = Some(round.evicted_keys.unwrap_or(0) + evicted_keys);
            round.noscript = noscript.map(|n| round.noscript.unwrap_or(0) + n);
            return Ok(());
        }
        Event::Stall { from, at } => {
            round.stalls.push((from, at));
            return Ok(());
        }
        Event::Aside { invoke, complete } => {
            if complete < invoke {
                return Err("a request that completes before it arrived");
            }
            round.asides.push((invoke, complete));
            return Ok(());
        }
        Event::Disbelieved { why, .. } => {
            round.disbelieved.get_or_insert(why);
            return Ok(());
        }
        Event::ProbesComplete { .. } => {
            round.probes_complete = true;
            return Ok(());
        }
        Event::RoundEnd { clock_step_ns, ops, trips, most_trips, .. } => {
            if round.ops.len() as u64 != u64::from(ops) || round.answered != ops {
                return Err("a round whose calls or their ends are missing");
            }
            round.clock_step_ns = clock_step_ns;
            (round.trips, round.most_trips) = (trips, most_trips);
            round.complete = true;
            return Ok(());
        }
        Event::Ok { op, allowed, remaining, retry_after_ms, source, at, clock_us, contact, near } => {
            let retry_after = retry_after_ms.map(std::time::Duration::from_millis);
            if let Some(known) = round.ops.get_mut(op.0 as usize) {
                known.clock_us = clock_us.and_then(|us| u64::try_from(us).ok()).into();
            }
            round.note(op, Note { contact, near });
            (op, at, Completion::Ok(Decision { allowed, remaining, limit, retry_after, reset: None, source }))
        }
        Event::Fail { op, error, at } => (op, at, Completion::Fail(error)),
        Event::Info { op, error, at } => (op, at, Completion::Info(error)),
        Event::Run(_)
        | Event::Ground { .. }
        | Event::Scenario(_)
        | Event::Cell(_)
        | Event::Searched(_)
        | Event::Round { .. }
        | Event::CellEnd { .. }
        | Event::End { .. } => {
            return Err("not an event of a round");
        }
    };
    let (id, at, completion) = completion;
    complete(round, id, at, &completion)
}

/// Writes a completion into its op.
pub fn complete(round: &mut Round, id: OpId, at: Nanos, completion: &Completion) -> Result<(), &'static str> {
    let op = round.ops.get_mut(id.0 as usize).ok_or("a completion without its invocation")?;
    if op.complete != Op::NEVER || round.answers.contains_key(&id.0) {
        return Err("an op that completes twice");
    }
    if at < op.invoke {
        return Err("an op that completes before it was invoked");
    }
    op.finish(at, completion);
    round.answered += 1;
    if op.complete == Op::NEVER {
        round.answers.insert(id.0, at);
    }
    round.at_work += u32::from(matches!(completion, Completion::Info(error) if error != NODE_DIED));
    if let Completion::Fail(error) | Completion::Info(error) = completion {
        *round.errors.entry(error.clone()).or_default() += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_last_line_is_forgiven_and_a_broken_middle_is_not() {
        let head = r#"{"type":"run","schema":1,"lab":"0","id":"r","seed":1,"command":[],"started":"","epoch_ns_at_zero":0}"#;
        let mut b = Builder::default();
        b.line(head).unwrap();
        b.line(r#"{"type":"rou"#).unwrap();
        assert_eq!(b.finish().unwrap().ended, None);
        let mut b = Builder::default();
        b.line(head).unwrap();
        b.line("garbage").unwrap();
        assert!(matches!(b.line("{}"), Err(HistoryError::Line { line: 2, .. })));
    }

    #[test]
    fn a_history_of_another_schema_is_refused() {
        let mut b = Builder::default();
        let found = b.line(r#"{"type":"run","schema":9,"new":true}"#);
        assert_eq!(found, Err(HistoryError::Schema { found: 9 }));
    }
}
