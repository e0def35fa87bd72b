//! From a profile of `rl-lab.toml` to what a gate runs.

use std::path::Path;

use super::configured;
use super::drive;
use super::explore::applicable;
use super::explore::run::{Exploration, Target};
use super::plan::{self, CellPlan, Overrides, Plan, shell_words};
use super::scenarios::{self, Named};
use crate::clients;
use crate::limiters;
use crate::model::config::{Config, Profile};
use crate::model::foreign::Foreign;
use crate::model::gate::{GatePlan, PlannedCell, Shard, dealt};
use crate::model::scenario::{LimiterRef, Time};
use crate::model::schedule::Budget;
use crate::model::units::{Limit, Seed, Window};

/// What a gate searches: enough for every fault that two callers, a crash and an expiry can show.
const BUDGET: Budget =
    Budget { clients: 2, requests: 1, crashes: 1, ticks: 1, losses: 0, flushes: 0, pauses: 0 };

/// What the search is called among the scenarios.
const SEARCH: &str = "explore";

/// What is asked of a gate beside what its profile says.
pub struct Asked<'a> {
    /// The file that the profile is of.
    pub path: &'a Path,
    pub config: &'a Config,
    pub profile: &'a str,
    /// Instead of those of the profile.
    pub limiters: &'a [LimiterRef],
    pub seed: Seed,
    pub shard: Option<Shard>,
    /// What a command says beside the profile so that it runs the same.
    pub with: &'a [String],
    /// Servers that search schedules together.
    pub servers: usize,
}

/// What is run here, and what it is judged by.
pub struct Planned {
    pub plans: Vec<Plan>,
    pub exploration: Option<Exploration>,
    pub gate: GatePlan,
}

/// What a profile gates: its own limiters, else all of the file.
pub fn limiters_of(config: &Config, profile: &Profile) -> Result<Vec<LimiterRef>, String> {
    let of_file =
        || config.limiters.keys().map(|name| LimiterRef { name: name.clone(), params: Default::default() });
    let all: Vec<LimiterRef> =
        if profile.limiters.is_empty() { of_file().collect() } else { profile.limiters.clone() };
    resolved(&all)
}

fn resolved(all: &[LimiterRef]) -> Result<Vec<LimiterRef>, String> {
    let mut each: Vec<LimiterRef> = Vec::new();
    for wanted in all {
        let limiter = limiters::resolve(wanted)?;
        if !each.contains(&limiter) {
            each.push(limiter);
        }
    }
    Ok(each)
}

/// Looks everything up. The error is the user's to mend.
pub fn plan(asked: &Asked<'_>) -> Result<Planned, String> {
    let profile = asked.config.profile(asked.profile)?;
    let limiters = if asked.limiters.is_empty() {
        limiters_of(asked.config, profile)?
    } else {
        resolved(asked.limiters)?
    };
    if limiters.is_empty() {
        let what =
            "it names no limiters, and the file has none: add a [limiter.NAME], or limiters = [\"NAME\"]";
        return Err(format!("profile '{}': {what}", asked.profile));
    }
    let mut plans = planned(asked, profile, &limiters)?;
    let searched =
        profile.explore.map(|time| search(time.duration(), &limiters, asked.servers)).transpose()?;
    let (mut exploration, unsearched) = searched.map_or((None, Vec::new()), |(e, not)| (Some(e), not));
    let mut cells: Vec<PlannedCell> = Vec::new();
    let mut weights: Vec<u64> = Vec::new();
    for (plan, cell) in plans.iter().flat_map(|p| p.cells.iter().map(move |c| (p, c))) {
        cells.push(of_cell(plan, cell));
        weights.push(planned_ms(plan, cell));
    }
    for target in exploration.iter().flat_map(|e| &e.targets) {
        cells.push(of_search(&target.limiter, None));
        weights.push(profile.explore.map_or(0, |time| time.millis()));
    }
    for (limiter, why) in &unsearched {
        cells.push(of_search(limiter, Some(why.clone())));
        weights.push(0);
    }
    if let Some(shard) = asked.shard {
        deal(&mut cells, &weights, shard);
        let mut places = cells.iter().map(|c| c.shard == Some(shard.number));
        let mut here = || places.next().unwrap_or(false);
        plans.iter_mut().for_each(|p| p.cells.retain(|_| here()));
        plans.retain(|p| !p.cells.is_empty());
        exploration.iter_mut().for_each(|e| e.targets.retain(|_| here()));
    }
    let mut again: Vec<String> = ["rl-lab", "gate", "--profile", asked.profile].map(str::to_owned).to_vec();
    again.extend(["--seed".to_owned(), asked.seed.to_string()]);
    again.extend_from_slice(asked.with);
    let gate = GatePlan {
        profile: asked.profile.to_owned(),
        again: shell_words(&again),
        cells,
        at_most: profile.thresholds.clone(),
        must_be_known: profile.must_be_known.clone(),
        known: None,
        shard: asked.shard,
    };
    Ok(Planned { plans, exploration: exploration.filter(|e| !e.targets.is_empty()), gate })
}

/// The scenarios of the profile, with these limiters and no others, judged.
fn planned(asked: &Asked<'_>, profile: &Profile, limiters: &[LimiterRef]) -> Result<Vec<Plan>, String> {
    let changes = Overrides {
        limiters: limiters.to_vec(),
        rounds: profile.rounds,
        require: asked.config.require.clone(),
        // Who is gated is not there to be an example.
        strict: true,
        ..Overrides::default()
    };
    let mut plans: Vec<Plan> = Vec::new();
    for scenario in &profile.scenarios {
        let of = |why: String| format!("profile '{}', scenario '{scenario}': {why}", asked.profile);
        let named = find(asked.path, scenario).map_err(of)?;
        if plans.iter().any(|p| p.name == named.name) {
            return Err(of("there are two of that name".to_owned()));
        }
        if named.name == SEARCH {
            return Err(of(format!("'{SEARCH}' is what the search is called: the file needs another name")));
        }
        plans.push(plan::plan(named, &changes, asked.seed).map_err(of)?);
    }
    Ok(plans)
}

/// A scenario of a profile: files are beside the one that names them.
fn find(config: &Path, scenario: &str) -> Result<Named, String> {
    if !configured::is_file(scenario) {
        return scenarios::find(scenario);
    }
    let path = config.parent().unwrap_or_else(|| Path::new("")).join(scenario);
    scenarios::load(&path.display().to_string())
}

/// A small search of every limiter that can be searched, and why of the others.
fn search(
    time: std::time::Duration,
    limiters: &[LimiterRef],
    servers: usize,
) -> Result<(Exploration, Vec<(LimiterRef, String)>), String> {
    let limits =
        [1, 2].map(Limit::new).into_iter().collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
    let window = Window::from_millis(60_000).map_err(|e| e.to_string())?;
    let (mut targets, mut unsearched) = (Vec::new(), Vec::new());
    for limiter in limiters {
        if let Some(why) = limiters::find(&limiter.name)?.foreign.and_then(Foreign::unsearchable) {
            unsearched.push((limiter.clone(), why.to_owned()));
            continue;
        }
        match Target::of(limiter, &limits, window, true) {
            Ok(target) => targets.push(target),
            Err(why) => unsearched.push((limiter.clone(), why)),
        }
    }
    let exploration = Exploration {
        targets,
        limits,
        window,
        budget: BUDGET,
        reduce: true,
        time,
        servers,
        client: clients::find(clients::DEFAULT)?,
        export: None,
        replay: None,
    };
    Ok((exploration, unsearched))
}

fn of_cell(plan: &Plan, cell: &CellPlan) -> PlannedCell {
    PlannedCell {
        scenario: plan.name.clone(),
        variation: cell.variation.clone(),
        limiter: cell.limiter.to_string(),
        policy: cell.policy.as_ref().map(|p| p.policy.to_string()),
        client: cell.client.name.to_owned(),
        label: CellPlan { variation: None, ..cell.clone() }.label(),
        checks: cell.checks.iter().map(|c| c.check.clone()).collect(),
        not_run: None,
        shard: None,
    }
}

fn of_search(limiter: &LimiterRef, not_run: Option<String>) -> PlannedCell {
    let judged = applicable(BUDGET).into_iter().filter(|(_, why)| why.is_none());
    PlannedCell {
        scenario: SEARCH.to_owned(),
        variation: None,
        limiter: limiter.to_string(),
        policy: None,
        client: clients::DEFAULT.to_owned(),
        label: limiter.to_string(),
        checks: judged.map(|(check, _)| check.to_owned()).collect(),
        not_run,
        shard: None,
    }
}

/// About how long a cell takes: what is waited for, and something for servers and connections.
fn planned_ms(plan: &Plan, cell: &CellPlan) -> u64 {
    let load = &cell.setup.workload;
    let real = drive::time_of(plan, cell) == Time::Real;
    let planned = if real { load.planned(cell.setup.limit.window).millis() } else { 0 };
    500 + planned.saturating_mul(u64::from(load.rounds.get()))
}

/// Gives each scenario and limiter to a shard, with all of their cells.
fn deal(cells: &mut [PlannedCell], weights: &[u64], shard: Shard) {
    let mut units: Vec<((String, String), u64)> = Vec::new();
    let unit_of = |c: &PlannedCell| (c.scenario.clone(), c.limiter.clone());
    for (cell, weight) in cells.iter().zip(weights) {
        match units.iter_mut().find(|(unit, _)| *unit == unit_of(cell)) {
            Some((_, sum)) => *sum = sum.saturating_add(*weight),
            None => units.push((unit_of(cell), *weight)),
        }
    }
    let all: Vec<u64> = units.iter().map(|(_, ms)| *ms).collect();
    let numbers = dealt(&all, shard.of);
    for cell in cells {
        let place = units.iter().position(|(unit, _)| *unit == unit_of(cell));
        cell.shard = place.map(|p| numbers[p]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "schema = 1\n[profile.q]\nscenarios = [\"race\", \"skew\"]\nlimiters = [\"L01\", \"fixed-window-lua\"]\nexplore = \"1s\"\nat_most = { p99-ms = 9 }\n";

    fn planned(text: &str, shard: Option<&str>) -> Result<Planned, String> {
        let path = Path::new("rl-lab.toml");
        let config = Config::parse(path, text).unwrap();
        let shard = shard.map(|s| s.parse().unwrap());
        plan(&Asked {
            path,
            config: &config,
            profile: "q",
            limiters: &[],
            seed: Seed(1),
            shard,
            with: &[],
            servers: 1,
        })
    }

    #[test]
    fn a_profile_is_judged_with_its_own_limiters_and_no_others() {
        let planned = planned(FILE, None).unwrap();
        let labels = planned.gate.limiters();
        assert_eq!(labels, ["get-then-incr", "fixed-window-lua"]);
        assert!(
            planned.plans.iter().flat_map(|p| &p.cells).flat_map(|c| &c.checks).all(|c| c.expected.is_none())
        );
        let scenarios: Vec<&str> = planned.gate.cells.iter().map(|c| c.scenario.as_str()).collect();
        assert_eq!((scenarios.first(), scenarios.last()), (Some(&"race"), Some(&"explore")));
        assert_eq!(planned.exploration.unwrap().targets.len(), 2);
    }

    #[test]
    fn what_cannot_be_searched_says_why() {
        let text = "[limiter.gate-process]\ncommand = [\"x\"]\n[limiter.gate-process.contract]\nbound = \"none\"\nclock = \"app\"\ndenials = \"free\"\n";
        let config = Config::parse(Path::new("rl-lab.toml"), &format!("schema = 1\n{text}")).unwrap();
        limiters::foreign::install(&config).unwrap();
        let limiters = ["gate-process", "gcra-lua"].map(|l| l.parse().unwrap());
        let (exploration, unsearched) = search(std::time::Duration::from_secs(1), &limiters, 1).unwrap();
        assert_eq!(exploration.targets.len(), 1);
        assert!(unsearched[0].1.contains("clock"), "{unsearched:?}");
    }

    #[test]
    fn every_cell_is_in_exactly_one_shard_and_the_shards_are_of_one_plan() {
        let whole = planned(FILE, None).unwrap();
        let shards: Vec<Planned> = (1..=3).map(|n| planned(FILE, Some(&format!("{n}/3"))).unwrap()).collect();
        let run = |p: &Planned| {
            p.plans.iter().map(|p| p.cells.len()).sum::<usize>()
                + p.exploration.as_ref().map_or(0, |e| e.targets.len())
        };
        assert_eq!(shards.iter().map(run).sum::<usize>(), whole.gate.cells.len());
        for shard in &shards {
            assert_eq!(run(shard), shard.gate.here().count());
            assert!(shard.gate.is_of_the_same(&shards[0].gate) && run(shard) > 0);
        }
    }

    #[test]
    fn what_a_profile_lacks_is_told() {
        let refused = |from: &str, to: &str| planned(&FILE.replace(from, to), None).err().unwrap();
        assert!(refused("limiters = [\"L01\", \"fixed-window-lua\"]", "").contains("names no limiters"));
        assert!(refused("\"skew\"", "\"mine.toml\"").contains("no file 'mine.toml'"));
        assert!(refused("\"skew\"", "\"race\"").contains("two of that name"));
    }
}
