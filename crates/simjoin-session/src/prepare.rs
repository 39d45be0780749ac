//! Statements on their way to a plan that can run: parsing, what DataFusion lacks, what changes the
//! session, checks and warnings.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::common::{ParamValues, Result as DataFusionResult, plan_datafusion_err};
use datafusion::dataframe::DataFrame;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::dialect::dialect_from_str;

use super::errors::SessionError;
use super::limits::Limits;
use super::tables::{GatheredStatement, Tables};
use super::threads::stack_for_trees;
use super::{cluster, folders, scales, spill_folders, statement, tokenizers, warnings, writes};
use datafusion_simjoin::internals::session::restored;
use datafusion_simjoin::sql::{check_depth, parse_sql_at_line};
use simjoin_files as files;

/// The limits of a session, and the memory of its tables.
#[derive(Debug, Default)]
pub struct SessionMemory {
    limits: Limits,
    tables: Tables,
}

impl SessionMemory {
    /// A session with `limits`, and no tables yet.
    pub fn new(limits: Limits) -> Self {
        Self { limits, tables: Tables::default() }
    }

    /// The memory of the session's tables.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Runs the statement `asked`, and holds the session to its limits afterwards.
    ///
    /// # Errors
    ///
    /// The error of `run`; a plan error where the statement has lifted a limit.
    pub async fn within<T>(
        &self,
        ctx: &SessionContext,
        asked: &str,
        run: impl Future<Output = Result<T, SessionError>>,
    ) -> Result<T, SessionError> {
        let runtime = ctx.runtime_env();
        let done = run.await;
        let within = self.limits.hold(ctx, &runtime, asked);
        let kept = spill_folders::keep(ctx, &runtime, asked);
        self.tables.recount(ctx).await;
        let done = done?;
        within?;
        kept?;
        Ok(done)
    }
}

/// Parses the statements of a text that starts on `first_line` of its script, in the session's
/// dialect.
pub fn parse(
    ctx: &SessionContext,
    text: &str,
    first_line: u64,
) -> DataFusionResult<VecDeque<Statement>> {
    let config = ctx.copied_config();
    let parser = &config.options().sql_parser;
    let dialect = dialect_from_str(parser.dialect)
        .ok_or_else(|| plan_datafusion_err!("{} is no SQL dialect", parser.dialect.as_ref()))?;
    check_depth(text, first_line, dialect.as_ref(), stack_for_trees())?;
    let limit = parser.recursion_limit.get();
    parse_sql_at_line(text, first_line, dialect.as_ref(), limit)
}

/// An observer, told which plans a statement runs before its own.
pub trait Watch: Sync {
    /// The plan runs, and makes the rows of a table.
    fn runs(&self, plan: &Arc<dyn ExecutionPlan>);

    /// The rows of a table are made by a plan that nobody sees.
    fn makes_table(&self);
}

/// No observer.
impl Watch for () {
    fn runs(&self, _plan: &Arc<dyn ExecutionPlan>) {}

    fn makes_table(&self) {}
}

/// A statement that can run.
pub struct PreparedStatement {
    /// The query, or the result of the statement.
    pub frame: DataFrame,
    /// Probable mistakes, which the plan shows.
    pub warnings: Vec<String>,
    /// The rows of an INSERT under a limit, which the frame reads.
    pub gathered: Option<GatheredStatement>,
}

/// Plans a statement; one that changes the session (SET, CREATE, DROP) has run afterwards. `None` for
/// a RESET that has. `params` take the places of `$1` and `$name`. A plan that makes the rows of a
/// table is told to `watch`.
pub async fn prepare(
    tables: &Tables,
    ctx: &SessionContext,
    statement: Statement,
    params: Option<ParamValues>,
    watch: &impl Watch,
) -> Result<Option<PreparedStatement>, SessionError> {
    files::forget_files(&ctx.runtime_env());
    cluster::name_statement(ctx, &statement)?;
    let mut plan = statement::plan(ctx, statement).await?;
    if let Some(params) = params {
        plan = plan.with_param_values(params)?;
    }
    if statement::reset(ctx, &plan)? {
        return Ok(None);
    }
    folders::check_settings(&ctx.copied_config(), &plan)?;
    let runs = |plan: &Arc<dyn ExecutionPlan>| watch.runs(plan);
    let gathered = tables.gather(ctx, &plan, runs).await?;
    let plan = gathered.as_ref().map_or(plan, |gathered| gathered.plan.clone());
    if matches!(plan, LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(_))) {
        watch.makes_table();
    }
    let (state, plan) = ctx.execute_logical_plan(plan).await?.into_parts();
    // What follows looks at the query of a prepared statement.
    let plan = restored(plan)?;
    let plan = writes::with_destination(plan)?;
    let mut warnings = tokenizers::warnings(&plan);
    warnings.extend(warnings::of_vectors(&plan));
    warnings.extend(warnings::of_divisions(&plan));
    warnings.extend(warnings::of_bands(&plan));
    warnings.extend(scales::of_windows(&plan));
    writes::check_columns(&plan)?;
    Ok(Some(PreparedStatement { frame: DataFrame::new(state, plan), warnings, gathered }))
}
