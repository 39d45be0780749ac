//! Files of rows, and the reasons why one cannot be written.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::spill_file::SpillFile;
use datafusion::physical_plan::SpillManager;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};

use super::checked;

/// Writes and reads files with rows of `schema`, whose bytes are checked.
///
/// # Errors
///
/// When the session's disk manager cannot be used.
pub(crate) fn spill_manager(
    task: &TaskContext,
    metrics: &ExecutionPlanMetricsSet,
    schema: SchemaRef,
) -> Result<SpillManager> {
    let compression = task.session_config().spill_compression();
    let checked = checked::environment(&task.runtime_env())?;
    let metrics = SpillMetrics::new(metrics, 0);
    Ok(SpillManager::new(checked, metrics, schema).with_compression_type(compression))
}

/// A file that is being written: adds a batch and gives its bytes in memory, or without one ends
/// the file.
pub(super) type OpenFile = Box<dyn FnMut(Option<&RecordBatch>) -> Result<WriteOutcome> + Send>;

/// The outcome of a call of an [`OpenFile`].
pub(super) enum WriteOutcome {
    Batch(usize),
    End(Option<Arc<dyn SpillFile>>),
}

/// Opens a file.
///
/// # Errors
///
/// When the disk manager makes none.
pub(super) fn open_file(manager: &SpillManager) -> Result<OpenFile> {
    // The file's own type cannot be named outside of DataFusion.
    let mut file = manager.create_in_progress_file("SetSimilarityJoin")?;
    Ok(Box::new(move |batch| match batch {
        Some(batch) => file.append_batch(batch).map(WriteOutcome::Batch),
        None => file.finish().map(WriteOutcome::End),
    }))
}

/// The files and rows of an input that have been written.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct WriteProgress {
    pub files: usize,
    pub rows: u64,
    /// Before compression.
    pub bytes: u64,
}

/// The error of a file, with how far spilling came when the disk had no more room.
pub(super) fn disk_error(error: DataFusionError, written: &WriteProgress) -> DataFusionError {
    // The limit reaches us as an error of the file.
    let (message, cause) = match error.find_root() {
        DataFusionError::ArrowError(error, _) => match &**error {
            ArrowError::IoError(message, error) => (message.as_str(), Some(error)),
            _ => ("", None),
        },
        DataFusionError::IoError(error) => ("", Some(error)),
        _ => ("", None),
    };
    if cause.is_some_and(are_too_many_files) {
        return error.context(format!(
            "a similarity join that does not fit into the memory limit keeps its inputs on \
             disk, and {} files of this one are all that the system lets this process open: \
             raise that limit (ulimit -n), or the memory limit, which makes fewer of them",
            written.files
        ));
    }
    let full = message.contains("exceeded the allowable limit")
        || cause.is_some_and(|error| error.kind() == ErrorKind::StorageFull);
    let error = match full {
        true => DataFusionError::ResourcesExhausted(error.strip_backtrace()),
        false => error,
    };
    error.context(format!(
        "a similarity join that does not fit into the memory limit keeps its inputs on disk, \
         and could not write more than {} rows ({} bytes before compression) of this one; \
         give it more room with --disk-limit (datafusion.runtime.max_temp_directory_size) or \
         another datafusion.runtime.temp_directory, or raise the memory limit",
        written.rows, written.bytes
    ))
}

/// Whether the process has as many files open as it may have.
fn are_too_many_files(error: &io::Error) -> bool {
    // EMFILE on Linux and macOS; the standard library has no kind for it.
    cfg!(unix) && error.raw_os_error() == Some(24)
}
