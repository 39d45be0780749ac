//! The plan node.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::projection::{
    EmbeddedProjection, ProjectionExec, try_embed_projection,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, Distribution, EmptyRecordBatchStream,
    ExecutionPlan, InputDistributionRequirements, PlanProperties, ReplaceChildrenOptions,
};
use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;

use super::first::FirstPairs;
use super::held::room;
use super::input::HeldInput;
use super::matched::{StoredMatch, columns_of_match};
use super::one_to_one::is_matched;
use super::search::{BestPairSearch, Execution, OnRound, SearchOutcome};
use super::top::Pair;
use crate::config::SpillChoice;
use crate::exec::{JoinMode, ProcessCores, SetSimilarityJoinExec};
use crate::families::Families;
use crate::memory::CountedVec;
use crate::nearest::output::PairOutput;
use crate::operator::errors::is_out_of_memory;
use crate::operator::once::{OnceExecution, once_fut};
use crate::spec::{BestPairs, Nearest, SimilarityJoin, TieBreak};

/// A similarity join whose best pairs are needed.
///
/// The output holds the best pairs, and may hold others: it is made for a sort with a limit above, for a
/// filter of ranks, or for a one-to-one match.
///
/// Memory: rows of both inputs take no more than an eighth of the memory that is left, or 2 GiB where there is
/// no limit. The first pairs of all are found among windows of the probe side, or, where the build side does not
/// fit, among rows on disk. For other pairs the join runs as it was planned where not all rows fit, on what was
/// read and on the rest.
#[derive(Debug)]
pub struct BestPairsExec {
    /// The join with all its pairs. It is not executed itself.
    plain: Arc<SetSimilarityJoinExec>,
    best: BestPairs,
    families: Families,
    metrics: ExecutionPlanMetricsSet,
    /// For pairs other than the first of all.
    prepared: OnceExecution<BestPairsOutput>,
    ran: Arc<Mutex<LastRun>>,
}

/// The last execution, for EXPLAIN ANALYZE.
#[derive(Debug, Default)]
struct LastRun {
    rounds: Vec<String>,
    /// The last join.
    join: Option<Arc<SetSimilarityJoinExec>>,
    /// The rows of the output are not counted by the last join.
    has_pairs: bool,
}

/// The output of an execution.
enum BestPairsOutput {
    /// The pairs of the answer, all in the first partition.
    Pairs { output: Arc<PairOutput>, pairs: Arc<CountedVec<Pair>> },
    /// The rows of the answer, all in the first partition, which takes them.
    Rows(Mutex<Option<SendableRecordBatchStream>>),
    /// The output of a join.
    Join(Arc<SetSimilarityJoinExec>),
}

impl BestPairsExec {
    /// The join `plain` with its `best` pairs alone.
    ///
    /// # Errors
    ///
    /// When an input of `plain` has no end, when nodes are of a type that is not ranked, and when tasks share the
    /// join of a match.
    pub fn try_new(
        plain: SetSimilarityJoinExec,
        best: BestPairs,
        families: &Families,
    ) -> Result<Self> {
        if !Self::serves(&plain, best) {
            return internal_err!(
                "the best pairs of such rows are not found apart from the others"
            );
        }
        Ok(Self {
            plain: Arc::new(plain),
            best,
            families: families.clone(),
            metrics: ExecutionPlanMetricsSet::new(),
            prepared: OnceExecution::default(),
            ran: Arc::default(),
        })
    }

    /// Whether these pairs of the join are found apart from the others.
    pub(crate) fn serves(plain: &SetSimilarityJoinExec, best: BestPairs) -> bool {
        // The tasks of a broadcast may share one copy of a plan, whose build side is read once.
        !plain.properties().boundedness.is_unbounded()
            && plain.mode() != JoinMode::Broadcast
            && match best {
                BestPairs::First { .. } => true,
                // A pair stands for both of its orders there.
                BestPairs::OfEachRow { .. } => !matches!(plain.mode(), JoinMode::Mirrored { .. }),
                // Tasks do not know of each other's pairs.
                BestPairs::OneToOne { nodes } => {
                    has_one_process(plain.mode()) && is_matched(plain, nodes)
                }
            }
    }

    /// The pairs that are needed.
    pub fn best(&self) -> BestPairs {
        self.best
    }

    /// The join with all its pairs.
    pub fn plain(&self) -> &SetSimilarityJoinExec {
        &self.plain
    }

    fn partition_count(&self) -> usize {
        self.plain.properties().partitioning.partition_count()
    }

    /// Notes the rounds of an execution.
    fn on_round(&self) -> OnRound {
        let count = MetricBuilder::new(&self.metrics).counter("rounds", 0);
        let ran = Arc::clone(&self.ran);
        Arc::new(move |round, join| {
            count.add(1);
            let mut ran = ran.lock();
            ran.rounds.push(round);
            ran.join = join;
        })
    }

    /// The first pairs of all in a partition of the join, or in all of them.
    fn first(
        &self,
        (count, any_tie): (NonZeroUsize, bool),
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if has_one_process(self.plain.mode()) {
            if partition > 0 {
                return Ok(Box::pin(EmptyRecordBatchStream::new(self.schema())));
            }
            *self.ran.lock() = LastRun::default();
        }
        self.ran.lock().has_pairs = true;
        let execution = self.execution(context)?;
        Ok(FirstPairs { execution, count: count.get(), any_tie }.run(partition))
    }

    fn execution(&self, context: Arc<TaskContext>) -> Result<Execution> {
        let memory = MemoryConsumer::new("BestPairs").register(context.memory_pool());
        let plain = match self.plain.mode() {
            // The joins of one task share all threads of its process.
            JoinMode::Single => {
                let threads = ProcessCores::threads(context.session_config());
                let (join, options) = (self.plain.join().clone(), self.plain.options().clone());
                let input = self.plain.input().with_partitions(threads);
                Arc::new(SetSimilarityJoinExec::try_new(input, join, &self.families, options)?)
            }
            _ => Arc::clone(&self.plain),
        };
        Ok(Execution {
            plain,
            families: self.families.clone(),
            context,
            memory,
            metrics: self.metrics.clone(),
            on_round: self.on_round(),
        })
    }

    /// Finds the pairs, or the bound of the join that does.
    fn prepare(
        &self,
        partition: usize,
        context: &Arc<TaskContext>,
    ) -> Result<impl Future<Output = Result<BestPairsOutput>> + Send + use<>> {
        let ran = Arc::clone(&self.ran);
        if partition == 0 {
            *ran.lock() = LastRun::default();
        }
        let preparation = Preparation {
            execution: self.execution(Arc::clone(context))?,
            best: self.best,
            partition,
        };
        Ok(async move {
            let prepared = preparation.run().await?;
            let mut ran = ran.lock();
            match &prepared {
                BestPairsOutput::Pairs { .. } | BestPairsOutput::Rows(_) => ran.has_pairs = true,
                BestPairsOutput::Join(join) => {
                    let bound = join.join().predicate.bound;
                    ran.rounds.push(format!("{bound}: all pairs"));
                    ran.join = Some(Arc::clone(join));
                }
            }
            Ok(prepared)
        })
    }
}

/// Whether the partitions of a join in this mode, or its only one, are of one process.
fn has_one_process(mode: JoinMode) -> bool {
    matches!(mode, JoinMode::Shared | JoinMode::Single)
}

/// An execution before its output is known.
struct Preparation {
    execution: Execution,
    best: BestPairs,
    partition: usize,
}

impl Preparation {
    async fn run(self) -> Result<BestPairsOutput> {
        let Self { execution, best, partition } = self;
        let Execution { plain, context, memory, .. } = &execution;
        let room = match (best, plain.options().spill) {
            (BestPairs::OneToOne { .. }, SpillChoice::Always) => 0,
            _ => room(context.memory_pool()),
        };
        let memory = memory.new_empty();
        let mut held =
            HeldInput::read(Arc::clone(plain), partition, (context, [room; 2]), memory).await?;
        let mut bound = plain.join().predicate.bound;
        if let (BestPairs::OneToOne { nodes }, false) = (best, held.is_in_memory()) {
            match execution.stored_match(&mut held, nodes).await {
                Ok(Some((search, sample, columns))) => {
                    let Some(places) = columns_of_match(plain.join(), columns) else {
                        return internal_err!("a match of other columns");
                    };
                    let metrics = execution.metrics.clone();
                    let found = StoredMatch { search, sample, held, columns, metrics }.run(places);
                    return Ok(BestPairsOutput::Rows(Mutex::new(Some(found))));
                }
                // The join as planned may do with less.
                Err(error) if !is_out_of_memory(&error) => return Err(error),
                Ok(None) | Err(_) => {}
            }
        }
        if let (BestPairs::OfEachRow { count, side, ties }, false) = (best, held.is_in_memory()) {
            match execution.each_row_pays(&held, count, side).await {
                Ok(true) => {
                    let nearest = Nearest { count, with_ties: ties != TieBreak::Any };
                    let found = execution.run_on_disk(held, nearest, side)?;
                    return Ok(BestPairsOutput::Rows(Mutex::new(Some(found))));
                }
                Err(error) if !is_out_of_memory(&error) => return Err(error),
                Ok(false) | Err(_) => {}
            }
        }
        if held.is_in_memory() {
            let search = execution.search(held.tables(), held.is_itself());
            let found = match best {
                BestPairs::First { .. } => internal_err!("the first pairs of all are a stream"),
                BestPairs::OfEachRow { count, side, ties } => {
                    search.run_for_each_row(count, side, ties).await
                }
                BestPairs::OneToOne { nodes } => search.run_one_to_one(nodes).await,
            };
            match found {
                Ok(SearchOutcome::Pairs(pairs)) => return Ok(pairs_of(search, pairs)),
                Ok(SearchOutcome::Within(found)) => bound = found,
                // The join as planned may do with less.
                Err(error) if is_out_of_memory(&error) => {}
                Err(error) => return Err(error),
            }
        }
        // The rows that were read are no longer reserved, so that the join has as much memory as planned.
        let predicate = plain.join().predicate.with_bound(bound);
        let join = SimilarityJoin { predicate, ..plain.join().clone() };
        let (input, options) = (held.into_input()?, plain.options().clone());
        let (families, mode) = (&execution.families, plain.mode());
        let join =
            SetSimilarityJoinExec::try_new_in_mode(input, join, families, options, mode, None)?;
        Ok(BestPairsOutput::Join(Arc::new(join)))
    }
}

fn pairs_of(search: BestPairSearch, pairs: CountedVec<Pair>) -> BestPairsOutput {
    let BestPairSearch { join, tables: [left, right], .. } = search;
    let order = join.predicate.call.function.info().order;
    let (columns, schema) = (join.output, join.schema);
    let window = 0..right.rows() as u32;
    let output = PairOutput { columns, schema, order, is_outer: false, left, right, window };
    BestPairsOutput::Pairs { output: Arc::new(output), pairs: Arc::new(pairs) }
}

impl DisplayAs for BestPairsExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plain.fmt_as(t, f)?;
        let best = format!("best={}", self.best);
        if t == DisplayFormatType::TreeRender {
            return writeln!(f, "{best}");
        }
        write!(f, ", {best}")?;
        let ran = self.ran.lock();
        if !ran.rounds.is_empty() {
            write!(f, ", rounds=[{}]", ran.rounds.join("; "))?;
        }
        match ran.join.as_ref().and_then(|join| join.chosen()) {
            Some(chosen) => write!(f, ", chosen={chosen}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for BestPairsExec {
    fn name(&self) -> &str {
        "BestPairsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.plain.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.plain.children()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        if self.plain.mode() != JoinMode::Shared {
            return self.plain.input_distribution_requirements();
        }
        let single = vec![Distribution::SinglePartition; self.children().len()];
        InputDistributionRequirements::new(single)
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.input_distribution_requirements().into_per_child()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        match self.plain.mode() {
            JoinMode::Shared => vec![false; self.children().len()],
            _ => self.plain.benefits_from_input_partitioning(),
        }
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.plain.apply_expressions(f)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = self.plain.input().with_children(&children)?;
        let plain = self.plain.with_input(input)?;
        Ok(Arc::new(Self::try_new(plain, self.best, &self.families)?))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let children = self.children().into_iter().map(Arc::clone).collect();
        let recompute = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, recompute)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let partitions = self.partition_count();
        if partition >= partitions {
            return internal_err!("BestPairsExec has {partitions} partitions, not {partition}");
        }
        if let BestPairs::First { count, any_tie } = self.best {
            return self.first((count, any_tie), partition, context);
        }
        // Tasks have inputs of their own.
        let (own, prepared) = match self.plain.mode() {
            JoinMode::Shared => {
                let prepare = || self.prepare(0, &context);
                (partition, self.prepared.get(partition, partitions, prepare)?)
            }
            _ => (0, once_fut(self.prepare(partition, &context)?)),
        };
        let emitted = BaselineMetrics::new(&self.metrics, partition);
        let schema = self.schema();
        let batches = stream::once(prepared).map(move |prepared| {
            let prepared = prepared.map_err(DataFusionError::Shared)?;
            match prepared.as_ref() {
                // The only partition has the rows of all that share the threads.
                BestPairsOutput::Join(join) if partitions == 1 => {
                    let all: Arc<dyn ExecutionPlan> = Arc::<SetSimilarityJoinExec>::clone(join);
                    CoalescePartitionsExec::new(all).execute(0, Arc::clone(&context))
                }
                BestPairsOutput::Join(join) => join.execute(own, Arc::clone(&context)),
                BestPairsOutput::Pairs { output, pairs } => {
                    let pairs = (own == 0).then(|| Arc::clone(pairs));
                    let batch_size = context.session_config().batch_size();
                    Ok(batches_of(Arc::clone(output), pairs, batch_size, emitted.clone()))
                }
                BestPairsOutput::Rows(found) => {
                    let found = if own == 0 { found.lock().take() } else { None };
                    let none = || Box::pin(EmptyRecordBatchStream::new(schema.clone())) as _;
                    Ok(found.unwrap_or_else(none))
                }
            }
        });
        let batches = RecordBatchStreamAdapter::new(self.schema(), batches.try_flatten().boxed());
        Ok(Box::pin(cooperative(batches)))
    }

    /// The counters of the join that found the pairs, and those of the output.
    fn metrics(&self) -> Option<MetricsSet> {
        let mut metrics = self.metrics.clone_inner();
        let ran = self.ran.lock();
        let of_join = ran.join.as_ref().and_then(|join| join.metrics()).unwrap_or_default();
        let own: Vec<String> = match ran.has_pairs {
            true => metrics.iter().map(|metric| metric.value().name().to_string()).collect(),
            false => {
                // The rows are counted by the join.
                let rounds = metrics.iter().filter(|metric| metric.value().name() == "rounds");
                let rounds: Vec<_> = rounds.cloned().collect();
                metrics = MetricsSet::new();
                rounds.into_iter().for_each(|metric| metrics.push(metric));
                vec![]
            }
        };
        for metric in of_join.iter() {
            if !own.iter().any(|name| name == metric.value().name()) {
                metrics.push(Arc::clone(metric));
            }
        }
        Some(metrics)
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.plain.statistics_from_inputs(inputs, args)
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        match self.best {
            // Nodes and ties go by their columns in the output.
            BestPairs::OneToOne { .. }
            | BestPairs::OfEachRow { ties: TieBreak::Columns(_), .. } => Ok(None),
            _ => try_embed_projection(projection, self),
        }
    }
}

impl EmbeddedProjection for BestPairsExec {
    fn with_projection(&self, projection: Option<Vec<usize>>) -> Result<Self> {
        let plain = self.plain.with_projection(projection)?;
        Self::try_new(plain, self.best, &self.families)
    }
}

/// The rows of some pairs.
fn batches_of(
    output: Arc<PairOutput>,
    pairs: Option<Arc<CountedVec<Pair>>>,
    batch_size: usize,
    emitted: BaselineMetrics,
) -> SendableRecordBatchStream {
    let schema = Arc::clone(&output.schema);
    let mut done = 0_usize;
    let batches = std::iter::from_fn(move || {
        let pairs = pairs.as_deref()?;
        let end = done.saturating_add(batch_size.max(1)).min(pairs.len());
        let some = pairs.get(done..end).filter(|some| !some.is_empty())?;
        done = end;
        emitted.record_output(some.len());
        Some(output.pairs(some))
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(batches)))
}
