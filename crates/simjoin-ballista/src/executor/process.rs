//! The servers of an executor and its messages to the scheduler.
//!
//! Ballista's own process has no place where the requests of a scheduler could be checked before
//! they are read. This one puts the same parts together: Ballista's executor runs the stages, its
//! service of rows serves them, and every request to either server needs the secret.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use ballista_core::serde::BallistaCodec;
use ballista_core::serde::protobuf::executor_grpc_server::ExecutorGrpcServer;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::serde::protobuf::{
    ExecutorRegistration, ExecutorStatus, ExecutorStoppedParams, HeartBeatParams,
    RegisterExecutorParams, UpdateTaskStatusParams, executor_status,
};
use ballista_core::utils::{create_grpc_server, create_grpc_server_incoming};
use ballista_executor::execution_engine::{DefaultExecutionEngine, ExecutionEngine};
use ballista_executor::executor::Executor;
use ballista_executor::executor_process::{ExecutorProcessConfig, structure_executor_metadata};
use ballista_executor::health::ExecutorHealth;
use ballista_executor::metrics::LoggingMetricsCollector;
use ballista_executor::runtime_cache::DefaultSessionRuntimeCache;
use datafusion::common::{Result, config_datafusion_err, exec_datafusion_err, exec_err};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tonic::Code;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;

use super::connections::Connections;
use super::memory;
use super::rows::CheckedFlightService;
use super::shuffle_files::CheckedEngine;
use super::tasks::{Report, Tasks};
use super::work_dir::WorkDirLimit;
use crate::address::SchedulerAddress;
use crate::secret::{Guard, REFUSED, Secret};
use crate::{MAX_MESSAGE_BYTES, logical_codec, physical_codec, session_config};
use simjoin_files::storage::DataDirs;

/// Heartbeats without an answer after which a scheduler is given up.
const LOST_HEARTBEATS: u32 = 5;

/// The niceness of the threads of tasks: those that answer the scheduler go first.
#[cfg(unix)]
const NICENESS: i32 = 10;

/// The stack of the threads of tasks: plans go deep.
const STACK_BYTES: usize = 16 << 20;

/// An executor that is ready to serve.
pub(super) struct Process {
    config: Arc<ExecutorProcessConfig>,
    scheduler: SchedulerAddress,
    guard: Guard,
    registration: ExecutorRegistration,
    tasks: Tasks,
    reports: mpsc::UnboundedReceiver<Report>,
    stops: mpsc::UnboundedReceiver<String>,
    _threads: TaskThreads,
}

/// The threads of tasks, which are left to themselves at the end of the process.
struct TaskThreads(Option<Runtime>);

impl Drop for TaskThreads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Process {
    /// Puts an executor together that uses `data_dirs` alone and keeps `work_dir_limit` in its
    /// folder.
    pub(super) fn new(
        config: ExecutorProcessConfig,
        scheduler: SchedulerAddress,
        secret: Option<Secret>,
        data_dirs: Option<&DataDirs>,
        work_dir_limit: Option<u64>,
    ) -> Result<Self> {
        let config = Arc::new(config);
        let work_dir = config.work_dir.clone().unwrap_or_default();
        let base = memory::runtimes(Path::new(&work_dir), work_dir_limit, data_dirs)?;
        let policy = memory::pool_policy(config.memory_pool_size, config.vcores)?;
        let sessions = DefaultSessionRuntimeCache::new(
            Arc::clone(&base),
            Arc::clone(&policy),
            config.session_runtime_cache_capacity,
        );
        let registration = structure_executor_metadata(&config, config.vcores as u32);
        let engine: Arc<dyn ExecutionEngine> =
            config.override_execution_engine.clone().unwrap_or_else(|| {
                let connections = Arc::new(Connections::default());
                Arc::new(DefaultExecutionEngine::with_client_pool(connections))
            });
        let engine: Arc<dyn ExecutionEngine> = Arc::new(CheckedEngine(engine));
        let executor = Executor::new(
            registration.clone(),
            &work_dir,
            Arc::new(move |config| policy(base(config)?, config, 1)),
            config.override_config_producer.clone().unwrap_or_else(|| Arc::new(session_config)),
            config.override_function_registry.clone().unwrap_or_default(),
            Arc::new(LoggingMetricsCollector::default()),
            config.vcores,
            Arc::clone(&engine),
        );
        let executor = Arc::new(executor.with_session_runtime_cache(Some(Arc::new(sessions))));
        let codec = BallistaCodec::new(
            config.override_logical_codec.clone().unwrap_or_else(logical_codec),
            config.override_physical_codec.clone().unwrap_or_else(physical_codec),
        );
        let threads = threads(config.vcores)?;
        let (reports, told) = mpsc::unbounded_channel();
        let (stop, stops) = mpsc::unbounded_channel();
        let tasks = Tasks {
            executor,
            engine,
            codec,
            threads: threads.handle().clone(),
            reports,
            running: watch::Sender::new(0),
            stop,
            limit: work_dir_limit.map(|bytes| WorkDirLimit::new(Path::new(&work_dir), bytes)),
            data_dirs: data_dirs.cloned(),
        };
        Ok(Self {
            config,
            scheduler,
            guard: Guard(secret),
            registration,
            tasks,
            reports: told,
            stops,
            _threads: TaskThreads(Some(threads)),
        })
    }

    /// Serves until `told` resolves, and then until the tasks that run have ended and the scheduler
    /// knows.
    ///
    /// # Errors
    ///
    /// An execution error when the scheduler refuses or stops the executor or is gone, or when a
    /// port cannot be had.
    pub(super) async fn run(mut self, told: impl Future<Output = ()>) -> Result<()> {
        let session = self.tasks.executor.produce_config();
        let mut client = self.scheduler.connect(&session).await?;
        // All end with this future.
        let mut services = JoinSet::new();
        self.serve_rows(&mut services)?;
        self.serve_tasks(&mut services)?;
        if let Some(limit) = self.tasks.limit.clone() {
            services.spawn(async move {
                limit.watch().await;
                "the measuring of the work folder ended".to_string()
            });
        }
        self.register(&mut client).await?;
        let terminating = Arc::new(AtomicBool::new(false));
        services.spawn(heartbeats(Heart {
            client: client.clone(),
            registration: self.registration.clone(),
            health: self.config.health.clone(),
            interval: Duration::from_secs(self.config.executor_heartbeat_interval_seconds),
            terminating: Arc::clone(&terminating),
            scheduler: self.scheduler.clone(),
        }));
        let report = report(client.clone(), self.registration.id.clone(), self.reports);
        services.spawn(report);
        let ended = tokio::select! {
            ended = services.join_next() => Err(match ended {
                Some(Ok(why)) => why,
                Some(Err(e)) => format!("a part of the executor failed: {e}"),
                None => "no part of the executor is left".to_string(),
            }),
            reason = self.stops.recv() => Err(format!(
                "the scheduler at {} ended this executor: {}",
                self.scheduler,
                reason.unwrap_or_default()
            )),
            () = told => Ok(()),
        };
        if let Err(why) = ended {
            return exec_err!("{why}");
        }
        terminating.store(true, Ordering::Release);
        farewell(&mut client, &self.registration).await;
        let mut running = self.tasks.running.subscribe();
        // The sender lives as long as the tasks.
        let _ = running.wait_for(|running| *running == 0).await;
        let (flushed, wait) = oneshot::channel();
        if self.tasks.reports.send(Report::Flush(flushed)).is_ok() {
            let _ = wait.await;
        }
        Ok(())
    }

    fn address(&self, port: u16) -> Result<SocketAddr> {
        let host = self.config.bind_host.parse();
        let host = host.map_err(|e| config_datafusion_err!("{}: {e}", self.config.bind_host))?;
        Ok(SocketAddr::new(host, port))
    }

    /// Serves rows, between stages and of results.
    fn serve_rows(&self, services: &mut JoinSet<String>) -> Result<()> {
        let work_dir = self.config.work_dir.clone().unwrap_or_default();
        let rows = FlightServiceServer::new(CheckedFlightService::new(work_dir))
            .max_decoding_message_size(MAX_MESSAGE_BYTES as usize)
            .max_encoding_message_size(MAX_MESSAGE_BYTES as usize);
        let settings = &self.config.grpc_server_config;
        let incoming = create_grpc_server_incoming(self.address(self.config.port)?, settings)
            .map_err(|e| exec_datafusion_err!("the port for rows: {e}"))?;
        let server = create_grpc_server(settings)
            .add_service(InterceptedService::new(rows, self.guard.clone()))
            .serve_with_incoming(incoming);
        services.spawn(async move { format!("the server of rows ended: {:?}", server.await) });
        Ok(())
    }

    /// Serves the scheduler, which hands out tasks.
    fn serve_tasks(&self, services: &mut JoinSet<String>) -> Result<()> {
        let tasks = ExecutorGrpcServer::new(self.tasks.clone())
            .max_decoding_message_size(MAX_MESSAGE_BYTES as usize)
            .max_encoding_message_size(MAX_MESSAGE_BYTES as usize);
        let settings = &self.config.grpc_server_config;
        let incoming = create_grpc_server_incoming(self.address(self.config.grpc_port)?, settings)
            .map_err(|e| exec_datafusion_err!("the port for tasks: {e}"))?;
        let server = create_grpc_server(settings)
            .add_service(InterceptedService::new(tasks, self.guard.clone()))
            .serve_with_incoming(incoming);
        services.spawn(async move { format!("the server of tasks ended: {:?}", server.await) });
        Ok(())
    }

    async fn register(&self, client: &mut SchedulerGrpcClient<Channel>) -> Result<()> {
        let registration = RegisterExecutorParams { metadata: Some(self.registration.clone()) };
        match client.register_executor(registration).await {
            Ok(answer) if answer.get_ref().success => Ok(()),
            Ok(_) => exec_err!("the scheduler at {} refuses this executor", self.scheduler),
            Err(e) if e.code() == Code::Unauthenticated => {
                exec_err!("the scheduler at {} refuses this executor: {REFUSED}", self.scheduler)
            }
            Err(e) => exec_err!(
                "the scheduler at {} refuses this executor: {}",
                self.scheduler,
                e.message()
            ),
        }
    }
}

/// Threads for `cores` tasks at once.
fn threads(cores: usize) -> Result<Runtime> {
    let mut threads = Builder::new_multi_thread();
    threads.worker_threads(cores).thread_name("task").thread_stack_size(STACK_BYTES).enable_all();
    #[cfg(target_os = "linux")]
    threads.on_thread_start(|| {
        // SAFETY: the call has no memory of ours; 0 is this thread. Where it fails, the thread has
        // the priority of all others.
        unsafe {
            libc::setpriority(libc::PRIO_PROCESS, 0, NICENESS);
        }
    });
    threads.build().map_err(|e| exec_datafusion_err!("no threads for tasks: {e}"))
}

/// The state of the heartbeats of an executor.
struct Heart {
    client: SchedulerGrpcClient<Channel>,
    registration: ExecutorRegistration,
    health: ExecutorHealth,
    interval: Duration,
    terminating: Arc<AtomicBool>,
    scheduler: SchedulerAddress,
}

/// Tells the scheduler of the executor until it does not answer any more.
async fn heartbeats(mut heart: Heart) -> String {
    let mut lost = 0;
    while lost < LOST_HEARTBEATS {
        let terminating = heart.terminating.load(Ordering::Acquire);
        let beat = heartbeat(&heart.registration, terminating);
        match heart.client.heart_beat_from_executor(beat).await {
            Ok(_) => {
                heart.health.mark_heartbeat_ok();
                lost = 0;
            }
            Err(e) => {
                heart.health.mark_heartbeat_failed();
                lost += 1;
                let message = e.message();
                log::warn!("the scheduler at {} does not answer: {message}", heart.scheduler);
            }
        }
        tokio::time::sleep(heart.interval).await;
    }
    format!("the scheduler at {} is gone", heart.scheduler)
}

fn heartbeat(registration: &ExecutorRegistration, terminating: bool) -> HeartBeatParams {
    let status = match terminating {
        true => executor_status::Status::Terminating(String::new()),
        false => executor_status::Status::Active(String::new()),
    };
    HeartBeatParams {
        executor_id: registration.id.clone(),
        metrics: vec![],
        status: Some(ExecutorStatus { status: Some(status) }),
        metadata: Some(registration.clone()),
    }
}

/// Tells the scheduler that the executor takes no more tasks.
async fn farewell(client: &mut SchedulerGrpcClient<Channel>, registration: &ExecutorRegistration) {
    let stopped = ExecutorStoppedParams {
        executor_id: registration.id.clone(),
        reason: "it was told to stop".to_string(),
    };
    let told = match client.heart_beat_from_executor(heartbeat(registration, true)).await {
        Ok(_) => client.executor_stopped(stopped).await.map(drop),
        Err(e) => Err(e),
    };
    if let Err(e) = told {
        log::warn!("the scheduler does not know that this executor stops: {}", e.message());
    }
}

/// Tells the scheduler of tasks that have ended, all that have since the last message at once.
async fn report(
    mut client: SchedulerGrpcClient<Channel>,
    executor_id: String,
    mut reports: mpsc::UnboundedReceiver<Report>,
) -> String {
    let mut next = vec![];
    while reports.recv_many(&mut next, usize::MAX).await > 0 {
        let (mut task_status, mut flushed) = (vec![], vec![]);
        for report in next.drain(..) {
            match report {
                Report::Ended(status) => task_status.push(status),
                Report::Flush(done) => flushed.push(done),
            }
        }
        if !task_status.is_empty() {
            let executor_id = executor_id.clone();
            let status = UpdateTaskStatusParams { executor_id, task_status };
            if let Err(e) = client.update_task_status(status).await {
                log::error!("the scheduler does not hear of tasks that ended: {}", e.message());
            }
        }
        for done in flushed {
            // Whoever waited may have gone.
            let _ = done.send(());
        }
    }
    "the tasks of the executor are gone".to_string()
}
