//! An executor that runs the tasks of similarity joins.

mod connections;
mod memory;
mod process;
mod rows;
mod shuffle_files;
mod tasks;
mod work_dir;

use std::fmt;
use std::net::{IpAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ballista_core::extension::SessionConfigExt;
use ballista_executor::executor_process::ExecutorProcessConfig;
use datafusion::common::{Result, exec_err};
use datafusion::prelude::SessionConfig;
use tokio::sync::Notify;

use super::address::SchedulerAddress;
use super::scheduler::DRAIN_SECONDS;
use super::secret::{Access, Secret};
use super::{MAX_MESSAGE_BYTES, configure_executor, log, session_config};
use datafusion_simjoin::exec::ProcessCores;
use process::Process;
use simjoin_files::storage::{DataDirs, ProcessDir};

/// The options that an executor starts with.
#[derive(Debug, Clone)]
pub struct ExecutorOptions {
    /// The scheduler that the executor registers with.
    pub scheduler: SchedulerAddress,
    /// The address to listen on.
    pub bind_host: IpAddr,
    /// The name or address by which clients and other executors reach this one; the one from which
    /// the scheduler sees it come by default.
    pub external_host: Option<String>,
    /// The port for rows (Arrow Flight) and the one for tasks (gRPC); 0 for any that is free.
    pub bind_port: u16,
    /// The port for tasks (gRPC); 0 for any that is free.
    pub bind_grpc_port: u16,
    /// A folder for the rows between stages and for spilled data; the system's temporary folder by
    /// default.
    pub work_dir: Option<PathBuf>,
    /// Tasks that run at the same time; 0 for as many as the machine has cores.
    pub cores: usize,
    /// Memory of all tasks together, in bytes; 70% of the machine's by default.
    pub memory_limit: Option<u64>,
    /// Bytes of all files in the executor's folder together; no limit by default.
    pub work_dir_limit: Option<u64>,
    /// The folders that statements may touch; all by default.
    pub data_dirs: Option<DataDirs>,
    /// The processes that the executor serves, and the secret that it gives the scheduler.
    pub access: Access,
    /// The time for which the executor tries to reach the scheduler.
    pub connect_patience: Duration,
}

/// An executor that has its ports and its folder, but does not take tasks yet.
pub struct Executor {
    config: ExecutorProcessConfig,
    scheduler: SchedulerAddress,
    work_dir: ProcessDir,
    work_dir_limit: Option<u64>,
    data_dirs: Option<DataDirs>,
    secret: Option<Secret>,
}

/// Scheduler and executor hear of each other this often, in seconds.
const HEARTBEAT_SECONDS: u64 = 2;

/// The wait between two questions whether the scheduler knows the executor.
const READY_WAIT: Duration = Duration::from_millis(10);

/// The wait before the executor tries a refused connection again.
const RECONNECT_WAIT: Duration = Duration::from_millis(200);

/// The wait for the secret of a scheduler that listens.
const SECRET_WAIT: Duration = Duration::from_secs(1);

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor")
            .field("scheduler", &self.scheduler)
            .field("work_dir", &self.work_dir)
            .finish_non_exhaustive()
    }
}

impl Executor {
    /// Takes ports and folder, and looks for the scheduler.
    ///
    /// # Errors
    ///
    /// An execution error when a port, the folder or the scheduler cannot be had.
    pub async fn prepare(options: ExecutorOptions) -> Result<Self> {
        let work_dir = work_dir::create(options.work_dir.as_deref())?;
        let port = free_port(options.bind_host, options.bind_port, "--bind-port")?;
        let grpc_port = free_port(options.bind_host, options.bind_grpc_port, "--bind-grpc-port")?;
        options.access.check(options.bind_host)?;
        let secret =
            find_scheduler(&options.scheduler, &options.access, options.connect_patience).await?;
        let Some(folder) = work_dir.path().to_str() else {
            return exec_err!("the work folder {} has no name in UTF-8", work_dir.path().display());
        };
        let scheduler = options.scheduler;
        let mut config = configure_executor(ExecutorProcessConfig {
            bind_host: options.bind_host.to_string(),
            external_host: options.external_host,
            port,
            grpc_port,
            scheduler_host: scheduler.host().to_string(),
            scheduler_port: scheduler.port(),
            vcores: match options.cores {
                0 => std::thread::available_parallelism().map_or(1, |cores| cores.get()),
                cores => cores,
            },
            work_dir: Some(folder.to_string()),
            memory_pool_size: options.memory_limit,
            executor_heartbeat_interval_seconds: HEARTBEAT_SECONDS,
            grpc_max_decoding_message_size: MAX_MESSAGE_BYTES,
            grpc_max_encoding_message_size: MAX_MESSAGE_BYTES,
            ..ExecutorProcessConfig::default()
        });
        let cores = Arc::new(ProcessCores(config.vcores));
        let given = secret.clone();
        let data_dirs = options.data_dirs.clone().map(Arc::new);
        config.override_config_producer = Some(Arc::new(move || {
            let mut session = session_config().with_extension(Arc::clone(&cores));
            if let Some(data_dirs) = &data_dirs {
                session = session.with_extension(Arc::clone(data_dirs));
            }
            with_secret(session, given.as_ref())
        }));
        Ok(Self {
            config,
            scheduler,
            work_dir,
            work_dir_limit: options.work_dir_limit,
            data_dirs: options.data_dirs,
            secret,
        })
    }

    /// Tasks that run at the same time.
    pub fn cores(&self) -> usize {
        self.config.vcores
    }

    /// The ports for rows and for tasks.
    pub fn ports(&self) -> (u16, u16) {
        (self.config.port, self.config.grpc_port)
    }

    /// Where its files are.
    pub fn work_dir(&self) -> &Path {
        self.work_dir.path()
    }

    /// Waits until the scheduler knows the executor, once it runs.
    pub fn ready(&self) -> impl Future<Output = ()> + Send + 'static {
        let health = self.config.health.clone();
        async move {
            while !health.is_ready() {
                tokio::time::sleep(READY_WAIT).await;
            }
        }
    }

    /// Runs tasks until the process is told to stop, by SIGTERM or Ctrl-C. It tells the scheduler,
    /// ends the tasks that end within ten seconds, and removes its files; a second signal does not
    /// wait.
    ///
    /// # Errors
    ///
    /// An execution error when the scheduler refuses the executor or is gone.
    pub async fn run(self) -> Result<()> {
        log::follow_jobs();
        let Self { config, scheduler, work_dir, work_dir_limit, data_dirs, secret } = self;
        let process = Process::new(config, scheduler, secret, data_dirs.as_ref(), work_dir_limit)?;
        let told = Arc::new(Notify::new());
        let signals = tokio::spawn(listen(Arc::clone(&told)));
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let run = process.run(async move { stopped.notified().await });
        tokio::pin!(run);
        let mut stopping = false;
        let result = loop {
            tokio::select! {
                result = &mut run => break result,
                () = told.notified() => match stopping {
                    false => {
                        stopping = true;
                        stop.notify_one();
                    }
                    true => break Ok(()),
                },
                () = tokio::time::sleep(Duration::from_secs(DRAIN_SECONDS)), if stopping => {
                    break Ok(());
                }
            }
        };
        signals.abort();
        // The last files of tasks are closed before their folder goes.
        drop(work_dir);
        result
    }
}

/// The session with connections that carry the secret.
fn with_secret(session: SessionConfig, secret: Option<&Secret>) -> SessionConfig {
    match secret {
        Some(secret) => {
            session.with_ballista_override_create_grpc_client_endpoint(secret.endpoints())
        }
        None => session,
    }
}

/// Tells of each signal to stop.
async fn listen(told: Arc<Notify>) {
    loop {
        stop_signal().await;
        told.notify_one();
    }
}

/// Waits for Ctrl-C or, where there is one, SIGTERM.
pub async fn stop_signal() {
    let interrupt = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    let terminate = async {
        use tokio::signal::unix::{SignalKind, signal};
        match signal(SignalKind::terminate()) {
            Ok(mut signal) => drop(signal.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminate = std::future::pending::<()>();
    tokio::select! {
        () = interrupt => {}
        () = terminate => {}
    }
}

/// A port that can be listened on; the executor takes it a moment later.
fn free_port(host: IpAddr, port: u16, flag: &str) -> Result<u16> {
    let bound = TcpListener::bind((host, port)).and_then(|listener| listener.local_addr());
    match bound {
        Ok(address) => Ok(address.port()),
        Err(e) => exec_err!(
            "the executor cannot listen on {host}:{port}: {e}; choose another {flag}, or 0 for any"
        ),
    }
}

/// Waits until the scheduler answers, and gives the secret for it.
async fn find_scheduler(
    scheduler: &SchedulerAddress,
    access: &Access,
    patience: Duration,
) -> Result<Option<Secret>> {
    let started = Instant::now();
    let session = session_config();
    loop {
        match scheduler.connect(&session).await {
            Ok(_) => break,
            Err(e) if started.elapsed() >= patience => return Err(e),
            Err(_) => tokio::time::sleep(RECONNECT_WAIT).await,
        }
    }
    // An executor leaves the secret of its account a moment after it listens.
    match secret_for(scheduler, access) {
        Err(_) if scheduler.is_loopback() => {
            tokio::time::sleep(SECRET_WAIT).await;
            secret_for(scheduler, access)
        }
        found => found,
    }
}

fn secret_for(scheduler: &SchedulerAddress, access: &Access) -> Result<Option<Secret>> {
    match access {
        Access::Secret(secret) => Ok(Some(secret.clone())),
        Access::Open => Ok(None),
        Access::Account => match Secret::of_account(scheduler) {
            Some(secret) => Ok(Some(secret)),
            None => exec_err!(
                "the scheduler at {scheduler} has left no secret for this account: give the \
                 --secret-file that it was started with, or --no-secret if it was started so"
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_says_what_to_change() {
        let host = IpAddr::from([127, 0, 0, 1]);
        let taken = TcpListener::bind((host, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = free_port(host, port, "--bind-port").unwrap_err().to_string();
        assert!(error.contains("choose another --bind-port"), "{error}");
        assert_ne!(free_port(host, 0, "--bind-port").unwrap(), 0);
    }
}
