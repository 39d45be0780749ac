//! Putting the similarity join into a session.

use std::any::Any;
use std::sync::Arc;

use datafusion::common::{Result, plan_err};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::QueryPlanner;
use datafusion::optimizer::Analyzer;

use crate::config::SimJoinOptions;
use crate::functions;
use crate::plan::{MarkSimilarityJoins, SimJoinQueryPlanner, marker_functions};

/// Adds the functions, the options, the analyzer rule and the query planner of the similarity
/// join to a session under construction.
///
/// What the builder has already is kept: other functions, rules and extension planners, and
/// options of `simjoin.*` that are set.
///
/// ```
/// use datafusion::execution::SessionStateBuilder;
/// use datafusion::prelude::*;
/// use datafusion_simjoin::install;
///
/// # fn main() -> datafusion::common::Result<()> {
/// let builder = SessionStateBuilder::new_with_default_features();
/// let ctx = SessionContext::new_with_state(install(builder)?.build());
/// # let _ = ctx;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// A plan error when the builder has a query planner of its own, which would have to be
/// replaced. Build [`SimJoinQueryPlanner`] with that planner's extension planners then, or call
/// [`SimJoinQueryPlanner::convert`] in it.
pub fn install(mut builder: SessionStateBuilder) -> Result<SessionStateBuilder> {
    if let Some(planner) = builder.query_planner()
        && !is_replaceable(planner)
    {
        return plan_err!(
            "the session has a query planner of its own ({planner:?}), which install would \
             replace; build the session with SimJoinQueryPlanner::new(extension planners) in its \
             place, or call SimJoinQueryPlanner::convert from it and add SimJoinPlanner to its \
             extension planners, and install the rest with install_parts"
        );
    }
    let planner = Arc::new(SimJoinQueryPlanner::new(vec![]));
    Ok(install_parts(builder).with_query_planner(planner))
}

/// Everything that [`install`] adds, except the query planner.
pub fn install_parts(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let config = builder.config().get_or_insert_default();
    if config.options().extensions.get::<SimJoinOptions>().is_none() {
        config.options_mut().extensions.insert(SimJoinOptions::default());
    }
    let analyzer = builder.analyzer().get_or_insert_with(Analyzer::new);
    let rule = MarkSimilarityJoins;
    let name = datafusion::optimizer::AnalyzerRule::name(&rule);
    if !analyzer.rules.iter().any(|r| r.name() == name) {
        analyzer.rules.push(Arc::new(rule));
    }
    builder
        .scalar_functions()
        .get_or_insert_default()
        .extend(functions::all().into_iter().chain(marker_functions()));
    builder
}

/// Whether a planner is DataFusion's default or this crate's own.
fn is_replaceable(planner: &Arc<dyn QueryPlanner + Send + Sync>) -> bool {
    let planner: &dyn Any = planner.as_ref();
    // The default planner's type is private: compare with that of a state that has it.
    let default = SessionStateBuilder::new().build();
    let default: &dyn Any = default.query_planner().as_ref();
    planner.is::<SimJoinQueryPlanner>() || planner.type_id() == default.type_id()
}
