//! Progress on stderr: a bar where there is a terminal, a line per cell where there is none.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::flags::Volume;
use super::output;
use crate::model::report::CellReport;
use crate::runner::execute::Progress;
use crate::runner::plan::Plan;

pub struct Stderr {
    volume: Volume,
    bar: Option<ProgressBar>,
}

impl Stderr {
    pub fn new(volume: Volume) -> Self {
        let terminal =
            std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|t| t != "dumb");
        let bar = (terminal && volume != Volume::Quiet).then(|| {
            let style =
                ProgressStyle::with_template("{spinner} {prefix} {msg} [{bar:20}] {pos}/{len} rounds")
                    .unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(10)).with_style(style)
        });
        Self { volume, bar }
    }

    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| output::tell(text)),
            None => output::tell(text),
        }
    }
}

impl Drop for Stderr {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Progress for Stderr {
    fn note(&self, text: &str) {
        if self.volume != Volume::Quiet {
            self.say(text);
        }
    }

    fn warn(&self, text: &str) {
        self.say(&format!("warning: {text}"));
    }

    fn cell(&self, plan: &Plan, limiter: &str, number: usize, of: usize) {
        if let Some(bar) = &self.bar {
            bar.set_length(u64::from(plan.scenario.workload.rounds.get()));
            bar.set_position(0);
            bar.set_prefix(format!("{} · limiter {number} of {of}:", plan.name));
            bar.set_message(limiter.to_owned());
        }
    }

    fn round(&self, done: u32, _of: u32) {
        if let Some(bar) = &self.bar {
            bar.set_position(u64::from(done));
        }
    }

    fn cell_done(&self, report: &CellReport) {
        let verdicts = || {
            let all = report.checks.iter().map(|c| format!("{} {}", c.check, c.label()));
            all.collect::<Vec<_>>().join(", ")
        };
        match (self.volume, &self.bar) {
            (Volume::Quiet, _) | (Volume::Normal, Some(_)) => {}
            _ => self.say(&format!("{} · {}: {}", report.scenario, label(report), verdicts())),
        }
        if self.volume == Volume::Verbose {
            let h = report.honesty;
            self.say(&format!(
                "    {} commands in {} round trips, {:.1} ms under load, {} calls open at once, generator {:.0} % of a core",
                h.commands,
                h.round_trips,
                h.busy_ms,
                h.overlap,
                h.generator_cpu * 100.0
            ));
        }
    }
}

/// The cell as one reads it while it runs; the tables leave out what all cells have in common.
fn label(report: &CellReport) -> String {
    let mut label = report.limiter.clone();
    if let Some(policy) = &report.policy {
        label += &format!(" + {policy}");
    }
    if report.policy.is_some() || report.rounds.iter().any(|r| !r.phases.is_empty()) {
        label += &format!(", {}", report.client);
    }
    if let Some(variation) = &report.variation {
        label += &format!(" ({variation})");
    }
    label
}
