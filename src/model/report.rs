//! The result of a run, in the shape of `results.json`. Formats render it and nothing else.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::claims::Claims;
use super::contract::{Contract, Requirement};
use super::counter::Counter;
use super::figures::{Chart, Figure, Figures};
use super::gate::Gate;
use super::matrix::Matrix;
use super::phases::{Phase, Slice};
use super::scenario::PlannedClock;
use super::scene::Scene;
use super::schedule::{Budget, Schedule};
use super::units::{Limit, Seed};
use super::verdict::{Standing, Verdict};

/// The version of `results.json`.
pub const SCHEMA: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub schema: u32,
    pub passed: bool,
    /// The worst verdict after expectations: an expected `fail` counts as a pass.
    pub verdict: Verdict,
    pub exit: u8,
    /// Whether every cell that was planned was run.
    #[serde(default)]
    pub finished: bool,
    /// What went wrong, and what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub run: String,
    pub lab: String,
    pub started: String,
    pub seed: Seed,
    pub command: Vec<String>,
    /// The folder with everything that was written; absent where it could not be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out: Option<String>,
    pub honesty: Honesty,
    pub scenarios: Vec<ScenarioSummary>,
    pub cells: Vec<CellReport>,
    /// The same verdicts as limiters against properties, where a matrix was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix: Option<Matrix>,
    /// The claims that the cells were run for, and what became of each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claims: Option<Claims>,
    /// Limiters against the properties that a profile asks for, where a gate was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<Gate>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScenarioSummary {
    pub name: String,
    pub title: String,
    pub shows: String,
    /// What somebody needs a limiter for, where the scenario tries that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub need: Option<String>,
    /// Whether the scenario ran as written, so that its expectations hold.
    pub as_written: bool,
    /// The same as a sentence.
    #[serde(default)]
    pub terms: String,
    /// Workload and limit in words.
    pub plan: String,
    /// The requirement in words, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requires: Option<String>,
    /// The figures to show, in the order of the columns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<Figure>,
    #[serde(default, skip_serializing_if = "Chart::is_admitted")]
    pub chart: Chart,
}

/// What the figures rest on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Honesty {
    pub backend: String,
    /// Why this backend: asked for, or what was found.
    pub chosen_because: String,
    /// `loopback`, `bridge-ip` or `published-port`.
    pub network_path: Option<String>,
    /// Version of the container engine and of the API spoken with it.
    pub engine: Option<String>,
    pub api: Option<String>,
    pub image: Option<String>,
    pub image_digest: Option<String>,
    /// Largest difference between the wall clock and the monotonic clock in a round.
    pub clock_step_ms: f64,
    pub cores: usize,
    /// Where each server came from, where the run asked for several: `6.2: 6.2.14 (fetched by scripts/servers)`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub builds: Vec<String>,
    /// Servers that were asked for with all others and are not there, each with what gets it. What holds on the
    /// others is not known to hold on these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// One server as it introduced itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerInfo {
    /// `redis` or `valkey`.
    pub flavour: String,
    pub version: String,
}

/// How a cell was driven.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CellHonesty {
    /// Share of one core that the load generator used while calls were open.
    pub generator_cpu: f64,
    /// Most calls open at once, over all rounds.
    pub overlap: usize,
    /// Commands sent by the limiter, all rounds.
    pub commands: u64,
    /// Round trips waited for by the limiter, all rounds.
    pub round_trips: u64,
    /// Time from the first invocation to the last completion, all rounds, in ms, without what was
    /// skipped.
    pub busy_ms: f64,
    /// Waits that were skipped, all rounds, in ms.
    #[serde(default)]
    pub skipped_ms: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellReport {
    pub scenario: String,
    /// Name with its parameters, as `--limiters` takes it: `gcra-lua:clock=server`.
    pub limiter: String,
    pub params: BTreeMap<String, String>,
    /// Which variation of the scenario this is, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variation: Option<String>,
    pub policy: Option<String>,
    pub client: String,
    pub backend: String,
    /// Server version; `server_flavour` says which server.
    pub server: String,
    pub server_flavour: String,
    pub limit: Limit,
    pub contract: Contract,
    /// What is needed of it, whatever it promises.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requirement: Option<Requirement>,
    pub rounds: Vec<RoundCounts>,
    pub checks: Vec<CheckReport>,
    /// What the record tells beside the verdicts, whether or not the scenario shows it.
    #[serde(default)]
    pub figures: Figures,
    pub honesty: CellHonesty,
    /// What was gone through, where schedules were searched instead of load being driven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchReport>,
    /// What is asked in processes of somebody else's, by its own account: a library and its version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adapters: Vec<String>,
    /// Which cell of its scenario it is, from 0, in the order of the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<u32>,
    /// Clocks of app servers that were wrong, as planned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clocks: Vec<PlannedClock>,
    /// What was broken or done meanwhile, and what came of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub told: Vec<String>,
    /// Error texts with how often each came up.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, u64>,
}

impl CellReport {
    /// `redis 7.0.15`; empty where no server could be had.
    pub fn server_in_words(&self) -> String {
        format!("{} {}", self.server_flavour, self.server).trim().to_owned()
    }

    /// What it is a cell of, whatever server it ran on.
    fn identity(&self) -> (&str, &str, Option<&str>, Option<&str>, &str) {
        (&self.scenario, &self.limiter, self.variation.as_deref(), self.policy.as_deref(), &self.client)
    }
}

/// The servers of these cells, each once, in the order in which they ran.
pub fn servers(cells: &[CellReport]) -> Vec<String> {
    let mut servers: Vec<String> = Vec::new();
    for server in cells.iter().map(CellReport::server_in_words).filter(|s| !s.is_empty()) {
        if !servers.contains(&server) {
            servers.push(server);
        }
    }
    servers
}

/// Puts cells into the order in which they were planned: some are driven at the same time as others that come later, and
/// what ran on several servers ran one after the other, and is to stand side by side.
pub fn in_order(cells: &mut Vec<CellReport>) {
    let several = servers(cells).len() > 1;
    let key = |(at, cell): (usize, &CellReport)| {
        let first = |is: &dyn Fn(&CellReport) -> bool| cells.iter().position(is).unwrap_or(at);
        let place = match cell.place {
            Some(place) => place as usize,
            None if several => first(&|c| c.identity() == cell.identity()),
            None => at,
        };
        (first(&|c| c.scenario == cell.scenario), place)
    };
    let keys: Vec<(usize, usize)> = cells.iter().enumerate().map(key).collect();
    let mut keyed: Vec<_> = keys.into_iter().zip(std::mem::take(cells)).collect();
    keyed.sort_by_key(|(key, _)| *key);
    cells.extend(keyed.into_iter().map(|(_, cell)| cell));
}

/// A search through schedules.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchReport {
    pub budget: Budget,
    /// Whether everything within the budget was tried.
    pub complete: bool,
    /// Whether a state that was seen before ended a branch.
    pub reduced: bool,
    pub levels: Vec<LevelReport>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<SampleReport>,
    pub counterexamples: Vec<CounterexampleReport>,
}

/// One level of it: small budgets come first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelReport {
    pub limit: Limit,
    pub budget: Budget,
    pub complete: bool,
    pub schedules: u64,
    pub states: u64,
    pub pruned: u64,
    pub steps: u64,
    /// Different states at which schedules ended.
    pub endings: u64,
}

/// Random schedules, where the search did not come to its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SampleReport {
    pub schedules: u64,
    /// Most steps of any of them.
    pub longest: usize,
    /// A bug of this depth would have been missed with at most this probability.
    pub depth: u32,
    pub missed_at_most: f64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterexampleReport {
    pub check: String,
    pub limit: Limit,
    pub schedule: Schedule,
    /// How many of three replays went exactly the same way.
    pub confirmed: u32,
    /// Its file in the run's folder; absent where that could not be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// A crash of the first call's node, and the calls of others behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrashReport {
    /// `before PEXPIRE, step 2 of 2`.
    pub died: String,
    /// The keys as it left them: `user = 1 (no expiry)`.
    pub left: String,
    /// Calls of others and how many of them were admitted, window by window.
    pub windows: Vec<(u64, u64)>,
    /// Whether anybody was admitted in the last of them.
    pub released: bool,
}

/// Ops of one round by outcome. `offered` is the sum of the other four.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundCounts {
    pub offered: u64,
    pub admitted: u64,
    pub denied: u64,
    pub failed: u64,
    pub unknown: u64,
    /// What became of the store and of others after the node of the first call died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crash: Option<CrashReport>,
    /// Before, during and after what broke.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Phase>,
    /// The same in short stretches, for a picture.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<Slice>,
    /// What the store said was used, where servers replicate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counter: Option<Counter>,
    /// Commands that each node of a cluster processed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<u64>,
    /// How long half of the decided calls took at most, and the slowest of them; absent where none was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ms: Option<f64>,
    /// What a preset had used before the round.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub preset: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckReport {
    pub check: String,
    pub verdict: Verdict,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Verdict>,
    pub outcome: Standing,
    /// For `fail`: what happened, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witness: Option<String>,
    /// For the other verdicts: the reason, or the strength of the evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// For `fail`: the command that shows it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<String>,
    /// For `fail`: the calls it is about, where the checker can name some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scene: Option<Scene>,
}

impl CheckReport {
    /// `FAIL (expected)`, `PASS`, `FAIL`, `PASS (expected FAIL)`, `unknown`, `n/a`.
    pub fn label(&self) -> String {
        let verdict = match self.verdict {
            Verdict::Pass => "PASS",
            Verdict::Fail => "FAIL",
            other => other.name(),
        };
        match (self.outcome, self.expected) {
            (Standing::AsExpected, Some(Verdict::Fail | Verdict::Unknown)) => format!("{verdict} (expected)"),
            (Standing::Unexpected, Some(expected)) => {
                format!("{verdict} (expected {})", expected.name().to_uppercase())
            }
            _ => verdict.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_in_the_order_of_the_plan_whenever_each_was_driven() {
        let cell = |scenario: &str, place: u32, server: &str| CellReport {
            scenario: scenario.to_owned(),
            server: server.to_owned(),
            place: Some(place),
            ..super::super::gate::tests::cell("a", Verdict::Pass, &[])
        };
        let mut cells =
            [("y", 0, "6"), ("y", 2, "6"), ("y", 1, "6"), ("x", 0, "6"), ("y", 0, "7"), ("y", 1, "7")]
                .map(|(scenario, place, server)| cell(scenario, place, server))
                .to_vec();
        in_order(&mut cells);
        let is = |c: &CellReport| format!("{} {} {}", c.scenario, c.place.unwrap(), c.server);
        assert_eq!(
            cells.iter().map(is).collect::<Vec<_>>(),
            ["y 0 6", "y 0 7", "y 1 6", "y 1 7", "y 2 6", "x 0 6"]
        );
    }

    #[test]
    fn cells_of_several_servers_stand_side_by_side_and_those_of_one_stay_where_they_are() {
        let cell = |limiter: &str, server: &str| CellReport {
            server: server.to_owned(),
            ..super::super::gate::tests::cell(limiter, Verdict::Pass, &[])
        };
        let order = |cells: &[CellReport]| -> Vec<String> {
            cells.iter().map(|c| format!("{} {}", c.limiter, c.server)).collect()
        };
        let mut cells = vec![cell("b", "6"), cell("a", "6"), cell("b", "7"), cell("a", "7")];
        in_order(&mut cells);
        assert_eq!(order(&cells), ["b 6", "b 7", "a 6", "a 7"]);
        let mut twice = vec![cell("b", "6"), cell("a", "6"), cell("b", "6")];
        in_order(&mut twice);
        assert_eq!(order(&twice), ["b 6", "a 6", "b 6"]);
    }
}
