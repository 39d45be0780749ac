//! The plan node.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinType, Result, internal_datafusion_err, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, RecordOutput, Time,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, Distribution, ExecutionPlan,
    ExecutionPlanProperties, InputDistributionRequirements, Partitioning, PlanProperties,
    ReplaceChildrenOptions, apply_expression_roots,
};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;

use super::best::Best;
use super::output::Output;
use super::pairs::check_type;
use super::run::{OnRound, Round, Run};
use super::table::Table;
use crate::config::SimJoinOptions;
use crate::engine::Families;
use crate::exec::{JoinInput, SetSimilarityJoinExec};
use crate::spec::{NearestJoin, Order, Side};

/// A join of each left row with its nearest right rows.
///
/// Both inputs are read into memory as one partition each. The output is one partition, in the order of
/// the left rows, the best neighbour of a row first. The similarity joins of its rounds work on all
/// threads of the process; their build sides go to disk where memory is short.
///
/// Memory: the rows of both inputs, and 12 bytes for each neighbour of a left row. Where the
/// neighbours of all left rows do not fit, the left rows go through the rounds a part at a time.
#[derive(Debug)]
pub struct NearestJoinExec {
    input: JoinInput,
    join: Arc<NearestJoin>,
    families: Families,
    options: SimJoinOptions,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// The rounds of the last execution, for EXPLAIN ANALYZE.
    rounds: Arc<Mutex<Vec<Round>>>,
}

impl NearestJoinExec {
    /// Plans `join` over `input` with the options of the session.
    ///
    /// # Errors
    ///
    /// When the join is of another type than `Inner` and `Left`, or the score's type has no ranks.
    pub fn try_new(
        input: JoinInput,
        join: NearestJoin,
        families: &Families,
        options: SimJoinOptions,
    ) -> Result<Self> {
        if !matches!(join.join_type, JoinType::Inner | JoinType::Left) {
            return internal_err!("a {} join has no nearest rows", join.join_type);
        }
        if join.output.len() != join.schema.fields().len() {
            return internal_err!(
                "{} output columns for a schema of {}",
                join.output.len(),
                join.schema.fields().len()
            );
        }
        match (&join.score, &join.search) {
            (Some(score), _) => check_type(&score.expression.data_type(&score.schema)?)?,
            (None, Some(_)) => {}
            (None, None) => return internal_err!("nearest rows need a score"),
        }
        if let Some(search) = &join.search {
            // A strategy or a device that cannot serve the last round is refused before the first.
            let bound = search.predicate.bound;
            let last = join.matches(search, bound, vec![], Arc::new(Schema::empty()));
            SetSimilarityJoinExec::try_new(input.clone(), last, families, options.clone())?;
        }
        let is_unbounded = [Side::Left, Side::Right]
            .iter()
            .any(|side| input.side(*side).boundedness().is_unbounded());
        let boundedness = match is_unbounded {
            true => Boundedness::Unbounded { requires_infinite_memory: true },
            false => Boundedness::Bounded,
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&join.schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            boundedness,
        );
        Ok(Self {
            input,
            join: Arc::new(join),
            families: families.clone(),
            options,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            rounds: Arc::default(),
        })
    }

    /// The join as planned.
    pub fn join(&self) -> &NearestJoin {
        &self.join
    }

    /// The inputs.
    pub fn input(&self) -> &JoinInput {
        &self.input
    }

    /// The options that the join was planned with.
    pub fn options(&self) -> &SimJoinOptions {
        &self.options
    }

    /// Reads both sides.
    fn read(
        &self,
        context: &Arc<TaskContext>,
    ) -> Result<impl Future<Output = Result<Run>> + Send + use<>> {
        let consumer = MemoryConsumer::new("NearestJoin");
        let memory = Arc::new(consumer.register(context.memory_pool()));
        let input = |side: Side| self.input.side(side).execute(0, Arc::clone(context));
        let left = input(Side::Left)?;
        let right = match &self.input {
            JoinInput::Two { .. } => Some(input(Side::Right)?),
            JoinInput::Itself { .. } => None,
        };
        let rounds = Arc::clone(&self.rounds);
        rounds.lock().clear();
        let count = MetricBuilder::new(&self.metrics).counter("rounds", 0);
        let on_round: OnRound = Arc::new(move |round| {
            count.add(1);
            rounds.lock().push(round);
        });
        let (join, families) = (Arc::clone(&self.join), self.families.clone());
        let (options, context) = (self.options.clone(), Arc::clone(context));
        Ok(async move {
            let left = Arc::new(Table::read(left, &memory).await?);
            let itself = right.is_none();
            let right = match right {
                Some(right) => Arc::new(Table::read(right, &memory).await?),
                None => Arc::clone(&left),
            };
            Ok(Run { join, left, right, itself, families, options, context, memory, on_round })
        })
    }
}

/// The neighbours of all left rows; `searched` is told the time that finding them takes.
fn neighbours(run: Run, searched: Time) -> Result<impl Stream<Item = Result<RecordBatch>>> {
    let candidates: Arc<[u32]> = run.candidates()?.into();
    run.memory.try_grow(candidates.len() * size_of::<u32>())?;
    let parts = parts(&run, &candidates);
    let batch_size = run.context.session_config().batch_size();
    let run = Arc::new(run);
    let parts = stream::iter(parts).then(move |(rows, places)| {
        let (run, candidates) = (Arc::clone(&run), Arc::clone(&candidates));
        let searched = searched.clone();
        async move {
            let part = &candidates[places];
            let memory = run.memory.new_empty();
            let best = Best::try_new(part.len(), run.count(), run.nearest(), memory)?;
            let best = Arc::new(best);
            if !part.is_empty() {
                let started = Instant::now();
                run.find(part, &best).await?;
                searched.add_elapsed(started);
            }
            let [left, right] = [&run.left, &run.right].map(Arc::clone);
            let join = &run.join;
            let output = Output {
                columns: join.output.clone(),
                schema: Arc::clone(&join.schema),
                order: join.order,
                is_outer: join.join_type == JoinType::Left,
                left,
                right,
            };
            let made = Made { output, candidates: part.into(), best, batch_size };
            Ok::<_, datafusion::error::DataFusionError>(made.batches(rows, run.threads()))
        }
    });
    Ok(parts.try_flatten())
}

/// The neighbours of a part of the left rows, which become batches.
struct Made {
    output: Output,
    candidates: Arc<[u32]>,
    best: Arc<Best>,
    batch_size: usize,
}

impl Made {
    /// The batches of some left rows, in their order, made by some tasks.
    fn batches(
        self,
        rows: Range<u32>,
        tasks: usize,
    ) -> impl Stream<Item = Result<RecordBatch>> + Send + use<> {
        /// Batches that a task makes, about, and their bytes: nobody accounts for them.
        const BATCHES: usize = 8;
        const BYTES: usize = 8 << 20;
        let most = rows.len().max(1);
        let of_row = self.best.most_of_row().max(1);
        let made = (BATCHES * self.batch_size).min(BYTES / self.output.row_bytes().max(1));
        let step = (made / of_row).clamp(1, most);
        let starts = rows.clone().step_by(step);
        let made = Arc::new(self);
        let chunks = starts.map(move |start| {
            let chunk = start..rows.end.min(start.saturating_add(step as u32));
            let made = Arc::clone(&made);
            SpawnedTask::spawn(async move {
                let Self { output, candidates, best, batch_size } = &*made;
                let batches = output.batches(chunk, candidates, best, *batch_size);
                batches.collect::<Result<Vec<_>>>()
            })
        });
        let chunks = stream::iter(chunks).map(|task| async move {
            let made = task.join().await;
            made.map_err(|e| internal_datafusion_err!("a task of NEAREST ended: {e}"))?
        });
        chunks
            .buffered(tasks.max(1))
            .map_ok(|batches| stream::iter(batches.into_iter().map(Ok)))
            .try_flatten()
    }
}

/// A part of the left rows, and the candidates in it by their places.
type Part = (Range<u32>, Range<usize>);

/// Divides the left rows so that the neighbours of each part take a quarter of the memory at most.
fn parts(run: &Run, candidates: &[u32]) -> Vec<Part> {
    const PART_OF_LIMIT: usize = 4;
    let of_row = Best::bytes(1, run.count());
    let most = match run.context.memory_pool().memory_limit() {
        MemoryLimit::Finite(bytes) => (bytes / PART_OF_LIMIT / of_row).max(1),
        _ => usize::MAX,
    };
    let mut parts = vec![];
    let (mut row, mut place) = (0, 0_usize);
    loop {
        let end = candidates.len().min(place.saturating_add(most));
        let last = candidates.get(end).map_or(run.left.rows() as u32, |next| *next);
        parts.push((row..last, place..end));
        if end == candidates.len() {
            return parts;
        }
        (row, place) = (last, end);
    }
}

impl DisplayAs for NearestJoinExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = &self.join;
        let order = match join.order {
            Order::Similarity => "similarity",
            Order::Distance => "distance",
        };
        let ties = if join.nearest.with_ties { " with ties" } else { "" };
        let nearest = format!("nearest={}{ties} by {order}", join.nearest.count);
        if t == DisplayFormatType::TreeRender {
            writeln!(f, "score={}", join.text)?;
            writeln!(f, "{nearest}")?;
            return writeln!(f, "join_type={}", join.join_type);
        }
        let inputs = match &self.input {
            JoinInput::Two { .. } => "two-sided",
            JoinInput::Itself { .. } => "self-join",
        };
        write!(
            f,
            "NearestJoinExec: {}, {nearest}, join_type={}, {inputs}",
            join.text, join.join_type
        )?;
        if !join.on.is_empty() {
            let on: Vec<String> = join.on.iter().map(|(l, r)| format!("({l}, {r})")).collect();
            write!(f, ", on=[{}]", on.join(", "))?;
        }
        for side in [Side::Left, Side::Right] {
            if let Some(filter) = join.side_filter(side) {
                write!(f, ", {side}_filter={filter}")?;
            }
        }
        let searched = join.search.as_ref().and_then(|search| search.residual.as_ref());
        if let Some(condition) = searched.or(join.condition.as_ref()) {
            write!(f, ", filter={}", condition.expression)?;
        }
        match &join.search {
            Some(search)
                if search.predicate.bound != search.predicate.call.function.widest_bound().0 =>
            {
                write!(f, ", threshold={}", search.predicate.bound)?;
            }
            Some(_) => {}
            None => write!(f, ", search=all pairs")?,
        }
        let rounds: Vec<String> = self.rounds.lock().iter().map(Round::to_string).collect();
        if !rounds.is_empty() {
            write!(f, ", rounds=[{}]", rounds.join("; "))?;
        }
        Ok(())
    }
}

impl ExecutionPlan for NearestJoinExec {
    fn name(&self) -> &str {
        "NearestJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.input.children()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        let single = vec![Distribution::SinglePartition; self.children().len()];
        InputDistributionRequirements::new(single)
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.input_distribution_requirements().into_per_child()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; self.children().len()]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let join = &self.join;
        let arguments = join.search.iter().flat_map(|search| &search.arguments);
        let on = join.on.iter().flat_map(|(left, right)| [left, right]);
        let filters = join.side_filters.iter().flatten();
        let of_search = join.search.as_ref().and_then(|search| search.residual.as_ref());
        let of_pairs = [join.score.as_ref(), join.condition.as_ref(), of_search];
        let of_pairs = of_pairs.into_iter().flatten().map(|residual| &residual.expression);
        apply_expression_roots(arguments.chain(on).chain(filters).chain(of_pairs), f)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = self.input.with_children(&children)?;
        let (join, options) = (self.join.as_ref().clone(), self.options.clone());
        Ok(Arc::new(Self::try_new(input, join, &self.families, options)?))
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

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition > 0 {
            return internal_err!("NearestJoinExec has 1 partition, not {partition}");
        }
        let read = self.read(&context)?;
        let emitted = BaselineMetrics::new(&self.metrics, partition);
        let searched = emitted.elapsed_compute().clone();
        let neighbours = move |run| neighbours(run, searched.clone());
        let batches = stream::once(read).map(move |run| run.and_then(&neighbours)).try_flatten();
        let batches = batches.map_ok(move |batch| batch.record_output(&emitted));
        let batches = RecordBatchStreamAdapter::new(self.schema(), batches.boxed());
        Ok(Box::pin(cooperative(batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
