//! An input that several joins read, and that may give other rows each time.

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, Partitioning, PlanProperties,
};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use tokio::sync::OnceCell;

use crate::config::{SimJoinOptions, SpillChoice};
use crate::disk::{DiskRows, SegmentLimits, SegmentWriter, spill_manager};
use crate::operator::errors::is_out_of_memory;

/// The part of the free memory that the rows take, at most: the joins above need the others.
const PART_OF_LIMIT: usize = 8;

/// The rows of an input, which the first of the operators of one number reads and all of them give.
///
/// The rows are in memory, or on disk where they do not fit, as long as the plan is there.
#[derive(Debug, Clone)]
pub struct ReadOnceExec {
    input: Arc<dyn ExecutionPlan>,
    number: usize,
    rows: Arc<OnceCell<KeptRows>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// The rows of an input.
#[derive(Debug)]
enum KeptRows {
    Memory(Vec<RecordBatch>, #[expect(dead_code, reason = "held")] MemoryReservation),
    Disk(Arc<DiskRows>),
}

impl ReadOnceExec {
    /// An operator that reads an input for itself, until [`link`](Self::link) makes it one of several.
    pub fn new(input: Arc<dyn ExecutionPlan>, number: usize) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            input.boundedness(),
        );
        Self {
            input,
            number,
            rows: Arc::default(),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The plan, in which the operators of each number share their rows.
    ///
    /// # Errors
    ///
    /// When an operator cannot be put above its inputs again.
    pub fn link(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let mut rows: HashMap<usize, Arc<OnceCell<KeptRows>>> = HashMap::new();
        let linked = plan.transform_up(|plan| {
            Ok(match plan.downcast_ref::<Self>() {
                Some(node) => {
                    let rows = Arc::clone(rows.entry(node.number).or_default());
                    Transformed::yes(Arc::new(Self { rows, ..node.clone() }))
                }
                None => Transformed::no(plan),
            })
        })?;
        Ok(linked.data)
    }

    fn with_input(&self, input: Arc<dyn ExecutionPlan>) -> Result<Self> {
        Ok(Self { rows: Arc::clone(&self.rows), ..Self::new(input, self.number) })
    }

    /// The rows of the input, in memory or, where they do not fit, on disk.
    async fn read(&self, context: &Arc<TaskContext>) -> Result<KeptRows> {
        let memory = MemoryConsumer::new("ReadOnce").with_can_spill(true);
        let memory = memory.register(context.memory_pool());
        let mut input = self.input.execute(0, Arc::clone(context))?;
        let may_spill =
            SimJoinOptions::of(context.session_config().options()).spill != SpillChoice::Never;
        let most = match context.memory_pool().memory_limit() {
            MemoryLimit::Finite(bytes) if may_spill => {
                bytes.saturating_sub(context.memory_pool().reserved()) / PART_OF_LIMIT
            }
            _ => usize::MAX,
        };
        let mut kept = vec![];
        while let Some(batch) = input.next().await.transpose()? {
            let more = memory.try_grow(get_record_batch_memory_size(&batch));
            kept.push(batch);
            match more {
                Ok(()) if memory.size() <= most => continue,
                Err(error) if !is_out_of_memory(&error) || !may_spill => return Err(error),
                Ok(()) | Err(_) => {}
            }
            let rows = stream::iter(kept.into_iter().map(Ok)).chain(input);
            memory.free();
            return Ok(KeptRows::Disk(Arc::new(self.store(rows, context, memory).await?)));
        }
        Ok(KeptRows::Memory(kept, memory))
    }

    /// Rows on disk.
    async fn store(
        &self,
        rows: impl Stream<Item = Result<RecordBatch>>,
        context: &TaskContext,
        memory: MemoryReservation,
    ) -> Result<DiskRows> {
        const LIMITS: SegmentLimits = SegmentLimits {
            buffer_bytes: 1 << 20,
            segment_bytes: 1 << 25,
            most_segment_bytes: 1 << 28,
            segment_rows: usize::MAX / 2,
        };
        let manager = spill_manager(context, &self.metrics, self.input.schema())?;
        let mut writer = SegmentWriter::new(manager, LIMITS, memory, vec![()], |(), _| {});
        let mut rows = pin!(rows);
        while let Some(batch) = rows.next().await.transpose()? {
            writer.push(batch, |_| Some(0))?;
            tokio::task::yield_now().await;
        }
        writer.finish()
    }
}

impl KeptRows {
    fn batches(&self, schema: SchemaRef) -> SendableRecordBatchStream {
        match self {
            Self::Memory(batches, _) => {
                let batches = stream::iter(batches.clone().into_iter().map(Ok));
                Box::pin(RecordBatchStreamAdapter::new(schema, batches))
            }
            Self::Disk(rows) => rows.read_all(0..rows.segments.len()),
        }
    }
}

impl DisplayAs for ReadOnceExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::TreeRender => write!(f, "number={}", self.number),
            _ => write!(f, "ReadOnceExec: number={}", self.number),
        }
    }
}

impl ExecutionPlan for ReadOnceExec {
    fn name(&self) -> &str {
        "ReadOnceExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.input_distribution_requirements().into_per_child()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    crate::operator::one_input::one_input!();

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition > 0 {
            return internal_err!("ReadOnceExec has one partition, not {partition}");
        }
        let (this, schema) = (self.clone(), self.schema());
        let batches = stream::once(async move {
            let rows = this.rows.get_or_try_init(|| this.read(&context)).await?;
            Ok::<_, DataFusionError>(rows.batches(this.schema()))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches.try_flatten())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::Int64Type;
    use datafusion::datasource::memory::MemorySourceConfig;
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::physical_plan::union::UnionExec;
    use datafusion::physical_plan::{collect, execution_plan::reset_plan_states};
    use datafusion::prelude::{SessionConfig, SessionContext};

    use super::*;

    /// Rows that do not fit into memory are on disk for all that read them, and a plan of its own reads them anew.
    #[tokio::test]
    async fn rows_beyond_memory_are_read_from_disk() -> Result<()> {
        let batches: Vec<RecordBatch> = (0..40_i64)
            .map(|number| {
                let values = Int64Array::from_iter_values(number * 1000..(number + 1) * 1000);
                RecordBatch::try_from_iter([("x", Arc::new(values) as _)]).unwrap()
            })
            .collect();
        let schema = batches[0].schema();
        for (bytes, spill, is_refused) in
            [(usize::MAX, "auto", false), (100_000, "auto", false), (100_000, "never", true)]
        {
            let node = || -> Result<Arc<dyn ExecutionPlan>> {
                let input = MemorySourceConfig::try_new_exec(
                    std::slice::from_ref(&batches),
                    Arc::clone(&schema),
                    None,
                )?;
                Ok(Arc::new(ReadOnceExec::new(input, 1)))
            };
            let plan = ReadOnceExec::link(UnionExec::try_new(vec![node()?, node()?])?)?;
            let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes));
            let runtime =
                RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&pool)).build_arc()?;
            let mut config = SessionConfig::new().with_option_extension(SimJoinOptions::default());
            config.options_mut().set("simjoin.spill", spill)?;
            let context = SessionContext::new_with_config_rt(config, runtime);
            let answer = collect(reset_plan_states(plan)?, context.task_ctx()).await;
            if is_refused {
                let message = answer.unwrap_err().to_string();
                assert!(message.contains("ReadOnce"), "{message}");
                continue;
            }
            let mut values: Vec<i64> = vec![];
            for batch in answer? {
                values.extend(batch.column(0).as_primitive::<Int64Type>().values());
            }
            values.sort_unstable();
            assert!(values.iter().copied().eq((0..80_000).map(|value| value / 2)));
            assert_eq!(pool.reserved(), 0);
        }
        Ok(())
    }
}
