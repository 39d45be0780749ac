//! The rows that an input is expected to have, before they are read.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use datafusion::common::Statistics;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

use crate::engine::ProbeRows;

/// Statistics of a plan for the whole of its output, `None` where it has none.
pub(crate) fn statistics(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<Statistics>> {
    let context = StatisticsContext::new();
    // A plan without statistics may say so by an error; that must not fail the query.
    context.compute(plan.as_ref(), &StatisticsArgs::new()).ok()
}

/// An estimate of the bytes of an input, by its statistics, or else by the files that it reads.
pub(crate) fn bytes(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    let statistics = statistics(plan);
    let bytes = statistics.and_then(|s| s.total_byte_size.get_value().copied());
    bytes.filter(|bytes| *bytes > 0).or_else(|| file_bytes(plan))
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

/// The rows that the probe side of a join is expected to have.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) enum Expected {
    /// Nothing is known, or the probe side is the build side.
    #[default]
    Unknown,
    /// So many, by statistics of the plan or as stored.
    Rows(u64),
    /// So many for each row of the build side, by the bytes of both.
    PerBuildRow(f64),
}

impl Expected {
    /// The rows expected of the inputs of two sides, of which `partitions` partitions are joined apart.
    pub(crate) fn of(
        probe: &Arc<dyn ExecutionPlan>,
        build: &Arc<dyn ExecutionPlan>,
        partitions: usize,
    ) -> Self {
        let rows = statistics(probe).and_then(|s| s.num_rows.get_value().copied());
        if let Some(rows) = rows {
            return Self::Rows(rows.div_ceil(partitions.max(1)) as u64);
        }
        match bytes(probe).zip(bytes(build)) {
            Some((probe, build)) if probe > 0 && build > 0 => {
                Self::PerBuildRow(probe as f64 / build as f64)
            }
            _ => Self::Unknown,
        }
    }

    /// The probe rows expected beside a build side of so many rows.
    pub(crate) fn rows(self, build_rows: usize) -> ProbeRows {
        match self {
            Self::Unknown => ProbeRows::UNKNOWN,
            Self::Rows(rows) => ProbeRows::expected(rows),
            Self::PerBuildRow(each) => ProbeRows::expected((each * build_rows as f64) as u64),
        }
    }
}

/// Says by what the number of rows is expected.
impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "as many as build rows, for want of statistics",
            Self::Rows(_) => "by statistics",
            Self::PerBuildRow(_) => "by the bytes of both sides",
        })
    }
}
