//! Work done once for all partitions of an execution, after DataFusion's `OnceAsync`.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;

/// The shared result of a computation that several partitions wait for.
pub(crate) type OnceFut<T> = Shared<BoxFuture<'static, Result<Arc<T>, Arc<DataFusionError>>>>;

/// Shares the result of `future`.
pub(crate) fn once_fut<T>(future: impl Future<Output = Result<T>> + Send + 'static) -> OnceFut<T>
where
    T: Send + Sync + 'static,
{
    future.map(|made| made.map(Arc::new).map_err(Arc::new)).boxed().shared()
}

/// A computation done once in each execution of a plan, by the partition that is polled first. `S`
/// is state that the partitions share from the beginning of the execution.
pub(crate) struct OnceExecution<T, S = ()> {
    run: Mutex<Option<Execution<T, S>>>,
}

struct Execution<T, S> {
    future: OnceFut<T>,
    shared: S,
    /// By partition, whether it has claimed the execution.
    claimed: Vec<bool>,
}

impl<T, S> Default for OnceExecution<T, S> {
    fn default() -> Self {
        Self { run: Mutex::new(None) }
    }
}

impl<T, S> fmt::Debug for OnceExecution<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnceExecution").finish_non_exhaustive()
    }
}

impl<T: Send + Sync + 'static> OnceExecution<T> {
    /// Returns the future of this execution, see [`Self::get_with`].
    pub(crate) fn get<F>(
        &self,
        partition: usize,
        partitions: usize,
        make: impl FnOnce() -> Result<F>,
    ) -> Result<OnceFut<T>>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        Ok(self.get_with(partition, partitions, || Ok((make()?, ())))?.0)
    }
}

impl<T: Send + Sync + 'static, S: Clone> OnceExecution<T, S> {
    /// Returns the future and the shared state of this execution; starts a new execution when
    /// `partition`, of `partitions`, has already claimed the current one. The state is dropped here
    /// once every partition has claimed it.
    pub(crate) fn get_with<F>(
        &self,
        partition: usize,
        partitions: usize,
        make: impl FnOnce() -> Result<(F, S)>,
    ) -> Result<(OnceFut<T>, S)>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let mut run = self.run.lock();
        let mut current = match run.take() {
            Some(run) if run.claimed.get(partition) == Some(&false) => run,
            _ => {
                let (future, shared) = make()?;
                Execution { future: once_fut(future), shared, claimed: vec![false; partitions] }
            }
        };
        if let Some(claimed) = current.claimed.get_mut(partition) {
            *claimed = true;
        }
        let had = (current.future.clone(), current.shared.clone());
        if !current.claimed.iter().all(|&claimed| claimed) {
            *run = Some(current);
        }
        Ok(had)
    }
}
