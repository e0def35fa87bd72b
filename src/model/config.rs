//! `rl-lab.toml`: the limiters of a repository, what is required of them, and what a gate runs.
//!
//! Reading is strict, as that of scenarios: what is not known is refused with its place and the nearest name.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::figures::Figure;
use super::foreign::Foreign;
use super::names;
use super::scenario::{LimiterRef, RequirePlan, ScenarioError};
use super::servers::Wanted;
use super::units::Span;

mod schema;

pub use schema::schema;

/// The version of the format.
pub const SCHEMA: u32 = 1;

/// The name of the file that is looked for.
pub const FILE: &str = "rl-lab.toml";

/// The profile that a gate runs unless it is told another.
pub const PROFILE: &str = "quick";

/// What the file, its profiles, flags and the environment can all say of where things run. Each has its flag in
/// `cli/settings.rs` and its line in the schema.
macro_rules! settings {
    ($made:ident! { $($with:tt)* }) => {
        $made! { [backend: String, server: Wanted, image: String, redis_server: PathBuf, out: PathBuf, seed: u64] $($with)* }
    };
}

macro_rules! of_settings {
    ([$($field:ident: $is:ty),*] $(#[$about:meta])* pub struct $name:ident {}) => {
        $(#[$about])*
        pub struct $name {
            $(pub $field: Option<$is>),*
        }

        impl $name {
            /// These where they say something, else the others.
            #[must_use]
            pub fn or(self, other: Self) -> Self {
                let other = other.beside(&self);
                Self { $($field: self.$field.or(other.$field)),* }
            }
        }
    };
}

/// A table of the file that has them beside its own fields. (Serde's `flatten` would let unknown ones in.)
macro_rules! with_settings {
    ([$($field:ident: $is:ty),*] $(#[$about:meta])* pub struct $name:ident { $($own:tt)* }) => {
        $(#[$about])*
        pub struct $name {
            $(#[serde(default, skip_serializing_if = "Option::is_none")]
            pub $field: Option<$is>,)*
            $($own)*
        }

        impl $name {
            pub fn settings(&self) -> Settings {
                Settings { $($field: self.$field.clone()),* }
            }
        }
    };
}

settings! { of_settings! {
    /// What flags and the environment say as well, and which they override.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct Settings {}
}}

impl Settings {
    /// What is left of these where others come first: which server it is is one question, whoever is asked.
    fn beside(mut self, first: &Self) -> Self {
        if first.image.is_some() || first.redis_server.is_some() {
            self.server = None;
        }
        if first.server.is_some() {
            (self.image, self.redis_server) = (None, None);
        }
        self
    }
}

settings! { with_settings! {
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Config {
        pub schema: u32,
        #[serde(default, rename = "limiter", skip_serializing_if = "BTreeMap::is_empty")]
        pub limiters: BTreeMap<String, Foreign>,
        /// What is needed of every limiter, whatever it promises; instead of what scenarios require.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub require: Option<RequirePlan>,
        #[serde(default, rename = "profile", skip_serializing_if = "BTreeMap::is_empty")]
        pub profiles: BTreeMap<String, Profile>,
    }
}}

settings! { with_settings! {
    /// What a gate runs.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Profile {
        /// Scenarios by name, or files beside this one.
        pub scenarios: Vec<String>,
        /// Those of the file where none is named. Built-in ones may stand beside them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub limiters: Vec<LimiterRef>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub rounds: Option<NonZeroU32>,
        /// How long schedules of each limiter are searched, where they can be.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub explore: Option<Span>,
        /// Figures that must not be above a number, of any scenario that measures them.
        #[serde(default, rename = "at_most", skip_serializing_if = "BTreeMap::is_empty")]
        pub thresholds: BTreeMap<Figure, f64>,
        /// Checks whose verdict `unknown` fails the gate as well.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub must_be_known: Vec<String>,
    }
}}

impl Config {
    /// Reads a file's text; `file` is used in messages, and its folder is where commands run.
    pub fn parse(file: &Path, text: &str) -> Result<Self, ScenarioError> {
        let shown = file.display().to_string();
        let mut config: Self = toml::from_str(text).map_err(|e| ScenarioError::of_toml(&shown, text, &e))?;
        let folder = file.parent().unwrap_or_else(|| Path::new("")).to_owned();
        for foreign in config.limiters.values_mut() {
            foreign.folder.clone_from(&folder);
        }
        beside(&folder, &mut config.redis_server, &mut config.out);
        for profile in config.profiles.values_mut() {
            beside(&folder, &mut profile.redis_server, &mut profile.out);
        }
        let fits = config.validate();
        fits.map(|()| config).map_err(|(needle, why)| ScenarioError::at(&shown, text, &[&needle], why))
    }

    fn validate(&self) -> Result<(), (String, String)> {
        if self.schema != SCHEMA {
            return Err((
                "schema".to_owned(),
                format!("schema {} is not known, expected {SCHEMA}", self.schema),
            ));
        }
        let asks = |of: &Settings| of.server.is_some() && (of.image.is_some() || of.redis_server.is_some());
        let twice = "server names the servers, and so do image and redis_server: say one of them";
        if asks(&self.settings()) {
            return Err(("server".to_owned(), twice.to_owned()));
        }
        if let Some((name, _)) = self.profiles.iter().find(|(_, profile)| asks(&profile.settings())) {
            return Err((format!("[profile.{name}"), format!("profile '{name}': {twice}")));
        }
        for (name, foreign) in &self.limiters {
            let place = format!("[limiter.{name}");
            let plain =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_' || c == '.';
            if name.is_empty() || !name.chars().all(plain) {
                let why = "has a name of other than small letters, digits, '-', '_' and '.', so that no flag could name it";
                return Err((place, format!("limiter '{name}' {why}")));
            }
            foreign.validate().map_err(|why| (place, format!("limiter '{name}': {why}")))?;
        }
        for (name, profile) in &self.profiles {
            let place = format!("[profile.{name}");
            if profile.scenarios.is_empty() && profile.explore.is_none() {
                return Err((
                    place,
                    format!("profile '{name}' runs nothing: it needs scenarios, or explore"),
                ));
            }
            if let Some((figure, most)) = profile.thresholds.iter().find(|(_, most)| !most.is_finite()) {
                return Err((
                    place,
                    format!("profile '{name}': {} is held to {most}, which is no number", figure.name()),
                ));
            }
        }
        Ok(())
    }

    /// A profile by name; the error names the nearest one.
    pub fn profile(&self, name: &str) -> Result<&Profile, String> {
        self.profiles.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.profiles.keys().map(String::as_str).collect();
            names::unknown("profile", name, &known)
        })
    }
}

/// Paths are meant from the folder of the file that names them. A program's bare name is looked up instead.
fn beside(folder: &Path, program: &mut Option<PathBuf>, out: &mut Option<PathBuf>) {
    if let Some(path) = program.as_mut().filter(|p| p.components().count() > 1) {
        *path = folder.join(&*path);
    }
    if let Some(path) = out {
        *path = folder.join(&*path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"schema = 1
backend = "local"

[limiter.api]
command = ["python3", "limiter.py"]
[limiter.api.contract]
bound = "fixed-window"
clock = "expiry"
denials = "charged"

[profile.quick]
scenarios = ["race"]
seed = 7
at_most = { p99-ms = 50 }
"#;

    fn read(from: &str, to: &str) -> Result<Config, String> {
        assert!(GOOD.contains(from), "{from}");
        Config::parse(Path::new("repo/rl-lab.toml"), &GOOD.replace(from, to)).map_err(|e| e.to_string())
    }

    #[test]
    fn a_file_is_read_with_its_folder() {
        let config = read("api", "api").unwrap();
        assert_eq!(config.limiters["api"].folder, Path::new("repo"));
        assert_eq!(config.backend.as_deref(), Some("local"));
        let quick = config.profile("quick").unwrap();
        assert_eq!((quick.settings().seed, quick.thresholds[&Figure::P99Ms]), (Some(7), 50.0));
        assert!(config.profile("quik").unwrap_err().contains("did you mean 'quick'"));
    }

    #[test]
    fn paths_are_meant_from_the_files_folder_and_a_programs_bare_name_is_not_one() {
        let more = "backend = \"local\"\nout = \"runs\"\nredis_server = \"REDIS\"";
        for (redis, read_as) in
            [("bin/redis-server", "repo/bin/redis-server"), ("valkey-server", "valkey-server")]
        {
            let config = read("backend = \"local\"", &more.replace("REDIS", redis)).unwrap();
            assert_eq!(config.settings().redis_server.as_deref(), Some(Path::new(read_as)));
            assert_eq!(config.settings().out.as_deref(), Some(Path::new("repo/runs")));
        }
    }

    #[test]
    fn what_is_not_meant_is_refused_with_its_place() {
        for (from, to, what) in [
            ("schema = 1", "schema = 2", "rl-lab.toml:1:1: schema 2"),
            ("backend", "backnd", "did you mean `backend`"),
            (
                "command = [\"python3\", \"limiter.py\"]",
                "",
                "rl-lab.toml:4:1: limiter 'api': it needs command",
            ),
            ("denials = \"charged\"", "", "missing field `denials`"),
            ("[limiter.api", "[limiter.Api", "small letters"),
            ("scenarios = [\"race\"]", "scenarios = []", "runs nothing"),
            ("p99-ms", "p99", "p99"),
        ] {
            let refused = read(from, to).unwrap_err();
            assert!(refused.contains(what), "{refused}: {what}");
        }
    }

    #[test]
    fn what_is_said_first_wins() {
        let said = |backend: &str| Settings { backend: Some(backend.to_owned()), ..Settings::default() };
        assert_eq!(said("local").or(said("docker")), said("local"));
        assert_eq!(Settings::default().or(said("docker")), said("docker"));
    }

    #[test]
    fn whoever_names_a_server_is_not_overruled_by_an_image_that_others_name() {
        let server = || Settings { server: "8.2".parse().ok(), ..Settings::default() };
        let image = || Settings { image: Some("redis:7".to_owned()), ..Settings::default() };
        assert_eq!(server().or(image()), server());
        assert_eq!(image().or(server()), image());
        let refused = read("backend = \"local\"", "server = \"8.2\"\nimage = \"x\"").unwrap_err();
        assert!(refused.contains("rl-lab.toml:2:") && refused.contains("say one of them"), "{refused}");
        let refused = read("backend = \"local\"", "server = \"8.3\"").unwrap_err();
        assert!(refused.contains("unknown server '8.3'"), "{refused}");
    }
}
