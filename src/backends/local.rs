//! Servers as child processes of the lab: no engine, the same faults.

use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::binary::Binary;
use super::child::ChildServer;
use super::gate::{self, Gate};
use super::gc;
use super::journal::{Journal, Made};
use super::postgres::Installed;
use super::postmaster::Postmaster;
use super::shut_down;
use crate::model::report::Honesty;
use crate::ports::BoxFuture;
use crate::ports::backend::{Backend, BackendError, Server, ServerProgram, ServerSpec};

/// A run's server processes, all below one folder of the run.
pub struct Local {
    shared: Arc<Shared>,
    servers: Servers,
}

type Servers = Arc<Mutex<Vec<Arc<dyn Server>>>>;

/// What all servers of a run share.
pub struct Shared {
    pub binary: Binary,
    pub folder: PathBuf,
    pub start_timeout: Duration,
    pub gate: Gate,
    pub journal: Arc<Journal>,
    pub modules: Vec<PathBuf>,
    because: String,
    /// Made ready with the first server that needs it.
    postgres: tokio::sync::OnceCell<Arc<Installed>>,
}

impl Local {
    /// Makes the run's folder.
    pub fn open(
        binary: Binary,
        journal: Arc<Journal>,
        start_timeout: Duration,
        because: String,
        modules: Vec<PathBuf>,
    ) -> Result<Self, BackendError> {
        let folder = gc::run_folder(journal.run());
        let cannot = |why: String| {
            BackendError::Missing(format!(
                "cannot make the servers' folder {}: {why}; set TMPDIR to a folder that can be written",
                folder.display()
            ))
        };
        // What is in the journal is removed in the end, so what somebody else made must not get there.
        if folder.symlink_metadata().is_ok() {
            return Err(cannot("it is there already".to_owned()));
        }
        journal.note(&Made::Folder { path: folder.clone() })?;
        // Nobody else may look in: the temp folder is everybody's.
        std::fs::DirBuilder::new().mode(0o700).create(&folder).map_err(|e| cannot(e.to_string()))?;
        let gate = Gate::new();
        let postgres = tokio::sync::OnceCell::new();
        let shared = Shared { binary, folder, start_timeout, gate, journal, modules, because, postgres };
        let shared = Arc::new(shared);
        Ok(Self { shared, servers: Servers::default() })
    }
}

async fn start(
    shared: Arc<Shared>,
    servers: Servers,
    spec: ServerSpec,
) -> Result<Arc<dyn Server>, BackendError> {
    let _inside = shared.gate.enter().await?;
    let server: Arc<dyn Server> = match spec.program {
        ServerProgram::Server | ServerProgram::Sentinel => {
            Arc::new(ChildServer::start(Arc::clone(&shared), &spec).await?)
        }
        ServerProgram::Postgres => {
            let ready = async || Installed::prepare(&shared.folder, &shared.journal).await.map(Arc::new);
            let installed = Arc::clone(shared.postgres.get_or_try_init(ready).await?);
            Arc::new(Postmaster::start(Arc::clone(&shared), installed, &spec).await?)
        }
    };
    servers.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&server));
    Ok(server)
}

impl Backend for Local {
    fn name(&self) -> &'static str {
        "local"
    }

    fn start(&self, spec: ServerSpec) -> BoxFuture<'_, Result<Arc<dyn Server>, BackendError>> {
        Box::pin(gate::to_its_end(start(Arc::clone(&self.shared), Arc::clone(&self.servers), spec)))
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(async {
            self.shared.gate.close().await;
            let servers = std::mem::take(&mut *self.servers.lock().unwrap_or_else(PoisonError::into_inner));
            for server in servers {
                // Whatever fails here is tried again, and reported, by the sweep.
                let _ = server.stop().await;
            }
            // The sweep removes what else is in it.
            let _ = std::fs::remove_dir(&self.shared.folder);
            shut_down(&self.shared.journal).await
        })
    }

    fn meeting_point(&self) -> Result<IpAddr, BackendError> {
        Ok(Ipv4Addr::LOCALHOST.into())
    }

    fn describe(&self, honesty: &mut Honesty) {
        honesty.backend = self.name().to_owned();
        honesty.chosen_because = match self.shared.postgres.get() {
            Some(own) => format!("{}; PostgreSQL {} ({})", self.shared.because, own.version, own.because),
            None => self.shared.because.clone(),
        };
        honesty.network_path = Some("loopback".to_owned());
    }
}
