//! The cores of the process that runs a plan.

use datafusion::prelude::SessionConfig;

use crate::operator::tuning::tuning_of;
use crate::util::parallel::Threads;

/// The cores that a process has for its tasks, as an extension of their session's configuration.
///
/// Within one process a session's target partitions say how many threads may work. On a cluster
/// they count the tasks of all processes, and an executor states its own cores here.
///
/// ```
/// use std::sync::Arc;
///
/// use datafusion::prelude::SessionConfig;
/// use datafusion_simjoin::exec::ProcessCores;
///
/// let config = SessionConfig::new().with_target_partitions(64);
/// assert_eq!(ProcessCores::threads(&config), 64);
/// let config = config.with_extension(Arc::new(ProcessCores(4)));
/// assert_eq!(ProcessCores::threads(&config), 4);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessCores(pub usize);

impl ProcessCores {
    /// The number of threads that a task of this session may keep busy, at least 1.
    pub fn threads(config: &SessionConfig) -> usize {
        let cores = config.get_extension::<Self>().map_or(usize::MAX, |cores| cores.0);
        config.target_partitions().min(cores).max(1)
    }

    /// These threads, with the tuning of the session.
    pub(crate) fn of(config: &SessionConfig) -> Threads {
        Threads::new(Self::threads(config), tuning_of(config))
    }
}
