//! Something that the partitions of an operator wait for together.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;

/// What is being made.
pub(crate) type Making<T> = Shared<BoxFuture<'static, Result<Arc<T>, Arc<DataFusionError>>>>;

/// What `future` makes, for several to wait for.
pub(crate) fn making<T>(future: impl Future<Output = Result<T>> + Send + 'static) -> Making<T>
where
    T: Send + Sync + 'static,
{
    future.map(|made| made.map(Arc::new).map_err(Arc::new)).boxed().shared()
}

/// Made once in each execution of a plan, by whichever partition is polled first. `S` is what the
/// partitions share from the beginning on.
pub(crate) struct Once<T, S = ()> {
    run: Mutex<Option<Run<T, S>>>,
}

struct Run<T, S> {
    making: Making<T>,
    shared: S,
    /// The partitions that have it.
    taken: Vec<bool>,
}

impl<T, S> Default for Once<T, S> {
    fn default() -> Self {
        Self { run: Mutex::new(None) }
    }
}

impl<T, S> fmt::Debug for Once<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").finish_non_exhaustive()
    }
}

impl<T: Send + Sync + 'static> Once<T> {
    /// That of the execution that `partition` of `partitions` belongs to, see [`Self::get_with`].
    pub fn get<F>(
        &self,
        partition: usize,
        partitions: usize,
        make: impl FnOnce() -> Result<F>,
    ) -> Result<Making<T>>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        Ok(self.get_with(partition, partitions, || Ok((make()?, ())))?.0)
    }
}

impl<T: Send + Sync + 'static, S: Clone> Once<T, S> {
    /// That of the execution that `partition` of `partitions` belongs to: a new one where it
    /// already has its share of the last. Once all partitions have it, only they keep it alive.
    pub fn get_with<F>(
        &self,
        partition: usize,
        partitions: usize,
        make: impl FnOnce() -> Result<(F, S)>,
    ) -> Result<(Making<T>, S)>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let mut run = self.run.lock();
        let mut current = match run.take() {
            Some(run) if run.taken.get(partition) == Some(&false) => run,
            _ => {
                let (future, shared) = make()?;
                Run { making: making(future), shared, taken: vec![false; partitions] }
            }
        };
        if let Some(taken) = current.taken.get_mut(partition) {
            *taken = true;
        }
        let had = (current.making.clone(), current.shared.clone());
        if !current.taken.iter().all(|&taken| taken) {
            *run = Some(current);
        }
        Ok(had)
    }
}
