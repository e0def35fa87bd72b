//! From a scenario and the user's changes to the cells that will run.

mod overrides;
mod policy;
mod repeat;
mod rows;

use std::collections::BTreeMap;

use crate::checkers;
use crate::clients;
use crate::faults;
use crate::limiters::{self, policies};
use crate::model::contract::Contract;
use crate::model::foreign::{Foreign, Way};
use crate::model::history::{CrashPoint, PlannedCheck};
use crate::model::http::Form;
use crate::model::names;
use crate::model::report::ScenarioSummary;
use crate::model::scenario::{
    ExpectedOn, LimitPlan, LimiterRef, NodesAs, PlannedClock, PlannedDeploy, PlannedFault, Scenario, Setup,
    Time, TopologyPlan, Variant, Vary,
};
use crate::model::servers;
use crate::model::units::Seed;
use crate::ports::limiter::{Settings, Spec};
use crate::topologies;
use crate::workloads;

use super::matrix;
use super::scenarios::Named;

pub use overrides::Overrides;
pub use policy::PolicyPlan;
pub use repeat::{Ground, shell_words};

/// One scenario, ready to run.
#[derive(Debug)]
pub struct Plan {
    pub name: String,
    pub scenario: Scenario,
    pub summary: ScenarioSummary,
    pub cells: Vec<CellPlan>,
    /// The command that repeats this plan, without `--limiters`.
    pub call: Vec<String>,
}

/// One limiter under the scenario.
#[derive(Debug, Clone)]
pub struct CellPlan {
    pub limiter: LimiterRef,
    pub spec: &'static Spec,
    pub settings: Settings,
    pub policy: Option<PolicyPlan>,
    pub client: &'static clients::Profile,
    /// Whether the scenario, or the user, names the client.
    pub client_named: bool,
    pub checks: Vec<PlannedCheck>,
    /// The same wherever the scenario may expect something else.
    pub checks_on: BTreeMap<ExpectedOn, Vec<PlannedCheck>>,
    /// The variation it is, and what it is driven with.
    pub variation: Option<String>,
    pub setup: Setup,
    /// Why the limiter does not take these settings, where a variation may be refused.
    pub refused: Option<String>,
    /// The versions that are rolled out meanwhile.
    pub deploys: Vec<Version>,
    /// Where the node of the first call dies, one place for each round; found out on the server.
    pub crashes: Vec<CrashPoint>,
}

/// A version of the limiter that is rolled out.
#[derive(Debug, Clone)]
pub struct Version {
    pub planned: PlannedDeploy,
    pub spec: &'static Spec,
    pub settings: Settings,
}

impl Version {
    fn of(planned: &PlannedDeploy, old: &LimiterRef, plan: LimitPlan) -> Result<Self, String> {
        let limiter = limiters::resolve(planned.limiter.as_ref().unwrap_or(old))?;
        let spec = limiters::find(&limiter.name)?;
        let limit = planned.limit.unwrap_or(plan.limit);
        let settings = Settings::new(spec, limit, plan.window, &limiter.params)?;
        Ok(Self { planned: planned.clone(), spec, settings })
    }
}

impl CellPlan {
    /// The limiter with what is around it and how it talks, and the variation if there are several.
    pub fn label(&self) -> String {
        let client = self.client_named.then(|| self.client.name.to_owned());
        let policy = self.policy.as_ref().map(|p| p.policy.clone());
        let variant = Variant { limiter: self.limiter.clone(), policy, client };
        match &self.variation {
            Some(name) => format!("{variant} ({name})"),
            None => variant.to_string(),
        }
    }

    /// Somebody else's program that is its app server, where it is one.
    pub fn process(&self) -> Option<&'static Foreign> {
        self.spec.foreign.filter(|f| f.is_process())
    }

    /// The limiter's contract, with what the policy makes of it.
    pub fn contract(&self) -> Contract {
        // Where the limit is changed meanwhile, the largest is what may be admitted.
        let limits = self.deploys.iter().map(|v| v.settings.limit);
        let mut settings = self.settings.clone();
        settings.limit = limits.fold(settings.limit, std::cmp::Ord::max);
        let contract = (self.spec.contract)(&settings);
        match &self.policy {
            Some(p) => (p.spec.contract)(&p.settings, &self.terms(), contract),
            None => contract,
        }
    }
}

/// Applies the changes and looks every name up. The error is the user's to mend.
pub fn plan(named: Named, changes: &Overrides, seed: Seed) -> Result<Plan, String> {
    known(&named)?;
    let written = by_name(&named.scenario)?;
    let mut scenario = written.clone();
    changes.apply(&mut scenario);
    scenario.workload.validate()?;
    scenario.observe_fits()?;
    scenario.preset_fits()?;
    // The choice of limiters is not a change of the experiment: expectations still hold.
    let changed = scenario != written;
    let as_written = !changed && !changes.strict;
    let mut cells = Vec::new();
    let varied = varied(&scenario, changes)?;
    for (variant, foreign) in chosen(&scenario, changes)? {
        let of = |vary: &Option<&Vary>| {
            vary.is_none_or(|v| v.only.is_empty() || v.only.contains(&variant.limiter))
        };
        // Another client or policy than the scenario has is another experiment.
        let as_written = as_written && !foreign;
        for (vary, setup) in varied.iter().filter(|(vary, _)| of(vary)) {
            cells.push(cell(&named.name, &scenario, (&variant, *vary), setup, changes, as_written)?);
        }
    }
    if scenario.workload.together {
        // Those that are driven together follow each other.
        let place =
            |cell: &CellPlan| scenario.vary.iter().position(|v| Some(&v.name) == cell.variation.as_ref());
        cells.sort_by_key(place);
    }
    let terms = terms(changed, changes.strict, &cells);
    let Named { name, call, .. } = named;
    let summary = ScenarioSummary {
        name: name.clone(),
        title: scenario.title.clone(),
        shows: scenario.shows.clone(),
        need: scenario.need.clone(),
        as_written,
        terms,
        plan: format!(
            "limit {} per {}; {}{}{}",
            scenario.limit.limit,
            scenario.limit.window,
            scenario.workload.in_words(),
            broken(&scenario),
            varying(&varied)
        ),
        requires: scenario.require.as_ref().map(|r| r.requirement(scenario.limit).in_words()),
        figures: scenario.figures.clone(),
        chart: scenario.chart(),
    };
    let call = call.into_iter().chain(changes.to_args()).chain(["--seed".to_owned(), seed.to_string()]);
    Ok(Plan { name, call: call.collect(), summary, cells, scenario })
}

/// What breaks, and which clocks are wrong.
fn broken(scenario: &Scenario) -> String {
    let faults = scenario.faults.iter().map(PlannedFault::in_words);
    let parts: Vec<String> = faults.chain(scenario.clocks.iter().map(PlannedClock::in_words)).collect();
    if parts.is_empty() { String::new() } else { format!("; {}", parts.join("; ")) }
}

/// Which variations run.
fn varying(varied: &[(Option<&Vary>, Setup)]) -> String {
    let names: Vec<&str> = varied.iter().filter_map(|(v, _)| v.map(|v| v.name.as_str())).collect();
    if names.is_empty() { String::new() } else { format!("; varied: {}", names.join(" | ")) }
}

/// Whether the scenario's expectations hold, as a sentence.
fn terms(changed: bool, strict: bool, cells: &[CellPlan]) -> String {
    let open = |c: &&CellPlan| c.checks.iter().all(|k| k.expected.is_none());
    let judged = cells.iter().filter(open).count();
    match (changed, strict, judged) {
        (true, ..) => "parameters changed: verdicts are judged, expectations do not apply".to_owned(),
        (_, true, _) => "strict: verdicts are judged, expectations do not apply".to_owned(),
        (.., 0) => "as written: verdicts are compared with what the scenario expects".to_owned(),
        (.., n) if n == cells.len() => "nothing is expected: verdicts are judged".to_owned(),
        (.., n) => format!(
            "as written: verdicts are compared with what the scenario expects; {n} of {} limiters have no \
             expectation and are judged",
            cells.len()
        ),
    }
}

/// The scenario with every limiter under its name, whichever way it was written.
fn by_name(written: &Scenario) -> Result<Scenario, String> {
    let mut scenario = written.clone();
    for variant in &mut scenario.variants {
        variant.limiter = limiters::resolve(&variant.limiter)?;
        variant.policy = around(&variant.limiter, variant.policy.as_ref())?;
    }
    for expectation in &mut scenario.expectations {
        expectation.limiter = expectation.limiter.as_ref().map(limiters::resolve).transpose()?;
        expectation.policy = expectation.policy.as_ref().map(policies::resolve).transpose()?;
    }
    Ok(scenario)
}

/// What is put around a limiter, by its name: what the scenario says, else what the limiter's own file does.
fn around(limiter: &LimiterRef, said: Option<&LimiterRef>) -> Result<Option<LimiterRef>, String> {
    let own = limiters::find(&limiter.name)?.policy();
    said.or(own).map(policies::resolve).transpose()
}

/// Whether every name in the file means something; if not, where it stands.
fn known(named: &Named) -> Result<(), String> {
    let written = &named.scenario;
    for check in &written.checks {
        checkers::find(check).map_err(|e| named.objection(check, e))?;
    }
    let kind = &written.topology.kind;
    let topology = topologies::find(kind).map_err(|e| named.objection(kind, e))?;
    topology.check(&written.topology).map_err(|e| named.objection("[topology]", e))?;
    for other in written.vary.iter().filter_map(|v| v.topology.as_ref()) {
        let topology = topologies::find(&other.kind).map_err(|e| named.objection(&other.kind, e))?;
        topology.check(other).map_err(|e| named.objection("topology", e))?;
    }
    strikes(&written.topology, &written.faults).map_err(|(at, e)| named.objection(&at, e))?;
    for vary in &written.vary {
        let topology = vary.topology.as_ref().unwrap_or(&written.topology);
        let faults = vary.faults.as_ref().unwrap_or(&written.faults);
        strikes(topology, faults).map_err(|(at, e)| named.objection(&at, e))?;
    }
    let mut seen = BTreeMap::new();
    for variant in &written.variants {
        let label = variant.limiter.to_string();
        let limiter = limiters::resolve(&variant.limiter).map_err(|e| named.objection(&label, e))?;
        settings(written, &limiter).map_err(|e| named.objection(&label, e))?;
        let policy = variant.policy.as_ref().map(PolicyPlan::of).transpose();
        let policy = policy.map_err(|e| named.objection(&label, e))?.map(|p| p.policy);
        let policy = around(&limiter, policy.as_ref()).map_err(|e| named.objection(&label, e))?;
        let by_name = Variant { limiter, policy, client: variant.client.clone() };
        if let Some(same) = seen.insert(by_name.to_string(), label.clone()) {
            let twice = format!("the variants '{same}' and '{label}' are the same");
            return Err(named.objection(&label, twice));
        }
        if let Some(client) = &variant.client {
            clients::find(client).map_err(|e| named.objection(client, e))?;
        }
    }
    Ok(())
}

/// Whether faults can be done, and strike servers that are there; if not, a text to look for and why.
fn strikes(topology: &TopologyPlan, planned: &[PlannedFault]) -> Result<(), (String, String)> {
    let kind = topologies::find(&topology.kind).map_err(|e| (topology.kind.clone(), e))?;
    let servers = kind.servers(topology);
    for fault in planned {
        faults::check(fault).map_err(|e| (fault.fault.clone(), e))?;
        if !servers.contains(&fault.on) {
            let known: Vec<&str> = servers.iter().map(String::as_str).collect();
            return Err((fault.on.clone(), names::unknown("server", &fault.on, &known)));
        }
    }
    Ok(())
}

/// The variants that run: the scenario's, or those the user chose among them. Each with whether the user
/// gave it a policy or a client that the scenario does not.
fn chosen(scenario: &Scenario, changes: &Overrides) -> Result<Vec<(Variant, bool)>, String> {
    let mut chosen: Vec<Variant> = Vec::new();
    if changes.limiters.is_empty() {
        chosen.clone_from(&scenario.variants);
    }
    for wanted in &changes.limiters {
        let wanted = limiters::resolve(wanted)?;
        if chosen.iter().any(|v| v.limiter == wanted) {
            continue;
        }
        let written = chosen.len();
        chosen.extend(scenario.variants.iter().filter(|v| v.limiter == wanted).cloned());
        let spec = limiters::find(&wanted.name)?;
        let own = spec.policy().cloned();
        if chosen.len() == written && spec.foreign.is_some_and(Foreign::is_process) {
            // It brings its own client, and what it does in an outage, but for what its file puts around it.
            chosen.push(Variant { limiter: wanted.clone(), policy: own, client: None });
        } else if chosen.len() == written {
            // What the scenario compares of its own limiters it compares of this one, but for what it brings along.
            for other in &scenario.variants {
                let policy = own.clone().or_else(|| other.policy.clone());
                let same = Variant { limiter: wanted.clone(), policy, client: other.client.clone() };
                let same = rows::with_its_client(same, spec);
                if !chosen.contains(&same) {
                    chosen.push(same);
                }
            }
        }
    }
    let own = |v: &Variant| scenario.variants.iter().any(|w| w.limiter == v.limiter);
    let foreign = |v: &Variant| !own(v) && (v.policy.is_some() || v.client.is_some());
    let policy = changes.policy.as_ref().map(policies::resolve).transpose()?;
    if let Some(client) = &changes.client {
        clients::find(client)?;
    }
    if policy.is_none() && changes.client.is_none() {
        return Ok(chosen.into_iter().map(|v| (v.clone(), foreign(&v))).collect());
    }
    let named = |v: &Variant| {
        let client = v.client.as_deref().unwrap_or(clients::DEFAULT);
        policy.as_ref().is_none_or(|p| v.policy.as_ref() == Some(p))
            && changes.client.as_deref().is_none_or(|c| c == client)
    };
    let mut out: Vec<(Variant, bool)> = Vec::new();
    for variant in &chosen {
        if named(variant) {
            out.push((variant.clone(), foreign(variant)));
        } else if !chosen.iter().any(|v| v.limiter == variant.limiter && named(v)) {
            let changed = Variant {
                limiter: variant.limiter.clone(),
                policy: policy.clone().or_else(|| variant.policy.clone()),
                client: changes.client.clone().or_else(|| variant.client.clone()),
            };
            if !out.iter().any(|(v, _)| *v == changed) {
                out.push((changed, true));
            }
        }
    }
    Ok(out)
}

/// The variations that run, each with what its cells are driven with.
fn varied<'a>(scenario: &'a Scenario, changes: &Overrides) -> Result<Vec<(Option<&'a Vary>, Setup)>, String> {
    let known: Vec<&str> = scenario.vary.iter().map(|v| v.name.as_str()).collect();
    if let Some(name) = changes.variations.iter().find(|n| !known.contains(&n.as_str())) {
        if known.is_empty() {
            return Err(format!("the scenario has no variations, so there is no '{name}'"));
        }
        return Err(names::unknown("variation", name, &known));
    }
    let base = Setup::of(scenario);
    if scenario.vary.is_empty() {
        return Ok(vec![(None, base)]);
    }
    let wanted = |v: &&Vary| changes.variations.is_empty() || changes.variations.contains(&v.name);
    let one = |vary: &'a Vary| {
        let of = |why: String| format!("variation '{}': {why}", vary.name);
        let setup = changes.on(base.varied(vary).map_err(of)?);
        setup.workload.validate().and_then(|()| setup.fits(scenario.time)).map_err(of)?;
        Ok((Some(vary), setup))
    };
    scenario.vary.iter().filter(wanted).map(one).collect()
}

/// Puts the app servers of somebody else's program into processes; why that does not fit the scenario, otherwise.
fn in_processes(setup: &mut Setup, foreign: &Foreign, time: Time) -> Result<(), String> {
    let own_front = setup.workload.nodes_as == NodesAs::Http;
    let speaks_http = matches!(foreign.way(), Ok(Way::Http(_)));
    if own_front && (!speaks_http || setup.workload.front != Form::Honest) {
        return Err("the scenario is about what an HTTP front of the lab says".to_owned());
    }
    if setup.workload.crash_at_every_step && foreign.contract.in_background {
        let why = "it works behind its calls, so that it does not send the same each time and cannot be killed at a step";
        return Err(why.to_owned());
    }
    setup.workload.nodes_as = NodesAs::Processes;
    setup.fits(time)
}

fn settings(scenario: &Scenario, limiter: &LimiterRef) -> Result<Settings, String> {
    let spec = limiters::find(&limiter.name)?;
    let LimitPlan { limit, window } = own_limit(spec, scenario.limit, &Overrides::default());
    Settings::new(spec, limit, window, &limiter.params)
}

/// What a limiter is run with: who is built for one limit is run with that, unless the user asks for another, which
/// it then refuses.
fn own_limit(spec: &Spec, of: LimitPlan, changes: &Overrides) -> LimitPlan {
    let limit = spec.foreign.and_then(|f| f.limit).filter(|_| changes.limit.is_none());
    let window = spec.foreign.and_then(|f| f.window).filter(|_| changes.window.is_none());
    LimitPlan { limit: limit.unwrap_or(of.limit), window: window.unwrap_or(of.window) }
}

fn cell(
    scenario_name: &str,
    scenario: &Scenario,
    (variant, vary): (&Variant, Option<&Vary>),
    setup: &Setup,
    changes: &Overrides,
    as_written: bool,
) -> Result<CellPlan, String> {
    let limiter = &variant.limiter;
    let spec = limiters::find(&limiter.name)?;
    let own = own_limit(spec, setup.limit, changes);
    let built_for_another = own != setup.limit;
    let as_written = as_written && !built_for_another;
    let setup = &Setup { limit: own, ..setup.clone() };
    let LimitPlan { limit, window } = own;
    let may_refuse = vary.is_some_and(|v| v.may_refuse);
    let preset = setup.workload.preset;
    let (settings, refused) = match Settings::new(spec, limit, window, &limiter.params) {
        Ok(settings) if built_for_another && preset > limit.get() => (
            settings,
            Some(format!("{preset} used before is more than the limit of {limit} it is built for")),
        ),
        Ok(settings) => (settings, None),
        // Its contract is stated for the scenario's own settings: it is not run.
        Err(why) if may_refuse => {
            let LimitPlan { limit, window } = scenario.limit;
            (Settings::new(spec, limit, window, &limiter.params)?, Some(why))
        }
        Err(why) => return Err(why),
    };
    let mut setup = setup.clone();
    let refused = match spec.foreign.filter(|f| f.is_process()) {
        Some(foreign) => refused.or_else(|| in_processes(&mut setup, foreign, scenario.time).err()),
        None => refused,
    };
    let refused = refused.or_else(|| rows::settle(&mut setup, spec).err());
    let client = rows::client(variant, spec)?;
    let name = vary.map(|v| v.name.as_str());
    let known = if scenario.expect_as_matrix { Some(matrix::embedded()?) } else { None };
    let expected = |check: &String, on: &ExpectedOn| {
        let own = scenario.expected(variant, name, on, check);
        let known = || known.as_ref()?.expected_under(scenario_name, limiter, name, check);
        if as_written { own.or_else(known) } else { None }
    };
    let checks_on = |on: &ExpectedOn| -> Vec<PlannedCheck> {
        let planned = |check: &String| PlannedCheck { check: check.clone(), expected: expected(check, on) };
        scenario.checks.iter().map(planned).collect()
    };
    let rolled_out = setup.workload.deploys.iter().filter(|_| refused.is_none());
    let deploys: Result<_, _> = rolled_out.map(|d| Version::of(d, limiter, setup.limit)).collect();
    Ok(CellPlan {
        limiter: limiter.clone(),
        spec,
        settings,
        policy: variant.policy.as_ref().map(PolicyPlan::of).transpose()?,
        client,
        client_named: variant.client.is_some(),
        checks: checks_on(&ExpectedOn::default()),
        checks_on: scenario.expected_on().into_iter().map(|on| (on.clone(), checks_on(&on))).collect(),
        variation: name.map(str::to_owned),
        setup,
        refused,
        deploys: deploys?,
        crashes: Vec::new(),
    })
}

impl CellPlan {
    /// Its checks, once for every ground where something else may be expected.
    pub fn checks_everywhere(&mut self) -> impl Iterator<Item = &mut Vec<PlannedCheck>> {
        self.checks_on.values_mut().chain([&mut self.checks])
    }

    /// Its checks with what is expected on this backend and server.
    pub fn checks_for(&self, backend: &str, server: &str) -> &[PlannedCheck] {
        let on = ExpectedOn::of(self.checks_on.keys(), backend, servers::Version::parse(server));
        self.checks_on.get(&on).unwrap_or(&self.checks)
    }
}

impl Plan {
    /// Whether rounds mean calls to overlap.
    pub fn concurrent(&self) -> bool {
        workloads::of(self.scenario.workload.shape).concurrent(&self.scenario.workload)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::model::verdict::Verdict;
    use crate::runner::scenarios;

    fn race(changes: &Overrides) -> Result<Plan, String> {
        plan(scenarios::find("race").unwrap(), changes, Seed(1))
    }

    fn expected(plan: &Plan, limiter: &str, check: &str) -> Option<Verdict> {
        let cell = plan.cells.iter().find(|c| c.limiter.to_string() == limiter).unwrap();
        cell.checks.iter().find(|c| c.check == check).unwrap().expected
    }

    #[test]
    fn expectations_hold_only_while_the_experiment_is_the_scenarios_own() {
        let as_written = race(&Overrides::default()).unwrap();
        assert_eq!(expected(&as_written, "get-then-incr", "never-over-limit"), Some(Verdict::Fail));
        let changed = race(&Overrides { rounds: NonZeroU32::new(7), ..Overrides::default() }).unwrap();
        assert_eq!(expected(&changed, "get-then-incr", "never-over-limit"), None);
        let strict = race(&Overrides { strict: true, ..Overrides::default() }).unwrap();
        assert_eq!(expected(&strict, "get-then-incr", "never-over-limit"), None);
    }

    #[test]
    fn choosing_limiters_or_repeating_the_scenarios_own_value_changes_nothing() {
        let own = scenarios::find("race").unwrap().scenario.workload.rounds;
        let changes =
            Overrides { limiters: vec!["L01".parse().unwrap()], rounds: Some(own), ..Overrides::default() };
        let plan = race(&changes).unwrap();
        assert_eq!(plan.cells.len(), 1);
        assert_eq!(expected(&plan, "get-then-incr", "never-over-limit"), Some(Verdict::Fail));
    }

    #[test]
    fn a_number_that_is_a_limiter_with_parameters_runs_with_them_wherever_it_stands() {
        let by_number = |l: &str| Overrides { limiters: vec![l.parse().unwrap()], ..Overrides::default() };
        let label = |plan: &Plan| {
            let [cell] = plan.cells.as_slice() else { panic!("{:?}", plan.cells) };
            (cell.limiter.to_string(), cell.settings.param("clock").to_owned())
        };
        let server = ("sliding-log-lua:clock=server".to_owned(), "server".to_owned());
        assert_eq!(label(&race(&by_number("L09")).unwrap()), server);

        let mut named = scenarios::find("race-all").unwrap();
        let place = |l: &LimiterRef| l.to_string() == server.0;
        named.scenario.variants.retain(|v| place(&v.limiter));
        named.scenario.expectations.retain(|e| e.limiter.as_ref().is_some_and(place));
        named.scenario.variants[0].limiter = "L09".parse().unwrap();
        named.scenario.expectations.iter_mut().for_each(|e| e.limiter = "L09".parse().ok());
        let written = plan(named, &Overrides::default(), Seed(1)).unwrap();
        assert_eq!(label(&written), server);
        assert_eq!(expected(&written, &server.0, "never-over-limit"), Some(Verdict::Pass));
    }

    #[test]
    fn unknown_names_and_impossible_parameters_are_the_users_to_mend() {
        let with = |l: &str| race(&Overrides { limiters: vec![l.parse().unwrap()], ..Overrides::default() });
        assert!(with("get-then-inc").unwrap_err().contains("did you mean 'get-then-incr'"));
        assert!(with("gcra-lua:clok=server").unwrap_err().contains("did you mean 'clock'"));
        assert!(with("gcra-lua:clock=moon").unwrap_err().contains("one of app, server"));
        assert!(with("in-memory:x=1").unwrap_err().contains("takes no parameters"));
    }

    #[test]
    fn the_terms_say_whether_expectations_hold() {
        let terms = |changes: &Overrides| race(changes).unwrap().summary.terms;
        assert!(terms(&Overrides::default()).starts_with("as written"));
        assert!(terms(&Overrides { strict: true, ..Overrides::default() }).starts_with("strict"));
        let rounds = Overrides { rounds: NonZeroU32::new(7), ..Overrides::default() };
        assert!(terms(&rounds).starts_with("parameters changed"));
        let other = Overrides { limiters: vec!["gcra-lua:burst=3".parse().unwrap()], ..Overrides::default() };
        assert!(terms(&other).starts_with("nothing is expected"));
    }
}
