//! Something that the partitions of an operator wait for together.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;

/// What is being made.
pub(super) type Making<T> = Shared<BoxFuture<'static, Result<Arc<T>, Arc<DataFusionError>>>>;

/// Made once in each execution of a plan, by whichever partition is polled first.
pub(super) struct Once<T> {
    run: Mutex<Option<Run<T>>>,
}

struct Run<T> {
    making: Making<T>,
    /// The partitions that have it.
    taken: Vec<bool>,
}

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self { run: Mutex::new(None) }
    }
}

impl<T> fmt::Debug for Once<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").finish_non_exhaustive()
    }
}

impl<T: Send + Sync + 'static> Once<T> {
    /// That of the execution that `partition` of `partitions` belongs to: a new one where it
    /// already has its share of the last. Once all partitions have it, only they keep it alive.
    pub fn get<F>(
        &self,
        partition: usize,
        partitions: usize,
        make: impl FnOnce() -> Result<F>,
    ) -> Result<Making<T>>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let mut run = self.run.lock();
        let mut current = match run.take() {
            Some(run) if run.taken.get(partition) == Some(&false) => run,
            _ => {
                let making = make()?.map(|made| made.map(Arc::new).map_err(Arc::new));
                Run { making: making.boxed().shared(), taken: vec![false; partitions] }
            }
        };
        if let Some(taken) = current.taken.get_mut(partition) {
            *taken = true;
        }
        let making = current.making.clone();
        if !current.taken.iter().all(|&taken| taken) {
            *run = Some(current);
        }
        Ok(making)
    }
}
