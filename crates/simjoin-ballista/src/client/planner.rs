//! Plans statements for the cluster or for this process.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use ballista_core::planner::scans_only_information_schema;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{Analyze, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};

use super::query::ClusterQueryExec;
use crate::address::SchedulerAddress;

/// Plans a statement as one operator that has the cluster run it.
///
/// Statements about this session (`DESCRIBE`, `SHOW`, `information_schema`), and those without any
/// table, are planned and run in this process.
pub struct ClusterPlanner {
    scheduler: SchedulerAddress,
    local: DefaultPhysicalPlanner,
}

impl ClusterPlanner {
    /// A planner that sends statements to `scheduler`.
    pub fn new(scheduler: SchedulerAddress) -> Self {
        Self { scheduler, local: DefaultPhysicalPlanner::default() }
    }
}

impl fmt::Debug for ClusterPlanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterPlanner").field("scheduler", &self.scheduler).finish()
    }
}

#[async_trait]
impl QueryPlanner for ClusterPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let is_local =
            matches!(plan, LogicalPlan::EmptyRelation(_) | LogicalPlan::DescribeTable(_))
                || scans_only_information_schema(plan)?;
        if is_local {
            return self.local.create_physical_plan(plan, session).await;
        }
        let (query, analyzed) = match plan {
            LogicalPlan::Analyze(Analyze { input, schema, .. }) => {
                (input.as_ref().clone(), Some(Arc::clone(schema.inner())))
            }
            LogicalPlan::Copy(copy) => (LogicalPlan::Copy(to_absolute(copy.clone())), None),
            plan => (plan.clone(), None),
        };
        let scheduler = self.scheduler.clone();
        Ok(Arc::new(ClusterQueryExec::new(scheduler, query, analyzed, session.session_id())))
    }
}

/// A file name is relative to the folder of this process, not to those of the cluster's.
fn to_absolute(mut copy: CopyTo) -> CopyTo {
    if !copy.output_url.contains("://")
        && let Ok(path) = std::path::absolute(&copy.output_url)
        && let Some(path) = path.to_str()
    {
        // A folder's name ends with a slash.
        let slash = if copy.output_url.ends_with('/') { "/" } else { "" };
        copy.output_url = format!("{}{slash}", path.trim_end_matches('/'));
    }
    copy
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use datafusion::datasource::file_format::csv::CsvFormatFactory;
    use datafusion::datasource::file_format::format_as_file_type;
    use datafusion::logical_expr::LogicalPlanBuilder;

    use super::*;

    #[test]
    fn files_are_written_where_the_client_is() {
        let target = |url: &str| {
            let input = LogicalPlanBuilder::empty(true).build().unwrap();
            let format = format_as_file_type(Arc::new(CsvFormatFactory::new()));
            let (url, options) = (url.to_string(), HashMap::new());
            to_absolute(CopyTo::new(Arc::new(input), url, vec![], format, options)).output_url
        };
        let here = std::env::current_dir().unwrap().display().to_string();
        assert_eq!(target("x.csv"), format!("{here}/x.csv"));
        assert_eq!(target("x/"), format!("{here}/x/"));
        assert_eq!(target("/a/b.csv"), "/a/b.csv");
        assert_eq!(target("file:///a/b.csv"), "file:///a/b.csv");
    }
}
