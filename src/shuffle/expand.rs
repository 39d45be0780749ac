//! The second pass: each row to the tasks that may join it.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{EmissionType, SchedulingType};
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, Partitioning, PlanProperties, apply_expression_roots,
};
use futures::{StreamExt, TryStreamExt};

use crate::operator::once::{OnceExecution, OnceFut};
use crate::operator::tuning::tuning_of;
use crate::shuffle::grid::{GridPairs, GridSpec};
use crate::shuffle::histogram::Histogram;
use crate::shuffle::placed::PlacedRows;
use crate::shuffle::send::{GridMetrics, Routes, Sender, TILE_COLUMN};

/// Each sender has a list of all tasks.
const MOST_TASKS: usize = 1 << 20;

/// Gives each row once for each tile that may join it, with the tile in a column behind the
/// others, [`TILE_COLUMN`]. A tile is the work of a task, or a part of it.
///
/// The tiles follow from the positions of the rows of both sides on the axis: every partition reads
/// the histograms of both ([`AxisHistogramExec`]) and derives the same tiles from them. Values of
/// the tile column are chosen so that a repartitioning by their hash into [`GridSpec::tasks`]
/// partitions brings each tile to its task; the join is right wherever they land. Rows that cannot
/// match anything are dropped, or where their side [visits once](GridSpec::visits_once) spread over
/// all tasks.
///
/// Where a row goes depends on nothing but its content and the histograms: a task that is run
/// again sends the same rows to the same tasks.
///
/// [`AxisHistogramExec`]: crate::shuffle::AxisHistogramExec
#[derive(Debug)]
pub struct AxisGridExec {
    input: Arc<dyn ExecutionPlan>,
    histograms: Vec<Arc<dyn ExecutionPlan>>,
    rows: PlacedRows,
    spec: GridSpec,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    routes: OnceExecution<Routes>,
}

impl AxisGridExec {
    /// Sends the rows of `input`, one side of the join `spec`, placed by `rows`. `histograms` are
    /// those of the left and of the right side, or one that is both.
    ///
    /// # Errors
    ///
    /// When the family cannot join the argument, or a histogram is something else.
    pub fn try_new(
        input: Arc<dyn ExecutionPlan>,
        histograms: Vec<Arc<dyn ExecutionPlan>>,
        rows: PlacedRows,
        spec: GridSpec,
    ) -> Result<Self> {
        rows.reader(&input.schema())?;
        if !(1..=2).contains(&histograms.len()) {
            return internal_err!("AxisGridExec has {} histograms, not 1 or 2", histograms.len());
        }
        if let Some(other) = histograms.iter().find(|plan| plan.schema() != Histogram::schema()) {
            return internal_err!("{} gives no histogram of positions", other.name());
        }
        if !(1..=MOST_TASKS).contains(&spec.tasks) {
            return internal_err!(
                "a similarity join is to be shared by {} tasks, not by 1 to {MOST_TASKS}",
                spec.tasks
            );
        }
        let mut fields: Vec<_> = input.schema().fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new(TILE_COLUMN, DataType::UInt32, false)));
        let schema = Schema::new_with_metadata(fields, input.schema().metadata().clone());
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::new(schema)),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            EmissionType::Incremental,
            input.boundedness(),
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Ok(Self {
            input,
            histograms,
            rows,
            spec,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            routes: OnceExecution::default(),
        })
    }

    /// The expressions that place the rows.
    pub fn rows(&self) -> &PlacedRows {
        &self.rows
    }

    /// The join whose rows are sent.
    pub fn spec(&self) -> &GridSpec {
        &self.spec
    }

    /// The rows.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// The histograms of the left and of the right side, or the one that is both.
    pub fn histograms(&self) -> &[Arc<dyn ExecutionPlan>] {
        &self.histograms
    }

    /// The tile column, as an expression over the output.
    pub(crate) fn tile_column(&self) -> Column {
        Column::new(TILE_COLUMN, self.input.schema().fields().len())
    }

    fn partition_count(&self) -> usize {
        self.properties.output_partitioning().partition_count()
    }

    /// The routes of the execution that `partition` belongs to.
    fn routes(&self, partition: usize, context: &Arc<TaskContext>) -> Result<OnceFut<Routes>> {
        self.routes.get(partition, self.partition_count(), || {
            let (spec, side, keyed) = (self.spec, self.rows.side, self.rows.is_keyed());
            let axis = self.rows.family.axis(spec.predicate)?;
            let streams = self.histograms.iter().map(|plan| plan.execute(0, Arc::clone(context)));
            let streams = streams.collect::<Result<Vec<_>>>()?;
            Ok(async move {
                let mut histograms = vec![];
                for mut stream in streams {
                    let mut histogram = Histogram::new(keyed);
                    while let Some(batch) = stream.next().await.transpose()? {
                        histogram.merge(&batch)?;
                    }
                    histograms.push(histogram.with_heavy_items());
                }
                match histograms.as_slice() {
                    [both] => Routes::new(spec, axis, side, [both, both]),
                    [left, right] => Routes::new(spec, axis, side, [left, right]),
                    _ => internal_err!("AxisGridExec has {} histograms", histograms.len()),
                }
            })
        })
    }
}

impl DisplayAs for AxisGridExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if t == DisplayFormatType::TreeRender {
            writeln!(f, "side={}", self.rows.side)?;
            return writeln!(f, "tasks={}", self.spec.tasks);
        }
        write!(f, "AxisGridExec: {}, tasks={}", self.rows, self.spec.tasks)?;
        f.write_str(match self.spec.pairs {
            GridPairs::All => "",
            GridPairs::Within => ", rows near to each other once",
            GridPairs::Across => ", rows apart from each other",
        })?;
        if self.spec.visits_once[self.rows.side as usize] {
            f.write_str(", each row to one task")?;
        }
        Ok(())
    }
}

impl ExecutionPlan for AxisGridExec {
    fn name(&self) -> &str {
        "AxisGridExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        std::iter::once(&self.input).chain(&self.histograms).collect()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        let mut requirements = vec![Distribution::SinglePartition; 1 + self.histograms.len()];
        requirements[0] = Distribution::UnspecifiedDistribution;
        InputDistributionRequirements::new(requirements)
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.input_distribution_requirements().into_per_child()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.rows.expressions(), f)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut children = children.into_iter();
        let Some(input) = children.next() else {
            return internal_err!("AxisGridExec lacks its input");
        };
        Ok(Arc::new(Self::try_new(input, children.collect(), self.rows.clone(), self.spec)?))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        for histogram in &self.histograms {
            let partitions = histogram.output_partitioning().partition_count();
            if partitions != 1 {
                return internal_err!(
                    "AxisGridExec reads a histogram of one partition, not {partitions}; add a \
                     CoalescePartitionsExec"
                );
            }
        }
        let routes = self.routes(partition, &context)?;
        let input = self.input.execute(partition, Arc::clone(&context))?;
        let reader = self.rows.reader(&input.schema())?;
        let metrics = GridMetrics::new(&self.metrics, partition);
        let config = context.session_config();
        let sizes = (config.batch_size().max(1), tuning_of(config));
        let schema = self.schema();
        let expanded = futures::stream::once(async move {
            let routes = routes.await.map_err(DataFusionError::Shared)?;
            let sender = Sender::new(routes, reader, metrics, schema, sizes);
            Ok::<_, DataFusionError>(sender.into_stream(input))
        });
        let stream = Box::pin(expanded.try_flatten());
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(self.schema(), stream))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
