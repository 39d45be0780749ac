//! An executor that runs the tasks of similarity joins.

use std::fmt;
use std::fs::{self, File};
use std::net::{IpAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use tokio::sync::Notify;

use super::client::SchedulerAddress;
use super::scheduler::DRAIN_SECONDS;
use super::{MAX_MESSAGE_BYTES, configure_executor, session_config};
use crate::exec::ProcessCores;

/// How an executor is started.
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
    /// How long the executor tries to reach the scheduler.
    pub connect_patience: Duration,
}

/// An executor that has its ports and its folder, but does not take tasks yet.
pub struct Executor {
    config: ExecutorProcessConfig,
    scheduler: SchedulerAddress,
    work_dir: WorkDir,
}

/// Scheduler and executor hear of each other this often, in seconds. Ballista's executor gives a
/// scheduler up that it has not reached five times in a row.
const HEARTBEAT_SECONDS: u64 = 2;

/// How often the executor asks whether the scheduler knows it.
const READY_WAIT: Duration = Duration::from_millis(10);

/// The wait before the executor tries a refused connection again.
const RECONNECT_WAIT: Duration = Duration::from_millis(200);

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
        let work_dir = WorkDir::create(options.work_dir.as_deref())?;
        let port = free_port(options.bind_host, options.bind_port, "--bind-port")?;
        let grpc_port = free_port(options.bind_host, options.bind_grpc_port, "--bind-grpc-port")?;
        find_scheduler(&options.scheduler, options.connect_patience).await?;
        let Some(folder) = work_dir.path.to_str() else {
            return exec_err!("the work folder {} has no name in UTF-8", work_dir.path.display());
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
        config.override_config_producer =
            Some(Arc::new(move || session_config().with_extension(Arc::clone(&cores))));
        Ok(Self { config, scheduler, work_dir })
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
        &self.work_dir.path
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
        let told = Arc::new(Notify::new());
        let signals = tokio::spawn(listen(Arc::clone(&told)));
        let scheduler = self.scheduler;
        let mut stopping = false;
        let process = start_executor_process(Arc::new(self.config));
        tokio::pin!(process);
        let result = loop {
            tokio::select! {
                result = &mut process => break Some(result),
                () = told.notified() => match stopping {
                    // Ballista hears the first signal by itself.
                    false => stopping = true,
                    true => break None,
                },
                () = tokio::time::sleep(Duration::from_secs(DRAIN_SECONDS)), if stopping => {
                    break None;
                }
            }
        };
        signals.abort();
        // The folder goes when `work_dir` is dropped.
        match result {
            None => Ok(()),
            Some(Ok(())) if stopping => Ok(()),
            Some(Ok(())) => exec_err!("the scheduler at {scheduler} is gone"),
            Some(Err(e)) => exec_err!("the executor cannot run for {scheduler}: {e}"),
        }
    }
}

/// Tells of each signal to stop.
async fn listen(told: Arc<Notify>) {
    loop {
        super::executor::stop_signal().await;
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

async fn find_scheduler(scheduler: &SchedulerAddress, patience: Duration) -> Result<()> {
    let started = Instant::now();
    loop {
        match scheduler.connect(&session_config()).await {
            Ok(_) => return Ok(()),
            Err(e) if started.elapsed() >= patience => return Err(e),
            Err(_) => tokio::time::sleep(RECONNECT_WAIT).await,
        }
    }
}

/// A folder of this process alone, removed at its end.
///
/// A process that was killed leaves its folder, but not the lock in it: the next executor with the
/// same parent removes it.
#[derive(Debug)]
struct WorkDir {
    path: PathBuf,
    /// Held, with its lock, for as long as the folder is used.
    _lock: File,
}

const PREFIX: &str = "simjoin-executor-";
const LOCK: &str = ".lock";

impl WorkDir {
    fn create(parent: Option<&Path>) -> Result<Self> {
        let parent = match parent {
            Some(parent) => parent.to_path_buf(),
            None => std::env::temp_dir(),
        };
        let failed = |e: std::io::Error| {
            exec_datafusion_err!(
                "the work folder {} cannot be written: {e}; choose another --work-dir",
                parent.display()
            )
        };
        fs::create_dir_all(&parent).map_err(failed)?;
        let parent = parent.canonicalize().map_err(failed)?;
        // A random name, which other users cannot guess, in a folder for this user alone. No other
        // executor sees the folder before it is locked, or takes it for left over.
        let prefix = format!(".{PREFIX}");
        let mut folder = tempfile::Builder::new();
        folder.prefix(&prefix);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            folder.permissions(fs::Permissions::from_mode(0o700));
        }
        let hidden = folder.tempdir_in(&parent).map_err(failed)?;
        remove_left_over(&parent, hidden.path());
        let lock = File::create_new(hidden.path().join(LOCK)).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let path = parent.join(format!("{PREFIX}{}", ballista_core::ids::new_instance_id()));
        fs::rename(hidden.path(), &path).map_err(failed)?;
        let _ = hidden.keep();
        Ok(Self { path, _lock: lock })
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if let Err(e) = fs::remove_dir_all(&self.path) {
            log::warn!("{} could not be removed: {e}", self.path.display());
        }
    }
}

/// Removes the folders of executors that were killed: those of the user of the folder `own`.
fn remove_left_over(parent: &Path, own: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        let path = entry.path();
        // Of others, whatever lies under such a name is left alone: a link, or a pipe for a lock.
        if !is_ours || !is_folder_of_user(&path, own) || !is_file(&path.join(LOCK)) {
            continue;
        }
        let Ok(lock) = File::open(path.join(LOCK)) else { continue };
        if lock.try_lock().is_ok()
            && let Err(e) = fs::remove_dir_all(&path)
        {
            log::warn!("{} could not be removed: {e}", path.display());
        }
    }
}

/// Whether `path` is a folder, not a link to one, whose owner is that of `own`.
fn is_folder_of_user(path: &Path, own: &Path) -> bool {
    let (Ok(found), Ok(own)) = (fs::symlink_metadata(path), fs::symlink_metadata(own)) else {
        return false;
    };
    #[cfg(unix)]
    let has_owner = {
        use std::os::unix::fs::MetadataExt;
        found.uid() == own.uid()
    };
    #[cfg(not(unix))]
    let has_owner = own.is_dir();
    found.is_dir() && has_owner
}

fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_executor_and_a_killed_one_with_the_next() {
        let parent = tempfile::tempdir().unwrap();
        let first = WorkDir::create(Some(parent.path())).unwrap();
        // As after a kill: a folder with a lock that no process holds.
        let killed = parent.path().join(format!("{PREFIX}killed"));
        fs::create_dir(&killed).unwrap();
        fs::write(killed.join(LOCK), "").unwrap();
        fs::write(killed.join("rows"), "x").unwrap();
        fs::write(parent.path().join("other"), "").unwrap();
        let second = WorkDir::create(Some(parent.path())).unwrap();
        assert!(first.path.is_dir() && second.path.is_dir() && !killed.exists());
        fs::write(first.path.join("rows"), "x").unwrap();
        drop((first, second));
        let left: Vec<_> = fs::read_dir(parent.path()).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    /// In a folder that other users write to, an executor touches none of their files, and keeps
    /// its own from their eyes.
    #[cfg(unix)]
    #[test]
    fn a_folder_that_another_user_has_planted_is_left_alone() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let parent = tempfile::tempdir().unwrap();
        let victim = parent.path().join("victim");
        fs::create_dir(&victim).unwrap();
        fs::write(victim.join("file"), "kept").unwrap();
        // The name that an earlier version took, with a lock that is a link.
        let planted = parent.path().join(format!(".{PREFIX}{}", std::process::id()));
        fs::create_dir(&planted).unwrap();
        symlink(victim.join("file"), planted.join(LOCK)).unwrap();
        // A link to a folder, a lock that is a link, and one that is a pipe.
        fs::write(victim.join(LOCK), "").unwrap();
        symlink(&victim, parent.path().join(format!("{PREFIX}link"))).unwrap();
        let linked = parent.path().join(format!("{PREFIX}linked"));
        fs::create_dir(&linked).unwrap();
        symlink(victim.join("file"), linked.join(LOCK)).unwrap();
        let piped = parent.path().join(format!("{PREFIX}piped"));
        fs::create_dir(&piped).unwrap();
        let made = std::process::Command::new("mkfifo").arg(piped.join(LOCK)).status();
        assert!(made.unwrap().success());
        let folder = WorkDir::create(Some(parent.path())).unwrap();
        let mode = fs::metadata(&folder.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert!(planted.is_dir() && linked.is_dir() && piped.is_dir());
        assert_eq!(fs::read_to_string(victim.join("file")).unwrap(), "kept");
        // Two at once, as in two containers whose processes have one number.
        let other = WorkDir::create(Some(parent.path())).unwrap();
        assert_ne!(folder.path, other.path);
    }

    #[test]
    fn a_bad_folder_and_a_taken_port_say_what_to_change() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("file");
        fs::write(&file, "").unwrap();
        let error = WorkDir::create(Some(&file.join("sub"))).unwrap_err().to_string();
        assert!(error.contains("--work-dir"), "{error}");
        let host = IpAddr::from([127, 0, 0, 1]);
        let taken = TcpListener::bind((host, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = free_port(host, port, "--bind-port").unwrap_err().to_string();
        assert!(error.contains("choose another --bind-port"), "{error}");
        assert_ne!(free_port(host, 0, "--bind-port").unwrap(), 0);
    }
}
