//! Figures: what a cell's record measures, beside what its checks decide. Never a verdict.
//!
//! Computed from the recorded history alone, so that `analyze` gives the same. A figure that the
//! record cannot tell is absent, never zero. O(n log n) in the calls.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

mod windows;

use super::history::{Cell, Probe, Round};
use super::op::{Contact, Note, Op, Outcome, Source};
use super::phases::{self, Decider, decider};

/// What can be measured. The name carries the unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    BytesPerIdentity,
    EntriesPerIdentity,
    CountedPerIdentity,
    RoundTripsPerDecision,
    MostRoundTrips,
    CommandsPerCall,
    P50Ms,
    P99Ms,
    MaxMs,
    DeniedPercent,
    FirstRefused,
    MostInWindow,
    Undecided,
    ByPolicy,
    AdmittedByPolicy,
    RefusedByPolicy,
    RefusedBelowLimit,
    AskedInVain,
    Spared,
    WouldDeny,
    NearLimit,
    BackAfterMs,
    NoticedAfterMs,
    AdmittedUnnoticed,
    AppliedUnanswered,
    AppliedTwice,
    AsideMaxMs,
    BusiestNodePercent,
    DecisionsPerCpuSecond,
    RequestsSent,
    Refused,
    LastAdmittedS,
    States,
    Schedules,
}

/// The figures of one cell, as far as its record tells them.
pub type Figures = BTreeMap<Figure, f64>;

/// What a scenario's chart shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Chart {
    /// Admitted calls per round, against the limit.
    #[default]
    Admitted,
    /// The first of the scenario's figures.
    Figure,
    /// How long callers waited and who decided, over the time of the round, with what was broken.
    Timeline,
    /// What the store says is used, call by call, beside what was admitted in truth.
    Counter,
    /// How the commands of a round are spread over the nodes of a cluster.
    Loads,
    /// The most admitted in one window, against how far the clocks of the app servers are apart.
    Skew,
    /// Nothing: its table says more.
    None,
}

impl Chart {
    /// For a default that need not be written.
    pub fn is_admitted(&self) -> bool {
        *self == Self::Admitted
    }
}

impl Figure {
    pub const ALL: [Self; 34] = [
        Self::BytesPerIdentity,
        Self::EntriesPerIdentity,
        Self::CountedPerIdentity,
        Self::RoundTripsPerDecision,
        Self::MostRoundTrips,
        Self::CommandsPerCall,
        Self::P50Ms,
        Self::P99Ms,
        Self::MaxMs,
        Self::DeniedPercent,
        Self::FirstRefused,
        Self::MostInWindow,
        Self::Undecided,
        Self::ByPolicy,
        Self::AdmittedByPolicy,
        Self::RefusedByPolicy,
        Self::RefusedBelowLimit,
        Self::AskedInVain,
        Self::Spared,
        Self::WouldDeny,
        Self::NearLimit,
        Self::BackAfterMs,
        Self::NoticedAfterMs,
        Self::AdmittedUnnoticed,
        Self::AppliedUnanswered,
        Self::AppliedTwice,
        Self::AsideMaxMs,
        Self::BusiestNodePercent,
        Self::DecisionsPerCpuSecond,
        Self::RequestsSent,
        Self::Refused,
        Self::LastAdmittedS,
        Self::States,
        Self::Schedules,
    ];

    /// As scenario files and `results.json` name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::BytesPerIdentity => "bytes-per-identity",
            Self::EntriesPerIdentity => "entries-per-identity",
            Self::CountedPerIdentity => "counted-per-identity",
            Self::RoundTripsPerDecision => "round-trips-per-decision",
            Self::MostRoundTrips => "most-round-trips",
            Self::CommandsPerCall => "commands-per-call",
            Self::P50Ms => "p50-ms",
            Self::P99Ms => "p99-ms",
            Self::MaxMs => "max-ms",
            Self::DeniedPercent => "denied-percent",
            Self::FirstRefused => "first-refused",
            Self::MostInWindow => "most-in-window",
            Self::Undecided => "undecided",
            Self::ByPolicy => "by-policy",
            Self::AdmittedByPolicy => "admitted-by-policy",
            Self::RefusedByPolicy => "refused-by-policy",
            Self::RefusedBelowLimit => "refused-below-limit",
            Self::AskedInVain => "asked-in-vain",
            Self::Spared => "spared",
            Self::WouldDeny => "would-deny",
            Self::NearLimit => "near-limit",
            Self::BackAfterMs => "back-after-ms",
            Self::NoticedAfterMs => "noticed-after-ms",
            Self::AdmittedUnnoticed => "admitted-unnoticed",
            Self::AppliedUnanswered => "applied-unanswered",
            Self::AppliedTwice => "applied-twice",
            Self::AsideMaxMs => "aside-max-ms",
            Self::BusiestNodePercent => "busiest-node-percent",
            Self::DecisionsPerCpuSecond => "decisions-per-cpu-second",
            Self::RequestsSent => "requests-sent",
            Self::Refused => "refused",
            Self::LastAdmittedS => "last-admitted-s",
            Self::States => "states",
            Self::Schedules => "schedules",
        }
    }

    /// The head of its column, and the title of its axis.
    pub fn head(self) -> &'static str {
        match self {
            Self::BytesPerIdentity => "bytes per identity",
            Self::EntriesPerIdentity => "entries per identity",
            Self::CountedPerIdentity => "counted for an identity",
            Self::RoundTripsPerDecision => "round trips per decision",
            Self::MostRoundTrips => "most round trips of a call",
            Self::CommandsPerCall => "commands per call",
            Self::P50Ms => "p50 in ms",
            Self::P99Ms => "p99 in ms",
            Self::MaxMs => "max in ms",
            Self::DeniedPercent => "denied in %",
            Self::FirstRefused => "first refused call",
            Self::MostInWindow => "most admitted in one window",
            Self::Undecided => "calls without a decision",
            Self::ByPolicy => "decided by the policy",
            Self::AdmittedByPolicy => "admitted by the policy",
            Self::RefusedByPolicy => "refused by the policy",
            Self::RefusedBelowLimit => "refused below the limit",
            Self::AskedInVain => "asked in vain",
            Self::Spared => "spared",
            Self::WouldDeny => "would be refused",
            Self::NearLimit => "reported near the limit",
            Self::BackAfterMs => "store again after ms",
            Self::NoticedAfterMs => "noticed after ms",
            Self::AdmittedUnnoticed => "admitted unnoticed",
            Self::AppliedUnanswered => "unanswered, yet applied",
            Self::AppliedTwice => "applied twice or more",
            Self::AsideMaxMs => "max without limiter in ms",
            Self::BusiestNodePercent => "busiest node in %",
            Self::DecisionsPerCpuSecond => "decisions per CPU second",
            Self::RequestsSent => "requests sent",
            Self::Refused => "refused",
            Self::LastAdmittedS => "last admitted after s",
            Self::States => "states",
            Self::Schedules => "schedules",
        }
    }

    /// What it says, in one line.
    pub fn summary(self) -> &'static str {
        match self {
            Self::BytesPerIdentity => "what the server says the keys of one identity take in memory",
            Self::EntriesPerIdentity => "values that the store keeps for one identity",
            Self::CountedPerIdentity => "what the counters in the store add up to for one identity",
            Self::RoundTripsPerDecision => {
                "exchanges with the store that a decided call waited for, on average"
            }
            Self::MostRoundTrips => "the most exchanges with the store that any decided call waited for",
            Self::CommandsPerCall => {
                "commands that app servers sent to the store for each call, those that no call waited for among them"
            }
            Self::P50Ms => "how long half of the decided calls took at most",
            Self::P99Ms => "how long 99 of 100 decided calls took at most",
            Self::MaxMs => "how long the slowest decided call took",
            Self::DeniedPercent => "share of the decided calls that were refused",
            Self::FirstRefused => "which call of a round, from 1, was the first to be refused",
            Self::MostInWindow => "the most that one identity got in any span of one window's length",
            Self::Undecided => "calls that failed, or whose outcome nobody knows",
            Self::ByPolicy => "calls that the policy decided because the store did not",
            Self::AdmittedByPolicy => "calls that the policy admitted because the store did not decide",
            Self::RefusedByPolicy => "calls that the policy refused because the store did not decide",
            Self::RefusedBelowLimit => {
                "calls that were refused although their identity had not got the limit in the window before"
            }
            Self::AskedInVain => "decided calls that asked the store and got no answer, or errors only",
            Self::Spared => "decided calls that the policy answered without asking the store",
            Self::WouldDeny => "calls that a limiter in the shadow would have refused",
            Self::NearLimit => "calls after which somebody reported that most of the limit is used",
            Self::BackAfterMs => {
                "from the end of the last fault to the first answer of the store to a later call"
            }
            Self::NoticedAfterMs => {
                "from the thaw of a primary that was replaced to the first error that told a node so"
            }
            Self::AdmittedUnnoticed => {
                "calls that a replaced primary admitted after its thaw before anybody was told"
            }
            Self::AppliedUnanswered => {
                "counters that hold a call which the store never answered, where each call has a key of its own"
            }
            Self::AppliedTwice => "counters that hold their only call twice or more",
            Self::BusiestNodePercent => "share of all commands that the busiest node of a cluster processed",
            Self::DecisionsPerCpuSecond => {
                "decisions of the middle round for each second of CPU time that the node used which used most of it: so many a \
                 second are the most it has room for"
            }
            Self::AsideMaxMs => "how long the slowest request waited on the route that has no limiter",
            Self::RequestsSent => "calls that were made",
            Self::Refused => "calls that were refused",
            Self::LastAdmittedS => {
                "from the first call of a round to the last one admitted, in the longest of the rounds"
            }
            Self::States => "different states that a search saw, clients renamed (explore)",
            Self::Schedules => "schedules that a search ran to their end (explore)",
        }
    }

    /// Whether it is told of a search through schedules; a record of calls does not tell it.
    pub fn is_of_a_search(self) -> bool {
        matches!(self, Self::States | Self::Schedules)
    }

    /// Whether it is a time: of a machine and a moment.
    pub fn is_time(self) -> bool {
        matches!(
            self,
            Self::P50Ms
                | Self::P99Ms
                | Self::MaxMs
                | Self::BackAfterMs
                | Self::NoticedAfterMs
                | Self::AsideMaxMs
                | Self::LastAdmittedS
        )
    }
}

/// Everything that the record of a cell tells.
pub fn measure(cell: &Cell) -> Figures {
    let mut figures = Figures::new();
    if cell.header.not_run.is_some() || cell.rounds.is_empty() {
        return figures;
    }
    let mut set = |figure, value: Option<f64>| {
        if let Some(value) = value {
            figures.insert(figure, value);
        }
    };
    let whole: Vec<&Round> = cell.rounds.iter().filter(|r| r.complete).collect();
    let fullest = |of: fn(&Probe) -> Option<i128>| {
        whole.iter().filter_map(|r| per_identity(r, of)).max_by(f64::total_cmp).map(|n| rounded(n, 1))
    };
    set(Figure::BytesPerIdentity, fullest(|p| p.bytes.map(i128::from)));
    set(Figure::EntriesPerIdentity, fullest(|p| p.entries().map(i128::from)));
    set(Figure::CountedPerIdentity, fullest(|p| p.counted().map(i128::from)));

    let decided_in = |r: &Round| r.count(Outcome::Admitted) + r.count(Outcome::Denied);
    let instead = |r: &Round| r.ops.iter().filter(|o| decider(o) == Decider::Policy).count() as u64;
    let counted: u64 = whole.iter().map(|r| decided_in(r).saturating_sub(instead(r))).sum();
    let trips: u64 = whole.iter().map(|r| r.trips).sum();
    let share = |part: u64, of: u64, digits| (of > 0).then(|| rounded(part as f64 / of as f64, digits));
    // A process that tells of none may have made some.
    let told = !cell.header.foreign || trips > 0;
    set(Figure::RoundTripsPerDecision, share(trips, counted, 3).filter(|_| told));
    let most = whole.iter().map(|r| r.most_trips).max();
    // Commands are counted over the whole cell.
    let commands = cell
        .honesty
        .map(|h| h.commands)
        .filter(|n| whole.len() == cell.rounds.len() && (*n > 0 || !cell.header.foreign));
    let calls = whole.iter().map(|r| r.ops.len() as u64).sum();
    set(Figure::CommandsPerCall, commands.and_then(|n| share(n, calls, 3)));
    set(Figure::MostRoundTrips, most.filter(|_| counted > 0 && told).map(f64::from));

    let (p50, p99, max) = latencies(cell);
    set(Figure::P50Ms, p50);
    set(Figure::P99Ms, p99);
    set(Figure::MaxMs, max);

    let sum = |outcome| cell.rounds.iter().map(|r| r.count(outcome)).sum::<u64>();
    let (admitted, denied) = (sum(Outcome::Admitted), sum(Outcome::Denied));
    set(Figure::DeniedPercent, share(denied * 100, admitted + denied, 2));
    let sent: usize = cell.rounds.iter().map(|r| r.ops.len()).sum();
    set(Figure::RequestsSent, Some(sent as f64));
    set(Figure::Refused, Some(denied as f64));
    set(Figure::LastAdmittedS, cell.rounds.iter().filter_map(last_admitted_s).max_by(f64::total_cmp));
    set(Figure::FirstRefused, cell.rounds.iter().filter_map(first_refused).min().map(|n| n as f64));
    set(Figure::Undecided, Some((sum(Outcome::Failed) + sum(Outcome::Unknown)) as f64));
    let broke = whole.iter().any(|r| !r.faults.is_empty());
    let by_policy = |r: &&Round| r.ops.iter().filter(|o| decider(o) == Decider::Policy).count();
    set(Figure::ByPolicy, broke.then(|| whole.iter().map(by_policy).sum::<usize>() as f64));
    for (figure, count) in by_policies(cell, &whole) {
        set(figure, Some(count as f64));
    }
    set(Figure::BackAfterMs, phases::back_after_ms(cell));
    let (noticed, unnoticed) = whole.iter().find_map(|r| phases::noticed(r)).unzip();
    let replaced = cell.header.topology.is_some();
    set(Figure::NoticedAfterMs, noticed.filter(|_| replaced));
    set(Figure::AdmittedUnnoticed, unnoticed.filter(|_| replaced).map(|n: u64| n as f64));
    let (unanswered, twice) = applied(&whole).unzip();
    set(Figure::AppliedUnanswered, unanswered.map(|n| n as f64));
    set(Figure::AppliedTwice, twice.map(|n| n as f64));
    let shares = whole.iter().filter_map(|r| {
        let sum = r.loads.iter().sum::<u64>();
        share(r.loads.iter().max()? * 100, sum, 1)
    });
    set(Figure::BusiestNodePercent, shares.max_by(f64::total_cmp));
    let mut rates: Vec<f64> = whole
        .iter()
        .filter_map(|r| {
            let busiest = r.cpus_us.iter().max().filter(|us| **us > 0)?;
            let decided = r.ops.iter().filter(|o| decider(o) == Decider::Store).count();
            Some(rounded(decided as f64 * 1e6 / *busiest as f64, -2))
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    set(Figure::DecisionsPerCpuSecond, rates.get(rates.len().saturating_sub(1) / 2).copied());
    let asides = whole.iter().flat_map(|r| &r.asides).map(|(from, to)| to.0.saturating_sub(from.0));
    set(Figure::AsideMaxMs, asides.max().map(|ns| rounded(ns as f64 / 1e6, 3)));
    let most = windows::window_of(cell).and_then(|w| cell.rounds.iter().map(|r| windows::most(r, w)).max());
    set(Figure::MostInWindow, most.map(|n| n as f64));
    let below = windows::limit_of(cell).map(|(limit, window)| {
        cell.rounds.iter().map(|r| windows::refused_below(r, limit, window)).sum::<u64>()
    });
    set(Figure::RefusedBelowLimit, below.map(|n| n as f64));
    figures
}

/// What policies made of calls, as far as there is one or something broke.
fn by_policies(cell: &Cell, whole: &[&Round]) -> Vec<(Figure, usize)> {
    let policy = cell.header.policy.as_deref();
    if policy.is_none() && whole.iter().all(|r| r.faults.is_empty()) {
        return Vec::new();
    }
    let calls = || whole.iter().flat_map(|r| r.ops.iter().map(move |op| (op, r.note_of(op.id))));
    let count = |of: &dyn Fn(&Op, Note) -> bool| calls().filter(|(op, note)| of(op, *note)).count();
    let instead = |op: &Op| op.source.is_some_and(Source::is_instead_of_store);
    let by_policy = |outcome| count(&|op, _| op.outcome == outcome && instead(op));
    let mut told = vec![
        (Figure::AdmittedByPolicy, by_policy(Outcome::Admitted)),
        (Figure::RefusedByPolicy, by_policy(Outcome::Denied)),
    ];
    let decided = |op: &Op| op.outcome.is_decided();
    if calls().all(|(op, note)| !decided(op) || note.contact.is_some()) {
        let in_vain = |op: &Op, note: Note| {
            decided(op) && matches!(note.contact, Some(Contact::Unanswered | Contact::Refused))
        };
        told.push((Figure::AskedInVain, count(&in_vain)));
        let spared = |op: &Op, note: Note| instead(op) && note.contact == Some(Contact::NotAsked);
        told.push((Figure::Spared, count(&spared)));
    }
    let is = |name: &str| policy.is_some_and(|p| p.split(':').next() == Some(name));
    if is("shadow") {
        told.push((Figure::WouldDeny, count(&|op, _| op.source == Some(Source::Shadow))));
    }
    if is("near-limit") {
        told.push((Figure::NearLimit, count(&|_, note| note.near)));
    }
    told
}

/// What became in the store of calls that have a key, and so a counter, of their own: those that it never
/// answered and applied all the same, and those that it applied more than once. `None` if nobody can tell.
fn applied(whole: &[&Round]) -> Option<(u64, u64)> {
    let (mut unanswered, mut twice, mut told) = (0, 0, false);
    for round in whole.iter().filter(|r| r.probes_complete && !r.faults.is_empty()) {
        if round.keys.len() != round.ops.len() {
            return None;
        }
        let held: BTreeMap<&str, i64> =
            round.probes.iter().filter_map(|p| Some((p.key.as_str(), p.counted()?))).collect();
        told |= !held.is_empty();
        for op in &round.ops {
            let cost = i64::from(op.cost.get());
            let held = held.get(round.keys[op.key.0 as usize].as_str()).copied().unwrap_or(0);
            unanswered += u64::from(held > 0 && decider(op) != Decider::Store);
            twice += u64::from(held > cost);
        }
    }
    told.then_some((unanswered, twice))
}

/// The sum over the round's keys, for each identity that made calls. `None` if nothing was looked at.
fn per_identity(round: &Round, of: fn(&Probe) -> Option<i128>) -> Option<f64> {
    let identities = round.ops.iter().map(|o| o.key).collect::<BTreeSet<_>>().len();
    // A store without a key for them keeps nothing; keys that nobody weighed may take anything.
    let told = round.probes.is_empty() || round.probes.iter().any(|p| of(p).is_some());
    if identities == 0 || !round.probes_complete || !told {
        return None;
    }
    Some(round.probes.iter().filter_map(of).sum::<i128>() as f64 / identities as f64)
}

/// p50, p99 and the longest of all decided calls, in milliseconds: each the time that at least so
/// many of them did not exceed (nearest rank).
/// How long the decided calls of a round took: half of them at most, and the slowest, in ms.
pub fn latency(round: &Round) -> (Option<f64>, Option<f64>) {
    let (p50, _, max) = percentiles(round.ops.iter());
    (p50, max)
}

fn latencies(cell: &Cell) -> (Option<f64>, Option<f64>, Option<f64>) {
    percentiles(cell.rounds.iter().flat_map(|r| &r.ops))
}

fn percentiles<'o>(ops: impl Iterator<Item = &'o Op>) -> (Option<f64>, Option<f64>, Option<f64>) {
    let ops = ops.filter(|o| o.outcome.is_decided());
    let mut took: Vec<i64> = ops.map(|o| o.complete.0.saturating_sub(o.invoke.0)).collect();
    if took.is_empty() {
        return (None, None, None);
    }
    let last = took.len() - 1;
    let mut at = |percent: usize| {
        let place = (took.len() * percent).div_ceil(100).max(1) - 1;
        let (_, ns, _) = took.select_nth_unstable(place.min(last));
        Some(rounded(*ns as f64 / 1e6, 3))
    };
    (at(50), at(99), at(100))
}

fn first_refused(round: &Round) -> Option<usize> {
    round.ops.iter().position(|o| o.outcome == Outcome::Denied).map(|place| place + 1)
}

/// How long it took until nobody was admitted any more.
fn last_admitted_s(round: &Round) -> Option<f64> {
    let first = round.ops.iter().map(|o| o.invoke).min()?;
    let admitted = round.ops.iter().filter(|o| o.outcome == Outcome::Admitted);
    let last = admitted.map(|o| o.complete).max()?;
    Some(rounded(last.0.saturating_sub(first.0) as f64 / 1e9, 2))
}

fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::super::op::KeyId;
    use super::super::units::{Cost, Nanos, NodeId, OpId};
    use super::*;

    /// Batches that were given back twice leave a counter below what was handed out, and below zero.
    #[test]
    fn a_counter_below_zero_is_told_as_what_it_is() {
        let mut round = Round::default();
        round.ops.push(Op::new(OpId(0), NodeId(0), KeyId(0), Cost::ONE, Nanos(0)));
        let (key, at, kind) = ("k".to_owned(), Nanos(2), Some("string".to_owned()));
        round.probes.push(Probe { key, pttl: 1, at, holds: Some(-200), bytes: None, kind });
        round.probes_complete = true;
        assert_eq!(per_identity(&round, |p| p.counted().map(i128::from)), Some(-200.0));
    }
}
