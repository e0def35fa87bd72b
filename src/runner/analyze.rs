//! Judges a recorded history again, without running anything.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use super::exit::{self, Exit};
use super::judge;
use crate::model::claims::Claims;
use crate::model::gate::Gate;
use crate::model::history::{Builder, History};
use crate::model::matrix::Matrix;
use crate::model::report::{self, Honesty, Report};
use crate::model::verdict::Verdict;

/// The history a user means: a file, a run's folder, or the name of one below `out`.
pub fn locate(run: &Path, out: &Path) -> Result<PathBuf, String> {
    let candidates = [run.to_owned(), run.join("history.jsonl"), out.join(run).join("history.jsonl")];
    candidates.into_iter().find(|p| p.is_file()).ok_or_else(|| {
        if run == Path::new("latest") && !out.join("latest").exists() {
            return format!(
                "no run below '{}' yet: run `rl-lab race`, or name a folder with --out",
                out.display()
            );
        }
        format!("no history at '{}': name a run's folder, or its history.jsonl", run.display())
    })
}

/// Reads a history, a line at a time.
pub fn read(path: &Path) -> Result<History, String> {
    let whole = |e: std::io::Error| format!("cannot read {}: {e}", path.display());
    let mut reader = BufReader::new(File::open(path).map_err(whole)?);
    let mut builder = Builder::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line).map_err(whole)? == 0 {
            break;
        }
        let text = String::from_utf8_lossy(&line);
        builder.line(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    builder.finish().map_err(|e| format!("{}: {e}", path.display()))
}

/// The report that the history gives.
pub fn report(history: &History) -> Report {
    let judged = history.cells.iter().map(judge::judge);
    let mut cells: Vec<_> = judged.chain(history.searched.iter().cloned()).collect();
    report::in_order(&mut cells);
    let claims = history.header.claims.as_ref().map(|c| Claims::of(c, &cells));
    let gate = history.header.gate.as_ref().map(|g| Gate::of(g, &cells));
    let (judged, verdict) = exit::of_all(&cells, claims.as_ref(), gate.as_ref(), &history.ground);
    let clock_step_ms = history.cells.iter().map(judge::clock_step_ms).fold(0.0, f64::max);
    // A run that was cut short may have planned more: what it did not get to is not a pass.
    let (exit, verdict, error) = match &history.ended {
        Some((_, None)) if cells.is_empty() && gate.is_none() => {
            let searched = "this run searched schedules and recorded no calls: its verdicts are in results.json, \
                            and `rl-lab replay` runs what it saved";
            (judged, verdict, Some(searched.to_owned()))
        }
        Some((_, None)) => (judged, verdict, None),
        Some((_, Some(error))) => {
            (judged.and(Exit::Unknown), verdict.max(Verdict::Unknown), Some(error.clone()))
        }
        None => {
            let cut = "the run was cut short; this is what it had recorded".to_owned();
            (judged.and(Exit::Unknown), verdict.max(Verdict::Unknown), Some(cut))
        }
    };
    Report {
        schema: report::SCHEMA,
        passed: exit == Exit::Ok,
        verdict,
        exit: exit.code(),
        finished: error.is_none(),
        error,
        run: history.header.id.clone(),
        lab: history.header.lab.clone(),
        started: history.header.started.clone(),
        seed: history.header.seed,
        command: history.header.command.clone(),
        out: None,
        honesty: Honesty { clock_step_ms, ..history.ground.clone() },
        scenarios: history.scenarios.clone(),
        claims,
        gate,
        matrix: history.header.columns.as_deref().map(|c| Matrix::of(c, &cells)),
        cells,
    }
}
