//! The folder of an executor's files, and how much they may take.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ballista_core::JobId;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::reason::WORK_DIR_LIMIT;
use simjoin_files::storage::ProcessDir;

/// The start of the names of executors' folders.
const PREFIX: &str = "simjoin-executor-";

/// Makes the folder of an executor in `parent`, or else in the system's folder of temporary files.
///
/// # Errors
///
/// An execution error for a place that cannot be written.
pub(super) fn create(parent: Option<&Path>) -> Result<ProcessDir> {
    let parent = match parent {
        Some(parent) => parent.to_path_buf(),
        None => std::env::temp_dir(),
    };
    let folder = fs::create_dir_all(&parent).and_then(|()| ProcessDir::create(&parent, PREFIX));
    folder.map_err(|e| {
        exec_datafusion_err!(
            "the work folder {} cannot be written: {e}; choose another --work-dir",
            parent.display()
        )
    })
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

/// The wait between two measurements of the folder while tasks run.
const MEASURE_WAIT: Duration = Duration::from_millis(100);

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
    fn a_bad_folder_says_what_to_change() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("file");
        fs::write(&file, "").unwrap();
        let error = create(Some(&file.join("sub"))).unwrap_err().to_string();
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
