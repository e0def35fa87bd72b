//! `rl-lab matrix`: every limiter against every property.

use clap::{ArgMatches, Command};

use super::Answer;
use super::flags::{self, RunFlags};
use super::refusal::Refusal;
use super::run::{self, Work};
use crate::runner::matrix;

pub fn command() -> Command {
    flags::run_flags(Command::new("matrix").about("Every limiter against every property").long_about(
        "Every limiter against every property: runs the scenarios that put each property to the test \
                 and compares the verdicts with what is known (scenarios/matrix/expected.toml). --limiters \
                 chooses rows; the experiments stay as they are.",
    ))
}

pub fn main(matches: &ArgMatches) -> Answer {
    let flags = RunFlags::read(matches).map_err(Refusal::usage)?;
    let seed = flags.seed_or(crate::model::units::Seed(1));
    let overrides = flags.overrides().map_err(|e| Refusal::usage(e).of(seed))?;
    if overrides.changes_the_experiment() {
        let text = "matrix takes --limiters and --strict; its experiments stay as they are (change one with \
                    the scenario's own command)";
        return Err(Refusal::usage(text).of(seed));
    }
    let plan = matrix::embedded().map_err(|e| Refusal::new(crate::runner::exit::Exit::Broken, e))?;
    let mut plans =
        matrix::plans(&plan, &overrides.limiters, seed).map_err(|e| Refusal::usage(e).of(seed))?;
    if overrides.strict {
        let checks =
            plans.iter_mut().flat_map(|p| &mut p.cells).flat_map(|c| c.checks_everywhere().flatten());
        checks.for_each(|c| c.expected = None);
    }
    run::work(&flags, seed, Work { plans, columns: Some(plan.columns), ..Work::default() })
}
