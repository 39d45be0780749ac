//! The order of the rows that a statement without ORDER BY gives.
//!
//! DataFusion reads a table in several partitions, to which it deals the batches in memory by their
//! sizes, and gives the rows as they come. A statement that only picks columns and rows of one table
//! gains next to nothing by that, and its user takes the order of the table for granted. So its rows
//! come in one partition. Files are worth several, whose order is that of the files: they are read
//! side by side where all rows are gathered, and put one behind the other.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::dataframe::DataFrame;
use datafusion::datasource::listing::ListingTable;
use datafusion::datasource::{MemTable, provider_as_source, source_as_provider};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, LogicalPlan, WriteOp};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, execute_stream, execute_stream_partitioned};
use futures::{StreamExt, TryStreamExt, stream};

/// The table of the settings, which it reads from the statement that asks for them: a plan of another
/// number of partitions would show that one.
const SETTINGS: &str = "df_settings";

/// The use of a statement's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// One batch after the other is read, printed or written.
    Streamed,
    /// All rows are gathered in memory.
    Gathered,
}

/// The partitions of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Partitions {
    /// Their rows come as they are made, or in the order that the plan has.
    AsTheyCome,
    /// The rows of each come before those of the next one. All are held in memory.
    InTurn,
}

/// The statement, planned so that its rows come in the order of the table that it picks them from; as
/// it is where it has an order of its own, or none.
pub async fn keep(frame: DataFrame, rows: Use) -> Result<(DataFrame, Partitions)> {
    let Some(source) = source_of(frame.logical_plan()) else {
        return Ok((frame, Partitions::AsTheyCome));
    };
    let (mut state, plan) = frame.into_parts();
    let options = state.config_mut().options_mut();
    let (plan, partitions) = match source {
        Source { kind: TableKind::Memory, .. } => {
            options.execution.target_partitions = 1;
            (in_one_partition(plan).await?, Partitions::AsTheyCome)
        }
        // The first rows are soon found, unless few pass a filter.
        Source { has_limit: true, has_filter: false, .. } => {
            options.execution.target_partitions = 1;
            (plan, Partitions::AsTheyCome)
        }
        Source { has_limit: false, .. } if rows == Use::Gathered && gives_rows(&plan) => {
            options.execution.enable_file_stream_work_stealing = false;
            options.optimizer.enable_round_robin_repartition = false;
            (plan, Partitions::InTurn)
        }
        _ => (plan, Partitions::AsTheyCome),
    };
    Ok((DataFrame::new(state, plan), partitions))
}

/// Whether the rows of a statement are those that it reads.
fn gives_rows(plan: &LogicalPlan) -> bool {
    !matches!(
        plan,
        LogicalPlan::Copy(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_)
    )
}

impl Partitions {
    /// The rows of a plan.
    pub fn execute(
        self,
        plan: Arc<dyn ExecutionPlan>,
        task: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if self == Self::AsTheyCome {
            return execute_stream(plan, task);
        }
        let schema = plan.schema();
        let partitions = execute_stream_partitioned(plan, task)?.into_iter();
        let partitions = partitions.map(|rows| SpawnedTask::spawn(rows.try_collect::<Vec<_>>()));
        let rows = stream::iter(partitions.collect::<Vec<_>>())
            .then(|partition| async {
                let ended = partition.join_unwind().await;
                let ended = ended.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)));
                let batches: Vec<RecordBatch> = ended??;
                Ok::<_, DataFusionError>(stream::iter(batches.into_iter().map(Ok)))
            })
            .try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// The place of a table's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TableKind {
    Memory,
    Files,
}

/// The table that a statement picks columns and rows of.
#[derive(Debug, Clone, Copy)]
struct Source {
    kind: TableKind,
    has_limit: bool,
    has_filter: bool,
}

/// Whether a statement only picks columns and rows of one table.
pub fn is_picked(plan: &LogicalPlan) -> bool {
    source_of(plan).is_some()
}

/// The table of a statement that only picks columns and rows of it, by what costs less than moving the
/// rows; `None` for other statements.
fn source_of(plan: &LogicalPlan) -> Option<Source> {
    match plan {
        LogicalPlan::TableScan(scan) => {
            if scan.table_name.table() == SETTINGS {
                return None;
            }
            let table = source_as_provider(&scan.source).ok()?;
            let kind = match () {
                () if table.is::<MemTable>() || table.is::<StreamingTable>() => TableKind::Memory,
                () if table.is::<ListingTable>() => TableKind::Files,
                () => return None,
            };
            let (has_limit, has_filter) = (scan.fetch.is_some(), !scan.filters.is_empty());
            scan.filters.iter().all(is_cheap).then_some(Source { kind, has_limit, has_filter })
        }
        LogicalPlan::Projection(projection) => {
            projection.expr.iter().all(is_cheap).then(|| source_of(&projection.input))?
        }
        LogicalPlan::Filter(filter) => {
            let source = is_cheap(&filter.predicate).then(|| source_of(&filter.input))??;
            Some(Source { has_filter: true, ..source })
        }
        LogicalPlan::Limit(limit) => Some(Source { has_limit: true, ..source_of(&limit.input)? }),
        LogicalPlan::SubqueryAlias(alias) => source_of(&alias.input),
        LogicalPlan::Copy(copy) => source_of(&copy.input),
        LogicalPlan::Dml(statement) if matches!(statement.op, WriteOp::Insert(_)) => {
            source_of(&statement.input)
        }
        LogicalPlan::Explain(explain) => source_of(&explain.plan),
        LogicalPlan::Analyze(analyze) => source_of(&analyze.input),
        _ => None,
    }
}

/// Whether an expression costs less for a row than moving the row to another thread: comparisons,
/// arithmetic, casts and fields of structs.
fn is_cheap(expr: &Expr) -> bool {
    let is_dear = |expr: &Expr| match expr {
        Expr::ScalarFunction(call) => call.func.name() != "get_field",
        Expr::AggregateFunction(_)
        | Expr::WindowFunction(_)
        | Expr::Exists(_)
        | Expr::InSubquery(_)
        | Expr::SetComparison(_)
        | Expr::ScalarSubquery(_)
        | Expr::GroupingSet(_)
        | Expr::Unnest(_) => true,
        _ => false,
    };
    !expr.exists(|expr| Ok(is_dear(expr))).unwrap_or(true)
}

/// The plan over tables of one partition: DataFusion makes tables of several by CREATE TABLE.
async fn in_one_partition(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut table = None;
    plan.apply(|plan| {
        if let LogicalPlan::TableScan(scan) = plan {
            table = source_as_provider(&scan.source).ok();
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let Some(table) = table else { return Ok(plan) };
    let Some(rows) = table.downcast_ref::<MemTable>() else { return Ok(plan) };
    if rows.batches.len() < 2 {
        return Ok(plan);
    }
    let mut batches = vec![];
    for partition in &rows.batches {
        batches.extend(partition.read().await.iter().cloned());
    }
    let merged = provider_as_source(Arc::new(MemTable::try_new(table.schema(), vec![batches])?));
    plan.transform_up(|plan| {
        Ok(match plan {
            LogicalPlan::TableScan(mut scan) => {
                scan.source = Arc::clone(&merged);
                Transformed::yes(LogicalPlan::TableScan(scan))
            }
            plan => Transformed::no(plan),
        })
    })
    .data()
}
