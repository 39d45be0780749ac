//! A leaf of a plan that gives out streams which have begun.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use parking_lot::Mutex;

/// Streams as the partitions of a plan, each given out once.
pub(crate) struct StreamsExec {
    streams: Mutex<Vec<Option<SendableRecordBatchStream>>>,
    properties: Arc<PlanProperties>,
    statistics: Arc<Statistics>,
}

impl StreamsExec {
    /// A plan of one partition for each of `streams`, whose rows have `schema`.
    pub(crate) fn new(schema: SchemaRef, streams: Vec<SendableRecordBatchStream>) -> Self {
        let statistics = Arc::new(Statistics::new_unknown(&schema));
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(streams.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let streams = Mutex::new(streams.into_iter().map(Some).collect());
        Self { streams, properties: Arc::new(properties), statistics }
    }

    /// The plan with `statistics` of all its rows together.
    pub(crate) fn with_statistics(self, statistics: Statistics) -> Self {
        Self { statistics: Arc::new(statistics), ..self }
    }
}

impl fmt::Debug for StreamsExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamsExec").finish_non_exhaustive()
    }
}

impl DisplayAs for StreamsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for StreamsExec {
    fn name(&self) -> &str {
        "StreamsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        match self.streams.lock().get_mut(partition).and_then(Option::take) {
            Some(stream) => Ok(stream),
            None => internal_err!("the rows of partition {partition} are read once"),
        }
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&self.statistics))
    }
}
