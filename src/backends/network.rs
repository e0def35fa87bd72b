//! A run's own network, and the way to the servers on it.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bollard::models::{Ipam, IpamConfig, NetworkCreateRequest};

use super::engine::{Engine, RUN_LABEL, explain};

/// How clients reach a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// Straight to the container: through a published port one measures the engine's proxy.
    BridgeIp,
    /// Where the containers live on another machine, also a virtual one.
    PublishedPort,
}

impl Path {
    /// As `honesty.network_path` names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::BridgeIp => "bridge-ip",
            Self::PublishedPort => "published-port",
        }
    }
}

/// A run's network, once it is there.
pub struct Network {
    pub name: String,
    /// The engine's end of it.
    pub gateway: Ipv4Addr,
    pub path: Path,
    /// Addresses of servers that are dead and will want them back.
    pub wanted: Mutex<BTreeSet<Ipv4Addr>>,
}

impl Network {
    /// The addresses that servers can have: all but network, gateway and broadcast.
    pub fn places(&self) -> impl Iterator<Item = Ipv4Addr> + use<> {
        let gateway = u32::from(self.gateway);
        (1..=13).map(move |n| Ipv4Addr::from(gateway + n))
    }

    pub fn wanted(&self) -> MutexGuard<'_, BTreeSet<Ipv4Addr>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many subnets to try. Others may use the range too, but hardly a run of 64.
const TRIES: u32 = 64;

/// `10.213.0.0/16` in networks of 16 addresses: 13 servers beside gateway, network and broadcast.
const SUBNETS: u32 = 4096;

/// The n-th subnet: its address and its first host, which becomes the gateway.
fn subnet(n: u32) -> (Ipv4Addr, Ipv4Addr) {
    let base = u32::from(Ipv4Addr::new(10, 213, 0, 0)) + (n % SUBNETS) * 16;
    (Ipv4Addr::from(base), Ipv4Addr::from(base + 1))
}

/// Where a run begins to look (FNV-1a), so that runs side by side seldom collide.
fn first_subnet(run: &str) -> u32 {
    let hash = run.bytes().fold(0x811c_9dc5_u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193));
    hash % SUBNETS
}

/// Creates the network and finds out how its containers are reached.
///
/// With a subnet of its own: the engine's default pool is used up at 31 networks.
pub async fn create(engine: &Engine, run: &str, name: &str) -> Result<Network, String> {
    let mut refusal = String::new();
    for n in (0..TRIES).map(|i| first_subnet(run) + i) {
        let (base, gateway) = subnet(n);
        match engine.docker.create_network(request(run, name, base, gateway)).await {
            Ok(_) => {
                let (name, path) = (name.to_owned(), path_to(gateway));
                return Ok(Network { name, gateway, path, wanted: Mutex::default() });
            }
            Err(error) => refusal = explain(&error),
        }
        if !refusal.contains("overlap") {
            break;
        }
    }
    Err(refusal)
}

fn request(run: &str, name: &str, base: Ipv4Addr, gateway: Ipv4Addr) -> NetworkCreateRequest {
    let range = IpamConfig {
        subnet: Some(format!("{base}/28")),
        gateway: Some(gateway.to_string()),
        ..Default::default()
    };
    NetworkCreateRequest {
        name: name.to_owned(),
        driver: Some("bridge".to_owned()),
        labels: Some(HashMap::from([(RUN_LABEL.to_owned(), run.to_owned())])),
        ipam: Some(Ipam { config: Some(vec![range]), ..Default::default() }),
        ..Default::default()
    }
}

/// The gateway is an address of this very machine exactly if the bridge is here too: not with an
/// engine elsewhere, in a virtual machine (Docker Desktop), or seen from inside a container.
fn path_to(gateway: Ipv4Addr) -> Path {
    match UdpSocket::bind((IpAddr::V4(gateway), 0)) {
        Ok(_) => Path::BridgeIp,
        Err(_) => Path::PublishedPort,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subnets_are_apart_and_stay_in_the_range() {
        assert_eq!(subnet(0), (Ipv4Addr::new(10, 213, 0, 0), Ipv4Addr::new(10, 213, 0, 1)));
        assert_eq!(subnet(17).0, Ipv4Addr::new(10, 213, 1, 16));
        assert_eq!(subnet(SUBNETS - 1).0, Ipv4Addr::new(10, 213, 255, 240));
        assert_eq!(subnet(SUBNETS), subnet(0));
        assert_ne!(first_subnet("20250101-a"), first_subnet("20250101-b"));
    }

    #[test]
    fn a_gateway_that_is_not_here_needs_a_published_port() {
        assert_eq!(path_to(Ipv4Addr::LOCALHOST), Path::BridgeIp);
        assert_eq!(path_to(Ipv4Addr::new(192, 0, 2, 77)), Path::PublishedPort);
    }
}
