//! Sessions of a program in another language, such as Python: the statements, files, errors and
//! hints of the command line, without its output.
//!
//! ```
//! use simjoin_session::host::{Host, runtime};
//!
//! let runtime = runtime().unwrap();
//! let host = Host::open(["--batch-size", "100"]).unwrap();
//! let outcome = runtime.block_on(host.run(
//!     "CREATE TABLE t AS VALUES ([1, 2, 3, 4]), ([1, 2, 3]); \
//!      SELECT count(*) FROM t a SIMJOIN t b ON jaccard(a.column1, b.column1) >= 0.7",
//!     None,
//! ));
//! let count = runtime.block_on(outcome.unwrap().frame.collect()).unwrap();
//! assert_eq!(count[0].num_rows(), 1);
//! let Err(error) = runtime.block_on(host.run("SELECT * FROM tt", None)) else { panic!() };
//! assert!(error.hint().unwrap().contains("t"));
//! ```

use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use clap::Parser;
use datafusion::common::{DataFusionError, ParamValues, Result, TableReference};
use datafusion::dataframe::DataFrame;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, Statement as PlannedStatement};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;

use super::args::SessionArgs;
use super::errors::{self, SessionError};
use super::order::{self, Use};
use super::phases::Took;
use super::prepare::{PreparedStatement, SessionMemory, parse, prepare};
pub use super::runtime::{before_fork, runtime};
use super::table::{Expanded, Fit, MaxRows, TableWidth, TableWriter};
use super::{analyze, folders, session, statement, warnings, writes};
use simjoin_files as files;

/// Names of flags in messages of the command line, and of what a host has in their place.
const FLAGS: &[(&str, &str)] = &[
    ("--memory-limit", "memory_limit"),
    ("--disk-limit", "disk_limit"),
    ("SHOW FUNCTIONS, or \\h, lists", "SHOW FUNCTIONS lists"),
    ("\\d or SHOW TABLES", "SHOW TABLES"),
];

/// The flags of a session.
#[derive(Debug, Parser)]
#[command(name = "simjoin")]
struct Flags {
    #[command(flatten)]
    args: SessionArgs,
}

/// A session, with its limits.
#[derive(Clone)]
pub struct Host {
    ctx: SessionContext,
    held: Arc<SessionMemory>,
}

/// A statement that has been planned, and has run unless it is a query.
pub struct StatementFrame {
    /// The query, or the result of the statement.
    pub frame: DataFrame,
    /// Probable mistakes.
    pub warnings: Vec<String>,
}

/// A plan that runs.
pub struct Running {
    /// The plan, whose metrics tell how far it is.
    pub plan: Arc<dyn ExecutionPlan>,
    /// The rows of the result.
    pub batches: SendableRecordBatchStream,
    /// Probable mistakes.
    pub warnings: Vec<String>,
    /// The time that it took to make the plan.
    pub planning: Duration,
}

/// The error of a statement, in words for its user.
#[derive(Debug)]
pub struct HostError {
    error: SessionError,
    text: String,
    hint: Option<String>,
}

impl Host {
    /// Opens a session for flags of the command line, such as `--memory-limit 2g`.
    ///
    /// # Errors
    ///
    /// An error for a flag that there is not, and for a wrong value here or in the environment.
    pub fn open<S: Into<OsString>>(flags: impl IntoIterator<Item = S>) -> Result<Self, HostError> {
        files::quiet_panics();
        // Statements come from the host, which leaves standard input to files named so.
        let own = [OsString::from("simjoin")];
        let flags = own.into_iter().chain(flags.into_iter().map(Into::into));
        let Flags { args } = Flags::try_parse_from(flags).map_err(|error| {
            let text = error.to_string();
            let text = text.trim_start_matches("error: ").lines().next().unwrap_or_default();
            HostError::new(SessionError::Usage(text.to_string()), "")
        })?;
        let ctx = session::build(&args, None).map_err(|error| HostError::new(error.into(), ""))?;
        // The program that opens a session may lift its limits.
        Ok(Self { ctx, held: Arc::default() })
    }

    /// The session of DataFusion.
    pub fn context(&self) -> &SessionContext {
        &self.ctx
    }

    /// Runs the statements of a text, up to the last one, which is planned only where it is a query.
    /// `params` take the places of `$1` and `$name`.
    ///
    /// # Errors
    ///
    /// The error of the first statement that fails; a plan error for a text without statements.
    pub async fn run(
        &self,
        text: &str,
        params: Option<ParamValues>,
    ) -> Result<StatementFrame, HostError> {
        self.run_all(text, params).await.map_err(|error| HostError::new(error, text))
    }

    async fn run_all(
        &self,
        text: &str,
        params: Option<ParamValues>,
    ) -> Result<StatementFrame, SessionError> {
        let mut statements = parse(&self.ctx, text, 1)?;
        let mut warnings = vec![];
        while let Some(statement) = statements.pop_front() {
            let asked = statement.to_string();
            let is_last = statements.is_empty();
            let run = async {
                let tables = self.held.tables();
                let params = params.clone();
                let done = prepare(tables, &self.ctx, statement, params, &());
                let Some(PreparedStatement { frame, warnings, gathered: _gathered }) = done.await?
                else {
                    return Ok((self.nothing()?, vec![]));
                };
                let frame = if is_query(frame.logical_plan()) && is_last {
                    frame
                } else {
                    self.result(frame).await?
                };
                Ok((frame, warnings))
            };
            let (frame, told) = self.held.within(&self.ctx, &asked, run).await?;
            warnings.extend(told);
            if is_last {
                return Ok(StatementFrame { frame, warnings });
            }
        }
        Err(SessionError::Usage("the text has no statement".to_string()))
    }

    /// Plans a text of one statement, which does not run.
    ///
    /// # Errors
    ///
    /// The error of planning; a plan error for a text of none or of several statements.
    pub async fn plan(&self, text: &str) -> Result<LogicalPlan, HostError> {
        let plan = async {
            let mut statements = parse(&self.ctx, text, 1)?;
            match (statements.pop_front(), statements.is_empty()) {
                (Some(statement), true) => Ok(statement::plan(&self.ctx, statement).await?),
                _ => Err(SessionError::Usage("the text has to be one statement".to_string())),
            }
        };
        plan.await.map_err(|error| HostError::new(error, text))
    }

    /// The tables that a text names, as it names them. It has to be one query, or EXPLAIN of one; files
    /// are among its tables.
    ///
    /// # Errors
    ///
    /// The error of parsing; a plan error for another text.
    pub fn tables_of(&self, text: &str) -> Result<Vec<TableReference>, HostError> {
        let tables = || {
            let mut statements = parse(&self.ctx, text, 1)?;
            match (statements.pop_front(), statements.is_empty()) {
                (Some(statement), true) if reads(&statement) => {
                    Ok(self.ctx.state().resolve_table_references(&statement)?)
                }
                _ => Err(SessionError::Usage("the text has to be one query".to_string())),
            }
        };
        tables().map_err(|error| HostError::new(error, text))
    }

    /// A frame without columns.
    fn nothing(&self) -> Result<DataFrame> {
        Ok(DataFrame::new(self.ctx.state(), LogicalPlanBuilder::empty(false).build()?))
    }

    /// Runs a frame, and gives its rows as a frame.
    async fn result(&self, frame: DataFrame) -> Result<DataFrame, SessionError> {
        let schema = Arc::clone(frame.schema().inner());
        if schema.fields().is_empty() {
            frame.collect().await?;
            return Ok(self.nothing()?);
        }
        let running = start(frame, Use::Gathered).await?;
        let batches = datafusion::physical_plan::common::collect(running.batches).await?;
        Ok(self.ctx.read_batches(batches)?)
    }

    /// Starts a frame that the session made of the statement `sql`. Rows come in the order of the frame:
    /// that of its ORDER BY, or of the table in memory that it picks them from.
    ///
    /// # Errors
    ///
    /// A plan error where the frame writes to a file that cannot be written.
    pub async fn start(&self, frame: DataFrame, sql: &str) -> Result<Running, HostError> {
        self.start_for(frame, sql, Use::Streamed).await
    }

    /// [`Self::start`] for a reader that keeps all rows in memory. Rows of files come in the order of the
    /// files as well.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::start`].
    pub async fn start_gathering(&self, frame: DataFrame, sql: &str) -> Result<Running, HostError> {
        self.start_for(frame, sql, Use::Gathered).await
    }

    async fn start_for(
        &self,
        frame: DataFrame,
        sql: &str,
        rows: Use,
    ) -> Result<Running, HostError> {
        files::forget_files(&self.ctx.runtime_env());
        start(frame, rows).await.map_err(|error| HostError::new(error, sql))
    }

    /// Plans a frame as [`Self::start`] does.
    ///
    /// # Errors
    ///
    /// The errors of planning.
    pub async fn planned(&self, frame: DataFrame) -> Result<Arc<dyn ExecutionPlan>> {
        let (frame, _) = order::keep(frame, Use::Streamed).await?;
        frame.create_physical_plan().await
    }
}

async fn start(frame: DataFrame, rows: Use) -> Result<Running, SessionError> {
    let asked_at = Instant::now();
    let (frame, partitions) = order::keep(frame, rows).await?;
    let task = Arc::new(frame.task_ctx());
    let file = writes::destination(frame.logical_plan())?;
    let plan = frame.create_physical_plan().await?;
    if let Some(file) = file {
        folders::check_destination(task.session_config(), &file)?;
        writes::check_destination(&file, &plan)?;
    }
    let warnings = warnings::of_plan(&plan);
    let planning = asked_at.elapsed();
    let batches = partitions.execute(Arc::clone(&plan), task)?;
    Ok(Running { plan, batches, warnings, planning })
}

/// Whether the statement is a query, or EXPLAIN of one.
fn reads(statement: &Statement) -> bool {
    match statement {
        Statement::Statement(statement) => matches!(statement.as_ref(), SqlStatement::Query(_)),
        Statement::Explain(explain) => reads(&explain.statement),
        _ => false,
    }
}

/// Whether the plan only reads. EXPLAIN ANALYZE of a statement that writes does write.
fn is_query(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Ddl(_) | LogicalPlan::Dml(_) | LogicalPlan::Copy(_) => false,
        LogicalPlan::Statement(PlannedStatement::Execute(_)) => true,
        LogicalPlan::Statement(_) => false,
        LogicalPlan::Analyze(analyze) => is_query(&analyze.input),
        _ => true,
    }
}

impl HostError {
    /// The error of DataFusion, in words for the user of the statement `sql`.
    pub fn of(error: DataFusionError, sql: &str) -> Self {
        Self::new(error.into(), sql)
    }

    fn new(error: SessionError, sql: &str) -> Self {
        let (text, hint) = errors::explain(&error, sql);
        let hosted =
            |text: String| FLAGS.iter().fold(text, |text, (flag, other)| text.replace(flag, other));
        Self { error, text: hosted(text), hint: hint.map(hosted) }
    }

    /// The message, in one line.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Advice, where there is any.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The error of DataFusion; `None` where a flag is wrong.
    pub fn source(&self) -> Option<&DataFusionError> {
        match &self.error {
            SessionError::Sql(error) => Some(error),
            _ => None,
        }
    }
}

/// The summary of what cost the time of a plan that has run in this process, in words, and the plan with a line for each
/// counter of its similarity joins; `None` for a plan without such a join.
pub fn analyzed(
    plan: &Arc<dyn ExecutionPlan>,
    planning: Duration,
    running: Duration,
) -> Option<(String, String)> {
    analyze::of_plan(plan, Took { planning, running })
}

/// Lays out rows as the command line does, in at most `width` columns of a terminal.
///
/// # Errors
///
/// An error of Arrow for a value that cannot be shown.
pub fn table(schema: SchemaRef, batches: &[RecordBatch], width: Option<usize>) -> Result<String> {
    let columns = width.map_or(TableWidth::Unlimited, TableWidth::Limited);
    let fit = Fit::new(columns, Expanded::Auto);
    let mut table = TableWriter::new(schema, MaxRows::Unlimited, Default::default(), fit);
    let mut text = vec![];
    for batch in batches {
        text.extend(table.push(batch)?);
    }
    text.extend(table.finish()?);
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The progress of a plan as a line for a terminal.
pub struct ProgressLine(super::progress::PlanStatus);

impl ProgressLine {
    /// The progress of a plan that runs.
    pub fn new(plan: Arc<dyn ExecutionPlan>) -> Self {
        Self(super::progress::PlanStatus::new(plan))
    }

    /// The line now, in about `columns` columns.
    pub fn text(&mut self, columns: usize) -> String {
        self.0.line(columns)
    }
}
