//! Statements on their way to a plan that can run: parsing, what DataFusion lacks, what changes the
//! session, checks and warnings.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use datafusion::common::{ParamValues, Result as DataFusionResult, plan_datafusion_err};
use datafusion::dataframe::DataFrame;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::dialect::dialect_from_str;

use super::errors::CliError;
use super::limits::Limits;
use super::progress::Progress;
use super::tables::{Gathered, Tables};
use super::threads::stack_for_trees;
use super::{cluster, folders, spill_folders, statement, tokenizers, warnings, writes};
use crate::files;
use crate::session::restored;
use crate::sql::{check_depth, parse_sql_at_line};

/// The limits of a session, and the memory of its tables.
#[derive(Debug, Default)]
pub(super) struct Held {
    limits: Limits,
    tables: Tables,
}

impl Held {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, tables: Tables::default() }
    }

    /// The memory of the session's tables.
    pub(super) fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Runs the statement `asked`, and holds the session to its limits afterwards.
    ///
    /// # Errors
    ///
    /// The error of `run`; a plan error where the statement has lifted a limit.
    pub(super) async fn within<T>(
        &self,
        ctx: &SessionContext,
        asked: &str,
        run: impl Future<Output = Result<T, CliError>>,
    ) -> Result<T, CliError> {
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
pub(super) fn parse(
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

/// A statement that can run.
pub(super) struct Prepared {
    pub frame: DataFrame,
    /// Probable mistakes, which the plan shows.
    pub warnings: Vec<String>,
    /// The rows of an INSERT under a limit, which the frame reads.
    pub gathered: Option<Gathered>,
}

/// Plans a statement; one that changes the session (SET, CREATE, DROP) has run afterwards. `None` for
/// a RESET that has. `params` take the places of `$1` and `$name`. A plan that makes the rows of a
/// table goes to `running`, and `progress` watches it.
pub(super) async fn prepare(
    tables: &Tables,
    ctx: &SessionContext,
    statement: Statement,
    params: Option<ParamValues>,
    progress: &Progress,
    running: &OnceLock<Arc<dyn ExecutionPlan>>,
) -> Result<Option<Prepared>, CliError> {
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
    let watch = |plan: &Arc<dyn ExecutionPlan>| {
        progress.watch(plan);
        let _ = running.set(Arc::clone(plan));
    };
    let gathered = tables.gather(ctx, &plan, watch).await?;
    let plan = gathered.as_ref().map_or(plan, |gathered| gathered.plan.clone());
    if matches!(plan, LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(_))) {
        progress.makes_table();
    }
    let (state, plan) = ctx.execute_logical_plan(plan).await?.into_parts();
    // What follows looks at the query of a prepared statement.
    let plan = restored(plan)?;
    let plan = writes::with_destination(plan)?;
    let mut warnings = tokenizers::warnings(&plan);
    warnings.extend(warnings::of_vectors(&plan));
    warnings.extend(warnings::of_divisions(&plan));
    writes::check_columns(&plan)?;
    Ok(Some(Prepared { frame: DataFrame::new(state, plan), warnings, gathered }))
}
