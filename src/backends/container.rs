//! One server in a container.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bollard::errors::Error;
use bollard::models::{ContainerInspectResponse, NetworkConnectRequest, NetworkDisconnectRequest};
use bollard::query_parameters::{KillContainerOptionsBuilder, LogsOptionsBuilder};
use futures_util::StreamExt;
use testcontainers::{ContainerAsync, GenericImage};
use tokio::time::{sleep, timeout};

use super::create;
use super::docker::Shared;
use super::engine::{explain, has_status};
use super::journal::Made;
use super::network::Path;
use super::{arguments, last_words, preload, probe};
use crate::ports::BoxFuture;
use crate::ports::backend::{BackendError, Server, ServerProgram, ServerSpec};

/// Between two attempts to reach a server that starts.
const POLL: Duration = Duration::from_millis(5);

/// Attempts between two looks at whether the container still runs: a look costs more than a PING.
const LOOK_EVERY: u32 = 8;

/// A server in a container.
pub struct Container {
    shared: Arc<Shared>,
    name: String,
    /// The container's name, unique in the engine.
    container: String,
    spec: ServerSpec,
    address: Mutex<SocketAddr>,
    /// `None` once removed. Removes the container when dropped, should nobody have stopped it.
    handle: tokio::sync::Mutex<Option<ContainerAsync<GenericImage>>>,
}

impl Container {
    /// Makes the container and waits until its server answers. On error it is removed again.
    pub async fn start(shared: Arc<Shared>, spec: &ServerSpec) -> Result<Self, BackendError> {
        let settings = arguments::of(spec, create::FOLDER, create::fixed(spec.program))?;
        let name = spec.name.clone();
        let container = format!("rl-lab-{}-{name}", shared.journal.run());
        if shared.engine.docker.inspect_container(&container, None).await.is_ok() {
            let why = format!("there is a container {container} already");
            return Err(BackendError::StartFailed { server: name, why });
        }
        let docker_host = shared.engine.host.clone();
        shared.journal.note(&Made::Container { name: container.clone(), docker_host })?;
        let handle = match create::make(&shared, &container, spec, settings).await {
            Ok(handle) => handle,
            Err(error) => {
                // testcontainers leaves a container behind whose start was refused.
                let _ = shared.engine.remove_container(&container).await;
                return Err(error);
            }
        };
        let server = Self {
            shared,
            name,
            container,
            spec: spec.clone(),
            address: Mutex::new(SocketAddr::from(([0, 0, 0, 0], 0))),
            handle: tokio::sync::Mutex::new(Some(handle)),
        };
        let settled = match server.make_room().await {
            Ok(()) => server.wait_until_ready().await,
            Err(error) => Err(error),
        };
        match settled {
            Ok(()) => Ok(server),
            Err(error) => {
                let _ = server.remove().await;
                Err(error)
            }
        }
    }

    /// The address it was lent by the engine; `None` where it is not what it is reached by.
    fn own_address(&self) -> Option<Ipv4Addr> {
        match (self.shared.network.path, self.address().ip()) {
            (Path::BridgeIp, IpAddr::V4(address)) => Some(address),
            _ => None,
        }
    }

    /// Gives back the address that it was lent, should a server want it that is only dead for now, and takes
    /// another one.
    async fn make_room(&self) -> Result<(), BackendError> {
        if self.shared.network.path != Path::BridgeIp || self.shared.network.wanted().is_empty() {
            return Ok(());
        }
        let about = self.inspect("looking for").await?;
        let lent = create::bridge_address(&about, &self.shared.network.name, 0).map(|a| a.ip());
        let wanted = self.shared.network.wanted().clone();
        if !wanted.iter().any(|address| Some(IpAddr::V4(*address)) == lent) {
            return Ok(());
        }
        self.leave_network().await.map_err(|e| self.refused("moving", &e))?;
        let mut refusal = None;
        for place in self.shared.network.places().filter(|place| !wanted.contains(place)) {
            match self.join_network(place).await {
                Ok(()) => return Ok(()),
                Err(error) => refusal = Some(error),
            }
        }
        Err(refusal.map_or_else(
            || BackendError::Unsupported("the run's network has no room for another server".to_owned()),
            |error| self.refused("moving", &error),
        ))
    }

    /// Asks for the address that it has to be kept for its next start: the engine takes it back when a
    /// container dies, and would give it to the next one. Asked for before it ever starts, it would cost each
    /// start as much again.
    async fn keep_address(&self) -> Result<(), Error> {
        let Some(address) = self.own_address() else { return Ok(()) };
        self.shared.network.wanted().insert(address);
        self.leave_network().await?;
        self.join_network(address).await
    }

    async fn leave_network(&self) -> Result<(), Error> {
        let request = NetworkDisconnectRequest { container: self.container.clone(), force: Some(true) };
        self.shared.engine.docker.disconnect_network(&self.shared.network.name, request).await
    }

    async fn join_network(&self, address: Ipv4Addr) -> Result<(), Error> {
        let request = NetworkConnectRequest {
            container: self.container.clone(),
            endpoint_config: Some(create::endpoint(address)),
        };
        self.shared.engine.docker.connect_network(&self.shared.network.name, request).await
    }

    /// Finds where the server is now and waits until it answers there.
    async fn wait_until_ready(&self) -> Result<(), BackendError> {
        let limit = self.shared.start_timeout;
        let mut last = "the container has no address yet".to_owned();
        let outcome = tokio::select! {
            () = self.shared.gate.closed() => return Err(BackendError::Interrupted),
            outcome = timeout(limit, self.poll(&mut last)) => outcome,
        };
        match outcome {
            Ok(outcome) => outcome,
            Err(_) => {
                let log = last_words(&self.log_tail().await);
                Err(BackendError::StartTimeout { server: self.name.clone(), after: limit, last, log })
            }
        }
    }

    async fn poll(&self, last: &mut String) -> Result<(), BackendError> {
        let mut address = None;
        for attempt in 0_u32.. {
            if address.is_none() || attempt.is_multiple_of(LOOK_EVERY) {
                address = self.look().await?;
            }
            if let Some(address) = address {
                match probe::serves(self.spec.program, address).await {
                    Ok(()) => {
                        preload::verify(&self.spec, address).await?;
                        *self.address.lock().unwrap_or_else(PoisonError::into_inner) = address;
                        return Ok(());
                    }
                    Err(why) => *last = why,
                }
            }
            sleep(POLL).await;
        }
        Ok(())
    }

    /// Where the engine says the server is. An error if the container has ended.
    async fn look(&self) -> Result<Option<SocketAddr>, BackendError> {
        let about = self.inspect("looking for").await?;
        let state = about.state.clone().unwrap_or_default();
        if state.running != Some(true) {
            let code = state.exit_code.unwrap_or_default();
            let why =
                format!("its container ended with exit code {code}{}", last_words(&self.log_tail().await));
            return Err(BackendError::StartFailed { server: self.name.clone(), why });
        }
        Ok(match self.shared.network.path {
            Path::BridgeIp => {
                create::bridge_address(&about, &self.shared.network.name, create::port(self.spec.program))
            }
            Path::PublishedPort => self.published_address(&about).await,
        })
    }

    async fn published_address(&self, about: &ContainerInspectResponse) -> Option<SocketAddr> {
        let port = create::published_port(about, create::port(self.spec.program))?;
        let host = match self.handle.lock().await.as_ref() {
            Some(handle) => handle.get_host().await.ok()?.to_string(),
            None => return None,
        };
        tokio::net::lookup_host((host.as_str(), port)).await.ok()?.next()
    }

    async fn inspect(&self, doing: &str) -> Result<ContainerInspectResponse, BackendError> {
        let answer = self.shared.engine.docker.inspect_container(&self.container, None).await;
        answer.map_err(|e| self.refused(doing, &e))
    }

    /// The last lines the server wrote.
    async fn log_tail(&self) -> String {
        let options = LogsOptionsBuilder::new().stdout(true).stderr(true).tail("12").build();
        let mut lines = std::pin::pin!(self.shared.engine.docker.logs(&self.container, Some(options)));
        let mut text = String::new();
        while let Some(Ok(line)) = lines.next().await {
            text += &line.to_string();
        }
        text
    }

    async fn remove(&self) -> Result<(), BackendError> {
        let Some(handle) = self.handle.lock().await.take() else { return Ok(()) };
        let removed = self.shared.engine.remove_container(&self.container).await;
        // It would remove the container a second time, and block this thread for it.
        std::mem::forget(handle);
        match removed {
            Err(error) if !has_status(&error, 404) => Err(self.refused("removing", &error)),
            _ => Ok(()),
        }
    }

    fn refused(&self, doing: &str, error: &Error) -> BackendError {
        BackendError::Engine { what: format!("{doing} container {}", self.container), why: explain(error) }
    }

    /// `wanted` is what an undo finds when there is nothing to undo.
    fn unless(&self, doing: &str, wanted: &str, outcome: Result<(), Error>) -> Result<(), BackendError> {
        match outcome {
            Err(error) if !explain(&error).contains(wanted) => Err(self.refused(doing, &error)),
            _ => Ok(()),
        }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // The handle's own drop needs a runtime to remove the container; without one it panics,
        // and gc does the work.
        if tokio::runtime::Handle::try_current().is_err() {
            std::mem::forget(self.handle.get_mut().take());
        }
    }
}

impl Server for Container {
    fn name(&self) -> &str {
        &self.name
    }

    fn program(&self) -> ServerProgram {
        self.spec.program
    }

    fn address(&self) -> SocketAddr {
        *self.address.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pause(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(async {
            let outcome = self.shared.engine.docker.pause_container(&self.container).await;
            outcome.map_err(|e| self.refused("pausing", &e))
        })
    }

    fn resume(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(async {
            let outcome = self.shared.engine.docker.unpause_container(&self.container).await;
            self.unless("resuming", "is not paused", outcome)
        })
    }

    fn kill(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(async {
            let options = KillContainerOptionsBuilder::new().signal("SIGKILL").build();
            let outcome = self.shared.engine.docker.kill_container(&self.container, Some(options)).await;
            self.unless("killing", "is not running", outcome)?;
            // What it is lent has to be asked for before anybody else starts.
            self.keep_address().await.map_err(|e| self.refused("keeping the address of", &e))
        })
    }

    fn restart(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(async {
            let _inside = self.shared.gate.enter().await?;
            let started = self.shared.engine.docker.start_container(&self.container, None).await;
            started.map_err(|e| self.refused("restarting", &e))?;
            if let Some(address) = self.own_address() {
                self.shared.network.wanted().remove(&address);
            }
            self.wait_until_ready().await
        })
    }

    fn can_isolate(&self) -> bool {
        self.own_address().is_some()
    }

    fn isolate(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(async {
            if !self.can_isolate() {
                let why = "clients reach the server through a published port, where a network that is gone \
                           closes their connections instead of leaving them silent";
                return Err(BackendError::Unsupported(why.to_owned()));
            }
            self.leave_network().await.map_err(|e| self.refused("isolating", &e))
        })
    }

    fn rejoin(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(async {
            let Some(address) = self.own_address() else { return Ok(()) };
            let outcome = self.join_network(address).await;
            self.unless("rejoining", "already exists in network", outcome)
        })
    }

    fn stop(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(self.remove())
    }
}
