//! Tasks that share the work of a search.

use std::fmt::Display;

use datafusion::common::runtime::JoinSet;
use datafusion::common::{DataFusionError, Result, internal_datafusion_err};

/// The results of tasks, in the order in which they end. The first error ends the others.
///
/// # Errors
///
/// The error of a task; an internal one where a task was ended.
pub(super) async fn all_of<T: 'static>(mut tasks: JoinSet<Result<T>>) -> Result<Vec<T>> {
    let mut results = Vec::with_capacity(tasks.len());
    while let Some(ended) = tasks.join_next().await {
        results.push(ended.map_err(was_ended)??);
    }
    Ok(results)
}

/// The error of a task that was ended, or that panicked.
pub(super) fn was_ended(error: impl Display) -> DataFusionError {
    internal_datafusion_err!("a task of NEAREST ended: {error}")
}
