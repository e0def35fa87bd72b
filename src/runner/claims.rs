//! Lists of claims in the binary, and the plans that try them.

use super::plan::{self, CellPlan, Overrides, Plan};
use super::scenarios;
use crate::checkers;
use crate::limiters::{self, policies};
use crate::model::claims::{ClaimsPlan, Trial};
use crate::model::scenario::LimiterRef;
use crate::model::units::Seed;

/// Every list, as it is written.
const TEXTS: [(&str, &str); 2] = [
    ("anti-patterns", include_str!("../../scenarios/claims/anti-patterns.toml")),
    ("which-limiter", include_str!("../../scenarios/claims/which-limiter.toml")),
];

/// The names of the lists: each is a command.
pub fn names() -> impl Iterator<Item = &'static str> {
    TEXTS.iter().map(|(name, _)| *name)
}

/// A list by name, with every limiter under its own.
///
/// # Errors
/// If it cannot be read; a test rules that out for each.
pub fn find(name: &str) -> Result<ClaimsPlan, String> {
    let file = || format!("scenarios/claims/{name}.toml");
    let text = TEXTS.iter().find(|(n, _)| *n == name).ok_or_else(|| format!("no list '{name}'"))?.1;
    let checks: Vec<&str> = checkers::ALL.iter().map(|c| c.name()).collect();
    let mut plan = ClaimsPlan::parse(text, &checks).map_err(|e| format!("{}: {e}", file()))?;
    for trial in plan.claims.iter_mut().flat_map(|c| &mut c.trials) {
        trial.limiter = limiters::resolve(&trial.limiter).map_err(|e| format!("{}: {e}", file()))?;
        let policy = trial.policy.as_ref().map(policies::resolve).transpose();
        trial.policy = policy.map_err(|e| format!("{}: {e}", file()))?;
    }
    Ok(plan)
}

/// One plan for each scenario of the list, with the cells and the checks that its claims speak of and no others.
pub fn plans(claims: &ClaimsPlan, seed: Seed) -> Result<Vec<Plan>, String> {
    let trials: Vec<&Trial> = claims.claims.iter().flat_map(|c| &c.trials).collect();
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
        // What nobody speaks of decides nothing.
        for cell in &mut plan.cells {
            let spoken: Vec<&String> =
                here().filter(|t| speaks_of(t, cell)).filter_map(|t| t.check.as_ref()).collect();
            let checks = cell.checks_on.values_mut().chain([&mut cell.checks]);
            checks.for_each(|checks| checks.retain(|c| spoken.contains(&&c.check)));
        }
        if let Some(lost) = here().find(|t| !plan.cells.iter().any(|cell| speaks_of(t, cell))) {
            return Err(format!("{} has no {}", first.scenario, lost.label()));
        }
        plans.push(plan);
    }
    Ok(plans)
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
}
