//! Scans of files whose errors name the file.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, not_impl_err};
use datafusion::datasource::physical_plan::{FileOpener, FileScanConfig, FileSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::object_store::ObjectStore;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_plan::filter_pushdown::FilterPushdownPropagation;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan, PhysicalExpr};
use datafusion_datasource::PartitionedFile;
use datafusion_datasource::morsel::{Morsel, MorselPlan, MorselPlanner, Morselizer};
use futures::stream::BoxStream;

use super::lists;
use super::pipes::Pipes;
use super::reading::FileName;
use super::sink::WatchedSink;
use super::statistics::without_pruning_by_floats;
use super::text::{self, Cuts, Rule, TextScan};

/// Watches the scans of a plan that another process has made, and what it writes.
pub fn watch_plan(
    plan: Arc<dyn ExecutionPlan>,
    pipes: &Arc<Pipes>,
) -> Result<Arc<dyn ExecutionPlan>> {
    watch_scans(plan, pipes, &[])
}

/// Watches the scans of a plan that is about to run, and what it writes. `rules` say how its tables are
/// read.
///
/// Optimizer rules and codecs look for the sources that DataFusion has, so this is the last change
/// to a plan.
pub(super) fn watch_scans(
    plan: Arc<dyn ExecutionPlan>,
    pipes: &Arc<Pipes>,
    rules: &[Rule],
) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|plan| {
        if let Some(scan) = plan.downcast_ref::<DataSourceExec>()
            && let Some(config) = scan.data_source().downcast_ref::<FileScanConfig>()
            && !config.file_source.is::<WatchedSource>()
        {
            let mut config = config.clone();
            let files = config.file_groups.iter().flat_map(|group| group.files());
            let columns = config.file_source.table_schema().file_schema().fields();
            let rule = match files.map(|file| &file.object_meta.location).next() {
                Some(file) => Rule::choose(rules, file, columns)?,
                None => Rule::default(),
            };
            let watched = WatchedSource {
                inner: without_pruning_by_floats(&config.file_source)?,
                pipes: Arc::clone(pipes),
                rule: Arc::new(rule),
                cuts: Arc::default(),
                batch_size: 0,
            };
            config.file_source = Arc::new(watched);
            let scan = scan.clone().with_data_source(Arc::new(config));
            return Ok(Transformed::yes(Arc::new(scan) as Arc<dyn ExecutionPlan>));
        }
        Ok(match WatchedSink::of(&plan, pipes.may_be_written()) {
            Some(sink) => Transformed::yes(sink),
            None => Transformed::no(plan),
        })
    })
    .data()
}

/// A source of rows of files, with all that it is but for its readers of text and of lists, and its errors.
#[derive(Clone)]
struct WatchedSource {
    inner: Arc<dyn FileSource>,
    pipes: Arc<Pipes>,
    rule: Arc<Rule>,
    cuts: Arc<Cuts>,
    /// The rows of a batch, once they are known.
    batch_size: usize,
}

impl WatchedSource {
    fn over(&self, inner: Arc<dyn FileSource>) -> Self {
        Self { inner, ..self.clone() }
    }
}

impl FileSource for WatchedSource {
    fn create_file_opener(
        &self,
        _: Arc<dyn ObjectStore>,
        _: &FileScanConfig,
        _: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        not_impl_err!("a watched source opens files by create_morselizer")
    }

    fn create_morselizer(
        &self,
        store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
    ) -> Result<Box<dyn Morselizer>> {
        let mut config = config.clone();
        config.file_source = Arc::clone(&self.inner);
        let scan = TextScan {
            source: &self.inner,
            store: Arc::clone(&store),
            config: &config,
            rule: &self.rule,
            cuts: &self.cuts,
            batch_size: self.batch_size,
        };
        let inner = match text::morselizer(&scan)? {
            Some(text) => text,
            None => lists::morselizer(&self.inner, store, &config, partition)?,
        };
        Ok(Box::new(WatchedMorselizer { inner, pipes: Arc::clone(&self.pipes) }))
    }

    fn table_schema(&self) -> &TableSchema {
        self.inner.table_schema()
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        let sized = self.over(self.inner.with_batch_size(batch_size));
        Arc::new(Self { batch_size, ..sized })
    }

    fn filter(&self) -> Option<Arc<dyn PhysicalExpr>> {
        self.inner.filter()
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        self.inner.projection()
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        self.inner.metrics()
    }

    fn file_type(&self) -> &str {
        self.inner.file_type()
    }

    fn fmt_extra(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        self.inner.fmt_extra(format, f)
    }

    fn supports_repartitioning(&self) -> bool {
        self.inner.supports_repartitioning()
    }

    fn reorder_files(&self, files: Vec<PartitionedFile>) -> Vec<PartitionedFile> {
        self.inner.reorder_files(files)
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn FileSource>>> {
        let mut pushed = self.inner.try_pushdown_filters(filters, config)?;
        pushed.updated_node = pushed.updated_node.map(|node| Arc::new(self.over(node)) as _);
        Ok(pushed)
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.inner.apply_expressions(f)
    }
}

#[derive(Debug)]
struct WatchedMorselizer {
    inner: Box<dyn Morselizer>,
    pipes: Arc<Pipes>,
}

impl Morselizer for WatchedMorselizer {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        let name = self.pipes.name(&file.object_meta.location);
        let inner = name.step(|| self.inner.plan_file(file))?;
        Ok(Box::new(WatchedPlanner { inner, name }))
    }
}

#[derive(Debug)]
struct WatchedPlanner {
    inner: Box<dyn MorselPlanner>,
    name: FileName,
}

impl MorselPlanner for WatchedPlanner {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        let Self { inner, name } = *self;
        let Some(mut plan) = name.step(|| inner.plan())? else { return Ok(None) };
        let watch = |inner, name: &FileName| -> Box<dyn MorselPlanner> {
            Box::new(WatchedPlanner { inner, name: name.clone() })
        };
        let morsels = plan.take_morsels().into_iter().map(|inner| -> Box<dyn Morsel> {
            Box::new(WatchedMorsel { inner, name: name.clone() })
        });
        let planners = plan.take_ready_planners().into_iter().map(|inner| watch(inner, &name));
        let mut watched =
            MorselPlan::new().with_morsels(morsels.collect()).with_planners(planners.collect());
        if let Some(pending) = plan.take_pending_planner() {
            watched.set_pending_planner(async move {
                let inner = name.wait(pending).await?;
                Ok(watch(inner, &name))
            });
        }
        Ok(Some(watched))
    }
}

#[derive(Debug)]
struct WatchedMorsel {
    inner: Box<dyn Morsel>,
    name: FileName,
}

impl Morsel for WatchedMorsel {
    fn into_stream(self: Box<Self>) -> BoxStream<'static, Result<RecordBatch>> {
        self.name.stream(self.inner.into_stream())
    }
}
