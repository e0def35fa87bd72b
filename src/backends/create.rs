//! How a container is made, and where it is reached once it runs.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bollard::models::{ContainerInspectResponse, EndpointIpamConfig, EndpointSettings};
use testcontainers::core::IntoContainerPort;
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, CopyDataSource, GenericImage, ImageExt};

use super::docker::Shared;
use super::engine::{RUN_LABEL, with_causes};
use super::network::Path;
use super::{arguments, preload};
use crate::ports::backend::{BackendError, ServerProgram, ServerSpec};

/// The server's folder inside its container, in every image: what is in it belongs to the server's user.
pub const FOLDER: &str = "/data";

/// The server's port inside its container.
pub fn port(program: ServerProgram) -> u16 {
    match program {
        ServerProgram::Server | ServerProgram::Sentinel => 6379,
        ServerProgram::Postgres => 5432,
    }
}

/// What the backend decides of a server's configuration. Everybody can reach it who is on the run's own network, and
/// that is nobody else.
pub fn fixed(program: ServerProgram) -> &'static [(&'static str, &'static str)] {
    match program {
        ServerProgram::Server | ServerProgram::Sentinel => &[("port", "6379"), ("protected-mode", "no")],
        ServerProgram::Postgres => &[
            ("listen_addresses", "*"),
            ("unix_socket_directories", ""),
            ("dynamic_shared_memory_type", "mmap"),
        ],
    }
}

/// Has testcontainers create the container and start it.
pub async fn make(
    shared: &Arc<Shared>,
    name: &str,
    spec: &ServerSpec,
    settings: Vec<String>,
) -> Result<ContainerAsync<GenericImage>, BackendError> {
    let of = shared.image_of(spec.program).await?;
    let (algorithm, id) = of.id.split_once(':').unwrap_or(("sha256", &of.id));
    let publish = shared.network.path == Path::PublishedPort;
    let mut image = GenericImage::new(algorithm, id);
    if publish {
        image = image.with_exposed_port(port(spec.program).tcp());
    }
    let program = match spec.program {
        ServerProgram::Server | ServerProgram::Sentinel => vec!["redis-server"],
        ServerProgram::Postgres => vec!["postgres", "-D", FOLDER],
    };
    let command = program.into_iter().map(str::to_owned).chain(settings);
    let mut request = image.with_cmd(command);
    if let Some(clock) = spec.clock {
        let inside = format!("/{}", preload::FILE);
        request = request
            .with_copy_to(inside.as_str(), CopyDataSource::Data(preload::library()?.to_vec()))
            .with_env_var("LD_PRELOAD", inside.as_str())
            .with_env_var(preload::VARIABLE, clock.millis().to_string());
    }
    if spec.program == ServerProgram::Sentinel {
        let file = format!("{FOLDER}/{}", arguments::SENTINEL_FILE);
        request = request.with_copy_to(file, CopyDataSource::Data(b"\n".to_vec()));
    }
    request
        .with_container_name(name)
        .with_label(RUN_LABEL, shared.journal.run())
        .with_network(&shared.network.name)
        .with_host_config_modifier(move |host| host.publish_all_ports = Some(publish))
        .start()
        .await
        .map_err(|error| BackendError::StartFailed { server: spec.name.clone(), why: with_causes(&error) })
}

pub fn bridge_address(about: &ContainerInspectResponse, network: &str, port: u16) -> Option<SocketAddr> {
    let networks = about.network_settings.as_ref()?.networks.as_ref()?;
    let ip: IpAddr = networks.get(network)?.ip_address.as_ref()?.parse().ok()?;
    Some(SocketAddr::new(ip, port))
}

pub fn published_port(about: &ContainerInspectResponse, port: u16) -> Option<u16> {
    let ports = about.network_settings.as_ref()?.ports.as_ref()?;
    let bindings = ports.get(&format!("{port}/tcp"))?.as_ref()?;
    bindings.first()?.host_port.as_ref()?.parse().ok()
}

/// The place of a container on the run's network.
pub fn endpoint(ip: Ipv4Addr) -> EndpointSettings {
    let ipam = EndpointIpamConfig { ipv4_address: Some(ip.to_string()), ..Default::default() };
    EndpointSettings { ipam_config: Some(ipam), ..Default::default() }
}
