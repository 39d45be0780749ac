//! A scheduler whose sessions plan similarity joins for the executors that it has.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ballista_core::serde::protobuf::scheduler_grpc_server::SchedulerGrpcServer;
use ballista_scheduler::cluster::memory::InMemoryJobState;
use ballista_scheduler::cluster::{BallistaCluster, ClusterState};
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::create_scheduler;
use ballista_scheduler::state::session_manager::share_file_statistics_cache;
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use datafusion::execution::SessionState;
use datafusion::prelude::SessionConfig;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use futures::FutureExt;
use tokio::net::TcpListener;
use tonic::service::Routes;
use tonic::service::interceptor::InterceptedService;

use super::control::{Control, Server};
use super::secret::{Access, Guard, Published, Secret};
use super::session::scheduler_session_in;
use super::state::Executors;
use super::{MAX_MESSAGE_BYTES, configure_scheduler, session_config};
use datafusion_simjoin::config::SimJoinOptions;
use simjoin_files::storage::DataDirs;

/// The options that a scheduler starts with.
#[derive(Debug, Clone)]
pub struct SchedulerOptions {
    /// The address to listen on.
    pub bind_host: IpAddr,
    /// The port to listen on; 0 for any that is free.
    pub bind_port: u16,
    /// The name or address by which executors reach the scheduler.
    pub external_host: String,
    /// Seconds without a message after which the scheduler gives an executor up, and runs its tasks
    /// again elsewhere.
    pub executor_timeout_seconds: u64,
    /// The processes that the scheduler serves.
    pub access: Access,
    /// The folders that statements may touch; all by default. Executors have their own.
    pub data_dirs: Option<DataDirs>,
}

/// A scheduler that listens, but does not serve yet.
#[derive(Debug)]
pub struct Scheduler {
    listener: TcpListener,
    port: u16,
    options: SchedulerOptions,
    secret: Option<Secret>,
    /// The file of the secret, for as long as the scheduler runs.
    published: Option<Published>,
}

/// Seconds after which executors remove the rows of a result that no client has read.
const RESULT_SECONDS: u64 = 3600;

/// The wait before a statement that was given up is cancelled.
const CANCEL_WAIT: Duration = Duration::from_secs(2);

/// Seconds that an executor has to end its tasks after it has said that it stops.
pub(super) const DRAIN_SECONDS: u64 = 10;

impl Scheduler {
    /// Listens on the address of `options`.
    ///
    /// # Errors
    ///
    /// An execution error when the address cannot be had, a configuration error when it needs a
    /// secret, or the secret of the account cannot be left for it.
    pub async fn bind(options: SchedulerOptions) -> Result<Self> {
        options.access.check(options.bind_host)?;
        let address = (options.bind_host, options.bind_port);
        let listener = TcpListener::bind(address).await.map_err(|e| {
            exec_datafusion_err!(
                "the scheduler cannot listen on {}:{}: {e}; choose another --bind-port",
                options.bind_host,
                options.bind_port
            )
        })?;
        let port = listener.local_addr()?.port();
        let (secret, published) = match &options.access {
            Access::Secret(secret) => (Some(secret.clone()), None),
            Access::Account => {
                let secret = Secret::random()?;
                (Some(secret.clone()), Some(Published::new(secret, port)?))
            }
            Access::Open => (None, None),
        };
        Ok(Self { listener, port, options, secret, published })
    }

    /// The file with the secret that the scheduler has made for its account.
    pub fn secret_file(&self) -> Option<&Path> {
        self.published.as_ref().map(Published::path)
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Serves clients and executors until the future is dropped, or an error ends it.
    pub async fn serve(self) -> Result<()> {
        let _published = self.published;
        let (given_up, mut to_cancel) = tokio::sync::mpsc::unbounded_channel();
        let executors: Arc<dyn ClusterState> = Arc::new(Executors::new(given_up));
        let slots = Arc::clone(&executors);
        let options = self.options;
        let data_dirs = options.data_dirs;
        let builder = Arc::new(move |config: SessionConfig| {
            session(config, task_slots(slots.as_ref()), data_dirs.as_ref())
        });
        let mut config = configure_scheduler(SchedulerConfig {
            external_host: options.external_host,
            bind_host: options.bind_host.to_string(),
            bind_port: self.port,
            executor_timeout_seconds: options.executor_timeout_seconds,
            // Ballista looks for lost executors this often.
            expire_dead_executor_interval_seconds: 1,
            no_executors_grace_period_seconds: options.executor_timeout_seconds,
            executor_termination_grace_period: DRAIN_SECONDS,
            finished_job_data_clean_up_interval_seconds: RESULT_SECONDS,
            // Rows that cannot be read end the statement, for the reason that `Executors` gives.
            stage_max_failures: 1,
            grpc_server_max_decoding_message_size: MAX_MESSAGE_BYTES,
            grpc_server_max_encoding_message_size: MAX_MESSAGE_BYTES,
            grpc_client_max_message_size: MAX_MESSAGE_BYTES,
            ..SchedulerConfig::default()
        });
        config.override_session_builder = Some(builder.clone());
        config.override_create_grpc_client_endpoint = self.secret.as_ref().map(Secret::endpoints);
        config.validate().map_err(|e| exec_datafusion_err!("the scheduler's settings: {e}"))?;
        let jobs = InMemoryJobState::new(
            config.scheduler_id.clone(),
            share_file_statistics_cache(builder),
            Arc::new(session_config),
        );
        let cluster = BallistaCluster::new(executors, Arc::new(jobs));
        let scheduler =
            create_scheduler::<LogicalPlanNode, PhysicalPlanNode>(cluster, Arc::new(config))
                .await
                .map_err(|e| exec_datafusion_err!("the scheduler cannot start: {e}"))?;
        let canceller = scheduler.clone();
        let cancel = async move {
            while let Some(job_id) = to_cancel.recv().await {
                // Its client asks for the error first; one that has gone never does.
                tokio::time::sleep(CANCEL_WAIT).await;
                if let Err(e) = canceller.cancel_job(job_id).await {
                    log::warn!("a statement that was given up cannot be cancelled: {e}");
                }
            }
        };
        let serve = answer(self.listener, scheduler, Guard(self.secret));
        tokio::select! {
            served = serve => {
                served.map_err(|e| exec_datafusion_err!("the scheduler stopped: {e}"))
            }
            () = cancel => exec_err!("the scheduler stopped"),
        }
    }
}

/// Answers clients and executors that the guard lets pass.
async fn answer(listener: TcpListener, scheduler: Server, guard: Guard) -> std::io::Result<()> {
    let control = Control::new(scheduler.clone());
    let bytes = MAX_MESSAGE_BYTES as usize;
    let scheduler = SchedulerGrpcServer::new(scheduler)
        .max_decoding_message_size(bytes)
        .max_encoding_message_size(bytes);
    let routes = Routes::new(InterceptedService::new(scheduler, guard.clone()))
        .add_service(InterceptedService::new(control, guard));
    // Executors that do not name their host are known by the address that they come from.
    let routes = routes.into_axum_router().into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, routes).await
}

/// The tasks that the executors can run at the same time.
fn task_slots(cluster: &dyn ClusterState) -> usize {
    // The state is in memory: nothing is waited for.
    let executors = cluster.registered_executor_metadata().now_or_never().unwrap_or_default();
    executors.iter().map(|executor| executor.specification.vcores as usize).sum()
}

/// The session of a statement, which is cut into as many tasks as can run at the same time.
fn session(
    config: SessionConfig,
    slots: usize,
    data_dirs: Option<&DataDirs>,
) -> Result<SessionState> {
    if slots == 0 {
        return exec_err!(
            "the cluster has no executors; start one with: simjoin executor --scheduler HOST:PORT"
        );
    }
    let partitions = SimJoinOptions::of(config.options()).cluster_partitions;
    let config = config.with_target_partitions(partitions.0.map_or(slots, |n| n.get()));
    scheduler_session_in(config, data_dirs)
}
