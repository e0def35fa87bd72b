//! How calls are offered: the `[workload]` of a scenario.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::{PlannedAct, PlannedDeploy, PlannedScale, Time};
use crate::model::http::Form;
use crate::model::units::{Cost, Limit, Span, Window};

/// How calls are offered. Which fields a shape uses is said in its own file under `workloads/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadPlan {
    pub shape: Shape,
    /// Calls per round, all nodes together. A sequence lists its calls instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<NonZeroU32>,
    /// Connections to the store, all nodes together.
    pub connections: NonZeroU32,
    /// Calls open at the same time, all nodes together. Several calls share a connection where
    /// this is above `connections`.
    pub in_flight: NonZeroU32,
    /// App servers: each has its own clock, connections and local state.
    #[serde(default = "one")]
    pub nodes: NonZeroU32,
    /// How much of the traffic each of them gets, in proportion; all the same where absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<u32>,
    /// App servers come and go.
    #[serde(default, rename = "scale", skip_serializing_if = "Vec::is_empty")]
    pub scales: Vec<PlannedScale>,
    /// New versions of the limiter are rolled out.
    #[serde(default, rename = "deploy", skip_serializing_if = "Vec::is_empty")]
    pub deploys: Vec<PlannedDeploy>,
    /// What an app server is.
    #[serde(default, skip_serializing_if = "is_tasks")]
    pub nodes_as: NodesAs,
    /// How honest the front of a node is, where that is one.
    #[serde(default, skip_serializing_if = "Form::is_honest")]
    pub front: Form,
    #[serde(default = "one")]
    pub rounds: NonZeroU32,
    /// What counts as already used when a round begins.
    #[serde(default)]
    pub preset: u64,
    /// Connect on the first call of the round instead of before it.
    #[serde(default)]
    pub cold_pool: bool,
    /// From the planned time of one call to that of the next; on average where gaps are drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Window>,
    /// Identities that take part, each with a key of its own.
    #[serde(default = "one")]
    pub keys: NonZeroU32,
    /// What an identity is called; several get numbers.
    #[serde(default = "user", skip_serializing_if = "is_user")]
    pub key: String,
    /// The most a call costs; each draws its cost from 1 up to this.
    #[serde(default = "cost_one", skip_serializing_if = "costs_one")]
    pub cost: Cost,
    /// How many calls each client of `retry` needs admitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub successes: Option<NonZeroU32>,
    /// What a client of `retry` does next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behaviour: Option<Behaviour>,
    /// Requests that a node works on at a time, as a server with so many workers does; all at once where
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<NonZeroU32>,
    /// Every so many requests, one more comes for a route without a limiter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aside_every: Option<NonZeroU32>,
    /// All variants are driven at the same time, under the same faults.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub together: bool,
    /// Begin the round where a clock-aligned window begins.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_edge: bool,
    /// The calls of a sequence, in the order of their times.
    #[serde(default, rename = "call", skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<PlannedCall>,
    /// The node of the first call dies in it: a round for each step of the call, before and after it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub crash_at_every_step: bool,
    /// What somebody else does to the store meanwhile.
    #[serde(default, rename = "act", skip_serializing_if = "Vec::is_empty")]
    pub acts: Vec<PlannedAct>,
}

/// Calls of a sequence: one, or several with equal gaps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedCall {
    /// From the beginning of the round to the first of them.
    pub at: Span,
    #[serde(default = "one")]
    pub times: NonZeroU32,
    #[serde(default)]
    pub every: Span,
    #[serde(default = "cost_one")]
    pub cost: Cost,
    /// The identity that calls; what the round's keys begin with comes before it.
    #[serde(default = "user")]
    pub key: String,
    /// The node they go to; in turn where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u16>,
}

/// What an app server is made of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodesAs {
    /// Connections, a limiter and a clock within the lab.
    #[default]
    Tasks,
    /// A process of its own: it can be killed, and its process' clock set apart.
    Processes,
    /// As `Tasks`, each behind an HTTP server on a port of its own.
    Http,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_tasks(nodes_as: &NodesAs) -> bool {
    *nodes_as == NodesAs::Tasks
}

pub(super) fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

fn cost_one() -> Cost {
    Cost::ONE
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn costs_one(cost: &Cost) -> bool {
    *cost == Cost::ONE
}

fn user() -> String {
    "user".to_owned()
}

fn is_user(key: &str) -> bool {
    key == "user"
}

/// The name of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    Burst,
    Steady,
    Sequence,
    Mixed,
    Obedient,
    Open,
    Retry,
}

/// What a client does that was refused, or wants not to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Behaviour {
    AtOnce,
    Fixed,
    RetryAfter,
    RetryAfterMs,
    Pace,
}

impl Behaviour {
    pub const ALL: [Self; 5] = [Self::AtOnce, Self::Fixed, Self::RetryAfter, Self::RetryAfterMs, Self::Pace];

    fn in_words(self) -> &'static str {
        match self {
            Self::AtOnce => "refused ones come back at once",
            Self::Fixed => "refused ones come back after a fixed pause",
            Self::RetryAfter => "refused ones come back when told, in whole seconds",
            Self::RetryAfterMs => "refused ones come back when told, to the millisecond",
            Self::Pace => "they pace themselves by what is left",
        }
    }
}

impl Shape {
    pub const ALL: [Self; 7] =
        [Self::Burst, Self::Steady, Self::Sequence, Self::Mixed, Self::Obedient, Self::Open, Self::Retry];

    pub fn name(self) -> &'static str {
        match self {
            Self::Burst => "burst",
            Self::Steady => "steady",
            Self::Sequence => "sequence",
            Self::Mixed => "mixed",
            Self::Obedient => "obedient",
            Self::Open => "open",
            Self::Retry => "retry",
        }
    }
}

impl WorkloadPlan {
    /// The largest load a run may ask for: it stays bounded in count.
    const MOST_REQUESTS: u64 = 10_000_000;
    const MOST_CONNECTIONS: u32 = 1_000;
    const MOST_IN_FLIGHT: u32 = 20_000;
    const MOST_KEYS: u32 = 100_000;
    const MOST_PROCESSES: u32 = 64;

    /// Calls of a round. An obedient client may stop before it has made all of them.
    pub fn requests(&self) -> u64 {
        match self.requests {
            Some(requests) => u64::from(requests.get()),
            None => self.calls.iter().map(|c| u64::from(c.times.get())).sum(),
        }
    }

    /// About how long a round's calls are planned to take; nothing for a burst, and for clients that take as
    /// long as they are made to.
    pub fn planned(&self, window: Window) -> Span {
        let ms = match (self.shape, self.every) {
            (Shape::Burst | Shape::Retry, _) => 0,
            (Shape::Sequence, _) => self.last_call_ms(),
            // The last refusal, and as long as it may be told to wait; those that are late in the window are told less.
            (Shape::Obedient, every) => {
                every.map_or(0, Window::millis) * u64::from(self.keys.get()) + 2 * window.millis()
            }
            (shape, every) => {
                // In two windows everything comes back that was used up first.
                let back = if shape == Shape::Mixed { 2 * window.millis() } else { 0 };
                every.map_or(0, Window::millis).saturating_mul(self.requests()).saturating_add(back)
            }
        };
        Span::from_millis(ms).unwrap_or_default()
    }

    pub(super) fn last_call_ms(&self) -> u64 {
        let last = |c: &PlannedCall| c.at.millis() + c.every.millis() * u64::from(c.times.get() - 1);
        self.calls.iter().map(last).max().unwrap_or(0)
    }

    /// The key of an identity, without what the round's keys begin with.
    pub fn identity(&self, number: u32) -> String {
        if self.keys.get() == 1 { self.key.clone() } else { format!("{}-{number}", self.key) }
    }

    pub fn validate(&self) -> Result<(), String> {
        let check = |what: &str, value: u64, most: u64| {
            if value > most {
                Err(format!("{what} = {value} is above the most the lab offers, {most}"))
            } else {
                Ok(())
            }
        };
        self.shape_fits()?;
        self.acts_fit()?;
        self.crash_fits()?;
        check("requests", self.requests(), Self::MOST_REQUESTS)?;
        check("connections", self.connections.get().into(), Self::MOST_CONNECTIONS.into())?;
        check("in_flight", self.in_flight.get().into(), Self::MOST_IN_FLIGHT.into())?;
        let nodes = self.most_nodes();
        check("nodes", nodes.into(), Self::MOST_CONNECTIONS.into())?;
        self.fleet_fits()?;
        if self.nodes_as == NodesAs::Processes {
            check("nodes as processes", nodes.into(), Self::MOST_PROCESSES.into())?;
        }
        if self.front != Form::Honest && self.nodes_as != NodesAs::Http {
            return Err(format!("front = \"{}\" belongs to nodes_as = \"http\"", self.front.name()));
        }
        check("rounds", self.rounds.get().into(), 10_000)?;
        check("keys", self.keys.get().into(), Self::MOST_KEYS.into())?;
        if self.connections.get() < nodes {
            return Err(format!(
                "{} connections cannot serve {nodes} nodes: each node needs one of its own",
                self.connections
            ));
        }
        if self.preset > Limit::MAX {
            return Err(format!("preset = {} is above 2^53 - 1", self.preset));
        }
        Ok(())
    }

    /// Each shape has the fields it needs, and none that it would pass over in silence.
    fn shape_fits(&self) -> Result<(), String> {
        use Shape::{Burst, Mixed, Obedient, Open, Retry, Sequence, Steady};
        let name = self.shape.name();
        let of = |field: &str, shapes: &[Shape]| {
            let names: Vec<_> = shapes.iter().map(|s| format!("\"{}\"", s.name())).collect();
            Err(format!("{field} belongs to shape {}, not to \"{name}\"", names.join(" and ")))
        };
        let timed = [Steady, Mixed, Obedient, Open];
        let fixed = self.shape == Retry && self.behaviour == Some(Behaviour::Fixed);
        match self.every {
            None if fixed => return Err("behaviour \"fixed\" needs every, such as \"50ms\"".to_owned()),
            Some(_) if self.shape == Retry && !fixed => {
                return Err("every belongs to behaviour \"fixed\" of shape \"retry\"".to_owned());
            }
            _ => {}
        }
        match self.every {
            None if timed.contains(&self.shape) => {
                return Err(format!("shape \"{name}\" needs every, such as \"50ms\""));
            }
            Some(_) if !fixed && !timed.contains(&self.shape) => return of("every", &timed),
            _ => {}
        }
        match (self.shape, self.requests, self.calls.is_empty()) {
            (Sequence, _, true) => {
                return Err("shape \"sequence\" needs its calls: one [[workload.call]] or more".to_owned());
            }
            (Sequence, Some(_), _) => {
                return Err("shape \"sequence\" lists its calls: requests does not belong to it".to_owned());
            }
            (Sequence, None, false) => {}
            (_, _, false) => return of("[[workload.call]]", &[Sequence]),
            (_, None, _) => return Err(format!("shape \"{name}\" needs requests")),
            _ => {}
        }
        match (self.shape, self.successes.is_some() && self.behaviour.is_some()) {
            (Retry, false) => {
                return Err("shape \"retry\" needs successes and a behaviour, such as \"at-once\"".to_owned());
            }
            (Retry, true) => {}
            _ if self.successes.is_some() || self.behaviour.is_some() => {
                return of("successes and behaviour", &[Retry]);
            }
            _ => {}
        }
        if self.cost != Cost::ONE && self.shape != Mixed {
            return of("cost", &[Mixed]);
        }
        if self.shape == Sequence && self.keys.get() > 1 {
            return of("keys", &[Burst, Steady, Mixed, Obedient, Open, Retry]);
        }
        if self.shape == Burst && self.at_edge {
            return of("at_edge", &[Steady, Sequence, Mixed, Obedient, Open, Retry]);
        }
        let uneven = !self.shares.is_empty() || !self.scales.is_empty();
        if uneven && !matches!(self.shape, Steady | Open) {
            return of("shares and scale", &[Steady, Open]);
        }
        if self.shape != Open && (self.workers.is_some() || self.aside_every.is_some()) {
            return of("workers and aside_every", &[Open]);
        }
        let beyond = |c: &PlannedCall| c.node.is_some_and(|n| u32::from(n) >= self.nodes.get());
        if let Some(call) = self.calls.iter().find(|c| beyond(c)) {
            let node = call.node.unwrap_or_default();
            return Err(format!("a call goes to node {node}, and there are {} from 0 on", self.nodes));
        }
        Ok(())
    }

    /// An act that happens between two calls needs calls that follow each other.
    fn acts_fit(&self) -> Result<(), String> {
        self.acts.iter().try_for_each(PlannedAct::validate)?;
        let between = self.acts.iter().find(|a| !a.act.is_beside());
        match between {
            Some(act) if self.overlaps() => Err(format!(
                "{} is done between two calls, and here several are open at the same time",
                act.act.name()
            )),
            _ => Ok(()),
        }
    }

    /// Who dies makes one call, the first, and nobody else's calls.
    fn crash_fits(&self) -> Result<(), String> {
        if !self.crash_at_every_step {
            return Ok(());
        }
        let what = "crash_at_every_step";
        if self.shape != Shape::Sequence {
            return Err(format!("{what} belongs to shape \"sequence\", not to \"{}\"", self.shape.name()));
        }
        let (first, rest) = self.calls.split_at(1.min(self.calls.len()));
        let dies = |c: &PlannedCall| c.node == Some(0);
        if !first.iter().all(|c| dies(c) && c.times.get() == 1)
            || rest.iter().any(|c| c.node.is_none() || dies(c))
        {
            return Err(format!(
                "{what} needs a first call, once, to node 0, and every other call to another node"
            ));
        }
        if rest.is_empty() {
            return Err(format!("{what} needs calls of others behind the first"));
        }
        let own =
            [("rounds", self.rounds.get() > 1), ("cold_pool", self.cold_pool), ("preset", self.preset > 0)];
        if let Some((field, _)) = own.iter().find(|(_, set)| *set) {
            return Err(format!("{what} makes its rounds itself; leave out {field}"));
        }
        Ok(())
    }

    /// Whether calls may be open at the same time.
    pub fn overlaps(&self) -> bool {
        match self.shape {
            Shape::Burst | Shape::Open => true,
            shape => shape == Shape::Steady && self.in_flight.get() > 1,
        }
    }

    /// Time can be skipped only while no call is open, and nothing goes on beside the calls.
    pub fn time_fits(&self, time: Time) -> Result<(), String> {
        if time == Time::Real {
            return Ok(());
        }
        if self.shape == Shape::Burst {
            return Err("a burst has no waits that could be skipped".to_owned());
        }
        if self.shape == Shape::Open {
            return Err("requests that come whether or not others are open come in real time".to_owned());
        }
        if self.overlaps() {
            return Err("time can be skipped between calls that follow each other: in_flight = 1".to_owned());
        }
        match self.acts.iter().find(|a| a.act.is_beside()) {
            Some(act) => {
                Err(format!("{} goes on beside the calls: its time cannot be skipped", act.act.name()))
            }
            None => Ok(()),
        }
    }

    pub fn in_words(&self) -> String {
        let requests = self.requests();
        let every = self.every.map(|e| e.to_string()).unwrap_or_default();
        let shape = self.shape.name();
        let keys = self.keys.get();
        let mut words = match self.shape {
            Shape::Burst => format!(
                "{shape} of {requests} calls, {} in flight over {} connections from {} node{}",
                u64::from(self.in_flight.get()).min(requests),
                self.connections,
                self.nodes,
                plural(self.nodes.get()),
            ),
            Shape::Steady => format!(
                "{shape} client{}: {requests} calls, one every {every}{}, to {} node{}{}",
                plural(keys.max(self.in_flight.get())),
                if self.overlaps() {
                    format!(", up to {} open at once", self.in_flight)
                } else {
                    String::new()
                },
                self.nodes,
                plural(self.nodes.get()),
                if self.shares.is_empty() && self.nodes.get() > 1 { " in turn" } else { "" },
            ),
            Shape::Sequence => {
                let end = Span::from_millis(self.last_call_ms()).unwrap_or_default();
                format!("{shape} of {requests} calls over {end}")
            }
            Shape::Mixed => format!(
                "{shape} calls: {requests} that cost 1 to {}, one every {every} on average",
                self.cost.get()
            ),
            Shape::Open => {
                let workers = self.workers.map(|w| format!(", {w} workers on each")).unwrap_or_default();
                let aside = self.aside_every.map(|n| format!(", every {n} one more without a limiter"));
                format!(
                    "{shape} loop of {requests} requests, one every {every}, to {} node{}{workers}{}",
                    self.nodes,
                    plural(self.nodes.get()),
                    aside.unwrap_or_default(),
                )
            }
            Shape::Retry => {
                let needed = self.successes.map_or(0, NonZeroU32::get);
                let how = self.behaviour.map(Behaviour::in_words).unwrap_or_default();
                format!("{shape}: each client needs {needed} calls admitted; {how}; at most {requests} calls")
            }
            Shape::Obedient => format!(
                "{shape} clients that wait as they are told, or part of it; first refused {every} apart, and late in the window"
            ),
        };
        if keys > 1 {
            words += &format!(", {keys} keys");
        }
        if self.crash_at_every_step {
            words += ", the node of the first dies in it: a round for each step, before and after it";
        } else {
            words += &format!(", {} round{}", self.rounds, plural(self.rounds.get()));
        }
        words += &self.fleet_in_words();
        match self.nodes_as {
            NodesAs::Tasks => {}
            NodesAs::Processes => words += ", each node a process of its own",
            NodesAs::Http => words += ", each node behind HTTP",
        }
        if self.preset > 0 {
            words += &format!(", {} already used", self.preset);
        }
        if self.cold_pool {
            words += ", cold pool";
        }
        for act in &self.acts {
            words += &format!(", {}", act.in_words());
        }
        words
    }
}

fn plural(n: u32) -> &'static str {
    if n == 1 { "" } else { "s" }
}
