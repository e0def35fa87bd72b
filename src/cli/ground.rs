//! The flags of everything that starts servers and writes results: where, and how it is told.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::model::units::{self, Seed};
use crate::ports::backend::BackendOptions;

#[derive(Debug, Clone, Args)]
pub struct GroundFlags {
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

impl GroundFlags {
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

/// A whole number from 0.
pub fn whole(text: &str) -> Result<u64, String> {
    text.trim().parse().map_err(|_| format!("a whole number, not '{text}'"))
}

pub fn span(text: &str) -> Result<Duration, String> {
    let ms = units::parse_millis(text, "a span").map_err(|e| e.to_string())?;
    Ok(Duration::from_millis(ms))
}
