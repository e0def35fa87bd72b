//! What becomes of a scenario for a limiter that keeps its counters in rows, and for all others where the store is
//! a PostgreSQL.

use crate::clients::{self, Profile};
use crate::model::scenario::{NodesAs, Setup, TopologyPlan, Variant};
use crate::ports::limiter::Spec;
use crate::topologies::postgres::KIND;

/// The faults that are the same for every server. All others are made on the way to a Redis, or by one.
const FAULTS: [&str; 2] = ["freeze", "kill"];

/// Puts a PostgreSQL where a single Redis stands, or says why this limiter cannot be tried so.
pub fn settle(setup: &mut Setup, spec: &Spec) -> Result<(), String> {
    let kind = setup.topology.kind.as_str();
    if !spec.is_in_rows() {
        let other = kind == KIND;
        return if other { Err("its store is a Redis, and here is a PostgreSQL".to_owned()) } else { Ok(()) };
    }
    let replaced = kind != KIND;
    if replaced && setup.topology != TopologyPlan::default() {
        return Err(
            "it keeps its counters in a PostgreSQL, which is no Redis of this kind or with these settings"
                .to_owned(),
        );
    }
    if let Some(fault) = setup.faults.iter().find(|f| !FAULTS.contains(&f.fault.as_str())) {
        return Err(format!(
            "{} strikes a Redis or the way to one, and its store is a PostgreSQL",
            fault.fault
        ));
    }
    let workload = &setup.workload;
    if !workload.acts.is_empty() {
        return Err("what is done to the store is done to a Redis, and its store is a PostgreSQL".to_owned());
    }
    if workload.nodes_as == NodesAs::Processes {
        return Err(
            "app servers that are processes are told of a Redis, and its store is a PostgreSQL".to_owned()
        );
    }
    if setup.observe.keys {
        return Err("declared keys are Redis' own, and it keeps rows".to_owned());
    }
    if replaced {
        setup.topology = TopologyPlan { kind: KIND.to_owned(), ..TopologyPlan::default() };
    }
    Ok(())
}

/// The client of a variant.
pub fn client(variant: &Variant, spec: &Spec) -> Result<&'static Profile, String> {
    let default = if spec.is_in_rows() { clients::DEFAULT_ROWS } else { clients::DEFAULT };
    let client = clients::find(variant.client.as_deref().unwrap_or(default))?;
    if speaks(client, spec) {
        return Ok(client);
    }
    let fitting: Vec<&str> = clients::ALL.iter().filter(|c| speaks(c, spec)).map(|c| c.name).collect();
    Err(format!(
        "client '{}' does not speak to the store of '{}'; of those that do there are {}",
        client.name,
        spec.name,
        fitting.join(", ")
    ))
}

/// Whether a client speaks to the store of this limiter.
pub fn speaks(client: &Profile, spec: &Spec) -> bool {
    client.rows.is_some() == spec.is_in_rows()
}

/// The variant as it is tried with another limiter: a client that does not speak to the store of that stays behind.
pub fn with_its_client(variant: Variant, spec: &Spec) -> Variant {
    let speaks = |name: &String| clients::find(name).is_ok_and(|client| speaks(client, spec));
    Variant { client: variant.client.filter(speaks), ..variant }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiters;
    use crate::model::scenario::Scenario;
    use crate::model::units::Seed;
    use crate::runner::plan::{Overrides, plan};
    use crate::runner::scenarios;

    fn rows() -> &'static Spec {
        limiters::find("postgres-row").unwrap()
    }

    fn setup(of: &str) -> Setup {
        let scenario: Scenario = scenarios::find(of).unwrap().scenario;
        Setup::of(&scenario)
    }

    #[test]
    fn a_single_redis_is_replaced_and_nothing_else_is() {
        let mut race = setup("race");
        settle(&mut race, rows()).unwrap();
        assert_eq!(race.topology.kind, KIND);
        for of in ["cluster", "evict", "crash-processes", "keys"] {
            let mut other = setup(of);
            let kind = other.topology.kind.clone();
            assert!(settle(&mut other, rows()).is_err() && other.topology.kind == kind, "{of}");
        }
    }

    #[test]
    fn whoever_asks_a_redis_is_not_run_on_a_postgres() {
        let mut race = setup("race");
        race.topology.kind = KIND.to_owned();
        assert!(settle(&mut race.clone(), limiters::find("fixed-window-lua").unwrap()).is_err());
        settle(&mut race, rows()).unwrap();
    }

    #[test]
    fn a_client_speaks_to_one_kind_of_store() {
        let variant = |limiter: &str, client: &str| Variant {
            limiter: limiter.parse().unwrap(),
            policy: None,
            client: Some(client.to_owned()),
        };
        let why = client(&variant("postgres-row", "fail-fast"), rows()).unwrap_err();
        assert!(why.contains("postgres-pool") && why.contains("postgres-row"), "{why}");
        let lua = limiters::find("fixed-window-lua").unwrap();
        assert!(client(&variant("fixed-window-lua", "postgres-pool"), lua).is_err());
    }

    #[test]
    fn another_scenario_compares_it_with_a_client_of_its_own() {
        let changes = Overrides { limiters: vec!["postgres-row".parse().unwrap()], ..Overrides::default() };
        let plan = plan(scenarios::find("outage").unwrap(), &changes, Seed(1)).unwrap();
        assert!(plan.cells.iter().all(|c| c.client.name == clients::DEFAULT_ROWS));
        let ways: Vec<&str> = plan
            .cells
            .iter()
            .filter(|c| c.refused.is_none())
            .filter_map(|c| c.variation.as_deref())
            .collect();
        assert!(ways.iter().all(|way| ["freeze", "death"].contains(way)) && !ways.is_empty(), "{ways:?}");
    }
}
