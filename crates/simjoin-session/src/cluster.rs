//! Statements of a session that a cluster runs.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ballista_core::config::{BALLISTA_JOB_NAME, BallistaConfig};
use datafusion::common::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use indicatif::HumanCount;
use simjoin_ballista::client::{self, ClusterQueryExec, JobPhase, StageOperator};
use simjoin_ballista::{Access, Secret};

use super::operator::Operator;

/// A session whose statements run on a cluster.
pub fn connect(
    scheduler: &str,
    secret_file: Option<&Path>,
    builder: SessionStateBuilder,
) -> Result<SessionContext> {
    let access = match secret_file {
        Some(file) => Access::Secret(Secret::read(file)?),
        None => Access::Account,
    };
    client::connect_with(scheduler, &access, builder)
}

/// Characters of a statement's text that a cluster hears.
const TEXT_TOLD: usize = 500;

/// Tells the cluster what the next statement of a session is, for lists of statements.
pub fn name_statement(ctx: &SessionContext, statement: &Statement) -> Result<()> {
    let state = ctx.state_ref();
    let mut state = state.write();
    let options = state.config_mut().options_mut();
    if options.extensions.get::<BallistaConfig>().is_none() {
        return Ok(());
    }
    let text: String = statement.to_string().chars().take(TEXT_TOLD).collect();
    options.set(BALLISTA_JOB_NAME, &text)
}

/// The phase of a statement on a cluster, as a line for the user.
pub fn status(plan: &Arc<dyn ExecutionPlan>) -> Option<String> {
    let query = plan.downcast_ref::<ClusterQueryExec>()?;
    Some(match query.job().phase() {
        JobPhase::Waiting => "waiting for the cluster".to_string(),
        JobPhase::Running { stages_done: 0, .. } => "running the first stage".to_string(),
        JobPhase::Running { stages_done, rows } => format!(
            "running: {stages_done} stage(s) done, {} rows out of the last",
            HumanCount(rows as u64)
        ),
        JobPhase::Fetching { rows, of } => {
            format!("fetching: {} of {} rows", HumanCount(rows as u64), HumanCount(of as u64))
        }
        JobPhase::Ended => "done".to_string(),
    })
}

/// The stages of an EXPLAIN ANALYZE, with their names, once it has given its rows; none of other
/// statements.
pub fn stages(plan: &Arc<dyn ExecutionPlan>) -> Vec<(String, Vec<Operator>)> {
    let Some(query) = plan.downcast_ref::<ClusterQueryExec>() else { return vec![] };
    let operator = |StageOperator { depth, description, metrics }: StageOperator| Operator {
        depth,
        description,
        metrics,
    };
    let stages = query.stages().into_iter();
    stages.map(|of| (of.name, of.operators.into_iter().map(operator).collect())).collect()
}

/// The time that a cluster may take to hear that a statement is cancelled.
const CANCEL_PATIENCE: Duration = Duration::from_secs(3);

/// Waits until the cluster knows that the statement is cancelled.
pub async fn cancelled(plan: &Arc<dyn ExecutionPlan>) {
    if let Some(query) = plan.downcast_ref::<ClusterQueryExec>() {
        let _ = tokio::time::timeout(CANCEL_PATIENCE, query.job().ended()).await;
    }
}
