//! A gate: whether limiters have the properties that a profile asks for, what was known to be broken before, and
//! what is new.
//!
//! A property is what one check says under one scenario, or a figure that must not be above a number. The plan is
//! written into the history, so that whoever reads it comes to the same.

mod baseline;
mod shard;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::figures::Figure;
use super::report::{CellReport, CheckReport};
use super::verdict::Verdict;

pub use baseline::{Baseline, Verdicts};
pub use shard::{Shard, dealt};

/// What a gate is to run, all shards of it, and how it is judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GatePlan {
    pub profile: String,
    /// The command that runs this gate again; `--limiters` narrows it down.
    pub again: String,
    pub cells: Vec<PlannedCell>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at_most: BTreeMap<Figure, f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub must_be_known: Vec<String>,
    /// What came out before, where that is not to be held against anybody again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<Baseline>,
    /// The share that is run here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
}

/// A limiter under a scenario.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedCell {
    pub scenario: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variation: Option<String>,
    /// As `--limiters` takes it.
    pub limiter: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    pub client: String,
    /// Limiter, policy and client, as far as they are named: what a row of the matrix is called.
    pub label: String,
    pub checks: Vec<String>,
    /// Why it cannot be run at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_run: Option<String>,
    /// Which of the shards runs it, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<u32>,
}

/// What a gate came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    pub plan: GatePlan,
    /// In the order of the plan.
    pub results: Vec<GateResult>,
    /// What was known to be broken and passes now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fixed: Vec<Fixed>,
}

/// A limiter and a property.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateResult {
    pub limiter: String,
    pub scenario: String,
    /// `race · never-over-limit`, `skew (ahead) · clock-independent`, `race · p99-ms ≤ 50`.
    pub property: String,
    pub verdict: Verdict,
    pub counts: Counts,
    /// The witness of a fail; else what the verdict rests on.
    pub because: String,
    /// The command that shows it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<String>,
}

/// What a result does to the gate. From the best to the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Counts {
    Fine,
    /// It was known to be broken.
    Known,
    /// Not enough evidence either way.
    Unknown,
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fixed {
    pub limiter: String,
    pub property: String,
}

impl GateResult {
    /// `PASS`, `FAIL`, `FAIL (known)`, `unknown`, `unknown (must be known)`, `n/a`.
    pub fn label(&self) -> String {
        let verdict = match self.verdict {
            Verdict::Pass => "PASS",
            Verdict::Fail => "FAIL",
            other => other.name(),
        };
        match (self.counts, self.verdict) {
            (Counts::Known, _) => format!("{verdict} (known)"),
            (Counts::Failed, Verdict::Unknown) => format!("{verdict} (must be known)"),
            _ => verdict.to_owned(),
        }
    }

    /// `limiter · property`.
    pub fn name(&self) -> String {
        format!("{} · {}", self.limiter, self.property)
    }
}

impl PlannedCell {
    fn is(&self, cell: &CellReport) -> bool {
        self.scenario == cell.scenario
            && self.variation == cell.variation
            && self.limiter == cell.limiter
            && self.policy == cell.policy
            && self.client == cell.client
    }

    fn property(&self, what: &str) -> String {
        let variation = self.variation.as_ref().map(|v| format!(" ({v})")).unwrap_or_default();
        format!("{}{variation} · {what}", self.scenario)
    }

    fn result(&self, what: &str, verdict: Verdict, because: String, replay: Option<String>) -> GateResult {
        GateResult {
            limiter: self.label.clone(),
            scenario: self.scenario.clone(),
            property: self.property(what),
            verdict,
            counts: Counts::Fine,
            because,
            replay,
        }
    }
}

impl GatePlan {
    /// The cells that are run here.
    pub fn here(&self) -> impl Iterator<Item = &PlannedCell> {
        let share = self.shard.map(|s| s.number);
        self.cells.iter().filter(move |c| share.is_none() || c.shard == share)
    }

    /// The names of the rows, each once.
    pub fn limiters(&self) -> Vec<&str> {
        let mut all: Vec<&str> = Vec::new();
        for cell in &self.cells {
            if !all.contains(&cell.label.as_str()) {
                all.push(&cell.label);
            }
        }
        all
    }

    /// Whether that is the same plan, whichever share of it, and wherever it is run.
    pub fn is_of_the_same(&self, other: &Self) -> bool {
        let whole = |plan: &Self| Self { shard: None, again: String::new(), ..plan.clone() };
        whole(self) == whole(other)
    }

    /// Puts reports into the order of the plan.
    pub fn sort(&self, cells: &mut [CellReport]) {
        cells.sort_by_key(|cell| self.cells.iter().position(|p| p.is(cell)));
    }

    fn again(&self, cell: &PlannedCell) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_=:,./@%+".contains(c);
        let limiter = &cell.limiter;
        let quoted = if limiter.chars().all(plain) { limiter.clone() } else { format!("'{limiter}'") };
        format!("{} --limiters {quoted}", self.again)
    }

    fn counts(&self, result: &GateResult, check: &str) -> Counts {
        let bad = match result.verdict {
            Verdict::Fail => true,
            Verdict::Unknown => self.must_be_known.iter().any(|name| name == check),
            _ => false,
        };
        let known = self.known.as_ref().and_then(|known| known.verdict(result));
        match result.verdict {
            // No worse than it was.
            _ if bad && known.is_some_and(|before| before >= result.verdict) => Counts::Known,
            _ if bad => Counts::Failed,
            Verdict::Unknown => Counts::Unknown,
            _ => Counts::Fine,
        }
    }
}

impl Gate {
    /// Judges what was run so far.
    pub fn of(plan: &GatePlan, cells: &[CellReport]) -> Self {
        let mut results = Vec::new();
        for planned in plan.here() {
            let cell = cells.iter().find(|c| planned.is(c));
            for name in &planned.checks {
                let check = cell.and_then(|c| c.checks.iter().find(|c| c.check == *name));
                let mut result = match check {
                    Some(check) => planned.result(name, check.verdict, because(check), check.replay.clone()),
                    None => match &planned.not_run {
                        Some(why) => planned.result(name, Verdict::NotApplicable, why.clone(), None),
                        None => planned.result(name, Verdict::Unknown, "it was not run".to_owned(), None),
                    },
                };
                result.counts = plan.counts(&result, name);
                if result.counts == Counts::Failed && result.replay.is_none() {
                    result.replay = Some(plan.again(planned));
                }
                results.push(result);
            }
            results.extend(thresholds(plan, planned, cell, cells));
        }
        let fixed = plan.known.iter().flat_map(|known| known.fixed(&results)).collect();
        Self { plan: plan.clone(), results, fixed }
    }

    /// The names of the properties, each once, in the order in which they are tried.
    pub fn properties(&self) -> Vec<&str> {
        let mut all: Vec<&str> = Vec::new();
        for result in &self.results {
            if !all.contains(&result.property.as_str()) {
                all.push(&result.property);
            }
        }
        all
    }

    /// The names of the limiters that something is said of.
    pub fn limiters(&self) -> Vec<&str> {
        let told = |name: &&str| self.results.iter().any(|r| r.limiter == *name);
        self.plan.limiters().into_iter().filter(told).collect()
    }

    pub fn result(&self, limiter: &str, property: &str) -> Option<&GateResult> {
        self.results.iter().find(|r| r.limiter == limiter && r.property == property)
    }

    /// Those that count so, those that convict first.
    pub fn counting(&self, counts: Counts) -> Vec<&GateResult> {
        let mut all: Vec<&GateResult> = self.results.iter().filter(|r| r.counts == counts).collect();
        all.sort_by_key(|r| std::cmp::Reverse(r.verdict));
        all
    }

    /// The worst of all, and whether anything was judged at all.
    pub fn worst(&self) -> (Counts, bool) {
        let worst = self.results.iter().map(|r| r.counts).max().unwrap_or(Counts::Fine);
        (worst, self.results.iter().any(|r| r.verdict != Verdict::NotApplicable))
    }
}

fn because(check: &CheckReport) -> String {
    check.witness.clone().or_else(|| check.why.clone()).unwrap_or_default()
}

/// The figures of a cell that have a bound. One that its record does not tell is left out, but for the limiters of
/// which no record tells it: a bound that nothing is held to would read as kept.
fn thresholds(
    plan: &GatePlan,
    planned: &PlannedCell,
    cell: Option<&CellReport>,
    cells: &[CellReport],
) -> Vec<GateResult> {
    let told_elsewhere = |figure: &Figure| {
        let mut others = plan.here().filter(|p| p.label == planned.label);
        others.any(|p| cells.iter().any(|c| p.is(c) && c.figures.contains_key(figure)))
    };
    let one = |(figure, most): (&Figure, &f64)| {
        let what = format!("{} ≤ {most}", figure.name());
        let Some(value) = cell.and_then(|c| c.figures.get(figure)) else {
            // Another shard may tell it.
            let missed = cell.is_some() && plan.shard.is_none() && !told_elsewhere(figure);
            let why = format!("no scenario of the profile measures {} of it", figure.name());
            return missed.then(|| GateResult {
                counts: Counts::Unknown,
                ..planned.result(&what, Verdict::Unknown, why, None)
            });
        };
        let measured = format!("{} is {value:.3}, and {most} is the most that is allowed", figure.name());
        let verdict = if value > most { Verdict::Fail } else { Verdict::Pass };
        let mut result = planned.result(&what, verdict, measured, None);
        result.counts = plan.counts(&result, "");
        if result.counts == Counts::Failed {
            result.replay = Some(plan.again(planned));
        }
        Some(result)
    };
    plan.at_most.iter().filter_map(one).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A plan of these limiters under `race`, with one check.
    pub fn plan(limiters: &[&str]) -> GatePlan {
        let cell = |limiter: &&str| PlannedCell {
            scenario: "race".to_owned(),
            variation: None,
            limiter: (*limiter).to_owned(),
            policy: None,
            client: "fail-fast".to_owned(),
            label: (*limiter).to_owned(),
            checks: vec!["never-over-limit".to_owned()],
            not_run: None,
            shard: None,
        };
        GatePlan {
            profile: "quick".to_owned(),
            again: "rl-lab gate --profile quick --seed 1".to_owned(),
            cells: limiters.iter().map(cell).collect(),
            at_most: BTreeMap::new(),
            must_be_known: Vec::new(),
            known: None,
            shard: None,
        }
    }

    pub fn cell(limiter: &str, verdict: Verdict, figures: &[(Figure, f64)]) -> CellReport {
        let fail = verdict == Verdict::Fail;
        let check = CheckReport {
            check: "never-over-limit".to_owned(),
            verdict,
            expected: None,
            outcome: crate::model::verdict::Standing::Judged,
            witness: fail.then(|| "20 where 10 may be".to_owned()),
            why: (!fail).then(|| "a reason".to_owned()),
            replay: fail.then(|| format!("rl-lab race --strict --limiters {limiter}")),
            scene: None,
        };
        let json = serde_json::json!({
            "scenario": "race", "limiter": limiter, "params": {}, "policy": null, "client": "fail-fast",
            "backend": "local", "server": "7", "server_flavour": "redis", "limit": 10, "rounds": [],
            "checks": [check], "figures": figures.iter().copied().collect::<BTreeMap<_, _>>(),
            "contract": {"bound": {"kind": "none"}, "scope": "global", "clock": "app", "clock_resolution_ms": 1,
                         "denials": "free", "on_outage": "error", "key_ttl_at_most": null},
            "honesty": {"generator_cpu": 0.0, "overlap": 0, "commands": 0, "round_trips": 0, "busy_ms": 0.0},
        });
        serde_json::from_value(json).unwrap()
    }

    fn counts(plan: &GatePlan, cells: &[CellReport]) -> Vec<Counts> {
        Gate::of(plan, cells).results.iter().map(|r| r.counts).collect()
    }

    #[test]
    fn a_fail_fails_and_an_unknown_only_where_it_must_be_known() {
        let mut plan = plan(&["a", "b", "c"]);
        let cells =
            [cell("a", Verdict::Pass, &[]), cell("b", Verdict::Unknown, &[]), cell("c", Verdict::Fail, &[])];
        assert_eq!(counts(&plan, &cells), [Counts::Fine, Counts::Unknown, Counts::Failed]);
        plan.must_be_known = vec!["never-over-limit".to_owned()];
        let gate = Gate::of(&plan, &cells);
        assert_eq!(gate.worst(), (Counts::Failed, true));
        assert_eq!(gate.results[1].label(), "unknown (must be known)");
        assert_eq!(
            gate.results[1].replay.as_deref(),
            Some("rl-lab gate --profile quick --seed 1 --limiters b")
        );
        assert_eq!(gate.results[2].replay.as_deref(), Some("rl-lab race --strict --limiters c"));
    }

    #[test]
    fn what_was_planned_and_not_run_is_unknown_and_what_cannot_be_run_does_not_apply() {
        let mut plan = plan(&["a", "b", "c"]);
        plan.cells[2].not_run = Some("it runs elsewhere".to_owned());
        let cells = [cell("a", Verdict::Pass, &[])];
        assert_eq!(counts(&plan, &cells), [Counts::Fine, Counts::Unknown, Counts::Fine]);
        assert_eq!(Gate::of(&plan, &cells).results[2].verdict, Verdict::NotApplicable);
    }

    #[test]
    fn a_threshold_is_a_property_and_one_that_nothing_measures_is_no_pass() {
        let mut plan = plan(&["a", "b", "c"]);
        plan.at_most = [(Figure::P99Ms, 50.0)].into();
        let figure = |ms: f64| vec![(Figure::P99Ms, ms)];
        let cells = [
            cell("a", Verdict::Pass, &figure(50.0)),
            cell("b", Verdict::Pass, &figure(50.1)),
            cell("c", Verdict::Pass, &[]),
        ];
        let gate = Gate::of(&plan, &cells);
        let of = |limiter: &str| gate.result(limiter, "race · p99-ms ≤ 50").unwrap();
        assert_eq!(
            [of("a").counts, of("b").counts, of("c").counts],
            [Counts::Fine, Counts::Failed, Counts::Unknown]
        );
        assert!(
            of("b").because.contains("50.100") && of("b").replay.as_ref().unwrap().ends_with("--limiters b")
        );
    }

    #[test]
    fn a_known_failure_is_listed_a_new_one_fails_and_a_fixed_one_is_announced() {
        let mut plan = plan(&["a", "b", "c"]);
        let before =
            [cell("a", Verdict::Fail, &[]), cell("b", Verdict::Pass, &[]), cell("c", Verdict::Fail, &[])];
        plan.known = Some(Baseline::of(&Gate::of(&plan, &before)));
        let now =
            [cell("a", Verdict::Fail, &[]), cell("b", Verdict::Fail, &[]), cell("c", Verdict::Pass, &[])];
        let gate = Gate::of(&plan, &now);
        let counts: Vec<Counts> = gate.results.iter().map(|r| r.counts).collect();
        assert_eq!(counts, [Counts::Known, Counts::Failed, Counts::Fine]);
        let fixed: Vec<&str> = gate.fixed.iter().map(|f| f.limiter.as_str()).collect();
        assert_eq!(fixed, ["c"]);
    }

    #[test]
    fn an_unknown_that_was_a_known_failure_is_neither_known_nor_fixed() {
        let mut plan = plan(&["a"]);
        plan.known = Some(Baseline::of(&Gate::of(&plan, &[cell("a", Verdict::Fail, &[])])));
        let gate = Gate::of(&plan, &[cell("a", Verdict::Unknown, &[])]);
        assert_eq!((gate.results[0].counts, gate.fixed.len()), (Counts::Unknown, 0));
    }
}
