//! Servers in containers: testcontainers makes them, bollard breaks and mends them.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::container::Container;
use super::engine::Engine;
use super::gate::{self, Gate};
use super::image::{self, Image};
use super::journal::{Journal, Made};
use super::network::{self, Network, Path};
use super::shut_down;
use crate::model::report::Honesty;
use crate::ports::BoxFuture;
use crate::ports::backend::{Backend, BackendError, Server, ServerProgram, ServerSpec};

/// A run's containers on its own network. Used on the runtime it was opened on.
pub struct Docker {
    shared: Arc<Shared>,
    servers: Servers,
}

type Servers = Arc<Mutex<Vec<Arc<Container>>>>;

/// What all containers of a run share.
pub struct Shared {
    pub engine: Engine,
    pub image: Image,
    pub network: Network,
    pub start_timeout: Duration,
    pub gate: Gate,
    pub journal: Arc<Journal>,
    because: String,
    /// Found with the first server that needs it.
    postgres: tokio::sync::OnceCell<Image>,
}

impl Shared {
    /// What a server of this kind is made of.
    pub async fn image_of(&self, program: ServerProgram) -> Result<&Image, BackendError> {
        match program {
            ServerProgram::Server | ServerProgram::Sentinel => Ok(&self.image),
            ServerProgram::Postgres => {
                let found = self.postgres.get_or_try_init(|| image::of_postgres(&self.engine)).await;
                found.map_err(BackendError::Missing)
            }
        }
    }
}

impl Docker {
    /// Makes the run's network. On error nothing of it is left.
    pub async fn open(
        engine: Engine,
        image: Image,
        journal: Arc<Journal>,
        start_timeout: Duration,
        because: String,
    ) -> Result<Self, BackendError> {
        let name = format!("rl-lab-{}", journal.run());
        journal.note(&Made::Network { name: name.clone(), docker_host: engine.host.clone() })?;
        let network = network::create(&engine, journal.run(), &name)
            .await
            .map_err(|why| BackendError::Engine { what: format!("creating network {name}"), why })?;
        let gate = Gate::new();
        let postgres = tokio::sync::OnceCell::new();
        let shared = Shared { engine, image, network, start_timeout, gate, journal, because, postgres };
        Ok(Self { shared: Arc::new(shared), servers: Servers::default() })
    }
}

async fn start(
    shared: Arc<Shared>,
    servers: Servers,
    spec: ServerSpec,
) -> Result<Arc<dyn Server>, BackendError> {
    let _inside = shared.gate.enter().await?;
    let server = Arc::new(Container::start(Arc::clone(&shared), &spec).await?);
    servers.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&server));
    Ok(server)
}

impl Backend for Docker {
    fn name(&self) -> &'static str {
        "docker"
    }

    fn start(&self, spec: ServerSpec) -> BoxFuture<'_, Result<Arc<dyn Server>, BackendError>> {
        Box::pin(gate::to_its_end(start(Arc::clone(&self.shared), Arc::clone(&self.servers), spec)))
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(async {
            self.shared.gate.close().await;
            let servers = std::mem::take(&mut *self.servers.lock().unwrap_or_else(PoisonError::into_inner));
            // Removing one takes the engine 0.1 s, so all at once. Whatever fails here is tried
            // again, and reported, by the sweep.
            let _ = futures_util::future::join_all(servers.iter().map(|server| server.stop())).await;
            let _ = self.shared.engine.docker.remove_network(&self.shared.network.name).await;
            shut_down(&self.shared.journal).await
        })
    }

    fn meeting_point(&self) -> Result<IpAddr, BackendError> {
        match self.shared.network.path {
            Path::BridgeIp => Ok(self.shared.network.gateway.into()),
            Path::PublishedPort => Err(BackendError::Unsupported(
                "the containers live on another machine, from where nothing of the lab can be reached; \
                 use --backend local"
                    .to_owned(),
            )),
        }
    }

    fn describe(&self, honesty: &mut Honesty) {
        honesty.backend = self.name().to_owned();
        honesty.chosen_because = format!("{}; image {}", self.shared.because, self.shared.image.because);
        if let Some(own) = self.shared.postgres.get() {
            honesty.chosen_because += &format!("; PostgreSQL from {} ({})", own.name, own.because);
        }
        honesty.network_path = Some(self.shared.network.path.name().to_owned());
        honesty.engine = Some(self.shared.engine.version.clone());
        honesty.api = Some(self.shared.engine.api.clone());
        honesty.image = Some(self.shared.image.name.clone());
        honesty.image_digest = Some(self.shared.image.digest.clone());
    }
}
