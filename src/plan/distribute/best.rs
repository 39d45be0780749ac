//! Joins whose best pairs alone are needed.
//!
//! Tasks find best pairs of their own rows, among which those of all rows are. A one-to-one match is none of
//! these: whether it takes a pair depends on better pairs of other tasks. One task finds it by rounds, without
//! the other pairs, where it may read both sides; otherwise the tasks make all pairs.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};

use super::size::InputBytes;
use super::{Distribution, WorkSharing};
use crate::config::DistributionChoice;
use crate::exec::{JoinInput, JoinPartsExec, SetSimilarityJoinExec};
use crate::families::Families;
use crate::nearest::BestPairsExec;
use crate::spec::{BestPairs, Side};

impl Distribution<'_> {
    /// The plan of a join of which the `best` pairs are needed.
    pub(crate) fn plan_best(self, best: BestPairs) -> Result<Arc<dyn ExecutionPlan>> {
        if let (BestPairs::OneToOne { .. }, Some(reason)) = (best, self.small_sides()) {
            let join = self.by_one_task(reason)?;
            if BestPairsExec::serves(&join, best) {
                return Ok(Arc::new(BestPairsExec::try_new(join, best, self.families)?));
            }
        }
        let families = self.families;
        let plan = match self.reads_one_side_whole() {
            // The tasks of a broadcast share what they read, and would make all pairs.
            true if !matches!(best, BestPairs::OneToOne { .. }) => {
                self.repartition("each task finds the best pairs of its own rows".to_string())?
            }
            _ => self.plan()?,
        };
        best_of_tasks(plan, best, families)
    }

    /// Whether each task would read one side whole, where the tasks might as well share both.
    fn reads_one_side_whole(&self) -> bool {
        self.options.distribution == DistributionChoice::Auto
            && self.not_repartitioned().is_none()
            && matches!(self.choose(), WorkSharing::Broadcast(..))
    }

    /// Says that a task may read each side, where several tasks might share the join.
    fn small_sides(&self) -> Option<String> {
        if self.tasks <= 1 || self.options.distribution != DistributionChoice::Auto {
            return None;
        }
        let limit = self.options.broadcast_limit;
        let size = |side: Side| {
            let size = InputBytes::of(self.input.side(side));
            size.filter(|size| size.0 as u64 <= limit.0)
        };
        Some(match &self.input {
            JoinInput::Itself { .. } => {
                let size = size(Side::Left)?;
                format!("one task makes the match: the input of about {size} is within {limit}")
            }
            JoinInput::Two { .. } => {
                let (left, right) = (size(Side::Left)?, size(Side::Right)?);
                format!(
                    "one task makes the match: sides of about {left} and {right} are each within {limit}"
                )
            }
        })
    }
}

/// The plan of a join that `plan` distributes, of which each task finds its own best pairs where it can.
fn best_of_tasks(
    plan: Arc<dyn ExecutionPlan>,
    best: BestPairs,
    families: &Families,
) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(join) = plan.downcast_ref::<SetSimilarityJoinExec>() {
        return Ok(match BestPairsExec::serves(join, best) {
            true => {
                let join = join.with_input(join.input().clone())?;
                Arc::new(BestPairsExec::try_new(join, best, families)?)
            }
            false => plan,
        });
    }
    if plan.is::<JoinPartsExec>() || plan.is::<UnionExec>() {
        let parts = plan.children().into_iter();
        let parts = parts.map(|part| best_of_tasks(Arc::clone(part), best, families));
        let parts = parts.collect::<Result<Vec<_>>>()?;
        let recompute = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        return plan.replace_children(parts, recompute);
    }
    Ok(plan)
}
