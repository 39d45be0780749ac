//! Putting the similarity join into a session.

use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::config::Dialect;
use datafusion::common::{JoinType, Result, plan_err};
use datafusion::dataframe::DataFrame;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{Expr, LogicalPlan, ScalarUDF};
use datafusion::optimizer::{Analyzer, Optimizer};
use datafusion::physical_expr::expressions::CastExpr;
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::dialect::{GenericDialect, dialect_from_str};

use crate::config::SimJoinOptions;
use crate::engine::Origin;
use crate::families::{Families, Member};
use crate::functions::{
    self, ExpandCosineSimilarity, measure_of, metric_of, string_function_of, text_source,
    vector_function, weighted_measure_of,
};
pub use crate::plan::recognise::unanalyzed::restored;
use crate::plan::{
    KeepUnanalyzed, LiftConditions, MarkSimilarityJoins, NumberAliases, PairFunction,
    PairFunctionPlanner, RestoreUnanalyzed, SimJoinQueryPlanner, insist, internal_functions,
};
use crate::set::{Measure, SetFamily};
use crate::sql::{restore_definition, rewrite_sql_with_dialect};
use crate::string::{StringFamily, StringFunction};
use crate::vector::{Metric, VectorFamily};
use crate::weighted::{WeightedFamily, WeightedMeasure};

/// Adds the functions, the options, the analyzer and optimizer rules and the query planner of the
/// similarity join to a session under construction.
///
/// Keeps the parts that the builder has already: other functions, rules and extension planners, and
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
/// A plan error when the builder has a query planner of its own, which would have to be replaced.
/// Build [`SimJoinQueryPlanner`] with [`families`] and that planner's extension planners then, or
/// call [`SimJoinQueryPlanner::convert`] in it.
pub fn install(mut builder: SessionStateBuilder) -> Result<SessionStateBuilder> {
    if let Some(planner) = builder.query_planner()
        && !is_replaceable(planner)
    {
        return plan_err!(
            "the session has a query planner of its own ({planner:?}), which install would \
             replace; build the session with SimJoinQueryPlanner::new(families(), extension planners) in its \
             place, or call SimJoinQueryPlanner::convert from it and add SimJoinPlanner to its \
             extension planners, and install the rest with install_parts"
        );
    }
    install_families(builder, families())
}

/// The family of sets, with strategies on GPUs and those that only comparisons run, where the build has them.
pub(crate) fn sets() -> SetFamily {
    let family = SetFamily::default();
    #[cfg(feature = "gpu")]
    let family = family.with_devices(simjoin_gpu::set::STRATEGIES);
    #[cfg(feature = "gpu")]
    let family = family.with_comparisons(simjoin_published::OF_SETS);
    family
}

/// The family of texts, in the same way.
pub(crate) fn texts() -> StringFamily {
    let family = StringFamily::default();
    #[cfg(feature = "gpu")]
    let family = family.with_devices(simjoin_gpu::string::STRATEGIES);
    family
}

/// The family of vectors, in the same way.
pub(crate) fn vectors() -> VectorFamily {
    let family = VectorFamily::new(vector_function);
    #[cfg(feature = "gpu")]
    let family = {
        let nearest = Some(simjoin_gpu::vector::NEAREST);
        family.with_devices(simjoin_gpu::vector::STRATEGIES, nearest)
    };
    #[cfg(feature = "gpu")]
    let family = family.with_comparisons(simjoin_published::OF_DISTANCES);
    family
}

/// The families of similarities of every session: sets of tokens, weighted sets, texts, and vectors.
pub fn families() -> Families {
    Families::new([
        Member {
            family: Arc::new(sets()),
            function_of: |udf| measure_of(udf).map(Measure::function),
            source_of: |argument, _| {
                let (text, tokenizer) = text_source(argument)?;
                Some((text, Origin::Computed(Arc::new(tokenizer))))
            },
        },
        Member {
            family: Arc::new(WeightedFamily),
            function_of: |udf| weighted_measure_of(udf).map(WeightedMeasure::function),
            source_of: |_, _| None,
        },
        Member {
            family: Arc::new(texts()),
            function_of: |udf| string_function_of(udf).map(StringFunction::function),
            source_of: |_, _| None,
        },
        Member {
            family: Arc::new(vectors()),
            function_of: |udf| metric_of(udf).map(Metric::function),
            source_of: |argument, schema| {
                let cast = argument.downcast_ref::<CastExpr>()?;
                let data_type = cast.expr().data_type(schema).ok()?;
                Some((Arc::clone(cast.expr()), Origin::Cast(data_type)))
            },
        },
    ])
}

/// [`install`] with other families.
pub(crate) fn install_families(
    builder: SessionStateBuilder,
    families: Families,
) -> Result<SessionStateBuilder> {
    let planner = Arc::new(SimJoinQueryPlanner::new(families.clone(), vec![]));
    Ok(install_parts_of(builder, families)?.with_query_planner(planner))
}

/// Everything that [`install`] adds, except the query planner.
///
/// # Errors
///
/// A plan error when the builder has another function under a name that one of ours has.
pub fn install_parts(builder: SessionStateBuilder) -> Result<SessionStateBuilder> {
    install_parts_of(builder, families())
}

fn install_parts_of(
    mut builder: SessionStateBuilder,
    families: Families,
) -> Result<SessionStateBuilder> {
    let config = builder.config().get_or_insert_default();
    if config.options().extensions.get::<SimJoinOptions>().is_none() {
        config.options_mut().extensions.insert(SimJoinOptions::default());
    }
    let analyzer = builder.analyzer().get_or_insert_with(Analyzer::new);
    if !analyzer.rules.iter().any(|rule| rule.name() == MarkSimilarityJoins::NAME) {
        analyzer.rules.push(Arc::new(MarkSimilarityJoins::new(families)));
    }
    let rewrites = analyzer.function_rewrites();
    if !rewrites.iter().any(|rewrite| rewrite.name() == ExpandCosineSimilarity::NAME) {
        analyzer.add_function_rewrite(Arc::new(ExpandCosineSimilarity));
    }
    if !analyzer.rules.iter().any(|rule| rule.name() == RestoreUnanalyzed::NAME) {
        let rewrites = analyzer.function_rewrites().to_vec();
        analyzer.rules.insert(0, Arc::new(RestoreUnanalyzed::new(rewrites)));
    }
    let optimizer = builder.optimizer().get_or_insert_with(Optimizer::new);
    if !optimizer.rules.iter().any(|rule| rule.name() == NumberAliases::NAME) {
        optimizer.rules.insert(0, Arc::new(NumberAliases));
    }
    if !optimizer.rules.iter().any(|rule| rule.name() == KeepUnanalyzed::NAME) {
        optimizer.rules.insert(0, Arc::new(KeepUnanalyzed));
    }
    if !optimizer.rules.iter().any(|rule| rule.name() == LiftConditions::NAME) {
        optimizer.rules.push(Arc::new(LiftConditions));
    }
    // A second one, of a builder that had the parts, is never asked.
    builder.relation_planners().get_or_insert_default().push(Arc::new(PairFunctionPlanner));
    let present = builder.scalar_functions().get_or_insert_default();
    for function in functions::all().into_iter().chain(internal_functions()) {
        let same_name = present.iter().find(|other| shares_name(other, &function));
        match same_name {
            None => present.push(function),
            Some(other) if *other == function => {}
            // A user's function of that name stays.
            Some(_) if functions::is_dispensable(&function) => {}
            Some(other) => {
                return plan_err!(
                    "the session has a function {} already, and the similarity join needs that \
                     name for {}; remove or rename it before install",
                    other.name(),
                    function.name()
                );
            }
        }
    }
    // A user's function of that name stays.
    let levenshtein = functions::levenshtein();
    match present.iter_mut().find(|other| shares_name(other, &levenshtein)) {
        Some(other) if functions::is_levenshtein(other) => *other = levenshtein,
        Some(_) => {}
        None => present.push(levenshtein),
    }
    add_windows(&mut builder);
    Ok(builder)
}

/// Adds the window functions. A user's function of that name stays.
fn add_windows(builder: &mut SessionStateBuilder) {
    let present = builder.window_functions().get_or_insert_default();
    for function in functions::windows() {
        let name = function.name();
        let is_taken = present
            .iter()
            .any(|other| other.name() == name || other.aliases().iter().any(|alias| alias == name));
        if !is_taken {
            present.push(function);
        }
    }
}

fn shares_name(a: &ScalarUDF, b: &ScalarUDF) -> bool {
    let names = |f: &ScalarUDF| -> Vec<String> {
        f.aliases().iter().cloned().chain([f.name().to_string()]).collect()
    };
    let taken = names(b);
    names(a).iter().any(|name| taken.contains(name))
}

/// Whether a planner is DataFusion's default or this crate's own.
fn is_replaceable(planner: &Arc<dyn QueryPlanner + Send + Sync>) -> bool {
    let planner: &dyn Any = planner.as_ref();
    // The default planner's type is private: compare with that of a state that has it.
    let default = SessionStateBuilder::new().build();
    let default: &dyn Any = default.query_planner().as_ref();
    planner.is::<SimJoinQueryPlanner>() || planner.type_id() == default.type_id()
}

/// SIMJOIN text on a [`SessionContext`].
#[async_trait]
pub trait SimJoinContextExt {
    /// [`SessionContext::sql`] for text that may use SIMJOIN.
    ///
    /// ```
    /// # use datafusion::common::Result;
    /// # use datafusion::execution::SessionStateBuilder;
    /// # use datafusion::prelude::*;
    /// use datafusion_simjoin::{SimJoinContextExt, install};
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<()> {
    /// let builder = SessionStateBuilder::new_with_default_features();
    /// let ctx = SessionContext::new_with_state(install(builder)?.build());
    /// ctx.sql("CREATE TABLE doc AS VALUES (1, [1, 2, 3, 4]), (2, [2, 3, 4]), (3, [7])").await?;
    /// let pairs = ctx
    ///     .simjoin_sql(
    ///         "SELECT a.column1, b.column1 FROM doc a SIMJOIN doc b \
    ///          ON jaccard(a.column2, b.column2) >= 0.7 AND a.column1 < b.column1",
    ///     )
    ///     .await?;
    /// assert_eq!(pairs.count().await?, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`rewrite_sql_with_dialect`] and of [`SessionContext::sql`]. A SIMJOIN that the
    /// operator cannot run fails when the statement is planned.
    async fn simjoin_sql(&self, sql: &str) -> Result<DataFrame>;
}

#[async_trait]
impl SimJoinContextExt for SessionContext {
    async fn simjoin_sql(&self, sql: &str) -> Result<DataFrame> {
        let state = self.state();
        let sql = rewrite(sql, state.config_options().sql_parser.dialect)?;
        let plan = state.create_logical_plan(&sql).await?;
        let frame = self.execute_logical_plan(restore_definition(plan)).await?;
        // Of a prepared statement programs see the query.
        let (state, plan) = frame.into_parts();
        Ok(DataFrame::new(state, restored(plan)?))
    }
}

/// Rewrites text in the session's dialect; the parser reports a dialect that it does not know.
fn rewrite(sql: &str, dialect: Dialect) -> Result<Cow<'_, str>> {
    let dialect = dialect_from_str(dialect).unwrap_or_else(|| Box::new(GenericDialect {}));
    rewrite_sql_with_dialect(sql, dialect.as_ref())
}

/// Similarity joins of [`DataFrame`]s.
pub trait SimJoinDataFrameExt: Sized {
    /// Joins with `right` where `condition` holds, by the similarity join or not at all.
    ///
    /// `condition` is what SIMJOIN has in its ON: a similarity predicate of both sides, and any
    /// other conditions joined to it by AND.
    ///
    /// ```
    /// # use datafusion::common::Result;
    /// # use datafusion::execution::SessionStateBuilder;
    /// use datafusion::common::JoinType;
    /// use datafusion::prelude::*;
    /// use datafusion_simjoin::functions::expr_fn::jaccard;
    /// use datafusion_simjoin::{SimJoinDataFrameExt, install};
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<()> {
    /// let builder = SessionStateBuilder::new_with_default_features();
    /// let ctx = SessionContext::new_with_state(install(builder)?.build());
    /// ctx.sql("CREATE TABLE doc AS VALUES (1, [1, 2, 3, 4]), (2, [2, 3, 4]), (3, [7])").await?;
    /// let (a, b) = (ctx.table("doc").await?.alias("a")?, ctx.table("doc").await?.alias("b")?);
    /// let similar = jaccard(col("a.column2"), col("b.column2")).gt_eq(lit(0.7));
    /// let joined = a.similarity_join(b, JoinType::Inner, similar)?;
    /// assert_eq!(joined.count().await?, 5);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// A plan error when the session lacks the similarity join. When the operator cannot run the
    /// condition, planning the result fails.
    fn similarity_join(
        self,
        right: DataFrame,
        join_type: JoinType,
        condition: Expr,
    ) -> Result<DataFrame>;

    /// Makes components, representatives or one-to-one matches of pairs: the first two columns are
    /// the nodes of a pair, a third one is its score.
    ///
    /// ```
    /// # use datafusion::common::Result;
    /// # use datafusion::execution::SessionStateBuilder;
    /// # use datafusion::prelude::*;
    /// use datafusion_simjoin::{PairFunction, ScoreOrder, SimJoinDataFrameExt, install};
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<()> {
    /// let builder = SessionStateBuilder::new_with_default_features();
    /// let ctx = SessionContext::new_with_state(install(builder)?.build());
    /// let pairs = ctx.sql("VALUES (1, 2, 0.9), (2, 3, 0.8), (7, NULL, NULL)").await?;
    /// let order = ScoreOrder::Similarity;
    /// let kept = pairs.pair_function(PairFunction::Representatives { order })?;
    /// // 2 is a near-duplicate of 1, and 3 of 2 alone, which is dropped.
    /// assert_eq!(kept.filter(col("kept"))?.count().await?, 3);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// A plan error when the session lacks the similarity join, and those of [`PairFunction::over`].
    fn pair_function(self, function: PairFunction) -> Result<DataFrame>;
}

impl SimJoinDataFrameExt for DataFrame {
    fn similarity_join(
        self,
        right: DataFrame,
        join_type: JoinType,
        condition: Expr,
    ) -> Result<DataFrame> {
        let (state, plan) = installed(self, "similarity_join")?;
        DataFrame::new(state, plan).join_on(right, join_type, [insist(condition)])
    }

    fn pair_function(self, function: PairFunction) -> Result<DataFrame> {
        let (state, plan) = installed(self, function.name())?;
        Ok(DataFrame::new(state, function.over(plan)?))
    }
}

/// The parts of a frame whose session has the similarity join.
fn installed(frame: DataFrame, function: &str) -> Result<(SessionState, LogicalPlan)> {
    let (state, plan) = frame.into_parts();
    if !is_installed(&state) {
        return plan_err!(
            "{function} needs a session with the similarity join; build it with \
             datafusion_simjoin::install"
        );
    }
    Ok((state, plan))
}

/// Whether the session has the analyzer rule that carries SIMJOIN to the planner.
fn is_installed(state: &SessionState) -> bool {
    state.analyzer().rules.iter().any(|rule| rule.name() == MarkSimilarityJoins::NAME)
}

#[cfg(test)]
mod tests;
