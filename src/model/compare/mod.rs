//! What changed between two runs: verdicts, and what was measured, cell by cell.
//!
//! A difference of what was measured is one only if it is larger than the noise: rounds are compared by an exact
//! rank test, and where they do not tell, or there is only one value of something that varies, it is inconclusive.

mod rank;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::figures::Figure;
use super::report::{CellReport, Report, RoundCounts};
use super::verdict::Verdict;

pub use rank::{P_AT_MOST, p_value};

/// Both runs against each other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    pub schema: u32,
    /// The worst that became of a verdict.
    pub verdicts: Change,
    pub pairs: Vec<Pair>,
    /// Cells that only one of them has.
    pub only_before: Vec<String>,
    pub only_after: Vec<String>,
    /// What the runs differ in beside their cells, and what therefore may be behind a difference.
    pub ground: Vec<String>,
}

/// A cell that both runs have.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pair {
    pub scenario: String,
    pub limiter: String,
    pub verdicts: Vec<Changed>,
    pub measured: Vec<Measured>,
}

/// What became of a check's verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Changed {
    pub check: String,
    /// Absent where the check was not made.
    pub before: Option<Verdict>,
    pub after: Option<Verdict>,
    pub change: Change,
    /// What is behind the later verdict.
    pub because: String,
}

/// Ordered from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// It failed and does no more.
    Fixed,
    Same,
    /// It is new, or did not apply before.
    Other,
    /// It was unknown and is known to hold.
    Settled,
    /// It held, or failed, and is unknown now, does not apply or was not made.
    Unsettled,
    /// It fails and did not.
    Broken,
}

impl Change {
    pub fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Same => "same",
            Self::Other => "other",
            Self::Settled => "settled",
            Self::Unsettled => "no longer known",
            Self::Broken => "broken",
        }
    }

    fn of(before: Option<Verdict>, after: Option<Verdict>) -> Self {
        match (before, after) {
            (a, b) if a == b => Self::Same,
            (_, Some(Verdict::Fail)) => Self::Broken,
            (Some(_), Some(Verdict::Unknown)) => Self::Unsettled,
            (Some(Verdict::Pass | Verdict::Fail), Some(Verdict::NotApplicable) | None) => Self::Unsettled,
            (Some(Verdict::Fail), Some(Verdict::Pass)) => Self::Fixed,
            (Some(Verdict::Unknown), Some(Verdict::Pass)) => Self::Settled,
            _ => Self::Other,
        }
    }
}

/// Something that was measured in both.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// `admitted`, or a figure's name.
    pub what: String,
    pub before: Values,
    pub after: Values,
    pub told: Told,
}

/// One value, or one of each round.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Values {
    One(f64),
    Rounds(Vec<f64>),
}

impl Values {
    /// The median, the lower one of two.
    pub fn middle(&self) -> f64 {
        match self {
            Self::One(value) => *value,
            Self::Rounds(all) => {
                let mut all = all.clone();
                all.sort_by(f64::total_cmp);
                all.get(all.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
            }
        }
    }
}

/// Whether there is a difference.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Told {
    Same,
    /// As seldom by chance, from rounds; absent where what is measured does not vary.
    Changed {
        #[serde(skip_serializing_if = "Option::is_none")]
        p: Option<f64>,
    },
    Inconclusive {
        why: String,
    },
}

/// The figures that the same limiter gives again on the same server, whatever the machine does meanwhile.
const EXACT: [Figure; 4] =
    [Figure::BytesPerIdentity, Figure::EntriesPerIdentity, Figure::States, Figure::Schedules];

/// Compares two runs.
pub fn compare(before: &Report, after: &Report) -> Comparison {
    let with_server =
        [before, after].iter().any(|r| several(r, |c| format!("{} {}", c.server_flavour, c.server)));
    let with_backend = [before, after].iter().any(|r| several(r, |c| c.backend.clone()));
    let keyed = |report: &'_ Report| -> Vec<(Key, usize)> {
        let mut seen: BTreeMap<Key, u32> = BTreeMap::new();
        let each = report.cells.iter().enumerate().map(|(place, cell)| {
            let mut key = Key::of(cell, with_server, with_backend);
            // The same cell twice in a run: paired in their order.
            let times = seen.entry(key.clone()).or_default();
            *times += 1;
            key.times = *times;
            (key, place)
        });
        each.collect()
    };
    let (a, b) = (keyed(before), keyed(after));
    let missing = |these: &[(Key, usize)], those: &[(Key, usize)]| -> Vec<String> {
        let known: BTreeSet<&Key> = those.iter().map(|(k, _)| k).collect();
        these.iter().filter(|(k, _)| !known.contains(k)).map(|(k, _)| k.name()).collect()
    };
    let pairs: Vec<Pair> = a
        .iter()
        .filter_map(|(key, place)| {
            let (_, other) = b.iter().find(|(k, _)| k == key)?;
            Some(pair(key, &before.cells[*place], &after.cells[*other]))
        })
        .collect();
    let (only_before, only_after) = (missing(&a, &b), missing(&b, &a));
    // What is gone is no longer known, and what is new and fails did not fail before.
    let known: BTreeSet<&Key> = a.iter().map(|(k, _)| k).collect();
    let new = b.iter().filter(|(k, _)| !known.contains(k)).flat_map(|(_, place)| &after.cells[*place].checks);
    let new = new.map(|c| Change::of(None, Some(c.verdict)));
    let gone = (!only_before.is_empty() || !after.finished).then_some(Change::Unsettled);
    let all = pairs.iter().flat_map(|p| &p.verdicts).map(|c| c.change).chain(new).chain(gone);
    Comparison {
        schema: 1,
        verdicts: all.max().unwrap_or(Change::Same),
        only_before,
        only_after,
        pairs,
        ground: ground(before, after),
    }
}

fn several(report: &Report, of: fn(&CellReport) -> String) -> bool {
    report.cells.iter().map(of).collect::<BTreeSet<_>>().len() > 1
}

/// By what cells of two runs are the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    scenario: String,
    limiter: String,
    ground: String,
    times: u32,
}

impl Key {
    fn of(cell: &CellReport, with_server: bool, with_backend: bool) -> Self {
        let mut limiter = cell.limiter.clone();
        limiter.extend(cell.variation.iter().map(|v| format!(" ({v})")));
        limiter.extend(cell.policy.iter().map(|p| format!(" + {p}")));
        let mut ground = format!(" · {}", cell.client);
        if with_server {
            ground.push_str(&format!(" · {} {}", cell.server_flavour, cell.server));
        }
        if with_backend {
            ground.push_str(&format!(" · {}", cell.backend));
        }
        Self { scenario: cell.scenario.clone(), limiter, ground, times: 0 }
    }

    fn name(&self) -> String {
        format!("{}: {}{}", self.scenario, self.limiter, self.ground)
    }
}

fn pair(key: &Key, before: &CellReport, after: &CellReport) -> Pair {
    let mut names: Vec<&str> = before.checks.iter().map(|c| c.check.as_str()).collect();
    names.extend(
        after
            .checks
            .iter()
            .map(|c| c.check.as_str())
            .filter(|c| !before.checks.iter().any(|b| b.check == *c)),
    );
    let verdicts = names.into_iter().map(|name| {
        let of = |cell: &CellReport| cell.checks.iter().find(|c| c.check == name).map(|c| c.verdict);
        let (a, b) = (of(before), of(after));
        let found = after.checks.iter().find(|c| c.check == name);
        let because = found.and_then(|c| c.witness.clone().or_else(|| c.why.clone())).unwrap_or_default();
        Changed { check: name.to_owned(), before: a, after: b, change: Change::of(a, b), because }
    });
    Pair {
        scenario: key.scenario.clone(),
        limiter: format!("{}{}", key.limiter, key.ground),
        verdicts: verdicts.collect(),
        measured: measured(before, after),
    }
}

/// What a round tells of one of them.
type OfRound = fn(&RoundCounts) -> Option<f64>;

/// What both tell: counts and times of rounds, and figures that are one for all of them.
fn measured(before: &CellReport, after: &CellReport) -> Vec<Measured> {
    let mut all = Vec::new();
    let counts: [(&str, OfRound); 4] = [
        ("admitted", |r| Some(r.admitted as f64)),
        ("without-a-decision", |r| Some((r.failed + r.unknown) as f64)),
        ("p50-ms", |r| r.p50_ms),
        ("max-ms", |r| r.max_ms),
    ];
    for (what, of) in counts {
        let values = |cell: &CellReport| cell.rounds.iter().map(of).collect::<Option<Vec<f64>>>();
        let (Some(a), Some(b)) = (values(before), values(after)) else { continue };
        if a.is_empty() || b.is_empty() || a.iter().chain(&b).all(|v| *v == 0.0) {
            continue;
        }
        let told = of_rounds(&a, &b);
        all.push(Measured {
            what: what.to_owned(),
            before: Values::Rounds(a),
            after: Values::Rounds(b),
            told,
        });
    }
    for figure in Figure::ALL {
        // Told round by round above.
        if matches!(
            figure,
            Figure::P50Ms | Figure::P99Ms | Figure::MaxMs | Figure::RequestsSent | Figure::Undecided
        ) {
            continue;
        }
        let (Some(a), Some(b)) = (before.figures.get(&figure), after.figures.get(&figure)) else { continue };
        let told = if a == b {
            Told::Same
        } else if EXACT.contains(&figure) {
            Told::Changed { p: None }
        } else {
            Told::Inconclusive {
                why: "one value in each run, and how much it varies is not known".to_owned(),
            }
        };
        all.push(Measured {
            what: figure.name().to_owned(),
            before: Values::One(*a),
            after: Values::One(*b),
            told,
        });
    }
    all
}

fn of_rounds(before: &[f64], after: &[f64]) -> Told {
    if before.iter().chain(after).all(|v| *v == before[0]) {
        return Told::Same;
    }
    let (n, m) = (before.len(), after.len());
    match p_value(before, after) {
        p if p <= P_AT_MOST => Told::Changed { p: Some(p) },
        _ if rank::least_p(n, m) > P_AT_MOST => {
            Told::Inconclusive { why: format!("{n} and {m} rounds cannot tell: with 5 in each they could") }
        }
        p => Told::Inconclusive { why: format!("the rounds vary as much by themselves (p = {p:.2})") },
    }
}

/// What else is different.
fn ground(before: &Report, after: &Report) -> Vec<String> {
    let servers = |r: &Report| {
        let all: BTreeSet<String> =
            r.cells.iter().map(|c| format!("{} {}", c.server_flavour, c.server).trim().to_owned()).collect();
        all.into_iter().collect::<Vec<_>>().join(", ")
    };
    let limits = |r: &Report| {
        let plans: Vec<String> = r.scenarios.iter().map(|s| format!("{}: {}", s.name, s.plan)).collect();
        plans.join("; ")
    };
    let finished =
        |r: &Report| if r.finished { "all that was planned" } else { "a part of what was planned" };
    let pairs = [
        ("what was run", finished(before).to_owned(), finished(after).to_owned()),
        ("lab", before.lab.clone(), after.lab.clone()),
        ("server", servers(before), servers(after)),
        ("backend", before.honesty.backend.clone(), after.honesty.backend.clone()),
        (
            "network",
            before.honesty.network_path.clone().unwrap_or_default(),
            after.honesty.network_path.clone().unwrap_or_default(),
        ),
        ("cores", before.honesty.cores.to_string(), after.honesty.cores.to_string()),
        ("seed", before.seed.to_string(), after.seed.to_string()),
        ("plan", limits(before), limits(after)),
    ];
    let differ = pairs.into_iter().filter(|(_, a, b)| a != b);
    differ.map(|(what, a, b)| format!("{what}: {a} before, {b} after")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_and_did_not_is_the_worst_and_unknown_is_no_pass() {
        use Verdict::{Fail, NotApplicable, Pass, Unknown};
        let of = |a, b| Change::of(Some(a), Some(b));
        assert_eq!(of(Pass, Fail), Change::Broken);
        assert_eq!(of(Unknown, Fail), Change::Broken);
        assert_eq!(Change::of(None, Some(Fail)), Change::Broken, "a check that is new and fails");
        assert_eq!(of(Pass, Unknown), Change::Unsettled);
        assert_eq!(of(Fail, Unknown), Change::Unsettled, "not fixed: nobody knows");
        assert_eq!(of(Fail, Pass), Change::Fixed);
        assert_eq!(of(Unknown, Pass), Change::Settled);
        assert_eq!(of(Fail, NotApplicable), Change::Unsettled);
        assert_eq!(Change::of(Some(Pass), None), Change::Unsettled, "a check that is no longer made");
        assert_eq!(of(NotApplicable, Pass), Change::Other);
        assert_eq!(of(Pass, Pass), Change::Same);
        assert!(Change::Broken > Change::Unsettled && Change::Unsettled > Change::Settled);
    }

    #[test]
    fn noise_is_not_a_difference_and_five_rounds_apart_are_one() {
        let low = [1.0, 1.2, 0.9, 1.1, 1.3];
        assert!(
            matches!(of_rounds(&low, &[1.4, 1.5, 1.6, 1.4, 1.7]), Told::Changed { p: Some(p) } if p < 0.01)
        );
        let Told::Inconclusive { why } = of_rounds(&low, &[1.0, 1.25, 1.4, 0.95, 1.35]) else { panic!() };
        assert!(why.contains("vary as much"), "{why}");
        let Told::Inconclusive { why } = of_rounds(&low[..3], &[9.0, 9.0, 9.0]) else { panic!() };
        assert!(why.contains("cannot tell"), "{why}");
        assert_eq!(of_rounds(&[10.0; 5], &[10.0; 5]), Told::Same);
    }
}
