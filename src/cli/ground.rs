//! The flags of everything that starts servers and writes results: where, and how it is told.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::project;
use super::settings::SettingFlags;
use crate::model::config::Settings;
use crate::model::servers::Wanted;
use crate::model::units::{self, Seed};
use crate::ports::backend::BackendOptions;
use crate::runner::plan::Ground;

#[derive(Debug, Clone, Args)]
pub struct GroundFlags {
    #[command(flatten)]
    settings: SettingFlags,
    /// How long a server may take to answer its first PING
    #[arg(long, value_name = "SPAN", value_parser = span, help_heading = "Servers")]
    start_timeout: Option<Duration>,

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
        self.settings.seed().map_or(own, Seed)
    }

    /// The seed asked for, or one that differs from run to run: 32 bits, easy to type again.
    #[expect(clippy::disallowed_methods, reason = "a seed that differs from run to run")]
    pub fn seed(&self) -> Seed {
        let now = || {
            let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            let nanos = since.map_or(0, |d| u64::from(d.subsec_nanos()) ^ d.as_secs());
            nanos.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
        };
        Seed(self.settings.seed().unwrap_or_else(now))
    }

    /// The same under a profile of the file.
    pub fn under(&mut self, profile: Settings) {
        self.settings.under(profile);
    }

    pub fn options(&self) -> BackendOptions {
        BackendOptions { start_timeout: self.start_timeout, ..self.settings.servers() }
    }

    /// What commands have to say that run something again on the same ground.
    pub fn to_repeat(&self) -> Ground {
        Ground { options: self.settings.servers_not_of_the_file(), config: project::words() }
    }

    /// The servers that are asked for by name.
    pub fn by_name(&self) -> Option<Wanted> {
        self.settings.by_name()
    }

    /// The same for a command that runs on one.
    pub fn one_by_name(&self, command: &str) -> Result<Option<Wanted>, String> {
        match self.by_name() {
            Some(wanted) if wanted.single().is_none() => Err(format!(
                "{command} runs on one server at a time: name one with --server, and call it once for each"
            )),
            one => Ok(one),
        }
    }

    /// Where it would run, in words.
    pub fn in_words(&self) -> String {
        let on = self.by_name().map(|wanted| format!(", servers {wanted}")).unwrap_or_default();
        format!("backend '{}'{on}", self.backend())
    }

    pub fn backend(&self) -> String {
        self.settings.backend()
    }

    pub fn out(&self) -> PathBuf {
        self.settings.out()
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
