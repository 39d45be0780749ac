//! The answers of a build without the feature `ballista` where clusters are asked for.

use std::path::Path;
use std::sync::Arc;

use datafusion::common::{Result, not_impl_err};
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;

use super::operator::Operator;

/// The answer to what only a cluster does.
pub const MISSING: &str = "this simjoin was built without the feature ballista, which clusters need; \
                       build it with: cargo build --release --features ballista";

/// A session whose statements run on a cluster.
///
/// # Errors
///
/// Always: this build has no clusters.
pub fn connect(
    _scheduler: &str,
    _secret_file: Option<&Path>,
    _builder: SessionStateBuilder,
) -> Result<SessionContext> {
    not_impl_err!("{MISSING}")
}

/// Tells the cluster what the next statement is.
pub fn name_statement(_ctx: &SessionContext, _statement: &Statement) -> Result<()> {
    Ok(())
}

/// The phase of a statement on a cluster, of which there is none.
pub fn status(_plan: &Arc<dyn ExecutionPlan>) -> Option<String> {
    None
}

/// The stages of an EXPLAIN ANALYZE on a cluster.
pub fn stages(_plan: &Arc<dyn ExecutionPlan>) -> Vec<(String, Vec<Operator>)> {
    vec![]
}

/// Waits until the cluster knows that the statement is cancelled.
pub async fn cancelled(_plan: &Arc<dyn ExecutionPlan>) {}
