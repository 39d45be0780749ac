//! Tables in memory, which take a part of the memory limit.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::{BatchCoalescer, take_record_batch};
use arrow::datatypes::SchemaRef;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::runtime::JoinSet;
use datafusion::common::{DataFusionError, Result, TableReference, exec_err};
use datafusion::dataframe::DataFrame;
use datafusion::datasource::{MemTable, provider_as_source, source_as_provider};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{DdlStatement, LogicalPlan, LogicalPlanBuilder, WriteOp};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::physical_plan::{ExecutionPlan, execute_stream_partitioned};
use datafusion::prelude::SessionContext;
use futures::{StreamExt, stream};
use parking_lot::Mutex;

use super::limits::bytes_of;
use super::order::{self, Use};
use datafusion_simjoin::internals::session::is_out_of_memory;
use simjoin_core::util::buffers::SeenBuffers;

/// The memory of a session's tables.
///
/// DataFusion keeps the rows of `CREATE TABLE … AS` and of `INSERT` outside of its memory pool. Here
/// such rows are gathered under the limit, before DataFusion makes the table of them, and the bytes
/// of all tables stay reserved.
#[derive(Debug, Default)]
pub struct Tables(Mutex<Option<(Arc<dyn MemoryPool>, MemoryReservation)>>);

/// A statement whose rows have been gathered, and their memory.
pub struct GatheredStatement {
    /// The statement, over the rows.
    pub plan: LogicalPlan,
    _memory: Arc<MemoryReservation>,
}

impl Tables {
    /// Gathers the rows of a statement that adds them to a table in memory, and gives the statement
    /// over these rows; `None` for other statements, and where there is no limit and no order of a
    /// table to keep. `watch` is told the plan that makes the rows.
    ///
    /// # Errors
    ///
    /// The errors of making the rows; a resource error that names the table where they do not fit.
    pub async fn gather(
        &self,
        ctx: &SessionContext,
        plan: &LogicalPlan,
        watch: impl FnOnce(&Arc<dyn ExecutionPlan>),
    ) -> Result<Option<GatheredStatement>> {
        let pool = Arc::clone(&ctx.runtime_env().memory_pool);
        let mut plan = plan.clone();
        let (name, input) = match &mut plan {
            LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) => {
                let exists = ctx.table_exist(create.name.clone()).unwrap_or(false);
                if exists && !create.or_replace || create.temporary {
                    return Ok(None);
                }
                (create.name.clone(), &mut create.input)
            }
            LogicalPlan::Dml(insert)
                if matches!(insert.op, WriteOp::Insert(InsertOp::Append))
                    && source_as_provider(&insert.target)
                        .is_ok_and(|table| table.is::<MemTable>()) =>
            {
                (insert.table_name.clone(), &mut insert.input)
            }
            _ => return Ok(None),
        };
        if bytes_of(pool.as_ref()).is_none() && !order::is_picked(input) {
            return Ok(None);
        }
        let names = input.schema().fields().iter().map(|field| field.name());
        let distinct: HashSet<_> = names.collect();
        if distinct.len() < input.schema().fields().len() {
            // DataFusion refuses it.
            return Ok(None);
        }
        let memory = MemoryConsumer::new(format!("table {name}")).register(&pool);
        let memory = Arc::new(memory);
        let frame = DataFrame::new(ctx.state(), input.as_ref().clone());
        let (frame, _) = order::keep(frame, Use::Gathered).await?;
        let task = Arc::new(frame.task_ctx());
        let physical = frame.create_physical_plan().await?;
        watch(&physical);
        let rows = task.session_config().batch_size();
        let streams = execute_stream_partitioned(physical, task)?;
        let batches = gather_rows(streams, rows, &name, &memory).await?;
        let schema = Arc::clone(input.schema().inner());
        let rows = GatheredRows { schema: Arc::clone(&schema), batches };
        let table = StreamingTable::try_new(schema, vec![Arc::new(rows)])?;
        let source = provider_as_source(Arc::new(table));
        *input = Arc::new(LogicalPlanBuilder::scan("gathered", source, None)?.build()?);
        Ok(Some(GatheredStatement { plan, _memory: memory }))
    }

    /// Reserves what all tables in memory take, now that a statement has changed some of them.
    pub async fn recount(&self, ctx: &SessionContext) {
        let pool = Arc::clone(&ctx.runtime_env().memory_pool);
        if bytes_of(pool.as_ref()).is_none() {
            *self.0.lock() = None;
            return;
        }
        let bytes = bytes_in_memory(ctx).await;
        let mut held = self.0.lock();
        match &*held {
            Some((of, reservation)) if Arc::ptr_eq(of, &pool) => reservation.resize(bytes),
            _ => {
                let reservation = MemoryConsumer::new("tables in memory").register(&pool);
                reservation.grow(bytes);
                *held = Some((pool, reservation));
            }
        }
    }
}

/// The rows of all partitions in batches of about `batch_rows`, those of each before those of the next
/// one, as long as `memory` can be had for them.
async fn gather_rows(
    streams: Vec<SendableRecordBatchStream>,
    batch_rows: usize,
    name: &TableReference,
    memory: &Arc<MemoryReservation>,
) -> Result<Vec<RecordBatch>> {
    let (seen, rows) = (SeenBuffers::default(), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    for (partition, mut stream) in streams.into_iter().enumerate() {
        let (seen, rows, memory) = (seen.clone(), Arc::clone(&rows), Arc::clone(memory));
        tasks.spawn(async move {
            let mut batches = vec![];
            let mut keep = |batch: RecordBatch| {
                memory.try_grow(batch.columns().iter().map(|column| seen.add(column)).sum())?;
                batches.push(batch);
                Ok::<_, DataFusionError>(())
            };
            // A batch of few rows may hold the memory of thousands.
            let mut together = BatchCoalescer::new(stream.schema(), batch_rows)
                .with_biggest_coalesce_batch_size(Some(batch_rows / 2));
            while let Some(batch) = stream.next().await.transpose()? {
                rows.fetch_add(batch.num_rows(), Ordering::Relaxed);
                if batch.num_columns() == 0 {
                    keep(batch)?;
                    continue;
                }
                together.push_batch(batch)?;
                while let Some(batch) = together.next_completed_batch() {
                    keep(batch)?;
                }
            }
            together.finish_buffered_batch()?;
            while let Some(batch) = together.next_completed_batch() {
                // It has the memory of a full one.
                let all = UInt32Array::from_iter_values(0..batch.num_rows() as u32);
                keep(take_record_batch(&batch, &all)?)?;
            }
            Ok::<_, DataFusionError>((partition, batches))
        });
    }
    let mut partitions = vec![];
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok(Ok(rows)) => partitions.push(rows),
            Ok(Err(error)) if is_out_of_memory(&error) => {
                return Err(error.context(format!(
                    "the table {name} does not fit into the memory limit ({} rows read): tables of \
                     CREATE TABLE and INSERT stay in memory; keep the rows in a file, with COPY (…) \
                     TO 'name.parquet', or raise the limit",
                    rows.load(Ordering::Relaxed)
                )));
            }
            Ok(Err(error)) => return Err(error),
            Err(error) => return exec_err!("making the rows of the table {name} failed: {error}"),
        }
    }
    partitions.sort_unstable_by_key(|(partition, _)| *partition);
    Ok(partitions.into_iter().flat_map(|(_, batches)| batches).collect())
}

/// Gathered rows as the input of a statement. DataFusion would deal the batches of a table in memory to
/// several partitions by their sizes; these keep their order.
#[derive(Debug)]
struct GatheredRows {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl PartitionStream for GatheredRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let batches = stream::iter(self.batches.clone()).map(Ok);
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches))
    }
}

/// The bytes of all tables in memory.
async fn bytes_in_memory(ctx: &SessionContext) -> usize {
    let seen = SeenBuffers::default();
    let mut bytes = 0;
    for catalog in ctx.catalog_names().iter().filter_map(|name| ctx.catalog(name)) {
        for schema in catalog.schema_names().iter().filter_map(|name| catalog.schema(name)) {
            for name in schema.table_names() {
                let Ok(Some(table)) = schema.table(&name).await else { continue };
                let Some(table) = table.downcast_ref::<MemTable>() else { continue };
                for partition in &table.batches {
                    for batch in partition.read().await.iter() {
                        bytes += batch.columns().iter().map(|c| seen.add(c)).sum::<usize>();
                    }
                }
            }
        }
    }
    bytes
}
