//! How a container is made, and where it is reached once it runs.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bollard::models::{
    ContainerCreateBody, ContainerInspectResponse, EndpointIpamConfig, EndpointSettings, HostConfig,
    NetworkingConfig,
};
use bollard::query_parameters::{CreateContainerOptionsBuilder, UploadToContainerOptionsBuilder};

use super::docker::Shared;
use super::engine::{RUN_LABEL, explain};
use super::network::Path;
use super::{arguments, preload, tar};
use crate::ports::backend::{BackendError, ServerProgram, ServerSpec};

/// The server's folder inside its container, in every image: what is in it belongs to the server's user.
pub const FOLDER: &str = "/data";

/// The server's port inside its container.
const PORT: u16 = 6379;

/// Creates the container and starts it. Its address is given to it before it runs: changed later, it would
/// cost as much as a third of the start, and leave behind connections to nowhere.
///
/// On error there may be a container.
pub async fn make(
    shared: &Arc<Shared>,
    name: &str,
    spec: &ServerSpec,
    settings: Vec<String>,
    address: Ipv4Addr,
) -> Result<(), BackendError> {
    let failed = |error: bollard::errors::Error| BackendError::StartFailed {
        server: spec.name.clone(),
        why: explain(&error),
    };
    let docker = &shared.engine.docker;
    let inside = format!("/{}", preload::FILE);
    let state = format!("{FOLDER}/{}", arguments::SENTINEL_FILE);
    let mut files: Vec<(&str, &[u8])> = Vec::new();
    let mut variables = Vec::new();
    if let Some(clock) = spec.clock {
        files.push((&inside, preload::library()?));
        variables.push(format!("LD_PRELOAD={inside}"));
        variables.push(format!("{}={}", preload::VARIABLE, clock.millis()));
    }
    if spec.program == ServerProgram::Sentinel {
        files.push((&state, b""));
    }
    let publish = shared.network.path == Path::PublishedPort;
    let network = &shared.network.name;
    let body = ContainerCreateBody {
        image: Some(shared.image.id.clone()),
        cmd: Some(std::iter::once("redis-server".to_owned()).chain(settings).collect()),
        env: Some(variables),
        labels: Some(HashMap::from([(RUN_LABEL.to_owned(), shared.journal.run().to_owned())])),
        exposed_ports: publish.then(|| vec![format!("{PORT}/tcp")]),
        host_config: Some(HostConfig {
            network_mode: Some(network.clone()),
            publish_all_ports: Some(publish),
            ..Default::default()
        }),
        networking_config: Some(NetworkingConfig {
            endpoints_config: Some(HashMap::from([(network.clone(), endpoint(address))])),
        }),
        ..Default::default()
    };
    let options = CreateContainerOptionsBuilder::new().name(name).build();
    docker.create_container(Some(options), body).await.map_err(failed)?;
    if !files.is_empty() {
        let options = UploadToContainerOptionsBuilder::new().path("/").build();
        let archive = bollard::body_full(tar::of(&files).into());
        docker.upload_to_container(name, Some(options), archive).await.map_err(failed)?;
    }
    docker.start_container(name, None).await.map_err(failed)
}

/// The place of a container on the run's network.
pub fn endpoint(address: Ipv4Addr) -> EndpointSettings {
    let ipam = EndpointIpamConfig { ipv4_address: Some(address.to_string()), ..Default::default() };
    EndpointSettings { ipam_config: Some(ipam), ..Default::default() }
}

pub fn bridge_address(about: &ContainerInspectResponse, network: &str) -> Option<SocketAddr> {
    let networks = about.network_settings.as_ref()?.networks.as_ref()?;
    let ip: IpAddr = networks.get(network)?.ip_address.as_ref()?.parse().ok()?;
    Some(SocketAddr::new(ip, PORT))
}

pub fn published_port(about: &ContainerInspectResponse) -> Option<u16> {
    let ports = about.network_settings.as_ref()?.ports.as_ref()?;
    let bindings = ports.get(&format!("{PORT}/tcp"))?.as_ref()?;
    bindings.first()?.host_port.as_ref()?.parse().ok()
}
