//! Metrics of limiters, counted call by call and written as Prometheus reads them (text format 0.0.4).
//!
//! Names as dashboards for limiters know them: `rate_limit_allowed_total`, `rate_limit_denied_total`,
//! `rate_limit_redis_latency_seconds`, `rate_limit_fallback_total{reason}`. They are for watching, not for
//! billing: a call that ended in an error may have been counted by the store all the same.
//!
//! Labels are bounded. The first [`MOST_USERS`] pairs of a user and an endpoint have samples of their own, all
//! later ones are counted together as the user [`OTHERS`]; a name is cut after [`LONGEST_NAME`] characters.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use super::history::{Cell, Round};
use super::names::without_prefix;
use super::op::{Contact, Note, Op, Outcome, Source};
use super::phases;

/// The file in a run's folder.
pub const FILE: &str = "metrics.prom";

/// Pairs of a user and an endpoint that have samples of their own.
pub const MOST_USERS: usize = 100;
/// The user as whom everybody else is counted.
pub const OTHERS: &str = "(others)";
/// Characters of a label's value.
pub const LONGEST_NAME: usize = 64;

/// The endpoint of the calls that a workload makes: it has one route behind the limiter.
pub const LIMITED: &str = "limited";

/// Upper ends of the latency's buckets, in µs. People look from 5 ms on and are called at 50.
const BUCKETS_US: [u64; 13] = [
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    10_000_000,
];

/// A call that came to its end.
#[derive(Debug, Clone, Copy)]
pub struct Ended<'a> {
    pub user: &'a str,
    pub endpoint: &'a str,
    pub outcome: Outcome,
    /// Who decided, of a decided call.
    pub source: Option<Source>,
    /// How long it waited for the store, answered or not; `None` if it did not ask.
    pub waited: Option<Duration>,
    /// Whether it was reported that most of the limit is used.
    pub near: bool,
}

/// A value as it stands, beside what is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gauge {
    /// Keys of the limiter in the store.
    Keys,
    /// What they take there.
    MemoryBytes,
    /// Keys that the store evicted so far, whoever's they were.
    EvictedKeys,
    /// How often the store did not know a script.
    Noscript,
    /// How far the clock of an app server is ahead of the lab's.
    ClockOffsetSeconds,
}

impl Gauge {
    const ALL: [Self; 5] =
        [Self::Keys, Self::MemoryBytes, Self::EvictedKeys, Self::Noscript, Self::ClockOffsetSeconds];

    fn name(self) -> &'static str {
        match self {
            Self::Keys => "rate_limit_keys",
            Self::MemoryBytes => "rate_limit_memory_bytes",
            Self::EvictedKeys => "rate_limit_redis_evicted_keys",
            Self::Noscript => "rate_limit_redis_noscript",
            Self::ClockOffsetSeconds => "rate_limit_clock_offset_seconds",
        }
    }

    fn help(self) -> &'static str {
        match self {
            Self::Keys => "Keys of the limiter in the store.",
            Self::MemoryBytes => "Memory that the limiter's keys take in the store.",
            Self::EvictedKeys => "Keys that the store has evicted.",
            Self::Noscript => "Scripts that the store was asked for and did not know.",
            Self::ClockOffsetSeconds => "How far an app server's clock is ahead.",
        }
    }
}

/// What is counted for a user on an endpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Calls {
    allowed: u64,
    denied: u64,
    /// Of the allowed ones those that a limiter which is only tried out would have refused.
    shadow_denied: u64,
    near: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Histogram {
    /// Of each bucket by itself; beyond the last at the end.
    counts: [u64; BUCKETS_US.len() + 1],
    sum_ns: u128,
}

impl Histogram {
    fn observe(&mut self, span: Duration) {
        let ns = span.as_nanos();
        let place = BUCKETS_US.partition_point(|us| u128::from(*us) * 1000 < ns);
        self.counts[place] += 1;
        self.sum_ns += ns;
    }
}

/// What one limiter counted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metrics {
    /// What each of its samples bears, in this order.
    labels: Vec<(&'static str, String)>,
    calls: BTreeMap<(String, String), Calls>,
    /// By what decided instead of the store.
    fallback: BTreeMap<&'static str, u64>,
    /// Calls that ended without a decision, by why.
    undecided: BTreeMap<&'static str, u64>,
    latency: Histogram,
    gauges: BTreeMap<(Gauge, Option<u16>), f64>,
}

impl Metrics {
    /// Nothing yet; each sample will bear these labels.
    pub fn of(labels: Vec<(&'static str, String)>) -> Self {
        Self { labels, ..Self::default() }
    }

    /// Counts a call.
    pub fn count(&mut self, call: &Ended<'_>) {
        match call.outcome {
            Outcome::Admitted => {
                let calls = self.calls(call);
                calls.allowed += 1;
                calls.shadow_denied += u64::from(call.source == Some(Source::Shadow));
                calls.near += u64::from(call.near);
            }
            Outcome::Denied => {
                let calls = self.calls(call);
                calls.denied += 1;
                calls.near += u64::from(call.near);
            }
            Outcome::Failed => *self.undecided.entry("failed").or_default() += 1,
            Outcome::Unknown => *self.undecided.entry("unknown").or_default() += 1,
        }
        let instead = call.source.filter(|s| s.is_instead_of_store());
        if let Some(source) = instead.filter(|_| call.outcome.is_decided()) {
            *self.fallback.entry(source.name()).or_default() += 1;
        }
        if let Some(waited) = call.waited {
            self.latency.observe(waited);
        }
    }

    fn calls(&mut self, call: &Ended<'_>) -> &mut Calls {
        let pair = (cut(call.user), cut(call.endpoint));
        let known = self.calls.contains_key(&pair) || self.calls.len() < MOST_USERS;
        let pair = if known { pair } else { (OTHERS.to_owned(), OTHERS.to_owned()) };
        self.calls.entry(pair).or_default()
    }

    /// Sets a value.
    pub fn set(&mut self, gauge: Gauge, value: f64) {
        self.gauges.insert((gauge, None), value);
    }

    /// Sets a value of one app server.
    pub fn set_of_node(&mut self, gauge: Gauge, node: u16, value: f64) {
        self.gauges.insert((gauge, Some(node)), value);
    }

    /// What a cell recorded, all its rounds together; of its keys what the last whole round left.
    pub fn of_cell(cell: &Cell) -> Self {
        let header = &cell.header;
        let mut metrics = Self::of(vec![
            ("scenario", header.scenario.clone()),
            ("limiter", header.limiter.clone()),
            ("policy", header.policy.clone().unwrap_or_default()),
            ("client", header.client.clone()),
            ("variation", header.variation.clone().unwrap_or_default()),
            ("server", format!("{} {}", header.server.flavour, header.server.version).trim().to_owned()),
        ]);
        for round in &cell.rounds {
            for op in &round.ops {
                let key = round.keys.get(op.key.0 as usize).map_or("", String::as_str);
                let note = round.note_of(op.id);
                let waited = phases::waited(round, op).filter(|_| asked(op, note));
                metrics.count(&Ended {
                    user: &without_prefix(key),
                    endpoint: LIMITED,
                    outcome: op.outcome,
                    source: op.source,
                    waited: waited.and_then(|ns| u64::try_from(ns).ok()).map(Duration::from_nanos),
                    near: note.near,
                });
            }
        }
        if let Some(round) = cell.rounds.iter().rfind(|r| r.complete && r.probes_complete) {
            metrics.set(Gauge::Keys, round.probes.len() as f64);
            let weighed: Option<Vec<u64>> = round.probes.iter().map(|p| p.bytes).collect();
            if let Some(bytes) = weighed {
                metrics.set(Gauge::MemoryBytes, bytes.iter().sum::<u64>() as f64);
            }
        }
        for (gauge, of) in [
            (Gauge::EvictedKeys, (|r| r.evicted_keys) as fn(&Round) -> Option<u64>),
            (Gauge::Noscript, |r| r.noscript),
        ] {
            let told: Vec<u64> = cell.rounds.iter().filter_map(of).collect();
            if !told.is_empty() {
                metrics.set(gauge, told.iter().sum::<u64>() as f64);
            }
        }
        for clock in &header.clocks {
            let seconds = clock.offset.millis() as f64 / 1e3;
            metrics.set_of_node(Gauge::ClockOffsetSeconds, clock.node, seconds);
        }
        metrics
    }
}

/// Whether the call waited for the store at all; by its source, where that was not recorded.
fn asked(op: &Op, note: Note) -> bool {
    match note.contact {
        Some(contact) => contact > Contact::NotAsked,
        None => op.source != Some(Source::Local),
    }
}

fn cut(name: &str) -> String {
    match name.char_indices().nth(LONGEST_NAME) {
        Some((at, _)) => format!("{}…", &name[..at]),
        None => name.to_owned(),
    }
}

/// Name and meaning of a counter, and what it has counted; `None` where it is not told.
type Counter = (&'static str, &'static str, fn(&Calls) -> Option<u64>);

/// The last two are told where somebody counts them.
const COUNTERS: [Counter; 4] = [
    ("rate_limit_allowed_total", "Calls that were admitted.", |c| Some(c.allowed)),
    ("rate_limit_denied_total", "Calls that were refused.", |c| Some(c.denied)),
    (
        "rate_limit_shadow_denied_total",
        "Admitted calls that a limiter which is only tried out would have refused.",
        |c| Some(c.shadow_denied).filter(|n| *n > 0),
    ),
    ("rate_limit_near_limit_total", "Calls after which most of the limit was used.", |c| {
        Some(c.near).filter(|n| *n > 0)
    }),
];

/// All of them as one text: a family after the other, in each the limiters in the order given.
pub fn render(all: &[Metrics]) -> String {
    let named = labelled(all);
    let mut text = String::new();
    for (name, help, of) in COUNTERS {
        family(&mut text, &named, (name, "counter", help), |m, samples| {
            for ((user, endpoint), count) in m.calls.iter().map(|(pair, calls)| (pair, of(calls))) {
                if let Some(count) = count {
                    samples.add("", &[("user", user), ("endpoint", endpoint)], &count.to_string());
                }
            }
        });
    }
    family(
        &mut text,
        &named,
        ("rate_limit_undecided_total", "counter", "Calls that ended without a decision."),
        |m, samples| {
            for (outcome, count) in &m.undecided {
                samples.add("", &[("outcome", outcome)], &count.to_string());
            }
        },
    );
    family(
        &mut text,
        &named,
        ("rate_limit_fallback_total", "counter", "Calls that something else than the store decided."),
        |m, samples| {
            for (reason, count) in &m.fallback {
                samples.add("", &[("reason", reason)], &count.to_string());
            }
        },
    );
    family(
        &mut text,
        &named,
        (
            "rate_limit_redis_latency_seconds",
            "histogram",
            "How long a call waited for the store, answered or not.",
        ),
        |m, samples| samples.histogram(&m.latency),
    );
    for gauge in Gauge::ALL {
        family(&mut text, &named, (gauge.name(), "gauge", gauge.help()), |m, samples| {
            for ((_, node), value) in m.gauges.iter().filter(|((g, _), _)| *g == gauge) {
                let node = node.map(|n| n.to_string());
                let labels: Vec<(&str, &str)> = node.iter().map(|n| ("node", n.as_str())).collect();
                samples.add("", &labels, &value.to_string());
            }
        });
    }
    text
}

/// Each with its labels; who has the same as another before it is told apart by a number.
fn labelled(all: &[Metrics]) -> Vec<(&Metrics, Vec<(&'static str, String)>)> {
    let mut known = BTreeSet::new();
    all.iter()
        .map(|metrics| {
            let mut labels = metrics.labels.clone();
            for n in 2.. {
                if known.insert(labels.clone()) {
                    break;
                }
                labels.clone_from(&metrics.labels);
                labels.push(("number", n.to_string()));
            }
            (metrics, labels)
        })
        .collect()
}

/// A family with its head; nothing where it has no samples.
fn family(
    text: &mut String,
    all: &[(&Metrics, Vec<(&'static str, String)>)],
    (name, kind, help): (&str, &str, &str),
    each: impl Fn(&Metrics, &mut Samples<'_>),
) {
    let mut samples = String::new();
    for (metrics, labels) in all {
        each(metrics, &mut Samples { text: &mut samples, name, labels });
    }
    if !samples.is_empty() {
        let help = help.replace('\\', r"\\").replace('\n', r"\n");
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{samples}");
    }
}

/// Samples of one family and one limiter.
struct Samples<'a> {
    text: &'a mut String,
    name: &'a str,
    labels: &'a [(&'static str, String)],
}

impl Samples<'_> {
    fn add(&mut self, suffix: &str, own: &[(&str, &str)], value: &str) {
        let given =
            self.labels.iter().map(|(name, value)| (*name, value.as_str())).chain(own.iter().copied());
        // An empty label is the same as none.
        let labels: Vec<String> = given
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
            .collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.text, "{}{suffix}{labels} {value}", self.name);
    }

    fn histogram(&mut self, of: &Histogram) {
        let mut count = 0;
        for (place, more) in of.counts.iter().enumerate() {
            count += more;
            let end = BUCKETS_US.get(place).map_or("+Inf".to_owned(), |us| (*us as f64 / 1e6).to_string());
            self.add("_bucket", &[("le", &end)], &count.to_string());
        }
        const SECOND: u128 = 1_000_000_000;
        self.add("_sum", &[], &format!("{}.{:09}", of.sum_ns / SECOND, of.sum_ns % SECOND));
        self.add("_count", &[], &count.to_string());
    }
}

/// A label's value: backslash, quote and line feed are written as such.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}
