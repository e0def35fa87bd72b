//! The limiter port: what a limiter is, and what the lab needs to know to build one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::BoxFuture;
use super::clock::Clock;
use super::database::{Database, Table};
use super::store::{Store, StoreError};
use crate::model::contract::Contract;
use crate::model::foreign::Foreign;
use crate::model::names;
use crate::model::op::Decision;
use crate::model::scenario::LimiterRef;
pub use crate::model::servers::Version;
use crate::model::units::{Cost, Limit, NodeId, Window, parse_millis};

/// A limiter as one node runs it.
///
/// Built fresh per node and round. Many calls may be open at the same time. It tells the truth
/// about what it does not know: an error from the store is handed on, never turned into a
/// decision (that is a policy's work), unless that is its algorithm: then its contract says so, and
/// the decision's source.
pub trait Limiter: Send + Sync {
    /// Decides one call.
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>>;

    /// Puts the key into the state it has after `used` admitted calls of cost 1, just now.
    /// Called before the round, while nothing else runs.
    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Returns when nothing of it goes on behind its calls. Called at the end of a round, before the store is
    /// looked at; whoever has work there owns it, and ends it with itself.
    fn settle(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// What a limiter is built from.
pub struct Build {
    pub settings: Settings,
    pub store: Arc<dyn Store>,
    /// What it asks instead, where it [`Needs::Rows`].
    pub database: Option<Arc<dyn Database>>,
    /// The stores of the other regions, in their order, where there are some.
    pub others: Vec<Arc<dyn Store>>,
    pub clock: Arc<dyn Clock>,
    /// The app server it runs on: names made here differ from those made elsewhere.
    pub node: NodeId,
    /// Which version of the limiter on this app server it is, from 0: names made by one differ from those made by
    /// another that takes its place.
    pub version: u64,
    /// How many app servers there are.
    pub fleet: Arc<Fleet>,
}

/// How many app servers there are, as whoever starts and stops them would tell each.
#[derive(Debug)]
pub struct Fleet {
    at_first: u32,
    now: AtomicU32,
}

impl Fleet {
    pub fn of(nodes: u32) -> Arc<Self> {
        Arc::new(Self { at_first: nodes.max(1), now: AtomicU32::new(nodes.max(1)) })
    }

    /// As a configuration file has it that was written when the round began.
    pub fn at_first(&self) -> u32 {
        self.at_first
    }

    pub fn now(&self) -> u32 {
        self.now.load(Ordering::Relaxed)
    }

    pub fn set(&self, nodes: u32) {
        self.now.store(nodes.max(1), Ordering::Relaxed);
    }
}

/// The limit and the limiter's own parameters, checked against its [`Spec`].
#[derive(Debug, Clone)]
pub struct Settings {
    pub limit: Limit,
    pub window: Window,
    params: BTreeMap<&'static str, String>,
    /// Of a limiter that is somebody else's.
    pub foreign: Option<&'static Foreign>,
}

/// A limiter as the catalogue lists it. One `static` per file under `limiters/`.
#[derive(Debug)]
pub struct Spec {
    /// Catalogue number, such as `L06`.
    pub id: &'static str,
    pub name: &'static str,
    /// One line: the algorithm.
    pub summary: &'static str,
    /// What it sends per decision.
    pub sends: &'static str,
    /// The verdict it is known for.
    pub known: &'static str,
    pub params: &'static [Param],
    /// Which server it needs, where not every Redis will do.
    pub needs_server: Option<Needs>,
    /// Refuses settings it cannot keep exactly; the message says what it can.
    pub check: fn(&Settings) -> Result<(), String>,
    pub contract: fn(&Settings) -> Contract,
    pub build: fn(Build) -> Arc<dyn Limiter>,
    /// How it is reached and what it promises, where it is somebody else's.
    pub foreign: Option<&'static Foreign>,
}

/// A server that a limiter needs.
#[derive(Debug, Clone, Copy)]
pub enum Needs {
    /// A Redis from this version on, with the reason.
    Since(Version, &'static str),
    /// A PostgreSQL: the table it keeps its rows in, and every statement it will ask.
    Rows { table: fn(&Settings) -> Table, statements: fn(&Settings) -> Vec<String> },
}

impl Needs {
    /// Why the server of this version will not do, if so.
    pub fn refuse(self, version: &str) -> Option<String> {
        let Self::Since(needed, why) = self else { return None };
        let too_old = Version::parse(version)? < needed;
        too_old.then(|| format!("needs server {}.{}, this is {version}: {why}", needed.0, needed.1))
    }
}

impl Spec {
    /// What its file puts around it, whoever runs it.
    pub fn policy(&self) -> Option<&'static LimiterRef> {
        self.foreign?.policy.as_ref()
    }

    /// The table it keeps its rows in, where it is asked in SQL.
    pub fn table(&self, settings: &Settings) -> Option<Table> {
        match self.needs_server? {
            Needs::Rows { table, .. } => Some(table(settings)),
            Needs::Since(..) => None,
        }
    }

    /// The statements it will ask.
    pub fn statements(&self, settings: &Settings) -> Vec<String> {
        match self.needs_server {
            Some(Needs::Rows { statements, .. }) => statements(settings),
            _ => Vec::new(),
        }
    }

    pub fn is_in_rows(&self) -> bool {
        matches!(self.needs_server, Some(Needs::Rows { .. }))
    }
}

/// A parameter of a limiter.
#[derive(Debug)]
pub struct Param {
    pub name: &'static str,
    pub default: &'static str,
    pub kind: ParamKind,
    pub help: &'static str,
}

#[derive(Debug)]
pub enum ParamKind {
    OneOf(&'static [&'static str]),
    /// A whole number from 1; an empty default means one that follows from the limit.
    Count,
    /// A whole number from 1 to 100.
    Percent,
    /// A span of time, such as `200ms` or `0s`; an empty default means one that follows from the window.
    Span,
}

impl Settings {
    /// Checks parameters against the spec. The message says what is accepted.
    pub fn new(
        spec: &Spec,
        limit: Limit,
        window: Window,
        given: &BTreeMap<String, String>,
    ) -> Result<Self, String> {
        let params = read_params(&format!("limiter '{}'", spec.name), spec.params, given)?;
        let settings = Self { limit, window, params, foreign: spec.foreign };
        (spec.check)(&settings).map_err(|why| format!("limiter '{}': {why}", spec.name))?;
        Ok(settings)
    }

    /// The value of a parameter the spec declares.
    pub fn param(&self, name: &str) -> &str {
        self.params.get(name).map_or("", String::as_str)
    }

    /// A [`ParamKind::Span`], unless it was left empty.
    pub fn span_if_given(&self, name: &str) -> Option<std::time::Duration> {
        parse_millis(self.param(name), name).ok().map(std::time::Duration::from_millis)
    }

    /// A [`ParamKind::Span`].
    pub fn span(&self, name: &str) -> std::time::Duration {
        std::time::Duration::from_millis(parse_millis(self.param(name), name).unwrap_or(0))
    }

    /// A [`ParamKind::Count`] that has a default of its own.
    pub fn count(&self, name: &str) -> Limit {
        self.param(name).parse().expect("checked when the settings were made")
    }

    /// A [`ParamKind::Count`], or the limit where it was left empty.
    pub fn count_or_limit(&self, name: &str) -> Limit {
        self.param(name).parse().unwrap_or(self.limit)
    }

    /// A [`ParamKind::Count`], or so many times the limit where it was left empty.
    pub fn count_or_times(&self, name: &str, times: u64) -> Limit {
        let most = || Limit::new(self.limit.get().saturating_mul(times).min(Limit::MAX));
        self.param(name).parse().or_else(|_| most()).unwrap_or(self.limit)
    }
}

/// The parameters as given or by default, checked. `whose` begins the message.
pub fn read_params(
    whose: &str,
    known: &'static [Param],
    given: &BTreeMap<String, String>,
) -> Result<BTreeMap<&'static str, String>, String> {
    let names: Vec<&str> = known.iter().map(|p| p.name).collect();
    if let Some(name) = given.keys().find(|k| !names.contains(&k.as_str())) {
        if names.is_empty() {
            return Err(format!("{whose} takes no parameters, but '{name}' was given"));
        }
        return Err(format!("{whose}: {}", names::unknown("parameter", name, &names)));
    }
    let mut params = BTreeMap::new();
    for p in known {
        let value = given.get(p.name).cloned().unwrap_or_else(|| p.default.to_owned());
        let left_empty = value.is_empty() && p.default.is_empty();
        let fine = match p.kind {
            ParamKind::OneOf(values) => values.contains(&value.as_str()),
            ParamKind::Span => left_empty || parse_millis(&value, p.name).is_ok(),
            ParamKind::Count => left_empty || value.parse::<Limit>().is_ok(),
            ParamKind::Percent => value.parse::<Limit>().is_ok_and(|percent| percent.get() <= 100),
        };
        if !fine {
            return Err(format!("{whose}: {} = '{value}' is not {}", p.name, p.accepts()));
        }
        params.insert(p.name, value);
    }
    Ok(params)
}

/// For a [`Spec`] that takes every limit and window.
pub fn takes_all(_: &Settings) -> Result<(), String> {
    Ok(())
}

impl Param {
    pub fn accepts(&self) -> String {
        match self.kind {
            ParamKind::OneOf(values) => format!("one of {}", values.join(", ")),
            ParamKind::Count => "a whole number from 1".to_owned(),
            ParamKind::Percent => "a whole number from 1 to 100".to_owned(),
            ParamKind::Span => "a span such as 200ms".to_owned(),
        }
    }
}
