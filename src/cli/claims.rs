//! `rl-lab anti-patterns`, `rl-lab which-limiter`: what people say, put to the test in one table.

use clap::{ArgMatches, Args, Command, FromArgMatches};

use super::Answer;
use super::ground::GroundFlags;
use super::refusal::Refusal;
use super::run::{self, Work};
use crate::model::units::Seed;
use crate::runner::claims;
use crate::runner::exit::Exit;

pub fn is(name: &str) -> bool {
    claims::names().any(|n| n == name)
}

pub fn commands() -> impl Iterator<Item = Command> {
    claims::names().map(|name| {
        let about = match claims::find(name) {
            Ok(plan) => plan.title,
            Err(error) => error,
        };
        let long = format!(
            "{about}: runs the scenarios that each claim speaks of and says whether it holds. The experiments stay \
             as they are."
        );
        GroundFlags::augment_args(Command::new(name).about(about).long_about(long))
    })
}

pub fn main(name: &str, matches: &ArgMatches) -> Answer {
    let flags = GroundFlags::from_arg_matches(matches).map_err(|e| Refusal::usage(e.to_string()))?;
    let seed = flags.seed_or(Seed(1));
    let claims = claims::find(name).map_err(|e| Refusal::new(Exit::Broken, e))?;
    let plans = claims::plans(&claims, seed).map_err(|e| Refusal::new(Exit::Broken, e).of(seed))?;
    run::work(&flags, seed, Work { plans, claims: Some(claims), ..Work::default() })
}
