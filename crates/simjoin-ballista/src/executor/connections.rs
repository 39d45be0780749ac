//! Connections between executors that are kept for the next rows.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use ballista_core::client::BallistaClient;
use ballista_core::client_pool::{BallistaClientPool, PooledClient};
use ballista_core::error::Result;
use ballista_core::extension::BallistaConfigGrpcEndpoint;
use ballista_core::utils::GrpcClientConfig;
use parking_lot::Mutex;

/// A connection that is not used for this long is closed when another is looked for.
const IDLE: Duration = Duration::from_secs(30);

/// An executor's connection by its address and settings.
type Key = (String, u16, GrpcClientConfig);

/// A connection and the time of its last use.
type Idle = (BallistaClient, Instant);

/// Idle connections to other executors, the last used ones at the end.
#[derive(Default, Clone)]
pub(super) struct Connections(Arc<Mutex<HashMap<Key, Vec<Idle>>>>);

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connections").finish_non_exhaustive()
    }
}

impl Connections {
    fn close_idle(&self) {
        self.0.lock().retain(|_, idle| {
            idle.retain(|(_, since)| since.elapsed() < IDLE);
            !idle.is_empty()
        });
    }
}

#[async_trait]
impl BallistaClientPool for Connections {
    async fn acquire(
        &self,
        host: &str,
        port: u16,
        config: &GrpcClientConfig,
        customize: Option<Arc<BallistaConfigGrpcEndpoint>>,
    ) -> Result<PooledClient> {
        self.close_idle();
        let key = (host.to_string(), port, config.clone());
        let idle = self.0.lock().get_mut(&key).and_then(|idle| idle.pop());
        let client = match idle {
            Some((client, _)) => client,
            None => {
                BallistaClient::try_new(
                    host,
                    port,
                    config.max_message_size,
                    config.use_tls,
                    customize,
                    config.io_retries_times,
                    config.io_retry_wait_time_ms,
                    config.initial_connection_window_size,
                    config.initial_stream_window_size,
                )
                .await?
            }
        };
        let connections = self.clone();
        let give_back = move |client| {
            connections.0.lock().entry(key).or_default().push((client, Instant::now()));
        };
        Ok(PooledClient::new(client, Box::new(give_back)))
    }

    async fn evict_idle(&self) {
        self.close_idle();
    }
}
