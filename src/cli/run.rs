//! A scenario by its name, and `run FILE…`.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;

use clap::ArgMatches;
use futures_util::FutureExt;

use super::flags::{GroundFlags, RunFlags, StdoutFormat, Volume};
use super::progress::Stderr;
use super::refusal::{Refusal, command_line};
use super::{Answer, output, signals};
use crate::model::claims::ClaimsPlan;
use crate::model::gate::GatePlan;
use crate::model::matrix::Column;
use crate::model::report::{self, Report};
use crate::model::scenario::{PlannedClock, PlannedFault};
use crate::model::units::Seed;
use crate::runner::execute::{self, Request};
use crate::runner::exit::Exit;
use crate::runner::explore::run::Exploration;
use crate::runner::plan::{self, CellPlan, Overrides, Plan};
use crate::runner::record::Stop;
use crate::runner::scenarios::{self, Named};

/// `rl-lab race …`
pub fn scenario(name: &str, matches: &ArgMatches) -> Answer {
    run(matches, || Ok(vec![scenarios::find(name)?]))
}

/// `rl-lab run FILE…`
pub fn files(matches: &ArgMatches) -> Answer {
    let files: Vec<&String> = matches.get_many("files").into_iter().flatten().collect();
    run(matches, || files.iter().map(|f| scenarios::load(f)).collect())
}

fn run(matches: &ArgMatches, load: impl FnOnce() -> Result<Vec<Named>, String>) -> Answer {
    let flags = RunFlags::read(matches).map_err(Refusal::usage)?;
    let seed = flags.seed();
    let plans = plans(&flags, seed, load).map_err(|message| Refusal::usage(message).of(seed))?;
    work(&flags, seed, Work { plans, ..Work::default() })
}

/// Runs plans, or shows them.
pub fn work(flags: &GroundFlags, seed: Seed, work: Work) -> Answer {
    if flags.dry_run() {
        return dry_run(flags, seed, &work.plans);
    }
    go(flags, seed, work)
}

/// What a run is to do.
#[derive(Default)]
pub struct Work {
    pub plans: Vec<Plan>,
    /// Put the verdicts into a matrix of these columns.
    pub columns: Option<Vec<Column>>,
    /// Hold these claims against what comes out.
    pub claims: Option<ClaimsPlan>,
    pub exploration: Option<Exploration>,
    pub gate: Option<GatePlan>,
    /// The command that repeats it, where that is not the one that was typed.
    pub command: Option<Vec<String>>,
}

/// Does it, and prints what it came to.
pub fn go(flags: &GroundFlags, seed: Seed, work: Work) -> Answer {
    let report = measure(flags, seed, work)?;
    output::report(&report, flags.format().name()).map_err(Refusal::environment)?;
    Ok(Exit::of_code(report.exit))
}

/// Does it, and prints nothing but what goes wrong.
pub fn measure(flags: &GroundFlags, seed: Seed, work: Work) -> Result<Report, Refusal> {
    if flags.volume() != Volume::Quiet {
        output::tell(&format!("seed: {seed}"));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| Refusal::environment(format!("cannot start the runtime: {e}")))?;
    let report = runtime.block_on(live(flags, seed, work))?;
    if let Some(error) = &report.error {
        output::tell(&format!("rl-lab: {error}"));
    }
    Ok(report)
}

fn plans(
    flags: &RunFlags,
    seed: Seed,
    load: impl FnOnce() -> Result<Vec<Named>, String>,
) -> Result<Vec<Plan>, String> {
    let overrides = flags.overrides()?;
    let plans: Vec<Plan> =
        load()?.into_iter().map(|named| plan::plan(named, &overrides, seed)).collect::<Result<_, _>>()?;
    for plan in &plans {
        something_runs(plan, &overrides)?;
    }
    Ok(plans)
}

/// A variation may be for some limiters only: whoever names others is told, and does not wait for a table without rows.
fn something_runs(plan: &Plan, overrides: &Overrides) -> Result<(), String> {
    if !plan.cells.is_empty() {
        return Ok(());
    }
    let variants = plan.scenario.variants.iter().map(|v| v.limiter.to_string());
    let named: BTreeSet<String> = variants.collect();
    let named: Vec<String> = named.into_iter().collect();
    let mut asked: Vec<String> = overrides.limiters.iter().map(ToString::to_string).collect();
    if asked.is_empty() {
        asked.push("any of its limiters".to_owned());
    }
    Err(format!(
        "no variation of {} is for {}: its variations are each for some of {}",
        plan.name,
        asked.join(", "),
        named.join(", ")
    ))
}

async fn live(flags: &GroundFlags, seed: Seed, work: Work) -> Result<Report, Refusal> {
    let stop = Stop::default();
    signals::listen(&stop).map_err(|e| Refusal::environment(format!("cannot listen for signals: {e}")))?;
    let request = Request {
        plans: work.plans,
        exploration: work.exploration,
        columns: work.columns,
        claims: work.claims,
        gate: work.gate,
        seed,
        command: work.command.unwrap_or_else(|| command_line(Some(seed))),
        backend: flags.backend(),
        options: flags.options(),
        servers: flags.by_name(),
        ground: flags.to_repeat(),
        program: None,
        out: flags.out(),
        stop,
    };
    let progress = Stderr::new(flags.volume());
    let report = AssertUnwindSafe(execute::execute(request, &progress)).catch_unwind().await;
    report.map_err(|_| {
        let what = "the lab itself broke outside of a run; `rl-lab gc` removes what may be left";
        Refusal::new(Exit::Broken, what).of(seed)
    })
}

/// The plan, with nothing started.
pub fn dry_run(flags: &GroundFlags, seed: Seed, plans: &[Plan]) -> Answer {
    let text = if flags.format() == StdoutFormat::Json {
        let value = serde_json::json!({
            "schema": report::SCHEMA,
            "dry_run": true,
            "seed": seed,
            "backend": flags.backend(),
            "server": flags.by_name(),
            "scenarios": plans.iter().map(plan_json).collect::<Vec<_>>(),
        });
        format!("{value:#}\n")
    } else {
        let head = format!("would run on {}, seed {seed}; nothing is started\n", flags.in_words());
        head + &plans.iter().map(plan_text).collect::<String>()
    };
    output::print(&text).map_err(Refusal::environment)?;
    Ok(Exit::Ok)
}

fn plan_json(plan: &Plan) -> serde_json::Value {
    serde_json::json!({
        "summary": plan.summary,
        "topology": plan.scenario.topology,
        "workload": plan.scenario.workload,
        "faults": plan.scenario.faults,
        "cells": plan.cells.iter().map(|c| serde_json::json!({
            "limiter": c.limiter,
            "variation": c.variation,
            "policy": c.policy.as_ref().map(|p| p.policy.to_string()),
            "client": c.client.name,
            "topology": c.setup.topology,
            "faults": c.setup.faults,
            "clocks": c.setup.clocks,
            "contract": c.contract(),
            "checks": c.checks,
        })).collect::<Vec<_>>(),
    })
}

/// Which servers a variation runs on, and what breaks when.
fn breaks(cell: &CellPlan) -> String {
    let of = cell.variation.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
    let faults = cell.setup.faults.iter().map(PlannedFault::in_words);
    let parts: Vec<String> = faults.chain(cell.setup.clocks.iter().map(PlannedClock::in_words)).collect();
    let parts = if parts.is_empty() { "none".to_owned() } else { parts.join("; ") };
    format!("{of}servers: {}; faults: {parts}", cell.setup.topology.kind)
}

fn plan_text(plan: &Plan) -> String {
    use std::fmt::Write as _;
    let mut text = format!("\n{}: {}\n  {}\n", plan.name, plan.summary.title, plan.summary.plan);
    if let Some(requires) = &plan.summary.requires {
        let _ = writeln!(text, "  requires {requires}");
    }
    let mut shown: Vec<Option<&str>> = Vec::new();
    for cell in &plan.cells {
        let variation = cell.variation.as_deref();
        if !shown.contains(&variation) {
            shown.push(variation);
            let _ = writeln!(text, "  {}", breaks(cell));
        }
    }
    for cell in &plan.cells {
        let contract = cell.contract();
        let checks: Vec<String> = cell
            .checks
            .iter()
            .map(|c| match c.expected {
                Some(expected) => format!("{} (expected {})", c.check, expected.name()),
                None => c.check.clone(),
            })
            .collect();
        let _ = writeln!(text, "  {}: promises {}", cell.label(), contract.bound.in_words());
        let _ = writeln!(text, "      {}", checks.join(", "));
    }
    text
}
