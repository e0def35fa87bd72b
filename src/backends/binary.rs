//! Finds the server program of the local backend and makes sure that it is one.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::builds;
use crate::model::servers::Build;
use crate::ports::backend::{BackendError, BackendOptions};

/// How long `--version` may take. A program that is no server may never end.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// A server program that told its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binary {
    pub path: PathBuf,
    pub version: String,
    /// Where it was found: `/opt/redis-server, named by --redis-server`.
    pub because: String,
}

/// The program that is asked for, and by what.
pub fn asked_for(options: &BackendOptions) -> Option<(PathBuf, &'static str)> {
    let flag = options.redis_server.clone().map(|p| (p, "--redis-server"));
    flag.or_else(|| Some((std::env::var_os("RL_LAB_REDIS_SERVER")?.into(), "RL_LAB_REDIS_SERVER")))
        .filter(|(path, _)| !path.as_os_str().is_empty())
}

/// By flag, by environment, on PATH; what was asked for is never replaced by something else.
pub async fn find(options: &BackendOptions) -> Result<Binary, BackendError> {
    if let Some(build) = options.server {
        return of_build(build).await.map_err(BackendError::Missing);
    }
    if let Some((path, by)) = asked_for(options) {
        let path = if path.components().count() == 1 { on_path(&path).unwrap_or(path) } else { path };
        let checked = check(path.clone(), format!("{}, named by {by}", path.display())).await;
        return checked.map_err(|why| {
            BackendError::Missing(format!("{by} {}: {why}; name a redis-server", path.display()))
        });
    }
    for name in ["redis-server", "valkey-server"] {
        if let Some(path) = on_path(Path::new(name)) {
            let because = format!("{}, on PATH", path.display());
            let failed = |why| BackendError::Missing(format!("{}: {why}", path.display()));
            return check(path.clone(), because).await.map_err(failed);
        }
    }
    Err(BackendError::Missing("there is no redis-server and no valkey-server on PATH".to_owned()))
}

/// The program of a build; what else is in its place is not it.
pub async fn of_build(build: &Build) -> Result<Binary, String> {
    let (path, from) = builds::program(build)?;
    let found = check(path, from.to_owned()).await?;
    if found.version.starts_with(build.series) {
        return Ok(found);
    }
    Err(format!("{} is {}", found.path.display(), found.version))
}

pub fn on_path(name: &Path) -> Option<PathBuf> {
    let path: OsString = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}

async fn check(path: PathBuf, because: String) -> Result<Binary, String> {
    if !path.exists() {
        return Err("there is no such file".to_owned());
    }
    let said = first_words(&path).await?;
    match version_in(&said) {
        Some(version) => Ok(Binary { path, version, because }),
        None => Err("its --version does not read like a server's".to_owned()),
    }
}

/// What `--version` says, up to a limit in time and size.
pub async fn first_words(path: &Path) -> Result<String, String> {
    let mut child = Command::new(path)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("it cannot be run: {error}"))?;
    let output = child.stdout.take();
    let reading = tokio::task::spawn_blocking(move || {
        let mut text = Vec::new();
        let read = output.map(|o| o.take(4096).read_to_end(&mut text));
        read.unwrap_or(Ok(0)).map(|_| String::from_utf8_lossy(&text).into_owned())
    });
    let words = tokio::time::timeout(ANSWERS_WITHIN, reading).await;
    // Killing it also ends a read that still waits. It has nothing more to say.
    let _ = child.kill();
    let _ = child.wait();
    match words {
        Ok(Ok(Ok(words))) => Ok(words),
        Ok(Ok(Err(error))) => Err(error.to_string()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("its --version says nothing within {ANSWERS_WITHIN:?}")),
    }
}

/// The version in `Redis server v=7.0.15 sha=…` and in `Valkey server v=8.1.8 …`.
fn version_in(words: &str) -> Option<String> {
    let (_, rest) = words.split_once(" server v=")?;
    let version = rest.split_whitespace().next()?;
    Some(version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_version_of_both_flavours() {
        assert_eq!(version_in("Redis server v=7.0.15 sha=0:0 malloc=x").as_deref(), Some("7.0.15"));
        assert_eq!(version_in("Valkey server v=8.1.8 sha=0:0").as_deref(), Some("8.1.8"));
        assert_eq!(version_in("true (GNU coreutils) 9.1"), None);
    }

    #[tokio::test]
    async fn what_is_named_and_no_server_is_refused_with_its_name() {
        for (path, expected) in [
            ("/nonexistent/redis-server", "no such file"),
            ("/etc/passwd", "cannot be run"),
            ("/bin/true", "does not read like"),
        ] {
            let options = BackendOptions { redis_server: Some(path.into()), ..Default::default() };
            let error = find(&options).await.unwrap_err().to_string();
            assert!(error.contains(path) && error.contains(expected), "{error}");
        }
    }
}
