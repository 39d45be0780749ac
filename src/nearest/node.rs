//! The plan node.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinType, Result, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, reset_plan_states};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, RecordOutput, Time,
};
use datafusion::physical_plan::stream::{RecordBatchReceiverStream, RecordBatchStreamAdapter};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, Distribution, ExecutionPlan,
    ExecutionPlanProperties, InputDistributionRequirements, Partitioning, PlanProperties,
    ReplaceChildrenOptions, apply_expression_roots,
};
use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;

use super::budget::SearchBudget;
use super::nan_rows::counted;
use super::pairs::check_type;
use super::right::Reading;
use super::run::{FinishedRound, OnRound};
use super::search::{NearestSearch, Out};
use crate::config::SimJoinOptions;
use crate::exec::mode::spread;
use crate::exec::{JoinInput, NanRows, SetSimilarityJoinExec};
use crate::families::Families;
use crate::spec::{DriverKind, NearestJoin, Order, Search, SearchDriver, SearchRound, Side};

/// A join of each left row with its nearest right rows.
///
/// Each input is read as one partition, the right one first. The output is one partition. The searches work on all
/// threads of the process.
///
/// Memory: the right rows, a piece of the left rows, their items, an index of the right ones, and 12 bytes for each
/// neighbour of a row of that piece. Right rows that do not fit go to disk and are in memory a window at a time. Where a
/// search does not fit, it takes fewer right rows, or fewer left ones, at a time.
#[derive(Debug)]
pub struct NearestJoinExec {
    input: JoinInput,
    join: Arc<NearestJoin>,
    families: Families,
    options: SimJoinOptions,
    /// Whether tasks that do not see each other share the left rows.
    shares_left_rows: bool,
    /// The rows of each partition of the output, at most.
    fetch: Option<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// The rounds of the last execution, for EXPLAIN ANALYZE.
    rounds: Arc<Mutex<RanRounds>>,
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
            shares_left_rows: false,
            fetch: None,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            rounds: Arc::default(),
        })
    }

    /// The join for a cluster, whose tasks share the left rows: each finds the neighbours of its partitions of
    /// them among all right rows. The output has the partitions of the left input. One input that is both sides
    /// is read twice.
    ///
    /// # Errors
    ///
    /// When the plan of such an input cannot be copied.
    pub fn with_shared_left_rows(self) -> Result<Self> {
        let input = match self.input {
            JoinInput::Itself { input, partitions } => JoinInput::Two {
                right: reset_plan_states(Arc::clone(&input))?,
                left: input,
                build: Side::Right,
                partitions,
            },
            two => two,
        };
        let partitions = input.side(Side::Left).output_partitioning().partition_count();
        let partitioning = Partitioning::UnknownPartitioning(partitions);
        let properties = self.properties.as_ref().clone().with_partitioning(partitioning);
        Ok(Self { input, shares_left_rows: true, properties: Arc::new(properties), ..self })
    }

    /// The join that gives at most this many rows in each partition: it finds the neighbours of as many left rows.
    #[must_use]
    pub fn fetching(self, fetch: Option<usize>) -> Self {
        Self { fetch, ..self }
    }

    /// Whether the tasks of a cluster share the left rows.
    pub fn shares_left_rows(&self) -> bool {
        self.shares_left_rows
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

    /// The search, and its inputs: the left one, and the right one where that is another.
    fn search(
        &self,
        partition: usize,
        context: &Arc<TaskContext>,
        searched: Time,
    ) -> Result<(NearestSearch, Inputs)> {
        let consumer = MemoryConsumer::new("NearestJoin");
        let memory = Arc::new(consumer.register(context.memory_pool()));
        let nan_rows = NanRows::new(&self.metrics);
        let input = |side: Side, partition: usize| {
            let rows = self.input.side(side).execute(partition, Arc::clone(context))?;
            counted(rows, side, (&self.join, &self.input), &self.families, nan_rows.clone())
        };
        let right = match &self.input {
            JoinInput::Two { .. } => Some(input(Side::Right, 0)?),
            JoinInput::Itself { .. } => None,
        };
        let rounds = Arc::clone(&self.rounds);
        if partition == 0 {
            *rounds.lock() = RanRounds::default();
        }
        let count = MetricBuilder::new(&self.metrics).counter("rounds", partition);
        let on_round: OnRound = Arc::new(move |round| {
            count.add(1);
            rounds.lock().push(round);
        });
        let search = NearestSearch {
            join: Arc::clone(&self.join),
            families: self.families.clone(),
            options: self.options.clone(),
            reading: Reading {
                budget: SearchBudget::new(context.memory_pool(), &self.options),
                memory,
                context: Arc::clone(context),
                metrics: self.metrics.clone(),
            },
            on_round,
            hardly_repeat: Arc::default(),
            searched,
        };
        Ok((search, (input(Side::Left, partition)?, right)))
    }
}

type Inputs = (SendableRecordBatchStream, Option<SendableRecordBatchStream>);

/// Batches of the output that wait to be asked for.
const WAITING_BATCHES: usize = 2;

/// Rounds that EXPLAIN ANALYZE shows.
const SHOWN_ROUNDS: usize = 24;

/// The first rounds of an execution, and the number of the others.
#[derive(Debug, Default)]
struct RanRounds {
    first: Vec<FinishedRound>,
    others: usize,
}

impl RanRounds {
    fn push(&mut self, round: FinishedRound) {
        match self.first.len() < SHOWN_ROUNDS {
            true => self.first.push(round),
            false => self.others += 1,
        }
    }
}

impl fmt::Display for RanRounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounds: Vec<String> = self.first.iter().map(FinishedRound::to_string).collect();
        f.write_str(&rounds.join("; "))?;
        match self.others {
            0 => Ok(()),
            others => write!(f, "; {others} more"),
        }
    }
}

/// The searches by which neighbours are found, for EXPLAIN.
struct Searches<'a>(&'a [SearchRound]);

impl fmt::Display for Searches<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for round in self.0 {
            let driver = |driver: &SearchDriver| match &driver.by {
                DriverKind::Bound { search: Search { predicate, .. }, .. } => {
                    let op = match predicate.call.function.info().order {
                        Order::Similarity => ">=",
                        Order::Distance => "<=",
                    };
                    format!("{} {op} {:.4}", predicate.call.function, predicate.bound)
                }
                DriverKind::Equality(left, right) => format!("{left} = {right}"),
            };
            let drivers: Vec<String> = round.drivers.iter().map(driver).collect();
            f.write_str(&drivers.join(" | "))?;
            match round.threshold {
                Some(_) => f.write_str(", then ")?,
                None => return Ok(()),
            }
        }
        f.write_str("all pairs")
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
        if self.shares_left_rows {
            f.write_str(", mode=broadcast")?;
        }
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
            None => write!(f, ", search={}", Searches(&join.rounds))?,
        }
        if let Some(fetch) = self.fetch {
            write!(f, ", fetch={fetch}")?;
        }
        let rounds = self.rounds.lock();
        if !rounds.first.is_empty() {
            write!(f, ", rounds=[{rounds}]")?;
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
        let mut required = vec![Distribution::SinglePartition; self.children().len()];
        if self.shares_left_rows {
            required[0] = spread(self.input.side(Side::Left));
        }
        InputDistributionRequirements::new(required)
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
        let node = Self::try_new(input, join, &self.families, options)?;
        let node = node.fetching(self.fetch);
        Ok(Arc::new(match self.shares_left_rows {
            true => node.with_shared_left_rows()?,
            false => node,
        }))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn with_fetch(&self, fetch: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let (join, options) = (self.join.as_ref().clone(), self.options.clone());
        let node = Self::try_new(self.input.clone(), join, &self.families, options).ok()?;
        let node = Self { shares_left_rows: self.shares_left_rows, fetch, ..node };
        let properties = Arc::clone(&self.properties);
        Some(Arc::new(Self { properties, ..node }))
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
        let partitions = self.properties.partitioning.partition_count();
        if partition >= partitions {
            return internal_err!("NearestJoinExec has {partitions} partitions, not {partition}");
        }
        let emitted = BaselineMetrics::new(&self.metrics, partition);
        let (search, (left, right)) =
            self.search(partition, &context, emitted.elapsed_compute().clone())?;
        let (schema, fetch) = (self.schema(), self.fetch);
        let batches = stream::once(async move {
            let mut output = RecordBatchReceiverStream::builder(schema, WAITING_BATCHES);
            let out = Out { to: output.tx(), fetch };
            output.spawn(search.run(left, right, out));
            output.build()
        });
        let batches = batches.flatten();
        let batches = batches.map_ok(move |batch| batch.record_output(&emitted));
        let batches = RecordBatchStreamAdapter::new(self.schema(), batches.boxed());
        Ok(Box::pin(cooperative(batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
