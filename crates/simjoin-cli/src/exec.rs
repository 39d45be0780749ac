//! Running statements.

use std::io::{self, Write};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use datafusion::common::DataFusionError;
use datafusion::dataframe::DataFrame;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, dialect_from_str};
use futures::StreamExt;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::interrupt::Interrupt;
use super::output::{Format, PrintOptions, PrintedRows, ResultWriter, Screen, Stdout, print_line};
use super::progress::StatementProgress;
use super::rows::{Destination, print_count};
use simjoin_session::analyze::Analyzed;
use simjoin_session::errors::SessionError;
use simjoin_session::limits::Limits;
use simjoin_session::order::{self, Use};
use simjoin_session::phases::Took;
use simjoin_session::prepare::{PreparedStatement, SessionMemory, Watch, parse, prepare};
use simjoin_session::tables::Tables;
use simjoin_session::{folders, nan, warnings, writes};

/// The step after a statement or a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Continue,
    Quit,
}

/// The time that a cancelled statement may take to end before it is left to itself.
const CANCEL_PATIENCE: Duration = Duration::from_millis(50);

/// The session, and how its results are printed.
pub(super) struct Shell {
    pub ctx: SessionContext,
    pub options: PrintOptions,
    /// The limits and the memory that statements keep to.
    held: Arc<SessionMemory>,
    statements: Handle,
    pub interrupt: Interrupt,
    /// The number of files that include each other at the moment.
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
        limits: Limits,
    ) -> Self {
        Self {
            ctx,
            options,
            held: Arc::new(SessionMemory::new(limits)),
            statements,
            interrupt,
            include_depth: 0,
            keep_going: false,
            has_failed: false,
        }
    }

    /// Waits for the future or a signal.
    pub(super) async fn guard<F: Future>(&self, future: F) -> Result<F::Output, SessionError> {
        self.interrupt.guard(future).await.map_err(SessionError::Stopped)
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
    pub(super) async fn run_sql(&self, text: &str, first_line: u64) -> Result<Next, SessionError> {
        for statement in parse(&self.ctx, text, first_line)? {
            self.run_statement(statement).await?;
        }
        Ok(Next::Continue)
    }

    /// Runs a statement in a task of its own: whatever it does, Ctrl-C is answered at once.
    async fn run_statement(&self, statement: Statement) -> Result<(), SessionError> {
        let started = Instant::now();
        let progress = StatementProgress::new(self.options.quiet);
        let mut task = JoinSet::new();
        let plan = Arc::new(OnceLock::new());
        let statement = execute_within(
            Arc::clone(&self.held),
            self.ctx.clone(),
            statement,
            self.options,
            progress.clone(),
            Arc::clone(&plan),
        );
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
        let done = match outcome {
            Err(signal) => {
                let _ = tokio::time::timeout(CANCEL_PATIENCE, task.shutdown()).await;
                if let Some(plan) = plan.get() {
                    simjoin_session::cluster::cancelled(plan).await;
                }
                return Err(signal);
            }
            Ok(Some(Ok(result))) => result?,
            Ok(Some(Err(error))) => {
                return Err(DataFusionError::ExecutionJoin(Box::new(error)).into());
            }
            Ok(None) => return Ok(()),
        };
        match self.options.quiet || !self.options.counts || !done.is_told {
            true => Ok(()),
            false => print_footer(done.written, started.elapsed()),
        }
    }
}

/// Runs a statement, and holds the session to its limits afterwards.
async fn execute_within(
    held: Arc<SessionMemory>,
    ctx: SessionContext,
    statement: Statement,
    options: PrintOptions,
    progress: StatementProgress,
    running: Arc<OnceLock<Arc<dyn ExecutionPlan>>>,
) -> Result<Done, SessionError> {
    let asked = statement.to_string();
    let run = execute(held.tables(), ctx.clone(), statement, options, progress, running);
    held.within(&ctx, &asked, run).await
}

/// Plans and runs a statement and writes its result. The plan that runs goes to `running`.
async fn execute(
    tables: &Tables,
    ctx: SessionContext,
    statement: Statement,
    mut options: PrintOptions,
    progress: StatementProgress,
    running: Arc<OnceLock<Arc<dyn ExecutionPlan>>>,
) -> Result<Done, SessionError> {
    let asked_at = Instant::now();
    let watched = Watched { progress: &progress, running: &running };
    let prepared = prepare(tables, &ctx, statement, None, &watched).await?;
    let Some(PreparedStatement { frame, warnings, gathered: _gathered }) = prepared else {
        return Ok(Done { written: None, is_told: options.format != Format::Arrow });
    };
    for warning in warnings {
        progress.tell(&format!("Warning: {warning}"));
    }
    let (state, plan) = frame.into_parts();
    let file = writes::destination(&plan)?;
    let pipe = writes::pipe(&plan);
    let print = options;
    let (plan, to) = match pipe {
        Some(pipe) if pipe.is_arrow => {
            options.format = Format::Arrow;
            (pipe.input, Destination::Into(pipe.path))
        }
        Some(pipe) => (plan, Destination::Written(pipe.path)),
        None => (plan, Destination::Printed),
    };
    let (frame, partitions) = order::keep(DataFrame::new(state, plan), Use::Streamed).await?;
    let task_ctx = Arc::new(frame.task_ctx());
    let format = task_ctx.session_config().options().format.clone();
    let asked = frame.logical_plan().clone();
    let is_plan = matches!(asked, LogicalPlan::Explain(_) | LogicalPlan::Analyze(_));
    let plan = frame.create_physical_plan().await?;
    let writes_file = file.is_some() || to != Destination::Printed;
    if let Some(file) = file {
        folders::check_destination(task_ctx.session_config(), &file)?;
        writes::check_destination(&file, &plan)?;
    }
    match &to {
        Destination::Into(pipe) => folders::check_pipe(task_ctx.session_config(), pipe)?,
        Destination::Written(pipe) => {
            folders::check_pipe(task_ctx.session_config(), pipe)?;
            writes::check_pipe(pipe, &plan)?;
        }
        Destination::Printed => {}
    }
    for warning in warnings::of_plan(&plan) {
        progress.tell(&format!("Warning: {warning}"));
    }
    // The plan that made the rows of a table took the time.
    watched.runs(&plan);
    let analyzed = match options.format {
        Format::Automatic | Format::Table => Analyzed::of(&asked, &plan),
        _ => None,
    };
    let started = Instant::now();
    let mut batches = partitions.execute(plan, task_ctx)?;
    let schema = batches.schema();
    let has_result = !schema.fields().is_empty();
    if has_result && options.format == Format::Arrow && to.is_terminal() {
        return Err(SessionError::Usage(
            "the format arrow is not for a terminal: send it to a file or a program".to_string(),
        ));
    }
    let sink: Box<dyn Write + Send> = match writes_file && !options.counts {
        true => Box::new(io::sink()),
        false => to.open(&progress)?,
    };
    let mut screen = Screen::stdout(options);
    screen.fit.whole_cells |= is_plan;
    screen.is_terminal &= to == Destination::Printed;
    let mut writer = ResultWriter::new(sink, schema, options, format, screen);
    while let Some(batch) = batches.next().await {
        let batch = batch.map_err(|error| to.failed(error))?;
        match &analyzed {
            Some(analyzed) => {
                let (planning, running) = (started - asked_at, started.elapsed());
                writer.write(&analyzed.rewrite(batch, Took { planning, running })?)?;
            }
            None => writer.write(&batch)?,
        }
    }
    progress.clear();
    let mut written = writer.finish()?;
    for note in running.get().map(nan::notes).unwrap_or_default() {
        progress.tell(&format!("Note: {note}"));
    }
    if matches!(to, Destination::Into(_)) && !to.is_stdout() && options.counts {
        written = print_count(written.rows, print, &progress)?;
    }
    // Beside rows on standard output, nothing but rows is printed there.
    let is_told = to == Destination::Printed && options.format != Format::Arrow || !to.is_stdout();
    Ok(Done { written: has_result.then_some(written), is_told })
}

/// The progress of a statement, and the first plan that it runs.
struct Watched<'a> {
    progress: &'a StatementProgress,
    running: &'a OnceLock<Arc<dyn ExecutionPlan>>,
}

impl Watch for Watched<'_> {
    fn runs(&self, plan: &Arc<dyn ExecutionPlan>) {
        self.progress.watch(plan);
        let _ = self.running.set(Arc::clone(plan));
    }

    fn makes_table(&self) {
        self.progress.makes_table();
    }
}

/// A statement that has ended.
struct Done {
    /// The rows of its result, where it has one.
    written: Option<PrintedRows>,
    /// Whether its rows and its time are told.
    is_told: bool,
}

fn print_footer(written: Option<PrintedRows>, elapsed: Duration) -> Result<(), SessionError> {
    let mut footer = String::new();
    if let Some(PrintedRows { rows, printed }) = written {
        footer.push_str(&format!("{rows} row(s) fetched. "));
        if printed < rows {
            footer.push_str(&format!("(First {printed} displayed. Use --maxrows to adjust)"));
        }
        footer.push('\n');
    }
    footer.push_str(&format!("Elapsed {:.3} seconds.\n", elapsed.as_secs_f64()));
    print_line(Stdout, &footer)
}
