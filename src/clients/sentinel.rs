//! The way to a primary that sentinels watch: whoever connects asks them first, one after the other, as
//! Sentinel's guidelines for clients want it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use redis::{AsyncConnectionConfig, Client};

use crate::ports::BoxFuture;
use crate::ports::route::Route;

/// How long one sentinel may take.
const PATIENCE: Duration = Duration::from_millis(200);

pub struct Asked {
    master: String,
    sentinels: Vec<SocketAddr>,
}

impl Asked {
    pub fn of(master: &str, sentinels: &[SocketAddr]) -> Arc<Self> {
        Arc::new(Self { master: master.to_owned(), sentinels: sentinels.to_vec() })
    }

    async fn ask(&self, sentinel: SocketAddr) -> Result<SocketAddr, String> {
        let client = Client::open(format!("redis://{sentinel}/")).map_err(|e| e.to_string())?;
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(Some(PATIENCE))
            .set_connection_timeout(Some(PATIENCE));
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        let mut connection = connecting.await.map_err(|e| e.to_string())?;
        let asking = redis::cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(&self.master).to_owned();
        let told: Option<(String, u16)> =
            asking.query_async(&mut connection).await.map_err(|e| e.to_string())?;
        let (ip, port) = told.ok_or_else(|| format!("it does not know '{}'", self.master))?;
        let ip = ip.parse().map_err(|_| format!("'{ip}' is no address"))?;
        Ok(SocketAddr::new(ip, port))
    }
}

impl Route for Asked {
    fn primary(&self) -> BoxFuture<'_, Result<SocketAddr, String>> {
        Box::pin(async move {
            let mut last = "there are none".to_owned();
            for sentinel in &self.sentinels {
                match self.ask(*sentinel).await {
                    Ok(address) => return Ok(address),
                    Err(why) => last = format!("{sentinel}: {why}"),
                }
            }
            Err(format!("no sentinel tells where the primary is: {last}"))
        })
    }
}
