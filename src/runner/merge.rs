//! Shares of a gate put together into the report that the whole of it would have given.

use std::path::{Path, PathBuf};

use super::exit::{self, Exit};
use crate::model::gate::{Gate, GatePlan};
use crate::model::report::{self, Report};
use crate::model::verdict::Verdict;

/// The report a user means: a file, a run's folder, or the name of one below `out`.
pub fn read(run: &Path, out: &Path) -> Result<Report, String> {
    let candidates: [PathBuf; 3] =
        [run.to_owned(), run.join("results.json"), out.join(run).join("results.json")];
    let path = candidates.into_iter().find(|p| p.is_file());
    let path = path.ok_or_else(|| {
        format!("no results at '{}': name a run's folder, or its results.json", run.display())
    })?;
    let text = std::fs::read_to_string(&path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    let read: Report =
        serde_json::from_str(&text).map_err(|e| format!("{}: it is no report: {e}", path.display()))?;
    if read.schema != report::SCHEMA {
        return Err(format!("{}: schema {} is not known here", path.display(), read.schema));
    }
    Ok(read)
}

/// Puts shares together; each with the name that it is told by.
///
/// # Errors
/// If they are not all of one gate, or not each of its shares once.
pub fn merge(shares: Vec<(String, Report)>, command: Vec<String>) -> Result<Report, String> {
    let plan = complete(&shares)?;
    let mut all = shares.into_iter();
    let Some((name, mut whole)) = all.next() else { return Err("no run is named".to_owned()) };
    let mut ended = beside_verdicts(&whole);
    let mut errors: Vec<String> = whole.error.take().map(|e| format!("{name}: {e}")).into_iter().collect();
    for (name, share) in all {
        ended = ended.and(beside_verdicts(&share));
        errors.extend(share.error.map(|e| format!("{name}: {e}")));
        whole.finished &= share.finished;
        whole.started = whole.started.min(share.started);
        whole.run = format!("{}+{}", whole.run, share.run);
        whole.honesty.clock_step_ms = whole.honesty.clock_step_ms.max(share.honesty.clock_step_ms);
        for scenario in share.scenarios {
            if !whole.scenarios.iter().any(|s| s.name == scenario.name) {
                whole.scenarios.push(scenario);
            }
        }
        whole.cells.extend(share.cells);
    }
    plan.sort(&mut whole.cells);
    let place = |name: &String| plan.cells.iter().position(|c| c.scenario == *name);
    whole.scenarios.sort_by_key(|s| place(&s.name));
    let gate = Gate::of(&plan, &whole.cells);
    let (judged, verdict) = exit::of_gate(&gate);
    let exit = judged.and(ended);
    whole.gate = Some(gate);
    whole.verdict = if whole.finished { verdict } else { verdict.max(Verdict::Unknown) };
    whole.exit = exit.code();
    whole.passed = exit == Exit::Ok;
    whole.error = (!errors.is_empty()).then(|| errors.join("\n"));
    whole.command = command;
    whole.out = None;
    Ok(whole)
}

/// How a run ended, where that does not follow from its verdicts.
fn beside_verdicts(report: &Report) -> Exit {
    match Exit::of_code(report.exit) {
        Exit::Ok | Exit::Failed | Exit::Unknown if report.finished => Exit::Ok,
        Exit::Ok | Exit::Failed | Exit::Unknown => Exit::Unknown,
        other => other,
    }
}

/// The plan of which these are all shares, each there once.
fn complete(shares: &[(String, Report)]) -> Result<GatePlan, String> {
    let mut known: Option<(&str, &Report, &GatePlan)> = None;
    let mut there: Vec<(u32, &str)> = Vec::new();
    let mut of = 0;
    for (name, report) in shares {
        let plan = report.gate.as_ref().map(|g| &g.plan);
        let plan = plan.ok_or_else(|| format!("{name} is no run of `rl-lab gate`"))?;
        let shard =
            plan.shard.ok_or_else(|| format!("{name} is a whole gate, not a share of one (--shard)"))?;
        let (first, first_report, first_plan) = *known.get_or_insert((name, report, plan));
        if first_report.lab != report.lab {
            return Err(format!("{first} is of rl-lab {}, {name} of {}", first_report.lab, report.lab));
        }
        let shards = first_plan.shard.map_or(0, |s| s.of);
        if shard.of != shards {
            return Err(format!("{first} is one of {shards} shares, {name} one of {}", shard.of));
        }
        if !plan.is_of_the_same(first_plan) || report.seed != first_report.seed {
            let why = "profile, file, seed, limiters and baseline must be the same";
            return Err(format!("{name} is a share of another gate than {first}: {why}"));
        }
        if let Some((_, twice)) = there.iter().find(|(number, _)| *number == shard.number) {
            return Err(format!("{twice} and {name} are both share {shard}"));
        }
        there.push((shard.number, name));
        of = shard.of;
    }
    let missing: Vec<String> =
        (1..=of).filter(|n| !there.iter().any(|(t, _)| t == n)).map(|n| format!("{n}/{of}")).collect();
    match (known, missing.is_empty()) {
        (None, _) => Err("no run is named".to_owned()),
        (_, false) => Err(format!("of this gate, share {} is missing", missing.join(", "))),
        (Some((_, _, plan)), true) => Ok(GatePlan { shard: None, ..plan.clone() }),
    }
}
