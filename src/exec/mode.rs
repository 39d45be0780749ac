//! The state that the partitions of a join share.

use std::fmt;
use std::sync::Arc;

use arrow::array::new_empty_array;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::hash_utils::create_hashes;
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::repartition::REPARTITION_RANDOM_STATE;
use datafusion::physical_plan::{
    Distribution, ExecutionPlan, ExecutionPlanProperties, InputDistributionRequirements,
};

use super::layout::JoinLayout;
use crate::exec::input::JoinInput;
use crate::spec::Side;

/// The state that the partitions of a join share, and so which of them may run apart from each other.
///
/// An engine that runs each partition as a task of its own, perhaps on another machine, takes any
/// mode but [`JoinMode::Shared`]. It may run one partition or several of them on one copy of the
/// plan, in any order and more than once, with its inputs cut down to the partitions that it runs.
///
/// ```text
/// Shared       build ═══► p0 p1 p2        one build side, one process, any join type
/// Single       build ───► p0              one task, any join type
/// Broadcast    build ───► p0              each task reads the whole build side;
///              build ───► p1              its probe rows are its own
/// Partitioned  build 0 ─► probe 0         each task has its part of both sides;
///              build 1 ─► probe 1         rows that match meet in one of them
/// Mirrored     build 0 ─► probe 0         as partitioned, of one input with itself: rows that
///              build 1 ─► probe 1         match meet once, in one of the two orders
/// ```
///
/// | mode | inputs | joins |
/// |---|---|---|
/// | `Shared`, `Single` | two, or one that is both sides | every join type, rows or counts |
/// | `Broadcast` | two | that list no build rows one by one: inner joins, and those that preserve, keep or count probe rows |
/// | `Partitioned` | two, or one that is both sides | every join type, rows or counts |
/// | `Mirrored` | two parts of one input | inner joins by a symmetric function, rows or counts |
///
/// The constructor of the operator refuses the other combinations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum JoinMode {
    /// The partitions run in one process and share the build side and the marks of its rows.
    #[default]
    Shared,
    /// There is one partition, of either input and of the output.
    Single,
    /// The build input is one partition that each task reads whole. Tasks do not tell each other
    /// which build rows have a match, so that rows which the answer lists one by one (preserved
    /// rows, semi and anti joins) must be probe rows. Not for one input that is both sides: a
    /// cluster reads such an input twice instead.
    Broadcast,
    /// Partition `i` of one input is joined with partition `i` of the other. The inputs are
    /// partitioned by the hash of the first `keys` pairs of [`SimilarityJoin::on`], at least one,
    /// so that rows which can match meet. Any join type: a sender that repeats rows with several
    /// keys must keep them from being counted twice.
    ///
    /// [`SimilarityJoin::on`]: crate::spec::SimilarityJoin::on
    Partitioned {
        /// The number of blocking keys that partition the inputs.
        keys: usize,
    },
    /// Two parts of one input, with its schema, partitioned as for [`JoinMode::Partitioned`].
    /// The shuffle delivers each unordered pair of rows once; the join emits it in both orders. For
    /// joins that are [symmetric](crate::spec::SimilarityJoin::is_symmetric).
    Mirrored {
        /// The number of blocking keys that partition the inputs.
        keys: usize,
    },
}

impl fmt::Display for JoinMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            JoinMode::Shared => "shared",
            JoinMode::Single => "single",
            JoinMode::Broadcast => "broadcast",
            JoinMode::Partitioned { .. } => "partitioned",
            JoinMode::Mirrored { .. } => "partitioned, both orders of a pair at once",
        })
    }
}

impl JoinMode {
    /// Whether the partitions have a build side each.
    pub(crate) fn is_partitioned(self) -> bool {
        matches!(self, JoinMode::Partitioned { .. } | JoinMode::Mirrored { .. })
    }

    /// An error where the join cannot run in this mode.
    pub(crate) fn check(self, input: &JoinInput, layout: &JoinLayout) -> Result<()> {
        match (self, input) {
            (JoinMode::Broadcast, JoinInput::Itself { .. }) => plan_err!(
                "a similarity self-join that is broadcast has to read its input twice: once \
                 whole, once by partitions"
            ),
            (JoinMode::Broadcast, JoinInput::Two { build, .. }) if layout.marks_build() => {
                plan_err!(
                    "the {build} side of a {} similarity join cannot be broadcast: its rows are \
                     part of the answer even without a match, or only once however many they \
                     match, which no task knows by itself; build the {} side",
                    layout.join.join_type,
                    build.other()
                )
            }
            (JoinMode::Partitioned { keys } | JoinMode::Mirrored { keys }, _)
                if !(1..=layout.join.on.len()).contains(&keys) =>
            {
                internal_err!(
                    "a similarity join is to be partitioned by {keys} of {} blocking keys",
                    layout.join.on.len()
                )
            }
            (JoinMode::Mirrored { .. }, JoinInput::Two { left, right, .. })
                if layout.join.is_symmetric() && have_types_of(left, right) =>
            {
                Ok(())
            }
            (JoinMode::Mirrored { .. }, _) => internal_err!(
                "pairs of rows stand for both orders in inner joins of two parts of one input by \
                 a symmetric measure only"
            ),
            _ => Ok(()),
        }
    }

    /// The distributions that the inputs must have, in the order of the operator's children.
    pub(crate) fn requirements(
        self,
        input: &JoinInput,
        layout: &JoinLayout,
    ) -> InputDistributionRequirements {
        use Distribution::{SinglePartition, UnspecifiedDistribution};
        let by_keys = |side: Side, keys: usize| {
            let on = layout.join.on.iter().take(keys);
            let keys = on.map(|(left, right)| match side {
                Side::Left => Arc::clone(left),
                Side::Right => Arc::clone(right),
            });
            Distribution::KeyPartitioned(keys.collect())
        };
        match (self, input) {
            (JoinMode::Single, JoinInput::Two { .. }) => {
                InputDistributionRequirements::new(vec![SinglePartition, SinglePartition])
            }
            (
                JoinMode::Partitioned { keys } | JoinMode::Mirrored { keys },
                JoinInput::Two { .. },
            ) => InputDistributionRequirements::co_partitioned(vec![
                by_keys(Side::Left, keys),
                by_keys(Side::Right, keys),
            ]),
            (JoinMode::Partitioned { keys }, JoinInput::Itself { .. }) => {
                InputDistributionRequirements::new(vec![by_keys(Side::Left, keys)])
            }
            (_, JoinInput::Two { build, .. }) => {
                let probe = match self {
                    JoinMode::Broadcast => spread(input.side(build.other())),
                    _ => UnspecifiedDistribution,
                };
                InputDistributionRequirements::new(match build {
                    Side::Left => vec![SinglePartition, probe],
                    Side::Right => vec![probe, SinglePartition],
                })
            }
            (_, JoinInput::Itself { .. }) => {
                InputDistributionRequirements::new(vec![SinglePartition])
            }
        }
    }

    /// An error where an input visibly lacks the partitions that this mode requires.
    pub(crate) fn check_partitions(self, input: &JoinInput, layout: &JoinLayout) -> Result<()> {
        let partitions = |side: Side| {
            let input: &Arc<dyn ExecutionPlan> = input.side(side);
            input.output_partitioning().partition_count()
        };
        let (build, probe) = (partitions(layout.build()), partitions(layout.probe));
        match self {
            _ if self.is_partitioned() && build != probe => internal_err!(
                "SetSimilarityJoinExec joins partition by partition, but the build side has \
                 {build} and the probe side {probe}"
            ),
            JoinMode::Shared | JoinMode::Broadcast | JoinMode::Single if build != 1 => {
                internal_err!(
                    "the build side of SetSimilarityJoinExec must have one partition, not \
                     {build}; add a CoalescePartitionsExec"
                )
            }
            JoinMode::Single if probe != 1 => internal_err!(
                "SetSimilarityJoinExec joins in one task, but the probe side has {probe} \
                 partitions; add a CoalescePartitionsExec"
            ),
            _ => Ok(()),
        }
    }
}

/// Whether the columns of two inputs have the same types.
fn have_types_of(left: &Arc<dyn ExecutionPlan>, right: &Arc<dyn ExecutionPlan>) -> bool {
    let (left, right) = (left.schema(), right.schema());
    let types = |schema: &Schema| -> Vec<DataType> {
        schema.fields().iter().map(|field| field.data_type().clone()).collect()
    };
    types(&left) == types(&right)
}

/// Any distribution of an input that has several partitions. An engine for clusters makes tasks of
/// partitions. Unlike one process, it does not deal the rows of a partition out in turn, so that a
/// shuffle has to.
pub(crate) fn spread(input: &Arc<dyn ExecutionPlan>) -> Distribution {
    if input.output_partitioning().partition_count() > 1 {
        return Distribution::UnspecifiedDistribution;
    }
    let schema = input.schema();
    let columns: Vec<PhysicalExprRef> = (0..)
        .zip(schema.fields())
        .filter(|(_, field)| has_hash(field.data_type()))
        .map(|(index, field)| Arc::new(Column::new(field.name(), index)) as PhysicalExprRef)
        .collect();
    match columns.is_empty() {
        true => Distribution::UnspecifiedDistribution,
        false => Distribution::KeyPartitioned(columns),
    }
}

/// Whether values of a type can be hashed.
fn has_hash(data_type: &DataType) -> bool {
    let random_state = REPARTITION_RANDOM_STATE.random_state();
    create_hashes([new_empty_array(data_type)].iter(), random_state, &mut []).is_ok()
}
