//! Plans for a cluster, whose tasks share nothing.
//!
//! | plan | each task reads | for |
//! | --- | --- | --- |
//! | one task | both sides | what cannot be shared |
//! | broadcast | one side whole, its part of the other | a small side |
//! | repartition | the rows that the [grid](crate::shuffle) sends to it | two large sides |
//! | two joins | as either of them needs | FULL joins of large sides |
//!
//! A one-to-one match of small sides is made by [one task](best) as well.
//!
//! Rows that the answer lists one by one (preserved rows, rows of semi and anti joins) are known to
//! one task each: a broadcast side has none, and the grid sends each of them to one task. A join of
//! an input with itself reads it more than once, as tasks do not share the rows that one of them
//! has read; where two readings may give different rows, there is one. If it is symmetric, half of
//! the grid is enough, and is better than a broadcast whatever the size; that needs rows that are
//! equal bit for bit in each reading.

mod best;
mod full;
mod repartition;
mod sample;
mod size;

use std::sync::Arc;

use datafusion::common::{JoinType, Result};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::prelude::SessionConfig;

use self::size::InputBytes;
use crate::config::{BuildSideChoice, DistributionChoice, SimJoinOptions};
use crate::exec::{JoinInput, JoinMode, SetSimilarityJoinExec};
use crate::families::Families;
use crate::spec::{Need, Preserved, Side, SimilarityJoin};

/// Says that a session plans for a cluster, whose tasks run in processes of their own.
///
/// The scheduler of a cluster sets it as an extension of its sessions' configuration:
///
/// ```
/// use std::sync::Arc;
///
/// use datafusion::prelude::SessionConfig;
/// use datafusion_simjoin::plan::ClusterPlanning;
///
/// let config = SessionConfig::new()
///     .with_target_partitions(16)
///     .with_extension(Arc::new(ClusterPlanning::default()));
/// assert_eq!(ClusterPlanning::tasks_of(&config), Some(16));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ClusterPlanning {}

impl ClusterPlanning {
    /// The number of tasks that share a join, the session's target partitions; `None` where the session does
    /// not plan for a cluster.
    pub fn tasks_of(config: &SessionConfig) -> Option<usize> {
        let cluster = config.get_extension::<Self>();
        cluster.map(|_| config.target_partitions().max(1))
    }
}

/// A join that is to be shared by tasks.
pub(crate) struct Distribution<'a> {
    /// The input, as one process would read it.
    pub input: JoinInput,
    pub join: SimilarityJoin,
    pub families: &'a Families,
    pub options: &'a SimJoinOptions,
    pub tasks: usize,
    /// Per side, whether two readings of its input give the same rows, in whatever order.
    pub repeatable: [bool; 2],
    /// Whether the rows of an input that is both sides also have the same values bit for bit.
    pub exact: bool,
}

/// The way in which the work is shared, and the reason.
#[derive(Debug, PartialEq)]
enum WorkSharing {
    ByNone(String),
    /// Two joins: a LEFT join, and the right rows without a partner.
    AsTwo,
    /// Each task reads this side.
    Broadcast(Side, String),
    Repartition(String),
}

impl Distribution<'_> {
    /// The plan.
    pub(crate) fn plan(self) -> Result<Arc<dyn ExecutionPlan>> {
        match self.choose() {
            WorkSharing::AsTwo => self.full(),
            WorkSharing::ByNone(reason) => Ok(Arc::new(self.by_one_task(reason)?)),
            WorkSharing::Broadcast(build, reason) => {
                let [left, right] = self.sides()?;
                Ok(Arc::new(SetSimilarityJoinExec::try_new_in_mode(
                    JoinInput::Two { left, right, build, partitions: 1 },
                    self.join,
                    self.families,
                    self.options.clone(),
                    JoinMode::Broadcast,
                    Some(reason),
                )?))
            }
            WorkSharing::Repartition(reason) => self.repartition(reason),
        }
    }

    /// The plan by which the tasks share both sides.
    fn repartition(self, reason: String) -> Result<Arc<dyn ExecutionPlan>> {
        match self.meets_once() {
            true => self.repartitioned_once(reason),
            false => self.repartitioned(reason),
        }
    }

    fn by_one_task(&self, reason: String) -> Result<SetSimilarityJoinExec> {
        SetSimilarityJoinExec::try_new_in_mode(
            self.input.with_partitions(1),
            self.join.clone(),
            self.families,
            self.options.clone(),
            JoinMode::Single,
            Some(reason),
        )
    }

    /// An input for each side. One that is both sides is read twice, by plans that share no state
    /// of an execution.
    fn sides(&self) -> Result<[Arc<dyn ExecutionPlan>; 2]> {
        Ok(match &self.input {
            JoinInput::Two { left, right, .. } => [Arc::clone(left), Arc::clone(right)],
            JoinInput::Itself { input, .. } => {
                [Arc::clone(input), reset_plan_states(Arc::clone(input))?]
            }
        })
    }

    /// Whether the answer lists rows of `side` one by one.
    fn lists_rows_of(&self, side: Side) -> bool {
        let semi = match side {
            Side::Left => JoinType::LeftSemi,
            Side::Right => JoinType::RightSemi,
        };
        side.is_preserved(self.join.join_type) || self.join.join_type == semi
    }

    /// Whether each task can read `side` whole. An engine may have the tasks read the scan instead
    /// of what one stage gathered from it: several readings must give the same rows. A self-join
    /// reads its input for the probe side as well.
    fn can_broadcast(&self, side: Side) -> bool {
        !self.lists_rows_of(side)
            && self.join.need != Need::Counts(Some(side))
            && self.repeatable[side as usize]
            && (!self.is_self_join() || self.repeatable == [true, true])
    }

    fn is_self_join(&self) -> bool {
        matches!(self.input, JoinInput::Itself { .. })
    }

    /// Whether each pair of rows needs to meet in one of its two orders only. Every reading must then give a
    /// row the same place, by its hash.
    fn meets_once(&self) -> bool {
        self.is_self_join() && self.join.is_symmetric() && self.exact
    }

    /// Why the sides cannot be repartitioned, if they cannot.
    fn not_repartitioned(&self) -> Option<&'static str> {
        (self.repeatable != [true, true])
            .then_some("an input may give other rows when it is read twice")
    }

    fn choose(&self) -> WorkSharing {
        if self.tasks <= 1 {
            return WorkSharing::ByNone("there is one task".to_string());
        }
        let sizes = [Side::Left, Side::Right].map(|side| InputBytes::of(self.input.side(side)));
        let size = |side: Side| sizes[side as usize];
        // The side that is to be built, or else the smallest that can be broadcast, one of unknown
        // size last.
        let wanted = |side: Side| self.options.build_side == BuildSideChoice::Fixed(side);
        let broadcast = [Side::Left, Side::Right]
            .into_iter()
            .filter(|side| self.can_broadcast(*side))
            .min_by_key(|side| (!wanted(*side), size(*side).map_or(usize::MAX, |size| size.0)));
        let not_repartitioned = self.not_repartitioned();
        if self.meets_once()
            && not_repartitioned.is_none()
            && self.options.distribution == DistributionChoice::Auto
        {
            let reason = "the pairs of one input with itself, each of them once";
            return WorkSharing::Repartition(reason.to_string());
        }
        let limit = self.options.broadcast_limit;
        let choice = self.options.distribution;
        // A FULL join can be split only by blocking key.
        let full = self.join.join_type == JoinType::Full && self.join.on.is_empty();
        if full && not_repartitioned.is_none() {
            let both = sizes[0].zip(sizes[1]).map(|(l, r)| InputBytes(l.0.saturating_add(r.0)));
            return match both {
                Some(both) if choice == DistributionChoice::Auto && both.0 as u64 <= limit.0 => {
                    WorkSharing::ByNone(format!("both sides of about {both} are within {limit}"))
                }
                _ => WorkSharing::AsTwo,
            };
        }
        match (choice, broadcast, not_repartitioned) {
            (DistributionChoice::Broadcast, Some(side), _) => {
                WorkSharing::Broadcast(side, "simjoin.distribution = broadcast".to_string())
            }
            (DistributionChoice::Repartition, _, None) => {
                WorkSharing::Repartition("simjoin.distribution = repartition".to_string())
            }
            (_, None, Some(why)) => {
                WorkSharing::ByNone(format!("neither side can be broadcast, and {why}"))
            }
            (DistributionChoice::Repartition, Some(side), Some(why)) => {
                WorkSharing::Broadcast(side, format!("not repartitioned: {why}"))
            }
            (_, None, None) => WorkSharing::Repartition(
                "no side can be broadcast whose rows are not part of the answer".to_string(),
            ),
            (_, Some(side), not_repartitioned) => match (size(side), not_repartitioned) {
                (Some(size), _) if size.0 as u64 <= limit.0 => WorkSharing::Broadcast(
                    side,
                    format!("the {side} side of about {size} is within {limit}"),
                ),
                (_, Some(why)) => WorkSharing::Broadcast(side, format!("not repartitioned: {why}")),
                (Some(size), None) => WorkSharing::Repartition(format!(
                    "the {side} side of about {size} is beyond {limit}"
                )),
                (None, None) => WorkSharing::Repartition(format!(
                    "statistics do not tell whether the {side} side is within {limit}"
                )),
            },
        }
    }
}
