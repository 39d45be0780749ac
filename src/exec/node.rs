//! The plan node.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinType, NullEquality, Result, Statistics, internal_err, plan_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::{
    EmbeddedProjection, ProjectionExec, try_embed_projection,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, Distribution, ExecutionPlan,
    ExecutionPlanProperties, InputDistributionRequirements, Partitioning, PlanProperties,
    ReplaceChildrenOptions, apply_expression_roots,
};
use parking_lot::Mutex;

use crate::config::{SimJoinOptions, SpillChoice};
use crate::engine::{KeyConverter, Orders};
use crate::exec::answer::output::BatchLimits;
use crate::exec::build::BuildPlan;
use crate::exec::build::headroom::Headroom;
use crate::exec::cores::ProcessCores;
use crate::exec::expected::Expected;
use crate::exec::input::JoinInput;
use crate::exec::layout::{JoinLayout, Sides};
use crate::exec::metrics::{BuildMetrics, ProbeClock, ProbeMetrics};
use crate::exec::mode::JoinMode;
use crate::exec::partition::{BuildFuture, ProbePartition};
use crate::exec::rows::inputs::ProbeInputs;
use crate::exec::spill::{Built, ShowChoices, SpillRequest};
use crate::families::Families;
use crate::operator::once::{OnceExecution, once_fut};
use crate::spec::{NanScore, ResidualColumn, Side, SimilarityJoin};

/// Partitions of the output of a self-join, at most: more would not help.
const MOST_PARTITIONS: usize = 1 << 16;

/// An exact similarity join.
///
/// The build side is read once, into distinct items with an index that all partitions share; the
/// probe side streams against it batch by batch. Which side is which never changes the answer.
///
/// ```text
///  build input ─► encode ─► distinct items ─► strategy.prepare ──┐ once, shared
///                                                                ▼
///  probe batch ─► encode ─► distinct items ─► cursor: filter, verify ─► matches of items
///                                                                │
///     output batches ◄── coalesce ◄── take, scores ◄── residual ◄┘ rows of items
/// ```
///
/// Partitioning, in [`JoinMode::Shared`]: the build input must be one partition, the probe input
/// may have any number. The output has no fewer: its partitions share the batches of the probe
/// input, whichever partition of it they come from, and slices of a large batch go to any partition
/// that is ready. So the operator asks for no repartitioning of its inputs. A self-join reads its
/// one input as one partition; the output partitions take ranges of its items as they get ready,
/// so that one consumer alone gets every row. The other
/// [modes](JoinMode) are for engines that run the partitions in processes of their own. The output
/// has no order. Memory grows with the build side, not with the output.
#[derive(Debug)]
pub struct SetSimilarityJoinExec {
    input: JoinInput,
    mode: JoinMode,
    /// Why this mode, for EXPLAIN.
    reason: Option<String>,
    families: Families,
    layout: Arc<JoinLayout>,
    options: SimJoinOptions,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    build: OnceExecution<(Built, Arc<ProbeClock>), Option<Arc<ProbeInputs>>>,
    /// The choice of the last execution, for EXPLAIN ANALYZE.
    chosen: Arc<Mutex<Option<String>>>,
}

impl SetSimilarityJoinExec {
    /// Plans `join` over `input` with the options of the session, in [`JoinMode::Shared`].
    ///
    /// # Errors
    ///
    /// When `families` lack the one of the predicate, it cannot compare the arguments, a device is
    /// demanded that this build cannot use, or the parts of `join` do not fit together.
    pub fn try_new(
        input: JoinInput,
        join: SimilarityJoin,
        families: &Families,
        options: SimJoinOptions,
    ) -> Result<Self> {
        Self::try_new_in_mode(input, join, families, options, JoinMode::Shared, None)
    }

    /// Like [`Self::try_new`], in any mode. `reason` tells EXPLAIN why it is that mode.
    ///
    /// # Errors
    ///
    /// Also when the join cannot be had in this mode, see [`JoinMode`].
    pub fn try_new_in_mode(
        input: JoinInput,
        join: SimilarityJoin,
        families: &Families,
        options: SimJoinOptions,
        mode: JoinMode,
        reason: Option<String>,
    ) -> Result<Self> {
        if join.predicate.admits_all() {
            return internal_err!("{:?} admits every pair", join.predicate);
        }
        if join.output.len() != join.schema.fields().len() {
            return internal_err!(
                "{} output columns for a schema of {}",
                join.output.len(),
                join.schema.fields().len()
            );
        }
        check_columns(&input, &join)?;
        let sides = match &input {
            JoinInput::Two { build, .. } if matches!(mode, JoinMode::Mirrored { .. }) => {
                Sides::Mirrored(*build)
            }
            JoinInput::Two { build, .. } => Sides::Two(*build),
            JoinInput::Itself { .. } => Sides::Itself,
        };
        let schemas = [Side::Left, Side::Right].map(|side| input.side(side).schema());
        let argument = |side: Side| (join.argument(side), schemas[side as usize].as_ref());
        let bound = families.bind(join.predicate, [argument(Side::Left), argument(Side::Right)])?;
        bound.matcher.admit(options.strategy, options.device)?;
        let layout = Arc::new(JoinLayout::try_new(join, bound, sides, &options)?);
        mode.check(&input, &layout)?;
        let of_probe = input.side(layout.probe).output_partitioning().partition_count();
        let partitions = match (mode, &input) {
            (JoinMode::Single, _) => 1,
            (JoinMode::Shared, JoinInput::Two { partitions, .. }) => {
                of_probe.max((*partitions).min(MOST_PARTITIONS))
            }
            (JoinMode::Partitioned { .. }, _) | (_, JoinInput::Two { .. }) => of_probe,
            (_, JoinInput::Itself { partitions, .. }) => (*partitions).clamp(1, MOST_PARTITIONS),
        };
        let unbounded = |side: Side| input.side(side).boundedness().is_unbounded();
        let boundedness = match (unbounded(layout.build()), unbounded(layout.probe)) {
            (true, _) => Boundedness::Unbounded { requires_infinite_memory: true },
            (false, true) => Boundedness::Unbounded { requires_infinite_memory: false },
            (false, false) => Boundedness::Bounded,
        };
        let emission = match layout.marks_build() {
            true => EmissionType::Both,
            false => EmissionType::Incremental,
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&layout.join.schema)),
            Partitioning::UnknownPartitioning(partitions),
            emission,
            boundedness,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Ok(Self {
            input,
            mode,
            reason,
            families: families.clone(),
            layout,
            options,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            build: OnceExecution::default(),
            chosen: Arc::default(),
        })
    }

    /// The join as planned.
    pub fn join(&self) -> &SimilarityJoin {
        &self.layout.join
    }

    /// The inputs, and which of them is built.
    pub fn input(&self) -> &JoinInput {
        &self.input
    }

    /// The mode in which the partitions share the work.
    pub fn mode(&self) -> JoinMode {
        self.mode
    }

    /// Why the join has its mode, as EXPLAIN says it.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// The strategy and the device of the last execution, as EXPLAIN ANALYZE says it.
    pub(crate) fn chosen(&self) -> Option<String> {
        self.chosen.lock().clone()
    }

    /// The options that the join was planned with.
    pub fn options(&self) -> &SimJoinOptions {
        &self.options
    }

    fn with_input_and_join(&self, input: JoinInput, join: SimilarityJoin) -> Result<Self> {
        let (options, reason) = (self.options.clone(), self.reason.clone());
        Self::try_new_in_mode(input, join, &self.families, options, self.mode, reason)
    }

    /// The same join over another input.
    pub(crate) fn with_input(&self, input: JoinInput) -> Result<Self> {
        self.with_input_and_join(input, self.layout.join.clone())
    }

    fn partition_count(&self) -> usize {
        self.properties.output_partitioning().partition_count()
    }

    fn converter(&self) -> Result<Option<Arc<KeyConverter>>> {
        let join = &self.layout.join;
        if join.on.is_empty() {
            return Ok(None);
        }
        let schema = self.input.side(Side::Left).schema();
        let types = join.on.iter().map(|(left, _)| left.data_type(&schema));
        let types = types.collect::<Result<Vec<_>>>()?;
        Ok(Some(Arc::new(KeyConverter::try_new(
            types,
            join.null_equality == NullEquality::NullEqualsNull,
        )?)))
    }

    /// The rows that are expected of the probe side of one of `builds` build sides.
    fn expected(&self, builds: usize) -> Expected {
        match &self.input {
            JoinInput::Itself { .. } => Expected::Unknown,
            JoinInput::Two { .. } => {
                let (build, probe) = (self.layout.build(), self.layout.probe);
                Expected::of(self.input.side(probe), self.input.side(build), builds)
            }
        }
    }

    /// Builds from partition `from` of the build input, for `partitions` probe partitions.
    fn start_build(
        &self,
        from: usize,
        partitions: usize,
        context: &Arc<TaskContext>,
    ) -> Result<impl Future<Output = Result<(Built, Arc<ProbeClock>)>> + Send + use<>> {
        let chosen = Arc::clone(&self.chosen);
        let show: ShowChoices = Arc::new(move |text| *chosen.lock() = Some(text));
        let threads = ProcessCores::of(context.session_config());
        let builds = self.partition_count() / partitions.max(1);
        let threads = threads.at_most(threads.count() / builds.max(1));
        let has_disk = context.runtime_env().disk_manager.tmp_files_enabled();
        let plan = BuildPlan {
            layout: Arc::clone(&self.layout),
            converter: self.converter()?,
            strategy: self.options.strategy,
            device: self.options.device,
            partitions,
            threads,
            readers: threads.count(),
            metrics: BuildMetrics::new(&self.metrics),
            on_choice: {
                let show = Arc::clone(&show);
                Arc::new(move |chosen| show(chosen.to_string()))
            },
            spill: match self.options.spill {
                SpillChoice::Auto if !has_disk => SpillChoice::Never,
                SpillChoice::Always if !has_disk => {
                    return plan_err!(
                        "simjoin.spill = 'always' needs temporary files, which this session does \
                         not allow; use auto or never, or enable its disk manager"
                    );
                }
                choice => choice,
            },
            limited: matches!(context.memory_pool().memory_limit(), MemoryLimit::Finite(_)),
            needs_ranks: false,
            // Rows of other partitions may be equal to those of one.
            all_distinct: self.mode.is_partitioned().then_some(false),
            values: None,
            probes: None,
            expected: self.expected(builds),
        };
        let input = self.input.side(self.layout.build()).execute(from, Arc::clone(context))?;
        let request = SpillRequest {
            build: plan.clone(),
            inputs: [Side::Left, Side::Right].map(|side| self.input.side(side).schema()),
            options: self.options.clone(),
            metrics: self.metrics.clone(),
            task: Arc::clone(context),
            show,
        };
        let memory = Headroom::of_build(context.memory_pool());
        Ok(async move {
            let (layout, converter) = (Arc::clone(&plan.layout), plan.converter.clone());
            let metrics = plan.metrics.clone();
            let built = match plan.run_or_overflow(input, Arc::clone(&memory)).await? {
                Ok(side) => Built::Memory { side, layout, converter, starts: memory },
                Err((overflow, _)) => request.build(overflow, memory).await?,
            };
            Ok((built, Arc::new(metrics.probe_clock())))
        })
    }

    /// The build side and the probe input of the execution that `partition` belongs to.
    fn build_side(
        &self,
        partition: usize,
        context: &Arc<TaskContext>,
    ) -> Result<(BuildFuture, Option<Arc<ProbeInputs>>)> {
        let probe = || match &self.input {
            JoinInput::Two { .. } => {
                let input = Arc::clone(self.input.side(self.layout.probe));
                let shared = matches!(self.mode, JoinMode::Shared | JoinMode::Single);
                Some(Arc::new(ProbeInputs::new(input, Arc::clone(context), shared)))
            }
            JoinInput::Itself { .. } => None,
        };
        if self.mode.is_partitioned() {
            let build = once_fut(self.start_build(partition, 1, context)?);
            return Ok((build, probe()));
        }
        let partitions = self.partition_count();
        self.build.get_with(partition, partitions, || {
            Ok((self.start_build(0, partitions, context)?, probe()))
        })
    }
}

impl DisplayAs for SetSimilarityJoinExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = &self.layout.join;
        let inputs = match &self.input {
            JoinInput::Two { build, .. } => format!("two-sided, build={build}"),
            JoinInput::Itself { .. } => match self.layout.spec.orders {
                Orders::Unordered => "self-join, each pair once".to_string(),
                Orders::Given | Orders::Mirrored => "self-join".to_string(),
            },
        };
        let yields = self.layout.sink.name();
        let nan = match join.predicate.nan {
            NanScore::Ordered if join.predicate.call.function.may_be_nan() => ", nan=ordered",
            NanScore::Ordered | NanScore::Null => "",
        };
        if t == DisplayFormatType::TreeRender {
            writeln!(f, "predicate={}", join.text)?;
            writeln!(f, "join_type={}", join.join_type)?;
            return writeln!(f, "{inputs}");
        }
        write!(
            f,
            "SetSimilarityJoinExec: {}, threshold={}{nan}, join_type={}, {inputs}, yields={yields}",
            join.text, join.predicate.bound, join.join_type
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
        if let Some(residual) = &join.residual {
            write!(f, ", filter={}", residual.expression)?;
        }
        write!(f, ", strategy={}, device={}", self.options.strategy, self.options.device)?;
        if self.mode != JoinMode::Shared {
            write!(f, ", mode={}", self.mode)?;
            if let Some(reason) = &self.reason {
                write!(f, " ({reason})")?;
            }
        }
        if let Some(chosen) = self.chosen.lock().as_ref() {
            write!(f, ", chosen={chosen}")?;
        }
        Ok(())
    }
}

impl ExecutionPlan for SetSimilarityJoinExec {
    fn name(&self) -> &str {
        "SetSimilarityJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.input.children()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.mode.requirements(&self.input, &self.layout)
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.input_distribution_requirements().into_per_child()
    }

    /// The partitions of one process share the batches of the probe input.
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        let benefits = self.mode != JoinMode::Shared;
        vec![benefits; self.children().len()]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let join = &self.layout.join;
        let on = join.on.iter().flat_map(|(left, right)| [left, right]);
        let filters = join.side_filters.iter().flatten();
        let residual = join.residual.iter().map(|r| &r.expression);
        apply_expression_roots(join.arguments.iter().chain(on).chain(filters).chain(residual), f)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // A node holds no state of an execution that a new one would not make again.
        let (ChildrenPropertiesMode::Keep | ChildrenPropertiesMode::Recompute) =
            options.children_properties;
        let input = self.input.with_children(&children)?;
        Ok(Arc::new(self.with_input(input)?))
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
        Ok(Arc::new(self.with_input(self.input.clone())?))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition >= self.partition_count() {
            return internal_err!(
                "SetSimilarityJoinExec has {} partitions, not {partition}",
                self.partition_count()
            );
        }
        self.mode.check_partitions(&self.input, &self.layout)?;
        let (build, probe) = self.build_side(partition, &context)?;
        if let Some(probe) = &probe {
            probe.ask(partition)?;
        }
        let consumer = MemoryConsumer::new(format!("SetSimilarityJoin probe[{partition}]"));
        let partition = ProbePartition {
            build,
            probe,
            partition,
            memory: Headroom::new(context.memory_pool(), consumer),
            pool: Arc::clone(context.memory_pool()),
            metrics: ProbeMetrics::new(&self.metrics, partition),
            limits: BatchLimits::of(&context, self.partition_count()),
        };
        let stream = Box::pin(partition.into_stream());
        let stream = RecordBatchStreamAdapter::new(self.schema(), stream);
        Ok(Box::pin(cooperative(stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    /// Estimates only: as many rows as the side that the answer follows has.
    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let rows = |side: Side| {
            let stats = inputs.get(if inputs.len() > 1 { side as usize } else { 0 })?;
            stats.num_rows.get_value().copied()
        };
        let (left, right) = (rows(Side::Left), rows(Side::Right));
        let estimate = match self.layout.join.join_type {
            JoinType::LeftSemi | JoinType::LeftAnti | JoinType::Left => left,
            JoinType::RightSemi | JoinType::RightAnti | JoinType::Right => right,
            JoinType::Full => left.zip(right).map(|(l, r)| l.saturating_add(r)),
            _ => left.zip(right).map(|(l, r)| l.max(r)),
        };
        let mut statistics = Statistics::new_unknown(&self.schema());
        if let Some(rows) = estimate {
            let rows = match args.partition() {
                Some(_) => rows / self.partition_count(),
                None => rows,
            };
            statistics.num_rows = Precision::Inexact(rows);
        }
        Ok(Arc::new(statistics))
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        try_embed_projection(projection, self)
    }
}

impl EmbeddedProjection for SetSimilarityJoinExec {
    fn with_projection(&self, projection: Option<Vec<usize>>) -> Result<Self> {
        let mut join = self.layout.join.clone();
        if let Some(columns) = projection {
            join.output = columns.iter().map(|&c| join.output[c]).collect();
            join.schema = project(&join.schema, &columns)?;
        }
        self.with_input_and_join(self.input.clone(), join)
    }
}

/// Checks that the inputs have the columns that output and residual read: a plan that was read from
/// bytes may name any column.
fn check_columns(input: &JoinInput, join: &SimilarityJoin) -> Result<()> {
    let of_output = join.output.iter().filter_map(|column| column.source());
    let residual = join.residual.iter().flat_map(|residual| &residual.columns);
    let of_residual = residual.filter_map(|column| match column {
        ResidualColumn::Input(side, index) => Some((*side, *index)),
        ResidualColumn::Score(_) => None,
    });
    for (side, index) in of_output.chain(of_residual) {
        let columns = input.side(side).schema().fields().len();
        if index >= columns {
            return internal_err!(
                "a similarity join reads column {index} of its {side} input, which has {columns}"
            );
        }
    }
    Ok(())
}

fn project(schema: &Schema, columns: &[usize]) -> Result<SchemaRef> {
    Ok(Arc::new(schema.project(columns)?))
}
