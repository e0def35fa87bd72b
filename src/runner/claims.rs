//! Lists of claims in the binary, and the plans that try them.

use std::path::PathBuf;

use super::plan::{self, CellPlan, Overrides, Plan};
use super::scenarios;
use crate::checkers;
use crate::limiters::{self, policies};
use crate::model::claims::{ClaimsPlan, Found, Trial};
use crate::model::config::Config;
use crate::model::scenario::LimiterRef;
use crate::model::units::Seed;
use crate::model::verdict::Verdict;

/// Every list, as it is written.
const TEXTS: [(&str, &str); 4] = [
    ("cases", include_str!("../../scenarios/claims/cases.toml")),
    ("anti-patterns", include_str!("../../scenarios/claims/anti-patterns.toml")),
    ("which-limiter", include_str!("../../scenarios/claims/which-limiter.toml")),
    ("disputed-claims", include_str!("../../scenarios/claims/disputed-claims.toml")),
];

/// The names of the lists: each is a command.
pub fn names() -> impl Iterator<Item = &'static str> {
    TEXTS.iter().map(|(name, _)| *name)
}

fn file(name: &str) -> String {
    format!("scenarios/claims/{name}.toml")
}

/// A list by name, as it is written.
///
/// # Errors
/// If it cannot be read; a test rules that out for each.
pub fn read(name: &str) -> Result<ClaimsPlan, String> {
    let text = TEXTS.iter().find(|(n, _)| *n == name).ok_or_else(|| format!("no list '{name}'"))?.1;
    let checks: Vec<&str> = checkers::ALL.iter().map(|c| c.name()).collect();
    ClaimsPlan::parse(text, &checks).map_err(|e| format!("{}: {e}", file(name)))
}

/// The same with every limiter under its own name, and without what needs a library that is not here.
pub fn find(name: &str) -> Result<ClaimsPlan, String> {
    let mut plan = read(name)?;
    let libraries = Libraries::here()?;
    for trial in plan.claims.iter_mut().flat_map(|c| &mut c.trials) {
        trial.left_out = trial.needs.as_deref().and_then(|what| libraries.lack(what));
        if trial.left_out.is_some() {
            continue;
        }
        trial.limiter = limiters::resolve(&trial.limiter).map_err(|e| format!("{}: {e}", file(name)))?;
        let policy = trial.policy.as_ref().map(policies::resolve).transpose();
        trial.policy = policy.map_err(|e| format!("{}: {e}", file(name)))?;
    }
    Ok(plan)
}

/// One plan for each scenario of the list, with the cells and the checks that its claims speak of and no others.
pub fn plans(claims: &ClaimsPlan, seed: Seed) -> Result<Vec<Plan>, String> {
    let there = |t: &&Trial| t.left_out.is_none();
    let trials: Vec<&Trial> = claims.claims.iter().flat_map(|c| &c.trials).filter(there).collect();
    let mut plans: Vec<Plan> = Vec::new();
    for first in &trials {
        if plans.iter().any(|p| p.name == first.scenario) {
            continue;
        }
        let here = || trials.iter().filter(|t| t.scenario == first.scenario);
        let mut limiters: Vec<LimiterRef> = here().map(|t| t.limiter.clone()).collect();
        limiters.dedup();
        let variations = here().filter_map(|t| t.vary.clone()).collect();
        let changes = Overrides { limiters, variations, ..Overrides::default() };
        let mut plan = plan::plan(scenarios::find(&first.scenario)?, &changes, seed)?;
        plan.cells.retain(|cell| here().any(|t| speaks_of(t, cell)));
        if here().any(|t| t.needs.as_deref().is_some_and(|n| LANGUAGES.iter().any(|(l, _)| *l == n))) {
            plan.call.extend(["--config".to_owned(), Libraries::file().display().to_string()]);
        }
        // What nobody speaks of decides nothing.
        for cell in &mut plan.cells {
            let spoken: Vec<&String> =
                here().filter(|t| speaks_of(t, cell)).filter_map(|t| t.check.as_ref()).collect();
            // What nothing is expected of is expected as a claim says that is known to hold.
            let said = |check: &str| {
                let known = claims.claims.iter().filter(|c| c.known == Found::Holds).flat_map(|c| &c.trials);
                let of = |t: &&Trial| {
                    // What is known of some servers only would be listed as failed on the others.
                    let any_server = !t.needs_a_server();
                    any_server
                        && t.scenario == first.scenario
                        && t.check.as_deref() == Some(check)
                        && speaks_of(t, cell)
                };
                known.filter(of).find_map(|t| t.verdict)
            };
            // What a scenario expects of all of its limiters it does not expect of these.
            let foreign = cell.spec.foreign.is_some();
            let said: Vec<Option<Verdict>> = cell.checks.iter().map(|c| said(&c.check)).collect();
            for checks in cell.checks_everywhere() {
                checks.iter_mut().zip(&said).for_each(|(c, said)| {
                    c.expected = if foreign { said.or(c.expected) } else { c.expected.or(*said) }
                });
                checks.retain(|c| spoken.contains(&&c.check));
            }
        }
        if let Some(lost) = here().find(|t| !plan.cells.iter().any(|cell| speaks_of(t, cell))) {
            return Err(format!("{} has no {}", first.scenario, lost.label()));
        }
        plans.push(plan);
    }
    Ok(plans)
}

/// The real libraries that are installed beside their adapters.
struct Libraries {
    there: Vec<&'static str>,
}

/// Where the adapters are, from where the lab is called; RL_LAB_ADAPTERS says otherwise.
const ADAPTERS: &str = "scripts/adapters";

/// What shows that those of a language are installed, from there.
const LANGUAGES: [(&str, &str); 5] = [
    ("python", "python/.venv/bin/python"),
    ("python-old", "python/.venv-old/bin/python"),
    ("node", "node/node_modules/ioredis"),
    ("php", "/usr/share/php/Illuminate/Redis"),
    ("cell", "cell/redis_cell.so"),
];

impl Libraries {
    fn folder() -> PathBuf {
        std::env::var_os("RL_LAB_ADAPTERS").map_or_else(|| ADAPTERS.into(), PathBuf::from)
    }

    fn file() -> PathBuf {
        Self::folder().join("libraries.toml")
    }

    /// Looks which are here, and makes their limiters known.
    fn here() -> Result<Self, String> {
        let file = Self::file();
        let Ok(text) = std::fs::read_to_string(&file) else { return Ok(Self { there: Vec::new() }) };
        let mut config = Config::parse(&file, &text).map_err(|e| e.to_string())?;
        // The file may have been named on the command line as well.
        config.limiters.retain(|name, _| limiters::find(name).is_err());
        limiters::foreign::install(&config)?;
        let there = LANGUAGES.into_iter().filter(|(_, sign)| Self::folder().join(sign).exists());
        Ok(Self { there: there.map(|(language, _)| language).collect() })
    }

    /// Why what is needed cannot be had, if so. What is no language is told by the server.
    fn lack(&self, needs: &str) -> Option<String> {
        let language = LANGUAGES.iter().find(|(language, _)| *language == needs)?.0;
        let name = language.trim_end_matches("-old");
        (!self.there.contains(&language)).then(|| format!("not installed: {ADAPTERS}/install {name}"))
    }
}

fn speaks_of(trial: &Trial, cell: &CellPlan) -> bool {
    trial.limiter == cell.limiter
        && trial.policy.as_ref() == cell.policy.as_ref().map(|p| &p.policy)
        && trial.vary == cell.variation
        && trial.client.as_ref().is_none_or(|c| c == cell.client.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_can_be_read_and_speaks_of_cells_that_there_are() {
        for name in names() {
            let claims = find(name).unwrap();
            assert_eq!(claims.name, name);
            plans(&claims, Seed(1)).unwrap();
        }
    }

    /// Whoever runs them on another server is told by the claims, which leave the trial out there, and by the exit code.
    /// The table and JUnit go by what each cell is expected to come to.
    #[test]
    fn what_is_known_of_some_servers_only_is_expected_of_no_cell() {
        let plans = plans(&find("cases").unwrap(), Seed(1)).unwrap();
        let expected = |limiter: &str| {
            let cells = plans.iter().filter(|p| p.name == "polling").flat_map(|p| &p.cells);
            let cell = cells.clone().find(|c| c.limiter.to_string() == limiter).unwrap();
            cell.checks.iter().find(|c| c.check == "steady-client-served").unwrap().expected
        };
        assert_eq!(expected("case-time-read-once"), Some(Verdict::Pass));
        assert_eq!(expected("case-time-read-twice"), None);
    }
}
