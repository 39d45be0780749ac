//! Writes of files, whose errors name the file and say why it could not be written.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::execution::object_store::{
    DefaultObjectStoreRegistry, ObjectStoreRegistry, ObjectStoreUrl,
};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PhysicalExpr,
    PlanProperties,
};
use futures::StreamExt;

use super::pipes::PIPES;
use super::store::WrittenFiles;
use crate::storage::{DataDirs, Layered};

/// A [`DataSinkExec`], to everyone but for its errors: DataFusion drops what the object store says
/// in places, and tells of a bug instead.
#[derive(Debug)]
pub(super) struct WatchedSink {
    sink: Arc<dyn ExecutionPlan>,
    /// Whether the sink may write into pipes of this process.
    has_pipes: bool,
}

impl WatchedSink {
    pub(super) fn of(
        plan: &Arc<dyn ExecutionPlan>,
        has_pipes: bool,
    ) -> Option<Arc<dyn ExecutionPlan>> {
        let is_new = plan.is::<DataSinkExec>() && plan.downcast_delegate().is_none();
        let watched = || Self { sink: Arc::clone(plan), has_pipes };
        is_new.then(|| Arc::new(watched()) as Arc<dyn ExecutionPlan>)
    }

    fn over(&self, sink: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(Self { sink, has_pipes: self.has_pipes })
    }
}

impl DisplayAs for WatchedSink {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        self.sink.fmt_as(format, f)
    }
}

impl ExecutionPlan for WatchedSink {
    fn name(&self) -> &str {
        self.sink.name()
    }

    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        Some(self.sink.as_ref())
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.sink.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.sink.children()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.sink.input_distribution_requirements()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.sink.benefits_from_input_partitioning()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.sink.apply_expressions(f)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.over(Arc::clone(&self.sink).replace_children(children, options)?))
    }

    #[allow(deprecated)]
    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.over(Arc::clone(&self.sink).with_new_children(children)?))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let local = ObjectStoreUrl::local_filesystem();
        let pipes = self.has_pipes.then(|| context.session_config().get_extension::<DataDirs>());
        let store = context.runtime_env().object_store(&local)?;
        let files = Arc::new(Layered(WrittenFiles::new(store, pipes)));
        let registry = DefaultObjectStoreRegistry::new();
        registry.register_store(local.as_ref(), Arc::clone(&files) as _);
        // The rows may come from a pipe.
        let pipes = ObjectStoreUrl::parse(PIPES)?;
        if let Ok(store) = context.runtime_env().object_store(&pipes) {
            registry.register_store(pipes.as_ref(), store);
        }
        let runtime = RuntimeEnv {
            object_store_registry: Arc::new(registry),
            ..context.runtime_env().as_ref().clone()
        };
        let written = self.sink.execute(partition, with_runtime(&context, runtime))?;
        let schema = written.schema();
        let rows =
            written.map(move |rows| rows.map_err(|error| files.0.failure().unwrap_or(error)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.sink.metrics()
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.sink.statistics_from_inputs(inputs, args)
    }
}

fn with_runtime(context: &TaskContext, runtime: RuntimeEnv) -> Arc<TaskContext> {
    Arc::new(TaskContext::new(
        context.task_id(),
        context.session_id(),
        context.session_config().clone(),
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        Arc::new(runtime),
    ))
}
