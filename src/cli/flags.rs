//! The flags that every scenario and `run` share.

use std::num::NonZeroU32;

use clap::{Args, Command, FromArgMatches};

pub use super::ground::{GroundFlags, StdoutFormat, Volume};
use super::project;
use crate::model::scenario::LimiterRef;
use crate::model::units::{Limit, Window};
use crate::runner::plan::Overrides;

#[derive(Debug, Clone, Args)]
pub struct RunFlags {
    /// Limiters to run instead of the scenario's: names or catalogue numbers, with parameters
    /// where wanted (`fixed-window-lua,gcra-lua:clock=server`); see `rl-lab list limiters`
    #[arg(short, long, alias = "limiter", value_name = "NAME[:PARAM=VALUE],…", help_heading = "Experiment")]
    limiters: Vec<String>,
    /// What decides where the limiter cannot, instead of what the scenario has around it
    /// (`circuit-breaker:failures=3`); see `rl-lab list policies`
    #[arg(long, value_name = "NAME[:PARAM=VALUE,…]", help_heading = "Experiment")]
    policy: Option<LimiterRef>,
    /// How nodes talk to the store, instead of as the scenario has it; see `rl-lab list clients`
    #[arg(long, value_name = "NAME", help_heading = "Experiment")]
    client: Option<String>,
    /// A variation to run instead of all of the scenario's; may be given again
    #[arg(long = "variation", value_name = "NAME", help_heading = "Experiment")]
    variations: Vec<String>,
    /// Requests a limiter may admit per window
    #[arg(long, value_name = "N", help_heading = "Experiment")]
    limit: Option<Limit>,
    /// Length of the window, such as 500ms, 60s or 1h
    #[arg(long, value_name = "SPAN", help_heading = "Experiment")]
    window: Option<Window>,
    /// Calls per round, all nodes together
    #[arg(long, value_name = "N", value_parser = count, help_heading = "Experiment")]
    requests: Option<NonZeroU32>,
    /// Connections to the store, all nodes together
    #[arg(long, value_name = "N", value_parser = count, help_heading = "Experiment")]
    connections: Option<NonZeroU32>,
    /// Calls open at the same time, all nodes together
    #[arg(long, value_name = "N", value_parser = count, help_heading = "Experiment")]
    in_flight: Option<NonZeroU32>,
    /// App servers, each with its own connections and local state
    #[arg(long, value_name = "N", value_parser = count, help_heading = "Experiment")]
    nodes: Option<NonZeroU32>,
    /// Rounds, each with a fresh key
    #[arg(long, value_name = "N", value_parser = count, help_heading = "Experiment")]
    rounds: Option<NonZeroU32>,
    /// What counts as already used when a round begins
    #[arg(long, value_name = "N", value_parser = super::ground::whole, help_heading = "Experiment")]
    preset: Option<u64>,
    /// Connect on the first call of a round instead of before it
    #[arg(long, help_heading = "Experiment")]
    cold_pool: bool,
    /// Judge every verdict by itself, whatever the scenario expects
    #[arg(long, help_heading = "Experiment")]
    strict: bool,
    #[command(flatten)]
    ground: GroundFlags,
}

impl std::ops::Deref for RunFlags {
    type Target = GroundFlags;

    fn deref(&self) -> &GroundFlags {
        &self.ground
    }
}

/// Adds the flags to a command.
pub fn run_flags(command: Command) -> Command {
    RunFlags::augment_args(command)
}

impl RunFlags {
    pub fn read(matches: &clap::ArgMatches) -> Result<Self, String> {
        Self::from_arg_matches(matches).map_err(|e| e.to_string())
    }

    pub fn overrides(&self) -> Result<Overrides, String> {
        Ok(Overrides {
            limiters: limiters(&self.limiters)?,
            policy: self.policy.clone(),
            client: self.client.clone(),
            variations: self.variations.clone(),
            limit: self.limit,
            window: self.window,
            requests: self.requests,
            connections: self.connections,
            in_flight: self.in_flight,
            nodes: self.nodes,
            rounds: self.rounds,
            preset: self.preset,
            cold_pool: self.cold_pool,
            require: project::project().and_then(|p| p.config.require.clone()),
            strict: self.strict,
        })
    }
}

/// A whole number from 1.
fn count(text: &str) -> Result<NonZeroU32, String> {
    text.trim().parse().map_err(|_| format!("a whole number from 1 to {}, not '{text}'", u32::MAX))
}

/// Splits `a,b:x=1,y=2,c`: a piece of the form `y=2` still belongs to the limiter before it.
pub fn limiters(given: &[String]) -> Result<Vec<LimiterRef>, String> {
    let mut texts: Vec<String> = Vec::new();
    for piece in given.iter().flat_map(|g| g.split(',')).map(str::trim).filter(|p| !p.is_empty()) {
        match texts.last_mut() {
            Some(last) if piece.contains('=') && !piece.contains(':') => {
                last.push(if last.contains(':') { ',' } else { ':' });
                last.push_str(piece);
            }
            _ => texts.push(piece.to_owned()),
        }
    }
    if texts.is_empty() && !given.is_empty() {
        return Err("no limiter is named; `rl-lab list limiters` lists them".to_owned());
    }
    texts.iter().map(|t| t.parse()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_limiters_with_parameters_is_split_where_a_name_begins() {
        let read = limiters(&["a,gcra-lua:burst=12,clock=server".to_owned(), "c".to_owned()]).unwrap();
        let shown: Vec<String> = read.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["a", "gcra-lua:burst=12,clock=server", "c"]);
    }
}
