//! The container engine: where it is, how it is spoken to, and how what a run made there is removed.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::{EndpointResource, NetworkDisconnectRequest};
use bollard::query_parameters::{
    ListContainersOptionsBuilder, ListNetworksOptionsBuilder, RemoveContainerOptionsBuilder,
};
use tokio::time::timeout;

use super::gc::GcReport;

/// On everything a run makes in an engine.
pub const RUN_LABEL: &str = "rl-lab.run";

/// How long an engine may take to say its version before it counts as none.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// For one call of the API. Creating and starting take a third of a second when all is well.
const CALL_SECONDS: u64 = 60;

/// An engine that answered.
pub struct Engine {
    pub docker: Docker,
    pub host: String,
    /// Of the engine, such as `20.10.24`.
    pub version: String,
    /// The highest API version that both sides know.
    pub api: String,
}

/// Where the engine is, by the rules of the `docker` command.
pub fn host() -> Result<String, String> {
    let variable = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
    host_from(variable, |path| path.exists())
}

fn host_from(
    variable: impl Fn(&str) -> Option<String>,
    exists: impl Fn(&Path) -> bool,
) -> Result<String, String> {
    let Some(host) = variable("DOCKER_HOST") else { return Ok(default_host(variable, exists)) };
    let tls = variable("DOCKER_TLS_VERIFY").is_some();
    match host.split_once("://").map(|(scheme, _)| scheme) {
        Some("unix") => Ok(host),
        Some("tcp" | "http") if !tls => Ok(host),
        Some("tcp" | "http" | "https") => Err(format!(
            "DOCKER_HOST={host} with TLS is not supported; \
             forward its socket (`ssh -L`) and set DOCKER_HOST=unix://…"
        )),
        Some("ssh") => Err(format!(
            "DOCKER_HOST={host} is not supported; forward its socket \
             (`ssh -L /tmp/docker.sock:/var/run/docker.sock …`) and set DOCKER_HOST=unix:///tmp/docker.sock"
        )),
        _ => Err(format!("DOCKER_HOST={host} is neither unix://… nor tcp://…")),
    }
}

fn default_host(variable: impl Fn(&str) -> Option<String>, exists: impl Fn(&Path) -> bool) -> String {
    let system = PathBuf::from("/var/run/docker.sock");
    let mut places = vec![system.clone()];
    places.extend(variable("XDG_RUNTIME_DIR").map(|d| Path::new(&d).join(".docker/run/docker.sock")));
    if let Some(home) = variable("HOME") {
        places.extend(
            [".docker/run/docker.sock", ".docker/desktop/docker.sock"].map(|p| Path::new(&home).join(p)),
        );
    }
    format!("unix://{}", places.into_iter().find(|p| exists(p)).unwrap_or(system).display())
}

/// Connects and negotiates the API version. The error is one clause: why there is no engine.
pub async fn connect(host: &str) -> Result<Engine, String> {
    let version = bollard::API_DEFAULT_VERSION;
    let docker = match host.strip_prefix("unix://") {
        Some(path) if !Path::new(path).exists() => return Err(format!("there is no {path}")),
        Some(path) => Docker::connect_with_unix(path, CALL_SECONDS, version),
        None => Docker::connect_with_http(host, CALL_SECONDS, version),
    };
    let docker = docker.map_err(|e| format!("{host}: {}", explain(&e)))?;
    let answer = timeout(ANSWERS_WITHIN, async {
        let docker = docker.negotiate_version().await?;
        let about = docker.version().await?;
        Ok::<_, Error>((docker, about.version.unwrap_or_default()))
    });
    let (docker, version) = match answer.await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => return Err(format!("{host}: {}", explain(&error))),
        Err(_) => return Err(format!("{host} does not answer within {ANSWERS_WITHIN:?}")),
    };
    let api = docker.client_version().to_string();
    Ok(Engine { docker, host: host.to_owned(), version, api })
}

/// An error as one clause.
pub fn explain(error: &Error) -> String {
    if let Error::DockerResponseServerError { message, .. } = error {
        return message.clone();
    }
    let text = with_causes(error);
    // Of a failed connection, everything but the last cause is about the HTTP client.
    if !text.contains("connect error") && !text.contains("(Connect)") {
        return text;
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let cause = cause.to_string();
    if cause.contains("Permission denied") {
        return format!("{cause}; join the group that owns the socket (`docker`)");
    }
    cause
}

/// An error with its causes, of which the last is often the engine's own message.
pub fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        if !text.contains(&cause.to_string()) {
            text = format!("{text}: {cause}");
        }
        source = cause.source();
    }
    text
}

/// Whether the engine answered with this HTTP status.
pub fn has_status(error: &Error, status: u16) -> bool {
    matches!(error, Error::DockerResponseServerError { status_code, .. } if *status_code == status)
}

impl Engine {
    /// Where a port is reached that was published here: on the machine of the engine. From inside of a
    /// container that was given the engine's socket, that is the gateway of the default network.
    pub async fn published_at(&self) -> String {
        let elsewhere = ["tcp://", "http://"].iter().find_map(|scheme| self.host.strip_prefix(scheme));
        if let Some(authority) = elsewhere {
            let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
            return host.trim_start_matches('[').trim_end_matches(']').to_owned();
        }
        let gateway = async {
            let bridge = self.docker.inspect_network("bridge", None).await.ok()?;
            bridge.ipam?.config?.into_iter().find_map(|range| range.gateway)
        };
        let inside = Path::new("/.dockerenv").exists();
        if inside { gateway.await } else { None }.unwrap_or_else(|| "localhost".to_owned())
    }

    /// Removes what a run made here: what carries its label, be it journalled or not. What merely
    /// has a journalled name and not the label is somebody else's, and is reported as left.
    pub async fn sweep(
        &self,
        run: &str,
        mut containers: BTreeSet<String>,
        mut networks: BTreeSet<String>,
        dry_run: bool,
    ) -> GcReport {
        let mut report = GcReport::default();
        match self.labelled(run).await {
            Ok((more_containers, more_networks)) => {
                containers.extend(more_containers);
                networks.extend(more_networks);
            }
            Err(error) => report.left.push(format!("what run {run} labelled: {}", explain(&error))),
        }
        for name in containers {
            let outcome = match self.docker.inspect_container(&name, None).await {
                Ok(about) if !is_of(run, about.config.as_ref().and_then(|c| c.labels.as_ref())) => {
                    Err(not_ours(run))
                }
                Ok(_) if dry_run => Ok(()),
                Ok(about) => {
                    if about.state.is_some_and(|state| state.paused == Some(true)) {
                        // Some engines do not remove what is frozen. If this fails, the removal tells.
                        let _ = self.docker.unpause_container(&name).await;
                    }
                    self.remove_container(&name).await
                }
                Err(error) => Err(error),
            };
            note(&mut report, format!("container {name}"), outcome);
        }
        for name in networks {
            let outcome = match self.docker.inspect_network(&name, None).await {
                Ok(about) if !is_of(run, about.labels.as_ref()) => Err(not_ours(run)),
                Ok(_) if dry_run => Ok(()),
                Ok(about) => self.remove_network(&name, about.containers.unwrap_or_default()).await,
                Err(error) => Err(error),
            };
            note(&mut report, format!("network {name}"), outcome);
        }
        report
    }

    /// Removes a network. What is still on it is not the run's, or it would be gone: an engine can keep the
    /// place of a container that it lost in a restart.
    async fn remove_network(
        &self,
        name: &str,
        members: HashMap<String, EndpointResource>,
    ) -> Result<(), Error> {
        for container in members.into_keys() {
            let request = NetworkDisconnectRequest { container, force: Some(true) };
            // If this fails, the removal tells.
            let _ = self.docker.disconnect_network(name, request).await;
        }
        self.docker.remove_network(name).await
    }

    /// The names of the run's containers, whatever their state, and of its networks.
    async fn labelled(&self, run: &str) -> Result<(Vec<String>, Vec<String>), Error> {
        let label = HashMap::from([("label", vec![format!("{RUN_LABEL}={run}")])]);
        let options = ListContainersOptionsBuilder::new().all(true).filters(&label).build();
        let containers = self.docker.list_containers(Some(options)).await?;
        let options = ListNetworksOptionsBuilder::new().filters(&label).build();
        let networks = self.docker.list_networks(Some(options)).await?;
        let first_name = |names: Option<Vec<String>>| {
            names.and_then(|n| n.into_iter().next()).map(|n| n.trim_start_matches('/').to_owned())
        };
        Ok((
            containers.into_iter().filter_map(|c| first_name(c.names)).collect(),
            networks.into_iter().filter_map(|n| n.name).collect(),
        ))
    }

    /// Removes a container, running or not, with its volumes, and returns when it is gone.
    pub async fn remove_container(&self, name: &str) -> Result<(), Error> {
        for _ in 0..200 {
            let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
            match self.docker.remove_container(name, Some(options)).await {
                // Somebody removes it already; only its absence says that this is done.
                Err(error) if has_status(&error, 409) => {}
                other => return other,
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        Err(Error::RequestTimeoutError)
    }
}

fn is_of(run: &str, labels: Option<&HashMap<String, String>>) -> bool {
    labels.and_then(|l| l.get(RUN_LABEL)).is_some_and(|label| label == run)
}

fn not_ours(run: &str) -> Error {
    let message = format!("it is not labelled {RUN_LABEL}={run}, so it is not removed");
    Error::DockerResponseServerError { status_code: 0, message }
}

/// What is gone already is neither removed nor left.
fn note(report: &mut GcReport, what: String, outcome: Result<(), Error>) {
    match outcome {
        Ok(()) => report.removed.push(what),
        Err(error) if has_status(&error, 404) => {}
        Err(error) => report.left.push(format!("{what}: {}", explain(&error))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host_with(variables: &[(&str, &str)], existing: &[&str]) -> Result<String, String> {
        let find = |n: &str| variables.iter().find(|(k, _)| *k == n).map(|(_, v)| (*v).to_owned());
        host_from(find, |p| existing.iter().any(|e| Path::new(e) == p))
    }

    #[test]
    fn docker_host_is_honoured_or_refused() {
        assert_eq!(host_with(&[("DOCKER_HOST", "unix:///a.sock")], &[]).unwrap(), "unix:///a.sock");
        assert_eq!(host_with(&[("DOCKER_HOST", "tcp://h:2375")], &[]).unwrap(), "tcp://h:2375");
        for (host, tls) in [("tcp://h:2376", "1"), ("ssh://me@h", ""), ("h:2375", "")] {
            let mut variables = vec![("DOCKER_HOST", host)];
            if !tls.is_empty() {
                variables.push(("DOCKER_TLS_VERIFY", tls));
            }
            let error = host_with(&variables, &[]).unwrap_err();
            assert!(error.contains(host), "{error}");
        }
    }

    #[test]
    fn without_it_the_first_socket_that_exists() {
        let home = [("HOME", "/h")];
        assert_eq!(host_with(&home, &[]).unwrap(), "unix:///var/run/docker.sock");
        let desktop = "/h/.docker/desktop/docker.sock";
        assert_eq!(host_with(&home, &[desktop]).unwrap(), format!("unix://{desktop}"));
        assert_eq!(
            host_with(&home, &[desktop, "/var/run/docker.sock"]).unwrap(),
            "unix:///var/run/docker.sock"
        );
    }
}
