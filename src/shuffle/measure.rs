//! The first pass: how many rows lie at each position.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning,
    PlanProperties, apply_expression_roots,
};
use futures::StreamExt;

use crate::shuffle::histogram::{Counter, Histogram};
use crate::shuffle::placed::PlacedRows;

/// Counts the rows of each input partition by their position on the axis and the class of their
/// blocking key.
///
/// Each partition gives one batch of at most a few thousand rows; the reader adds the batches up. A
/// partition holds no more than that beside its current input batch.
#[derive(Debug)]
pub struct AxisHistogramExec {
    input: Arc<dyn ExecutionPlan>,
    rows: PlacedRows,
    times: u64,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl AxisHistogramExec {
    /// Counts the rows of `input` at the places that `rows` gives them. Each row counts `times`
    /// times: where `input` is a sample, the number of rows that it stands for.
    ///
    /// # Errors
    ///
    /// When the family cannot join the argument.
    pub fn try_new(input: Arc<dyn ExecutionPlan>, rows: PlacedRows, times: u64) -> Result<Self> {
        rows.reader(&input.schema())?;
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Histogram::schema()),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            EmissionType::Final,
            input.boundedness(),
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Ok(Self {
            input,
            rows,
            times,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The expressions that place the rows.
    pub fn rows(&self) -> &PlacedRows {
        &self.rows
    }

    /// The number of rows that each row of the input stands for.
    pub fn times(&self) -> u64 {
        self.times
    }
}

impl DisplayAs for AxisHistogramExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::TreeRender => writeln!(f, "side={}", self.rows.side),
            _ => {
                write!(f, "AxisHistogramExec: {}", self.rows)?;
                match self.times {
                    1 => Ok(()),
                    times => write!(f, ", a sample of one in {times}"),
                }
            }
        }
    }
}

impl ExecutionPlan for AxisHistogramExec {
    fn name(&self) -> &str {
        "AxisHistogramExec"
    }

    fn schema(&self) -> SchemaRef {
        Histogram::schema()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.rows.expressions(), f)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => {
                Ok(Arc::new(Self::try_new(input, self.rows.clone(), self.times)?))
            }
            _ => internal_err!("AxisHistogramExec has one child"),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let mut input = self.input.execute(partition, context)?;
        let mut reader = self.rows.reader(&input.schema())?;
        let (keyed, times) = (self.rows.is_keyed(), self.times);
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let input_rows = MetricBuilder::new(&self.metrics).counter("input_rows", partition);
        let count = async move {
            let mut counter = Counter::new(keyed);
            let mut shapes = vec![];
            while let Some(batch) = input.next().await.transpose()? {
                let _timer = baseline.elapsed_compute().timer();
                input_rows.add(batch.num_rows());
                reader.read(&batch, &mut shapes)?;
                counter.add(&shapes);
            }
            let mut histogram = counter.finish();
            histogram.scale(times);
            Ok(histogram.to_batch()?.record_output(&baseline))
        };
        let stream =
            RecordBatchStreamAdapter::new(self.schema(), Box::pin(futures::stream::once(count)));
        Ok(Box::pin(cooperative(stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
