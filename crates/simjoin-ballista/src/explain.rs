//! EXPLAIN on a scheduler.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{Result, internal_err};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::{ExecutionPlan, collect};

use datafusion_simjoin::families;
use datafusion_simjoin::plan::SimJoinQueryPlanner;
use simjoin_files::storage;

/// The planner of a scheduler's sessions: [`SimJoinQueryPlanner`], with an EXPLAIN that shows the
/// plan which the stages are cut from.
///
/// Ballista plans in two steps, and explains a plan after the first, in which no stage can be seen
/// yet. Here an EXPLAIN is run where it is planned, with all of DataFusion's rules, and its rows
/// are what the cluster gives back. Stages end below `CoalescePartitionsExec`, `RepartitionExec`
/// by hash and `SortPreservingMergeExec`.
#[derive(Debug)]
pub(super) struct SchedulerPlanner(SimJoinQueryPlanner);

impl SchedulerPlanner {
    pub(super) fn new() -> Self {
        Self(SimJoinQueryPlanner::new(families(), vec![]))
    }
}

#[async_trait]
impl QueryPlanner for SchedulerPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !matches!(plan, LogicalPlan::Explain(_)) {
            let planned = self.0.create_physical_plan(plan, session).await;
            return planned.map_err(storage::without_layers);
        }
        let Some(state) = session.as_any().downcast_ref::<SessionState>() else {
            return internal_err!("a scheduler's session is no SessionState");
        };
        let state = SessionStateBuilder::new_from_existing(state.clone())
            .with_physical_optimizer_rules(PhysicalOptimizer::new().rules)
            .build();
        let explain = self.0.create_physical_plan(plan, &state).await;
        let explain = explain.map_err(storage::without_layers)?;
        let schema = explain.schema();
        let rows = collect(explain, state.task_ctx()).await?;
        Ok(MemorySourceConfig::try_new_exec(&[rows], schema, None)?)
    }
}
