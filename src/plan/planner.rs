//! The query planner: DataFusion's own, with similarity joins converted first.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::{Explain, Join, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};

use super::distribute::ClusterPlanning;
use super::physical::SimJoinPlanner;
use crate::config::SimJoinOptions;
use crate::exec::{ReadOnceExec, expected};
use crate::families::Families;
use crate::plan::readings::is_deterministic;
use crate::plan::recognise::context::Context;
use crate::plan::recognise::convert::{concerns, convert};
use crate::plan::recognise::cost;
use crate::plan::recognise::cost::OperatorChoice;
use crate::plan::recognise::predicate::Constants;
use crate::plan::relations::connect_pairs;
use crate::plan::rewrite::best::limit_joins;
use crate::plan::rewrite::counts::push_into_joins;
use crate::plan::rewrite::scores::take_from_match;
use crate::plan::rewrite::self_join::share_inputs;

/// Plans queries as DataFusion does, and similarity joins with the operator.
pub struct SimJoinQueryPlanner {
    planner: DefaultPhysicalPlanner,
    families: Families,
}

impl SimJoinQueryPlanner {
    /// A planner of joins by functions of `families`, which also knows the extension nodes of
    /// `extra`; these go before the crate's own.
    pub fn new(families: Families, extra: Vec<Arc<dyn ExtensionPlanner + Send + Sync>>) -> Self {
        let mut planners = extra;
        planners.push(Arc::new(SimJoinPlanner::new(families.clone())));
        Self { planner: DefaultPhysicalPlanner::with_extension_planners(planners), families }
    }

    /// `plan` with the operator's nodes in place of the joins that it runs.
    ///
    /// # Errors
    ///
    /// A plan error when a SIMJOIN cannot be run by the operator.
    pub async fn convert(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<LogicalPlan> {
        let failed_explain = matches!(
            plan,
            LogicalPlan::Explain(Explain { logical_optimization_succeeded: false, .. })
        );
        if failed_explain || !concerns(plan, &self.families)? {
            return Ok(plan.clone());
        }
        let options = SimJoinOptions::of(session.config_options());
        let context = Context {
            options: &options,
            families: &self.families,
            constants: Constants {
                props: session.execution_props(),
                config: session.config().options(),
            },
            explain: matches!(plan, LogicalPlan::Explain(_) | LogicalPlan::Analyze(_)),
            is_deterministic,
            reads_once: ClusterPlanning::tasks_of(session.config()).is_none(),
        };
        // The choice against a hash join needs statistics, which only physical plans have. Each
        // round decides the joins whose inputs are final, so the rounds end with the innermost
        // undecided joins' ancestors.
        let mut choices: HashMap<Join, OperatorChoice> = HashMap::new();
        let converted = loop {
            let converted = convert(plan.clone(), context, &choices)?;
            if converted.undecided.is_empty() {
                break converted.plan;
            }
            for join in converted.undecided {
                let choice = self.choose(&join, &options, session).await;
                choices.insert(join, choice);
            }
        };
        let shared = share_inputs(
            push_into_joins(take_from_match(converted, &self.families)?)?,
            options.self_join,
        )?;
        limit_joins(connect_pairs(shared)?)
    }

    async fn choose(
        &self,
        join: &Join,
        options: &SimJoinOptions,
        session: &dyn Session,
    ) -> OperatorChoice {
        let mut statistics = [None, None];
        for (input, statistics) in [&join.left, &join.right].into_iter().zip(&mut statistics) {
            // An input that cannot be planned by itself, as one with a reference to an outer
            // query, has no statistics; if it cannot be planned at all, the query says so later.
            *statistics = match self.planner.create_physical_plan(input, session).await {
                Ok(input) => expected::statistics(&input),
                Err(_) => None,
            };
        }
        let [left, right] = &statistics;
        let (left, right) = cost::keys_of(join, [left.as_deref(), right.as_deref()]);
        cost::choose(left, right, options.hash_join_rows_per_key)
    }
}

impl fmt::Debug for SimJoinQueryPlanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimJoinQueryPlanner").finish_non_exhaustive()
    }
}

#[async_trait]
impl QueryPlanner for SimJoinQueryPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.convert(plan, session).await?;
        ReadOnceExec::link(self.planner.create_physical_plan(&plan, session).await?)
    }
}
