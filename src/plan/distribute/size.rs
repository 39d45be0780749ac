//! An estimate of the bytes of an input.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::memory_pool::human_readable_size;
use datafusion::physical_plan::ExecutionPlan;

use crate::plan::recognise::cost;

/// An estimate in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Size(pub usize);

impl Size {
    /// By the statistics of an input, or else by the files that it reads.
    pub(super) fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        let statistics = cost::statistics(plan);
        let bytes = statistics.and_then(|s| s.total_byte_size.get_value().copied());
        bytes.filter(|bytes| *bytes > 0).or_else(|| file_bytes(plan)).map(Self)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&human_readable_size(self.0))
    }
}

/// The bytes of all files that are read; `None` where something else is read as well.
fn file_bytes(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    let mut bytes = Some(0_u64);
    let visited = plan.apply(|plan| {
        if plan.children().is_empty() {
            let files = plan.downcast_ref::<DataSourceExec>().and_then(|scan| {
                let source: &dyn Any = scan.data_source().as_ref();
                let files = source.downcast_ref::<FileScanConfig>()?.file_groups.iter();
                Some(files.flat_map(|g| g.files()).map(|file| file.object_meta.size).sum::<u64>())
            });
            bytes = bytes.zip(files).map(|(sum, more)| sum.saturating_add(more));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    visited.ok()?;
    bytes.and_then(|bytes| usize::try_from(bytes).ok())
}
