//! The planner of sessions whose statements read and write local files.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::listing::ListingTable;
use datafusion::datasource::{TableProvider, source_as_provider};
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;

use super::check::{Files, is_of_content};
use super::forget_files;
use super::pipes::Pipes;
use super::reading::FileName;
use super::source::watch_scans;
use super::text::Rule;
use crate::storage;

/// A planner that checks the files of a statement before it is planned, and watches them while it
/// runs.
pub struct FilePlanner {
    inner: Arc<dyn QueryPlanner + Send + Sync>,
    pipes: Arc<Pipes>,
    /// Whether the plan runs in this process.
    runs_here: bool,
}

impl FilePlanner {
    /// A planner of statements that run where they are planned.
    pub fn new(inner: Arc<dyn QueryPlanner + Send + Sync>, pipes: &Arc<Pipes>) -> Self {
        Self { inner, pipes: Arc::clone(pipes), runs_here: true }
    }

    /// A planner of statements that other processes run, which watch their parts of the plan.
    pub fn for_others(inner: Arc<dyn QueryPlanner + Send + Sync>) -> Self {
        Self { inner, pipes: Arc::new(Pipes::of_others()), runs_here: false }
    }
}

impl fmt::Debug for FilePlanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FilePlanner").field(&self.inner).finish()
    }
}

#[async_trait]
impl QueryPlanner for FilePlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !self.runs_here {
            // There, statements of a session have no beginning but this.
            forget_files(session.runtime_env());
        }
        let tables = tables(plan)?;
        let mut rules = vec![];
        for table in tables.iter().filter_map(as_files) {
            let files = Files::of_table(table, session).await.map_err(storage::without_layers)?;
            files.check(session, &self.pipes).await?;
            rules.extend(Rule::of(table, files.list())?);
        }
        let planned = self.inner.create_physical_plan(plan, session);
        match FileName::given("files").wait_caught(planned).await {
            Ok(plan) if self.runs_here => watch_scans(plan, &self.pipes, &rules),
            Ok(plan) => Ok(plan),
            Err(error) => Err(self.with_name(error, &tables, session).await),
        }
    }
}

impl FilePlanner {
    /// The error with the name of the file where a reader has given it.
    async fn with_name(
        &self,
        error: DataFusionError,
        tables: &[Arc<dyn TableProvider>],
        session: &dyn Session,
    ) -> DataFusionError {
        if !is_of_content(&error) {
            return error;
        }
        for table in tables.iter().filter_map(as_files) {
            if let Ok(files) = Files::of_table(table, session).await
                && let Some(named) = files.first_error(session, &self.pipes).await
            {
                return named;
            }
        }
        error
    }
}

fn as_files(table: &Arc<dyn TableProvider>) -> Option<&ListingTable> {
    table.downcast_ref::<ListingTable>()
}

/// The tables that a plan reads.
fn tables(plan: &LogicalPlan) -> Result<Vec<Arc<dyn TableProvider>>> {
    let mut found: Vec<Arc<dyn TableProvider>> = vec![];
    plan.apply_with_subqueries(|plan| {
        if let LogicalPlan::TableScan(scan) = plan
            && let Ok(table) = source_as_provider(&scan.source)
            && !found.iter().any(|other| Arc::ptr_eq(other, &table))
        {
            found.push(table);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}
