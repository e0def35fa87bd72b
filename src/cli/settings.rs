//! What flags, the environment, a profile and the file say of where things run, and who of them is heard:
//! the first of these that says something.

use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args};

use super::project;
use crate::model::config::Settings;
use crate::model::servers::Wanted;
use crate::ports::backend::BackendOptions;

/// What is taken where nobody says anything.
const BACKEND: &str = "auto";
const OUT: &str = "out";

#[derive(Debug, Clone, Args)]
pub struct SettingFlags {
    /// Seed of every random choice; if not given a random one, of a gate 1
    #[arg(long, env = "RL_LAB_SEED", value_name = "N", value_parser = super::ground::whole, help_heading = "Experiment")]
    seed: Option<u64>,

    /// Where the servers run: auto (the default) takes a Docker engine if one answers, else local servers
    #[arg(long, env = "RL_LAB_BACKEND", value_parser = clap::builder::PossibleValuesParser::new(crate::backends::NAMES), help_heading = "Servers")]
    backend: Option<String>,
    /// Servers by name to run on, one after the other: 6.2, 7.0, 8.2, valkey-8.1, valkey-9.1, several of them, or all
    /// that are there; see `rl-lab list servers` and scripts/servers
    #[arg(long, env = "RL_LAB_SERVER", value_name = "NAME,…", conflicts_with_all = ["image", "redis_server"], help_heading = "Servers")]
    server: Option<Wanted>,
    /// Image of the docker backend
    #[arg(long, env = "RL_LAB_IMAGE", value_name = "NAME[:TAG]", help_heading = "Servers")]
    image: Option<String>,
    /// Server binary of the local backend
    #[arg(long, env = "RL_LAB_REDIS_SERVER", value_name = "PATH", help_heading = "Servers")]
    redis_server: Option<PathBuf>,

    /// Folder for the results, `out` if not given; each run gets a folder of its own in it
    #[arg(short, long, env = "RL_LAB_OUT", value_name = "FOLDER", help_heading = "Output")]
    out: Option<PathBuf>,
    /// What the profile says that is run, if one is.
    #[arg(skip)]
    profile: Settings,
}

impl SettingFlags {
    /// The same under a profile.
    pub fn under(&mut self, profile: Settings) {
        self.profile = profile;
    }

    /// What flags and the environment say.
    fn said(&self) -> Settings {
        let Self { seed, backend, server, image, redis_server, out, .. } = self.clone();
        Settings { backend, server, image, redis_server, out, seed }
    }

    /// What holds.
    fn settled(&self) -> Settings {
        self.said().or(self.profile.clone()).or(project::settings())
    }

    pub fn seed(&self) -> Option<u64> {
        self.settled().seed
    }

    pub fn backend(&self) -> String {
        self.settled().backend.unwrap_or_else(|| BACKEND.to_owned())
    }

    pub fn out(&self) -> PathBuf {
        self.settled().out.unwrap_or_else(|| OUT.into())
    }

    pub fn servers(&self) -> BackendOptions {
        let Settings { image, redis_server, .. } = self.settled();
        BackendOptions { image, redis_server, ..BackendOptions::default() }
    }

    /// The same, less what the file says that whoever repeats the command reads again.
    pub fn servers_not_of_the_file(&self) -> BackendOptions {
        let Settings { image, redis_server, .. } = self.said().or(self.profile.clone());
        BackendOptions { image, redis_server, ..BackendOptions::default() }
    }

    /// The servers that are asked for by name.
    pub fn by_name(&self) -> Option<Wanted> {
        self.settled().server
    }
}

/// Where results are, of a command that has no other setting.
pub fn out(matches: &ArgMatches) -> PathBuf {
    let told = matches.value_source("out") != Some(ValueSource::DefaultValue);
    let said = matches.get_one::<String>("out").filter(|_| told).map(PathBuf::from);
    said.or_else(|| project::settings().out).unwrap_or_else(|| OUT.into())
}

/// A setting as `config show` tells it.
#[derive(Debug, PartialEq, Eq)]
pub struct Told {
    pub name: &'static str,
    pub value: Option<String>,
    pub origin: String,
}

impl SettingFlags {
    /// Every setting with who says it; the profile by its name.
    pub fn told(&self, matches: &ArgMatches, profile: &str) -> Vec<Told> {
        let file = project::settings();
        let of = |name: &'static str, default: Option<&str>, one: fn(&Settings) -> Option<String>| {
            let flag = name.replace('_', "-");
            if let Some(value) = one(&self.said()) {
                let typed = matches.value_source(name) == Some(ValueSource::CommandLine);
                let origin = if typed {
                    format!("flag --{flag}")
                } else {
                    format!("environment RL_LAB_{}", name.to_uppercase())
                };
                return Told { name, value: Some(value), origin };
            }
            let profiled = one(&self.profile).map(|value| (value, format!("profile {profile}")));
            let shown = project::project().map(project::Project::shown).unwrap_or_default();
            let (value, origin) = match profiled.or_else(|| one(&file).map(|value| (value, shown))) {
                Some((value, origin)) => (Some(value), origin),
                None => (default.map(str::to_owned), "default".to_owned()),
            };
            Told { name, value, origin }
        };
        vec![
            of("backend", Some(BACKEND), |s| s.backend.clone()),
            of("server", None, |s| s.server.as_ref().map(ToString::to_string)),
            of("image", None, |s| s.image.clone()),
            of("redis_server", None, |s| s.redis_server.as_ref().map(|p| p.display().to_string())),
            of("out", Some(OUT), |s| s.out.as_ref().map(|p| p.display().to_string())),
            of("seed", None, |s| s.seed.map(|n| n.to_string())),
        ]
    }
}
