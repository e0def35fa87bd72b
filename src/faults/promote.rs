//! `promote`: a replica is made the primary by hand (`REPLICAOF NO ONE`), and the app servers' configuration is
//! changed to it. Who is connected stays where he is; who connects comes to the new one.
//!
//! The new primary has no replica yet: where it is told to want one for a write (`min-replicas-to-write`), that is
//! lifted, as whoever promotes by hand has to.

use redis::AsyncCommands;

use crate::model::scenario::PlannedFault;
use crate::ports::BoxFuture;
use crate::ports::backend::BackendError;
use crate::ports::fault::{Fault, Ground, Injected, Lasting};

pub struct Promote;

impl Fault for Promote {
    fn name(&self) -> &'static str {
        "promote"
    }

    fn summary(&self) -> &'static str {
        "a replica is made the primary by hand, and whoever connects from now on connects to it"
    }

    fn lasting(&self) -> Lasting {
        Lasting::No
    }

    fn check(&self, planned: &PlannedFault) -> Result<(), String> {
        super::on_a_replica(planned)?;
        super::takes_none(planned)
    }

    fn inject<'a>(
        &'a self,
        planned: &'a PlannedFault,
        ground: &'a Ground,
    ) -> BoxFuture<'a, Result<Injected, BackendError>> {
        Box::pin(async move {
            let server = ground.server(&planned.on)?;
            let configured = ground.configured.as_ref().ok_or_else(|| {
                BackendError::Missing(
                    "nobody configures where the primary is: it is found by asking".to_owned(),
                )
            })?;
            let told = promote(server.address()).await.map_err(|error| BackendError::Engine {
                what: format!("promoting '{}'", server.name()),
                why: error.to_string(),
            })?;
            configured.change(server.address());
            Ok(Injected::done(told))
        })
    }
}

/// Promotes it, and says what it had of the counters then.
async fn promote(address: std::net::SocketAddr) -> Result<Option<String>, redis::RedisError> {
    let client = redis::Client::open(format!("redis://{address}/"))?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    redis::cmd("REPLICAOF").arg("NO").arg("ONE").exec_async(&mut connection).await?;
    let min = "min-replicas-to-write";
    let wanted: Vec<String> = redis::cmd("CONFIG").arg("GET").arg(min).query_async(&mut connection).await?;
    let lifted = wanted.get(1).is_some_and(|n| n != "0");
    if lifted {
        redis::cmd("CONFIG").arg("SET").arg(min).arg(0).exec_async(&mut connection).await?;
    }
    let keys: Vec<String> = redis::cmd("KEYS").arg("rl-lab:*").query_async(&mut connection).await?;
    let mut told = Vec::new();
    for key in keys.iter().take(4) {
        let value: Result<Option<u64>, _> = connection.get(key).await;
        // Beyond that it is no count but a time.
        if let Ok(Some(value @ ..1_000_000_000)) = value {
            let name = key.rsplit(':').next().unwrap_or(key);
            told.push(format!("{name} = {value}"));
        }
    }
    let had = (!told.is_empty()).then(|| format!("it had {}", told.join(", ")));
    let also = lifted.then(|| format!("{min} was lifted"));
    let all: Vec<String> = had.into_iter().chain(also).collect();
    Ok((!all.is_empty()).then(|| all.join(", ")))
}
