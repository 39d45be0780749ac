//! The folder of an executor's files, and how much they may take.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ballista_core::JobId;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use parking_lot::Mutex;
use tokio::sync::watch;

/// A folder of this process alone, removed at its end.
///
/// A process that was killed leaves its folder, but not the lock in it: the next executor with the
/// same parent removes it.
#[derive(Debug)]
pub(super) struct WorkDir {
    pub path: PathBuf,
    /// Held, with its lock, for as long as the folder is used.
    _lock: File,
}

const PREFIX: &str = "simjoin-executor-";
const LOCK: &str = ".lock";

impl WorkDir {
    pub(super) fn create(parent: Option<&Path>) -> Result<Self> {
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

/// Bounds the bytes of the files in the folder of an executor: rows between stages, and spilled data.
///
/// The folder is measured as long as tasks run. When it is too large, the running statement whose
/// rows between stages take most of it is ended.
#[derive(Debug)]
pub(super) struct WorkDirLimit {
    folder: PathBuf,
    bytes: u64,
    /// Statements by the number of their tasks that run.
    running: Mutex<HashMap<JobId, usize>>,
    /// The last statement that took too much, with its error.
    ended: watch::Sender<Option<(JobId, String)>>,
}

/// How often the folder is measured while tasks run.
const MEASURE_WAIT: Duration = Duration::from_millis(100);

/// Stands in the error of each statement that took too much.
pub(in crate::cluster) const WORK_DIR_LIMIT: &str = "--work-dir-limit";

impl WorkDirLimit {
    pub(super) fn new(folder: &Path, bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            folder: folder.to_path_buf(),
            bytes,
            running: Mutex::default(),
            ended: watch::Sender::new(None),
        })
    }

    /// Measures the folder while tasks run, without an end.
    pub(super) async fn watch(self: Arc<Self>) {
        loop {
            tokio::time::sleep(MEASURE_WAIT).await;
            if !self.running.lock().is_empty() {
                self.measure().await;
            }
        }
    }

    /// Counts a task of the statement as running until the value is dropped.
    pub(super) fn task(self: &Arc<Self>, job: &JobId) -> LimitedTask {
        *self.running.lock().entry(job.clone()).or_default() += 1;
        LimitedTask { limit: Arc::clone(self), job: job.clone(), ended: self.ended.subscribe() }
    }

    async fn measure(self: &Arc<Self>) {
        let limit = Arc::clone(self);
        let sizes = tokio::task::spawn_blocking(move || limit.sizes()).await;
        let Ok((total, Some(largest))) = sizes else { return };
        if total > self.bytes {
            let error = format!(
                "the work folder {} of an executor holds {total} bytes, more than the {} of \
                 {WORK_DIR_LIMIT}: allow more there, or have more executors share the statement",
                self.folder.display(),
                self.bytes
            );
            self.ended.send_replace(Some((largest, error)));
        }
    }

    /// The bytes in the folder, and the running statement that has most of them.
    fn sizes(&self) -> (u64, Option<JobId>) {
        let running: Vec<JobId> = self.running.lock().keys().cloned().collect();
        let size = |job: &JobId| size_of(&self.folder.join(job.as_str()));
        let largest = running.into_iter().max_by_key(size);
        (size_of(&self.folder), largest)
    }
}

/// A task in a limited folder.
pub(super) struct LimitedTask {
    limit: Arc<WorkDirLimit>,
    job: JobId,
    ended: watch::Receiver<Option<(JobId, String)>>,
}

impl LimitedTask {
    /// Waits until the statement of the task has taken too much.
    pub(super) async fn too_much(&mut self) -> DataFusionError {
        let job = self.job.clone();
        let of_this = |ended: &Option<(JobId, String)>| {
            ended.as_ref().is_some_and(|(ended, _)| *ended == job)
        };
        // The sender lives as long as the limit.
        match self.ended.wait_for(of_this).await.ok().and_then(|ended| ended.clone()) {
            Some((_, error)) => DataFusionError::Execution(error),
            None => std::future::pending().await,
        }
    }

    /// Measures the folder once more, after the last file of the task.
    ///
    /// # Errors
    ///
    /// An execution error when its statement has taken too much.
    pub(super) async fn finish(self) -> Result<()> {
        self.limit.measure().await;
        match self.ended.borrow().as_ref() {
            Some((job, error)) if *job == self.job => {
                Err(DataFusionError::Execution(error.clone()))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for LimitedTask {
    fn drop(&mut self) {
        let mut running = self.limit.running.lock();
        let Some(tasks) = running.get_mut(&self.job) else { return };
        *tasks -= 1;
        if *tasks > 0 {
            return;
        }
        running.remove(&self.job);
        let took_too_much =
            self.ended.borrow().as_ref().is_some_and(|(ended, _)| *ended == self.job);
        if took_too_much {
            // Nobody reads the rows of a statement that failed; others need the place. The
            // scheduler has them removed as well, a little later.
            let _ = fs::remove_dir_all(self.limit.folder.join(self.job.as_str()));
        }
    }
}

/// The bytes of the files below a folder. Files that go meanwhile count nothing.
fn size_of(folder: &Path) -> u64 {
    let mut bytes = 0;
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        bytes += match entry.metadata() {
            Ok(found) if found.is_dir() => size_of(&entry.path()),
            Ok(found) if found.is_file() => found.len(),
            _ => 0,
        };
    }
    bytes
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
    fn a_bad_folder_says_what_to_change() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("file");
        fs::write(&file, "").unwrap();
        let error = WorkDir::create(Some(&file.join("sub"))).unwrap_err().to_string();
        assert!(error.contains("--work-dir"), "{error}");
    }

    #[tokio::test]
    async fn the_statement_that_has_most_of_a_full_folder_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let limit = WorkDirLimit::new(folder.path(), 1_000);
        let (small, large) = (JobId::new("small"), JobId::new("large"));
        for (job, bytes) in [("small", 100), ("large", 800), ("done", 50)] {
            fs::create_dir_all(folder.path().join(job).join("1/0")).unwrap();
            fs::write(folder.path().join(job).join("1/0/data.arrow"), vec![0; bytes]).unwrap();
        }
        let (of_small, mut of_large) = (limit.task(&small), limit.task(&large));
        limit.task(&large).finish().await.unwrap();
        // Spilled data count as well.
        fs::write(folder.path().join("spilled"), vec![0; 100]).unwrap();
        let watch = tokio::spawn(Arc::clone(&limit).watch());
        let error = of_large.too_much().await.to_string();
        for part in ["1050 bytes", "1000 of --work-dir-limit", folder.path().to_str().unwrap()] {
            assert!(error.contains(part), "{error}");
        }
        watch.abort();
        assert!(of_large.finish().await.is_err());
        // Its rows make room for others.
        assert!(!folder.path().join("large").exists());
        // A statement that does not run any more is not to blame.
        fs::remove_file(folder.path().join("spilled")).unwrap();
        of_small.finish().await.unwrap();
        assert!(limit.running.lock().is_empty());
    }
}
