//! Connected components of pairs.

mod united;

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties,
    PlanProperties,
};
use futures::{StreamExt, TryStreamExt};

use self::united::United;
use super::labels::Labels;
use super::nodes::NO_ID;
use super::operator::{properties_of, reads_pairs};
use crate::operator::once::OnceExecution;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::Threads;

/// The partitions of the input that are united.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    /// All partitions, by one process; its output partitions share the nodes.
    Process,
    /// The only partition of the input, to which the tasks of a cluster have sent their pairs.
    Single,
    /// Each partition by itself. The output is pairs again, at most one for each node and level: a node, and
    /// the least node of its component.
    Partial,
}

impl fmt::Display for Merge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Process => "process",
            Self::Single => "single",
            Self::Partial => "partial",
        })
    }
}

/// The connected components of pairs of nodes.
///
/// The input has the columns left, right and, for several levels, the number of the first level at
/// which a pair counts (`Int32`; NULL: at none). It counts at all later levels too. NULL on one side
/// declares a node without a partner. The output has a row for each node: the node, and for each
/// level the least node of its component and the number of nodes in it.
///
/// Memory: 8 bytes for each node and level where nodes are integers of a narrow range; otherwise also
/// a table of the distinct values. It is reserved, and a resource error ends the query where it is
/// refused.
#[derive(Debug)]
pub struct ConnectedComponentsExec {
    input: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    merge: Merge,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    once: OnceExecution<Labels>,
}

impl ConnectedComponentsExec {
    /// Components of the pairs of `input`. `schema` has the columns of the output, two for each level
    /// after the first.
    ///
    /// # Errors
    ///
    /// An internal error where the input lacks columns.
    pub fn try_new(input: Arc<dyn ExecutionPlan>, schema: SchemaRef, merge: Merge) -> Result<Self> {
        let columns = input.schema().fields().len();
        if !(2..=3).contains(&columns) || schema.fields().len() < 2 {
            return internal_err!("components are made of 2 or 3 columns, not of {columns}");
        }
        let output = match merge {
            Merge::Partial => nullable(&input.schema()),
            Merge::Process | Merge::Single => Arc::clone(&schema),
        };
        let partitions = match merge {
            Merge::Single => 1,
            Merge::Process | Merge::Partial => input.output_partitioning().partition_count(),
        };
        let properties = properties_of(&input, output, partitions, EmissionType::Final);
        Ok(Self {
            input,
            schema,
            merge,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
            once: OnceExecution::default(),
        })
    }

    /// The columns of the output of the last merge.
    pub fn labels_schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The partitions that are united.
    pub fn merge(&self) -> Merge {
        self.merge
    }

    fn with_input(&self, input: Arc<dyn ExecutionPlan>) -> Result<Self> {
        Self::try_new(input, Arc::clone(&self.schema), self.merge)
    }

    /// Levels of the labels.
    fn levels(&self) -> usize {
        (self.schema.fields().len() - 1) / 2
    }

    fn partitions(&self) -> usize {
        self.properties.output_partitioning().partition_count()
    }

    /// Reads pairs from partitions of the input, and labels their nodes.
    fn unite(
        &self,
        inputs: Vec<SendableRecordBatchStream>,
        partition: usize,
        context: &TaskContext,
    ) -> Result<impl Future<Output = Result<Labels>> + Send + 'static> {
        let consumer = MemoryConsumer::new(format!("connected_components[{partition}]"));
        let memory = consumer.register(context.memory_pool());
        let node = self.input.schema().field(0).data_type().clone();
        let united = Arc::new(United::try_new(&node, self.levels(), memory)?);
        let pairs = MetricBuilder::new(&self.metrics).counter("pairs", partition);
        let unions = MetricBuilder::new(&self.metrics).counter("unions", partition);
        let components = MetricBuilder::new(&self.metrics).counter("components", partition);
        let threads = Threads::usual(inputs.len());
        Ok(async move {
            let mut tasks = tokio::task::JoinSet::new();
            for input in inputs {
                tasks.spawn(unite_all(input, Arc::clone(&united), pairs.clone(), unions.clone()));
            }
            while let Some(ended) = tasks.join_next().await {
                ended.map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))??;
            }
            let cancel = CancelFlag::default();
            let _guard = cancel.on_drop();
            let label = move || {
                let labels = united.label(threads, &cancel)?;
                components.add(labels.components());
                Ok(labels)
            };
            let labelled = tokio::task::spawn_blocking(label).await;
            labelled.map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))?
        })
    }
}

async fn unite_all(
    mut input: SendableRecordBatchStream,
    united: Arc<United>,
    pairs: Count,
    unions: Count,
) -> Result<()> {
    while let Some(batch) = input.next().await {
        let batch = batch?;
        pairs.add(batch.num_rows());
        unions.add(united.add(&batch)?);
        // The union is work of its own beside that of the input.
        tokio::task::coop::consume_budget().await;
    }
    Ok(())
}

impl DisplayAs for ConnectedComponentsExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::TreeRender => write!(f, "merge={}", self.merge),
            _ => {
                write!(f, "ConnectedComponentsExec: merge={}", self.merge)?;
                match self.levels() {
                    1 => Ok(()),
                    levels => write!(f, ", levels={levels}"),
                }
            }
        }
    }
}

impl ExecutionPlan for ConnectedComponentsExec {
    fn name(&self) -> &str {
        "ConnectedComponentsExec"
    }

    reads_pairs!();

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![match self.merge {
            Merge::Single => Distribution::SinglePartition,
            Merge::Process | Merge::Partial => Distribution::UnspecifiedDistribution,
        }]
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let partitions = self.partitions();
        if partition >= partitions {
            return internal_err!("{} has {partitions} partitions, not {partition}", self.name());
        }
        let inputs = match self.merge {
            Merge::Process => 0..partitions,
            Merge::Single => 0..1,
            Merge::Partial => partition..partition + 1,
        };
        let make = || {
            let execute = |input| self.input.execute(input, Arc::clone(&context));
            let inputs = inputs.map(execute).collect::<Result<Vec<_>>>()?;
            self.unite(inputs, partition, &context)
        };
        let labels = match self.merge {
            Merge::Process => self.once.get(partition, partitions, make)?,
            Merge::Single | Merge::Partial => crate::operator::once::once_fut(make()?),
        };
        let batch_size = context.session_config().batch_size();
        let (schema, is_partial) = (self.schema(), self.merge == Merge::Partial);
        let emitted = BaselineMetrics::new(&self.metrics, partition);
        let rows = futures::stream::once(async move {
            let labels = labels.await.map_err(DataFusionError::Shared)?;
            let rows = futures::stream::try_unfold(labels, move |labels| {
                let next = labels.take(batch_size).map(|ids| {
                    let _timer = emitted.elapsed_compute().timer();
                    let batch = match is_partial {
                        true => pairs_of(&labels, &ids, &schema),
                        false => rows_of(&labels, &ids, &schema),
                    };
                    batch.inspect(|batch| emitted.record_output(batch.num_rows()))
                });
                std::future::ready(next.transpose().map(|batch| batch.map(|b| (b, labels))))
            });
            Ok::<_, DataFusionError>(rows)
        })
        .try_flatten();
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(self.schema(), Box::pin(rows)))))
    }
}

/// The columns of pairs, where a node may be alone.
fn nullable(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Rows of the output: a node, and for each level its component and the size.
fn rows_of(labels: &Labels, ids: &[u32], schema: &SchemaRef) -> Result<RecordBatch> {
    let mut columns = vec![labels.values(ids)?];
    for level in 0..labels.levels() {
        columns.push(labels.values(&labels.least_of(level, ids))?);
        columns.push(labels.sizes_of(level, ids));
    }
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

/// Pairs that have the components of the labels: at each level a node and the least of its component;
/// a node alone where it is alone at all levels.
fn pairs_of(labels: &Labels, ids: &[u32], schema: &SchemaRef) -> Result<RecordBatch> {
    let (mut left, mut right, mut levels) = (vec![], vec![], vec![]);
    let components: Vec<_> = (0..labels.levels()).map(|l| labels.least_of(l, ids)).collect();
    for (i, id) in ids.iter().enumerate() {
        let mut before = *id;
        for (level, components) in components.iter().enumerate() {
            let least = components.get(i).copied().unwrap_or(*id);
            // What a level before has united is united here too.
            if least != before {
                left.push(*id);
                right.push(least);
                levels.push(Some(level as i32));
                before = least;
            }
        }
        if before == *id {
            left.push(*id);
            right.push(NO_ID);
            levels.push(None);
        }
    }
    let mut columns: Vec<ArrayRef> = vec![labels.values(&left)?, labels.values(&right)?];
    if schema.fields().len() > 2 {
        columns.push(Arc::new(Int32Array::from(levels)));
    }
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}
