//! Builds of servers that are known by name: which are here, as programs and as images, and what gets the others.
//! They are never pulled: a name that this lab made up would be somebody else's image.

use std::path::{Path, PathBuf};

use super::engine::Engine;
use super::{binary, image, postgres};
use crate::model::servers::{Build, Wanted};
use crate::ports::backend::{BackendError, BackendOptions};

/// `RL_LAB_SERVERS`, else a folder of the user's cache; `None` where neither is set. `scripts/servers` goes by the same.
pub fn folder() -> Option<PathBuf> {
    folder_from(|name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from))
}

fn folder_from(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let cached = || variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    variable("RL_LAB_SERVERS").or_else(|| Some(cached()?.join("rl-lab/servers")))
}

/// Where the program of a build is and who put it there, if there is one in its place.
pub fn program(build: &Build) -> Result<(PathBuf, &'static str), String> {
    if build.name == ON_PATH {
        let found = binary::on_path(Path::new("redis-server"));
        return found.map(|path| (path, "on PATH")).ok_or_else(|| "no redis-server is on PATH".to_owned());
    }
    let path = folder().map(|cache| cache.join(build.name).join(build.program()));
    let found = path.filter(|p| p.is_file()).map(|path| (path, "fetched by scripts/servers"));
    found.ok_or_else(|| "it was not fetched".to_owned())
}

/// The one that no package brings: it is the redis-server of Debian 12.
const ON_PATH: &str = "7.0";

fn no_program(build: &Build, why: &str) -> String {
    let name = build.name;
    if name == ON_PATH {
        return format!("server {name}: {why}; `scripts/setup` installs it on Debian 12");
    }
    format!("server {name}: {why}; `scripts/servers {name}` fetches it")
}

pub fn no_image(build: &Build) -> String {
    let name = build.name;
    format!("server {name}: there is no image {}; `scripts/servers images {name}` makes it", build.image())
}

/// Which of the builds that are asked for are here, and where all of them will run.
#[derive(Debug, Clone)]
pub struct Found {
    /// `docker` or `local`.
    pub backend: &'static str,
    /// Why there.
    pub because: String,
    /// One at least.
    pub there: Vec<&'static Build>,
    /// Each with why, and the command that gets it.
    pub missing: Vec<(&'static Build, String)>,
}

/// What is here of a backend.
struct Stock {
    there: Vec<&'static Build>,
    missing: Vec<(&'static Build, String)>,
}

impl Stock {
    async fn local(wanted: &Wanted) -> Self {
        let mut stock = Self { there: Vec::new(), missing: Vec::new() };
        for build in wanted.builds().iter().copied() {
            match binary::of_build(build).await {
                Ok(_) => stock.there.push(build),
                Err(why) => stock.missing.push((build, no_program(build, &why))),
            }
        }
        stock
    }

    async fn docker(engine: &Engine, wanted: &Wanted) -> Result<Self, String> {
        let mut stock = Self { there: Vec::new(), missing: Vec::new() };
        for build in wanted.builds().iter().copied() {
            let options = BackendOptions { server: Some(build), ..BackendOptions::default() };
            if image::choice(engine, &options).await?.present {
                stock.there.push(build);
            } else {
                stock.missing.push((build, no_image(build)));
            }
        }
        Ok(stock)
    }
}

/// Looks for them. All run on one backend, so that what differs is the server: with `auto` on the engine, if one
/// answers and has as many of them as there are programs here.
///
/// # Errors
/// If one is missing that was named, or all are.
pub async fn find(choice: &str, wanted: &Wanted) -> Result<Found, BackendError> {
    let missing = BackendError::Missing;
    let (backend, because, stock) = match choice {
        "local" => ("local", super::ASKED_FOR.to_owned(), Stock::local(wanted).await),
        "docker" => {
            let engine =
                super::find_engine().await.map_err(|e| missing(format!("{e}; {}", super::OR_LOCAL)))?;
            let stock = Stock::docker(&engine, wanted).await.map_err(missing)?;
            ("docker", super::ASKED_FOR.to_owned(), stock)
        }
        _ => {
            let local = Stock::local(wanted).await;
            let docker = match super::find_engine().await {
                Ok(engine) => Stock::docker(&engine, wanted).await,
                Err(why) => Err(why),
            };
            match docker {
                Ok(docker) if !docker.there.is_empty() && docker.there.len() >= local.there.len() => {
                    ("docker", "a Docker engine answers and has the images".to_owned(), docker)
                }
                Ok(_) => ("local", "no Docker engine has as many of the servers".to_owned(), local),
                Err(why) => ("local", format!("docker cannot serve: {why}"), local),
            }
        }
    };
    let Stock { there, missing: lacking } = stock;
    if there.is_empty() || (!wanted.every() && !lacking.is_empty()) {
        let each: Vec<&str> = lacking.iter().map(|(_, why)| why.as_str()).collect();
        return Err(missing(each.join("\n")));
    }
    Ok(Found { backend, because, there, missing: lacking })
}

/// A server as `rl-lab doctor` tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    pub name: String,
    /// As a program of this machine, or why not.
    pub program: Result<String, String>,
    /// As an image; absent where no engine answers.
    pub image: Option<Result<String, String>>,
}

/// Looks at every build and at PostgreSQL, and makes nothing.
pub async fn survey(builds: &'static [Build]) -> Vec<Survey> {
    let engine = super::find_engine().await.ok();
    let mut all = Vec::new();
    for build in builds {
        let program = binary::of_build(build).await;
        let program = program
            .map(|found| format!("{} ({})", found.version, found.because))
            .map_err(|why| no_program(build, &why));
        let image = match &engine {
            Some(engine) => {
                let options = BackendOptions { server: Some(build), ..BackendOptions::default() };
                let present = image::choice(engine, &options).await.is_ok_and(|c| c.present);
                Some(if present { Ok(build.image()) } else { Err(no_image(build)) })
            }
            None => None,
        };
        all.push(Survey { name: format!("server {}", build.name), program, image });
    }
    let image = match &engine {
        Some(engine) => Some(image::of_postgres(engine).await.map(|image| image.name)),
        None => None,
    };
    let program = postgres::find().await.map_err(|e| e.to_string());
    let program = program.map(|(_, version, because)| format!("{version} ({because})"));
    all.push(Survey { name: "postgres".to_owned(), program, image });
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_where_the_script_puts_it() {
        let from = |pairs: &[(&str, &str)]| {
            folder_from(|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| PathBuf::from(v)))
        };
        let all = [("RL_LAB_SERVERS", "/s"), ("XDG_CACHE_HOME", "/c"), ("HOME", "/h")];
        assert_eq!(from(&all), Some("/s".into()));
        assert_eq!(from(&all[1..]), Some("/c/rl-lab/servers".into()));
        assert_eq!(from(&all[2..]), Some("/h/.cache/rl-lab/servers".into()));
        assert_eq!(from(&[]), None);
    }
}
