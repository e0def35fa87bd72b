//! How a container is made, and where it is reached once it runs.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bollard::models::{ContainerInspectResponse, EndpointIpamConfig, EndpointSettings};
use testcontainers::core::IntoContainerPort;
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, GenericImage, ImageExt};

use super::docker::Shared;
use super::engine::RUN_LABEL;
use super::network::Path;

/// The server's port inside its container.
const PORT: u16 = 6379;

/// Has testcontainers create the container and start it.
pub async fn make(
    shared: &Arc<Shared>,
    name: &str,
    settings: Vec<String>,
) -> Result<ContainerAsync<GenericImage>, testcontainers::TestcontainersError> {
    let (algorithm, id) = shared.image.id.split_once(':').unwrap_or(("sha256", &shared.image.id));
    let publish = shared.network.path == Path::PublishedPort;
    let mut image = GenericImage::new(algorithm, id);
    if publish {
        image = image.with_exposed_port(PORT.tcp());
    }
    let command = std::iter::once("redis-server".to_owned()).chain(settings);
    image
        .with_cmd(command)
        .with_container_name(name)
        .with_label(RUN_LABEL, shared.journal.run())
        .with_network(&shared.network.name)
        .with_host_config_modifier(move |host| host.publish_all_ports = Some(publish))
        .start()
        .await
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

/// The place of a container on the run's network.
pub fn endpoint(ip: IpAddr) -> EndpointSettings {
    let ipam = EndpointIpamConfig { ipv4_address: Some(ip.to_string()), ..Default::default() };
    EndpointSettings { ipam_config: Some(ipam), ..Default::default() }
}
