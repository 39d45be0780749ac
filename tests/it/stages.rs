//! An engine like Ballista in one process: a plan is cut into stages at its shuffles, and each
//! task of a stage is a copy of the stage's plan, with its inputs cut down to some partitions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::metrics::Time;
use datafusion::physical_plan::repartition::{BatchPartitioner, RepartitionExec};
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{
    Distribution, ExecutionPlan, ExecutionPlanProperties, Partitioning, collect_partitioned,
    replace_children_if_necessary,
};
use futures::future::{BoxFuture, FutureExt};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

type Plan = Arc<dyn ExecutionPlan>;

/// How many stages have sent rows.
static STAGES: AtomicU64 = AtomicU64::new(0);

/// How many tasks ran, and how many partitions a task has at most.
#[derive(Debug)]
pub struct Stages {
    pub context: Arc<TaskContext>,
    pub partitions_per_task: usize,
}

impl Stages {
    /// The answer of a plan.
    pub async fn run(&self, plan: Plan) -> Result<Vec<RecordBatch>> {
        let last = self.without_shuffles(plan).await?;
        Ok(self.tasks(last).await?.into_iter().flatten().collect())
    }

    /// `plan` with the output of its earlier stages in memory.
    fn without_shuffles(&self, plan: Plan) -> BoxFuture<'_, Result<Plan>> {
        async move {
            let mut children = vec![];
            for child in plan.children() {
                children.push(self.without_shuffles(Arc::clone(child)).await?);
            }
            let plan = replace_children_if_necessary(plan, children)?;
            let input = match plan.children().first() {
                Some(input) => Arc::clone(input),
                None => return self.scanned(plan).await,
            };
            if let Some(repartition) = plan.downcast_ref::<RepartitionExec>() {
                return match repartition.partitioning() {
                    Partitioning::Hash(exprs, partitions) => {
                        let mut parts = vec![vec![]; *partitions];
                        for batch in self.tasks(Arc::clone(&input)).await?.into_iter().flatten() {
                            let exprs = exprs.clone();
                            BatchPartitioner::new_hash_partitioner(
                                exprs,
                                *partitions,
                                Time::default(),
                            )?
                            .partition(
                                batch,
                                |partition, batch| {
                                    parts[partition].push(batch);
                                    Ok(())
                                },
                            )?;
                        }
                        // What tasks have sent is fetched in any order, by each stage in its own.
                        let stage = STAGES.fetch_add(1, Ordering::Relaxed);
                        let mut rng = StdRng::seed_from_u64(stage);
                        parts.iter_mut().for_each(|part| part.shuffle(&mut rng));
                        in_memory(&parts, &input)
                    }
                    // Others are not made: tasks follow the partitions of the input.
                    _ => Ok(input),
                };
            }
            if is_gathering(&plan) {
                let parts = self.tasks(Arc::clone(&input)).await?;
                return replace_children_if_necessary(plan, vec![in_memory(&parts, &input)?]);
            }
            Ok(plan)
        }
        .boxed()
    }

    /// The rows of a scan in memory, from where tasks take their partitions.
    async fn scanned(&self, scan: Plan) -> Result<Plan> {
        if memory_of(&scan).is_some() || !scan.is::<DataSourceExec>() {
            return Ok(scan);
        }
        let parts = collect_partitioned(Arc::clone(&scan), Arc::clone(&self.context)).await?;
        in_memory(&parts, &scan)
    }

    /// The output of a stage, by partition.
    async fn tasks(&self, stage: Plan) -> Result<Vec<Vec<RecordBatch>>> {
        let partitions: Vec<usize> = (0..stage.output_partitioning().partition_count()).collect();
        let mut output = vec![];
        for slice in partitions.chunks(self.partitions_per_task) {
            let task = reset_plan_states(restricted(Arc::clone(&stage), slice, false)?)?;
            assert_eq!(task.output_partitioning().partition_count(), slice.len());
            output.extend(collect_partitioned(task, Arc::clone(&self.context)).await?);
        }
        Ok(output)
    }
}

fn in_memory(parts: &[Vec<RecordBatch>], like: &Plan) -> Result<Plan> {
    let config = MemorySourceConfig::try_new(parts, like.schema(), None)?;
    Ok(DataSourceExec::from_data_source(config))
}

fn memory_of(plan: &Plan) -> Option<&MemorySourceConfig> {
    let source: &dyn std::any::Any = plan.downcast_ref::<DataSourceExec>()?.data_source().as_ref();
    source.downcast_ref()
}

fn is_gathering(plan: &Plan) -> bool {
    plan.is::<CoalescePartitionsExec>() || plan.is::<SortPreservingMergeExec>()
}

/// The part of `plan` that gives those partitions. An input that is read whole stays whole.
fn restricted(plan: Plan, slice: &[usize], whole: bool) -> Result<Plan> {
    if whole {
        return Ok(plan);
    }
    if let Some(source) = memory_of(&plan) {
        let kept: Vec<_> = slice.iter().map(|&i| source.partitions()[i].clone()).collect();
        let projection = source.projection().clone();
        let source = MemorySourceConfig::try_new(&kept, source.original_schema(), projection)?;
        return Ok(DataSourceExec::from_data_source(source));
    }
    let mut children = vec![];
    if plan.is::<UnionExec>() {
        let mut first = 0;
        for child in plan.children() {
            let end = first + child.output_partitioning().partition_count();
            let own = slice.iter().filter(|i| (first..end).contains(i)).map(|i| i - first);
            let own: Vec<usize> = own.collect();
            // Without partitions a child that gathers would still have one.
            if !own.is_empty() {
                children.push(restricted(Arc::clone(child), &own, false)?);
            }
            first = end;
        }
        return UnionExec::try_new(children);
    }
    let requirements = plan.input_distribution_requirements();
    for (child, requirement) in
        plan.children().into_iter().zip(requirements.per_child_distributions())
    {
        let whole = is_gathering(&plan) || matches!(requirement, Distribution::SinglePartition);
        children.push(restricted(Arc::clone(child), slice, whole)?);
    }
    replace_children_if_necessary(plan, children)
}
