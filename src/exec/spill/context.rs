//! The context of a join on disk.

use std::sync::Arc;

use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;

use super::choices::AllChoices;
use super::plan::StoredPlan;
use crate::config::SimJoinOptions;
use crate::exec::build::BuildPlan;
use crate::exec::metrics::DiskMetrics;

/// The resources and limits of a join on disk.
pub(crate) struct SpillContext {
    /// The build of the join over its inputs.
    pub build: BuildPlan,
    /// The join over stored rows.
    pub plan: StoredPlan,
    pub options: SimJoinOptions,
    pub task: Arc<TaskContext>,
    pub metrics: DiskMetrics,
    pub plan_metrics: ExecutionPlanMetricsSet,
    /// The choices for the pieces that have been joined.
    pub choices: AllChoices,
}
