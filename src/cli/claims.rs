//! `rl-lab anti-patterns`, `rl-lab which-limiter`, `rl-lab disputed-claims`: what people say, put to the test in one table.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};

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
        let about = match claims::read(name) {
            Ok(plan) => plan.title,
            Err(error) => error,
        };
        let long = format!(
            "{about}: runs the scenarios that each claim speaks of and says whether it holds. The experiments stay \
             as they are."
        );
        let only = Arg::new("only")
            .long("only")
            .value_name("N")
            .action(ArgAction::Append)
            .value_delimiter(',')
            .value_parser(value_parser!(u32))
            .help("Only these, by their numbers; may be given again");
        GroundFlags::augment_args(Command::new(name).about(about).long_about(long).arg(only))
    })
}

pub fn main(name: &str, matches: &ArgMatches) -> Answer {
    let flags = GroundFlags::from_arg_matches(matches).map_err(|e| Refusal::usage(e.to_string()))?;
    let seed = flags.seed_or(Seed(1));
    let mut claims = claims::find(name).map_err(|e| Refusal::new(Exit::Broken, e))?;
    if let Some(only) = matches.get_many::<u32>("only") {
        let only: Vec<u32> = only.copied().collect();
        let numbers: Vec<u32> = (1..).zip(&claims.claims).map(|(place, c)| c.case.unwrap_or(place)).collect();
        if let Some(none) = only.iter().find(|n| !numbers.contains(n)) {
            return Err(Refusal::usage(format!(
                "there is no {none}: the numbers go from 1 to {}",
                numbers.iter().max().unwrap_or(&0)
            )));
        }
        let mut number = numbers.into_iter();
        claims.claims.retain(|_| number.next().is_some_and(|n| only.contains(&n)));
    }
    let plans = claims::plans(&claims, seed).map_err(|e| Refusal::new(Exit::Broken, e).of(seed))?;
    run::work(&flags, seed, Work { plans, claims: Some(claims), ..Work::default() })
}
