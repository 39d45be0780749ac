//! Running statements.

use std::io::{self, Write};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use datafusion::common::{DataFusionError, Result as DataFusionResult, plan_datafusion_err};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, dialect_from_str};
use futures::StreamExt;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::analyze::Analyzed;
use super::cluster;
use super::commands::Next;
use super::errors::CliError;
use super::interrupt::Interrupt;
use super::output::{Format, PrintOptions, ResultWriter, Screen, Written, print_line};
use super::progress::Progress;
use super::statement;
use super::threads::stack_for_trees;
use super::{folders, tokenizers, warnings, writes};
use crate::sql::{check_depth, parse_sql_at_line};

/// How long a cancelled statement may take to end before it is left to itself.
const CANCEL_PATIENCE: Duration = Duration::from_millis(50);

/// The session, and how its results are printed.
pub(super) struct Shell {
    pub ctx: SessionContext,
    pub options: PrintOptions,
    statements: Handle,
    pub interrupt: Interrupt,
    /// How many files include each other at the moment.
    pub include_depth: usize,
    /// A statement that fails does not end its script.
    pub keep_going: bool,
    /// A statement of a script has failed.
    pub has_failed: bool,
}

impl Shell {
    /// A shell that runs its statements on the runtime `statements`.
    pub(super) fn new(
        ctx: SessionContext,
        options: PrintOptions,
        statements: Handle,
        interrupt: Interrupt,
    ) -> Self {
        Self {
            ctx,
            options,
            statements,
            interrupt,
            include_depth: 0,
            keep_going: false,
            has_failed: false,
        }
    }

    /// Waits for the future or a signal.
    pub(super) async fn guard<F: Future>(&self, future: F) -> Result<F::Output, CliError> {
        self.interrupt.guard(future).await.map_err(CliError::Stopped)
    }

    /// The dialect that the session's options name; the generic one for a name that is none, which
    /// parsing reports.
    pub(super) fn dialect(&self) -> Box<dyn Dialect> {
        let config = self.ctx.copied_config();
        dialect_from_str(config.options().sql_parser.dialect)
            .unwrap_or_else(|| Box::new(GenericDialect {}))
    }

    /// Runs the statements of a text that starts on `first_line` of its script, up to the first
    /// that fails.
    pub(super) async fn run_sql(&self, text: &str, first_line: u64) -> Result<Next, CliError> {
        for statement in self.parse(text, first_line)? {
            self.run_statement(statement).await?;
        }
        Ok(Next::Continue)
    }

    fn parse(
        &self,
        text: &str,
        first_line: u64,
    ) -> DataFusionResult<impl IntoIterator<Item = Statement>> {
        let config = self.ctx.copied_config();
        let parser = &config.options().sql_parser;
        let dialect = dialect_from_str(parser.dialect)
            .ok_or_else(|| plan_datafusion_err!("{} is no SQL dialect", parser.dialect.as_ref()))?;
        check_depth(text, first_line, dialect.as_ref(), stack_for_trees())?;
        parse_sql_at_line(text, first_line, dialect.as_ref(), parser.recursion_limit.get())
    }

    /// Runs a statement in a task of its own: whatever it does, Ctrl-C is answered at once.
    async fn run_statement(&self, statement: Statement) -> Result<(), CliError> {
        let started = Instant::now();
        let progress = Progress::new(self.options.quiet);
        let mut task = JoinSet::new();
        let plan = Arc::new(OnceLock::new());
        let statement =
            execute(self.ctx.clone(), statement, self.options, progress.clone(), Arc::clone(&plan));
        task.spawn_on(statement, &self.statements);
        let outcome = self
            .guard(async {
                tokio::select! {
                    outcome = task.join_next() => outcome,
                    never = progress.show() => match never {},
                }
            })
            .await;
        progress.clear();
        let written = match outcome {
            Err(signal) => {
                let _ = tokio::time::timeout(CANCEL_PATIENCE, task.shutdown()).await;
                if let Some(plan) = plan.get() {
                    cluster::cancelled(plan).await;
                }
                return Err(signal);
            }
            Ok(Some(Ok(result))) => result?,
            Ok(Some(Err(error))) => {
                return Err(DataFusionError::ExecutionJoin(Box::new(error)).into());
            }
            Ok(None) => return Ok(()),
        };
        match self.options.quiet {
            true => Ok(()),
            false => print_footer(written, started.elapsed()),
        }
    }
}

/// Plans and runs a statement and writes its result; None for a statement that has none. The plan
/// that runs goes to `running`.
async fn execute(
    ctx: SessionContext,
    statement: Statement,
    options: PrintOptions,
    progress: Progress,
    running: Arc<OnceLock<Arc<dyn ExecutionPlan>>>,
) -> Result<Option<Written>, CliError> {
    cluster::name_statement(&ctx, &statement)?;
    let plan = statement::plan(&ctx, statement).await?;
    if statement::reset(&ctx, &plan)? {
        return Ok(None);
    }
    folders::check_settings(&ctx.copied_config(), &plan)?;
    let frame = ctx.execute_logical_plan(plan).await?;
    writes::check_columns(frame.logical_plan())?;
    let file = writes::destination(frame.logical_plan())?;
    let logical = frame.logical_plan();
    for warning in tokenizers::warnings(logical).into_iter().chain(warnings::of_vectors(logical)) {
        progress.tell(&format!("Warning: {warning}"));
    }
    let task_ctx = Arc::new(frame.task_ctx());
    let format = task_ctx.session_config().options().format.clone();
    let is_plan = matches!(frame.logical_plan(), LogicalPlan::Explain(_) | LogicalPlan::Analyze(_));
    let plan = frame.create_physical_plan().await?;
    if let Some(file) = file {
        folders::check_destination(task_ctx.session_config(), &file)?;
        writes::check_destination(&file, &plan)?;
    }
    for warning in warnings::of_plan(&plan) {
        progress.tell(&format!("Warning: {warning}"));
    }
    progress.watch(&plan);
    // A statement has one plan.
    let _ = running.set(Arc::clone(&plan));
    let analyzed = match options.format {
        Format::Automatic | Format::Table => Analyzed::of(&plan),
        _ => None,
    };
    let started = Instant::now();
    let mut batches = execute_stream(plan, task_ctx)?;
    let schema = batches.schema();
    let has_result = !schema.fields().is_empty();
    let mut screen = Screen::stdout(options);
    screen.fit.whole_cells |= is_plan;
    let mut writer = ResultWriter::new(Output(progress.clone()), schema, options, format, screen);
    while let Some(batch) = batches.next().await {
        match &analyzed {
            Some(analyzed) => writer.write(&analyzed.rewrite(batch?, started.elapsed())?)?,
            None => writer.write(&batch?)?,
        }
    }
    progress.clear();
    let written = writer.finish()?;
    Ok(has_result.then_some(written))
}

/// Standard output, which takes the progress line away when rows come.
struct Output(Progress);

impl Write for Output {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        if !text.is_empty() {
            self.0.make_room();
        }
        io::stdout().write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}

fn print_footer(written: Option<Written>, elapsed: Duration) -> Result<(), CliError> {
    let mut footer = String::new();
    if let Some(Written { rows, printed }) = written {
        footer.push_str(&format!("{rows} row(s) fetched. "));
        if printed < rows {
            footer.push_str(&format!("(First {printed} displayed. Use --maxrows to adjust)"));
        }
        footer.push('\n');
    }
    footer.push_str(&format!("Elapsed {:.3} seconds.\n", elapsed.as_secs_f64()));
    print_line(io::stdout(), &footer)
}
