//! The file `rl-lab.toml` of this call: which it is, and what it says.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, value_parser};

use super::Refusal;
use crate::model::config::{Config, FILE, Settings};
use crate::runner::configured;

/// Where a file is needed and there is none.
pub const MISSING: &str = "no rl-lab.toml here or above: `rl-lab init` writes one, --config FILE names one";

const VARIABLE: &str = "RL_LAB_CONFIG";

/// What was read.
#[derive(Debug)]
pub struct Project {
    pub path: PathBuf,
    /// Whether a flag named it, as it is on the command line already.
    typed: bool,
    /// Whether a flag or the environment did.
    named: bool,
    pub config: Config,
}

static PROJECT: OnceLock<Project> = OnceLock::new();

/// The file of this call, if there is one.
pub fn project() -> Option<&'static Project> {
    PROJECT.get()
}

/// What the file says of the settings.
pub fn settings() -> Settings {
    project().map(|p| p.config.settings()).unwrap_or_default()
}

/// Where runs are, by the environment, the file, or the default.
pub fn runs_folder() -> PathBuf {
    let told = std::env::var_os("RL_LAB_OUT").map(PathBuf::from);
    told.or_else(|| settings().out).unwrap_or_else(|| "out".into())
}

/// `--config`, which every command takes.
pub fn arg() -> Arg {
    Arg::new("config")
        .long("config")
        .global(true)
        .env(VARIABLE)
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("rl-lab.toml to read, instead of the nearest one from here upwards")
}

/// Commands that say and do the same whatever a file says; one that is broken does not keep them from it.
const WITHOUT: [&str; 6] = ["init", "gc", "completions", "man", "linearizable", "headers"];

/// Reads the file, once, before anything else is done. Its limiters are known from here on.
pub fn read(matches: &ArgMatches) -> Result<(), Refusal> {
    let Some((command, of)) = matches.subcommand() else { return Ok(()) };
    if WITHOUT.contains(&command) || (command == "config" && of.subcommand_name() == Some("schema")) {
        return Ok(());
    }
    let named = of.get_one::<PathBuf>("config").cloned();
    // An app server that the lab starts is in a folder of the lab's; it is told which file there is.
    let served = command == "serve-limiter" && of.get_one::<String>("dir").is_some();
    let found = || std::env::current_dir().ok().and_then(|here| configured::find(&here));
    let was_named = named.is_some();
    let Some(path) = named.or_else(|| if served { None } else { found() }) else { return Ok(()) };
    let config = configured::load(&path).map_err(Refusal::usage)?;
    if let Ok(lasting) = std::path::absolute(&path) {
        // SAFETY: nothing else runs yet: runtimes and their threads are begun by the commands.
        unsafe { std::env::set_var(VARIABLE, lasting) };
    }
    let typed = of.value_source("config") == Some(ValueSource::CommandLine);
    let _ = PROJECT.set(Project { path, typed, named: was_named, config });
    Ok(())
}

impl Project {
    /// Whether whoever stands here again finds it by itself.
    fn is_found(&self) -> bool {
        !self.named && self.path == Path::new(FILE)
    }

    /// As it is shown: `rl-lab.toml`, `../rl-lab.toml`.
    pub fn shown(&self) -> String {
        self.path.display().to_string()
    }
}

/// What a command says so that it reads the same file.
pub fn words() -> Vec<String> {
    let named = project().filter(|p| !p.is_found());
    named.map(|p| vec!["--config".to_owned(), p.shown()]).unwrap_or_default()
}

/// The same, less what is typed already.
pub fn missing_words() -> Vec<String> {
    if project().is_some_and(|p| p.typed) { Vec::new() } else { words() }
}
