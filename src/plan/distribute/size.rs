//! An estimate of the bytes of an input.

use std::fmt;
use std::sync::Arc;

use datafusion::execution::memory_pool::human_readable_size;
use datafusion::physical_plan::ExecutionPlan;

use crate::exec::expected;

/// An estimate in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct InputBytes(pub usize);

impl InputBytes {
    /// By the statistics of an input, or else by the files that it reads.
    pub(super) fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        expected::bytes(plan).map(Self)
    }
}

impl fmt::Display for InputBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&human_readable_size(self.0))
    }
}
