//! The flags that every scenario and `run` share.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Command, FromArgMatches, ValueEnum};

use crate::model::scenario::LimiterRef;
use crate::model::units::{self, Limit, Seed, Window};
use crate::ports::backend::BackendOptions;
use crate::runner::plan::Overrides;

#[derive(Debug, Clone, Args)]
pub struct RunFlags {
    /// Limiters to run instead of the scenario's: names or catalogue numbers, with parameters
    /// where wanted (`fixed-window-lua,gcra-lua:clock=server`); see `rl-lab list limiters`
    #[arg(short, long, alias = "limiter", value_name = "NAME[:PARAM=VALUE],…", help_heading = "Experiment")]
    limiters: Vec<String>,
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
    #[arg(long, value_name = "N", value_parser = whole, help_heading = "Experiment")]
    preset: Option<u64>,
    /// Connect on the first call of a round instead of before it
    #[arg(long, help_heading = "Experiment")]
    cold_pool: bool,
    /// Judge every verdict by itself, whatever the scenario expects
    #[arg(long, help_heading = "Experiment")]
    strict: bool,
    /// Seed of every random choice; a random one if not given
    #[arg(long, value_name = "N", value_parser = whole, help_heading = "Experiment")]
    seed: Option<u64>,

    /// Where the servers run: auto takes a Docker engine if one answers, else local servers
    #[arg(long, env = "RL_LAB_BACKEND", default_value = "auto", value_parser = clap::builder::PossibleValuesParser::new(crate::backends::NAMES), help_heading = "Servers")]
    backend: String,
    /// Image of the docker backend
    #[arg(long, env = "RL_LAB_IMAGE", value_name = "NAME[:TAG]", help_heading = "Servers")]
    image: Option<String>,
    /// Server binary of the local backend
    #[arg(long, env = "RL_LAB_REDIS_SERVER", value_name = "PATH", help_heading = "Servers")]
    redis_server: Option<PathBuf>,
    /// How long a server may take to answer its first PING
    #[arg(long, value_name = "SPAN", value_parser = span, help_heading = "Servers")]
    start_timeout: Option<Duration>,

    /// Folder for the results; each run gets a folder of its own in it
    #[arg(
        short,
        long,
        env = "RL_LAB_OUT",
        default_value = "out",
        value_name = "FOLDER",
        help_heading = "Output"
    )]
    out: PathBuf,
    /// What is printed on stdout
    #[arg(short, long, default_value = "table", value_name = "FORMAT", help_heading = "Output")]
    format: StdoutFormat,
    /// Print what would be run, and start nothing
    #[arg(long, help_heading = "Output")]
    dry_run: bool,
    /// Say less on stderr
    #[arg(short, long, conflicts_with = "verbose", help_heading = "Output")]
    quiet: bool,
    /// Say more on stderr
    #[arg(short, long, help_heading = "Output")]
    verbose: bool,
}

/// The formats that stdout offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StdoutFormat {
    Table,
    Json,
    Markdown,
    Csv,
}

impl StdoutFormat {
    pub fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Json => "json",
            Self::Markdown => "markdown",
            Self::Csv => "csv",
        }
    }
}

/// How much goes to stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Volume {
    Quiet,
    Normal,
    Verbose,
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
            strict: self.strict,
        })
    }

    /// The seed asked for, or this one.
    pub fn seed_or(&self, own: Seed) -> Seed {
        self.seed.map_or(own, Seed)
    }

    /// The seed asked for, or one that differs from run to run: 32 bits, easy to type again.
    #[expect(clippy::disallowed_methods, reason = "a seed that differs from run to run")]
    pub fn seed(&self) -> Seed {
        let now = || {
            let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            let nanos = since.map_or(0, |d| u64::from(d.subsec_nanos()) ^ d.as_secs());
            nanos.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
        };
        Seed(self.seed.unwrap_or_else(now))
    }

    pub fn options(&self) -> BackendOptions {
        BackendOptions {
            image: self.image.clone(),
            redis_server: self.redis_server.clone(),
            start_timeout: self.start_timeout,
        }
    }

    pub fn backend(&self) -> &str {
        &self.backend
    }

    pub fn out(&self) -> &PathBuf {
        &self.out
    }

    pub fn format(&self) -> StdoutFormat {
        self.format
    }

    pub fn dry_run(&self) -> bool {
        self.dry_run
    }

    pub fn volume(&self) -> Volume {
        match (self.quiet, self.verbose) {
            (true, _) => Volume::Quiet,
            (_, true) => Volume::Verbose,
            _ => Volume::Normal,
        }
    }
}

/// A whole number from 1.
fn count(text: &str) -> Result<NonZeroU32, String> {
    text.trim().parse().map_err(|_| format!("a whole number from 1 to {}, not '{text}'", u32::MAX))
}

/// A whole number from 0.
fn whole(text: &str) -> Result<u64, String> {
    text.trim().parse().map_err(|_| format!("a whole number, not '{text}'"))
}

fn span(text: &str) -> Result<Duration, String> {
    let ms = units::parse_millis(text, "a span").map_err(|e| e.to_string())?;
    Ok(Duration::from_millis(ms))
}

/// Splits `a,b:x=1,y=2,c`: a piece of the form `y=2` still belongs to the limiter before it.
fn limiters(given: &[String]) -> Result<Vec<LimiterRef>, String> {
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
        return Err("--limiters names no limiter; `rl-lab list limiters` lists them".to_owned());
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
