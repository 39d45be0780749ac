//! Both inputs of an execution.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::held::HeldRows;
use crate::exec::{JoinInput, SetSimilarityJoinExec};
use crate::nearest::budget::SearchBudget;
use crate::nearest::right::Reading;
use crate::nearest::table::RowTable;
use crate::spec::Side;
use crate::tuning::Tuning;

/// The rows of both sides of a join, or of the input that is both.
///
/// ```text
/// build side ─► memory            probe side ─► a window of rows in memory ─► the next one
/// build side ─► memory, disk      probe side ─► memory, disk
/// ```
pub(super) struct HeldInput {
    plain: Arc<SetSimilarityJoinExec>,
    /// The rows of the build side, or of both.
    first: HeldRows,
    second: Option<HeldRows>,
    /// The bytes that a window of the probe side may take.
    window: usize,
    memory: MemoryReservation,
}

impl HeldInput {
    /// Reads the inputs of a partition of the join `plain`, as far as they fit into memory: into `rooms`, the bytes of
    /// the build side, or of the input that is both, and of both sides.
    ///
    /// # Errors
    ///
    /// The errors of the inputs.
    pub(super) async fn read(
        plain: Arc<SetSimilarityJoinExec>,
        partition: usize,
        (context, rooms): (&Arc<TaskContext>, [usize; 2]),
        memory: MemoryReservation,
    ) -> Result<Self> {
        let stream = |side: Side| -> Result<SendableRecordBatchStream> {
            let input = plain.input().side(side);
            let last = input.output_partitioning().partition_count().saturating_sub(1);
            input.execute(partition.min(last), Arc::clone(context))
        };
        let (first, second, window) = match plain.input() {
            JoinInput::Itself { .. } => {
                (HeldRows::read(stream(Side::Left)?, rooms[1], memory.new_empty()).await?, None, 0)
            }
            JoinInput::Two { build, .. } => {
                // As the join reads them: without rows of the build side there is no other row to read.
                let first = stream(*build)?;
                let first = HeldRows::read(first, rooms[0], memory.new_empty()).await?;
                let window = rooms[1].saturating_sub(first.bytes());
                let second = stream(build.other())?;
                let second = match first.rows() > 0 {
                    true => HeldRows::read(second, window, memory.new_empty()).await?,
                    false => HeldRows::unread(second, memory.new_empty()),
                };
                (first, Some(second), window)
            }
        };
        Ok(Self { plain, first, second, window, memory })
    }

    /// Writes the rows that are still to be read to disk, if it may. `false` where rows are left.
    ///
    /// # Errors
    ///
    /// The errors of the inputs, and when rows cannot be written.
    pub(super) async fn store(
        &mut self,
        context: &Arc<TaskContext>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<bool> {
        let budget = SearchBudget::new(context.memory_pool(), self.plain.options());
        let has_disk = context.runtime_env().disk_manager.tmp_files_enabled();
        if !has_disk || !budget.may_spill() {
            return Ok(!self.has_more());
        }
        let memory = Arc::new(self.memory.new_empty());
        let (context, metrics) = (Arc::clone(context), metrics.clone());
        let reading = Reading { budget, memory, context, metrics };
        self.first.store(&reading).await?;
        if let Some(second) = &mut self.second {
            second.store(&reading).await?;
        }
        Ok(true)
    }

    /// Reads the next window of the probe side; `false` where there are no more rows, or none that they meet.
    ///
    /// # Errors
    ///
    /// The errors of the input.
    pub(super) async fn next_window(&mut self) -> Result<bool> {
        if self.first.rows() == 0 {
            return Ok(false);
        }
        let Some(rest) = self.second.take().and_then(HeldRows::into_rest) else { return Ok(false) };
        let window = HeldRows::read(rest, self.window, self.memory.new_empty()).await?;
        self.second = Some(window);
        Ok(true)
    }

    /// Whether there are rows behind those that have been read.
    pub(super) fn has_more(&self) -> bool {
        !self.first.is_complete() || self.second.as_ref().is_some_and(|rows| !rows.is_complete())
    }

    /// Whether all rows of the build side have been read: then the joins of windows find all pairs.
    pub(super) fn has_build_side(&self) -> bool {
        self.first.is_complete()
    }

    /// Whether all rows are in memory.
    pub(super) fn is_in_memory(&self) -> bool {
        self.first.is_in_memory() && self.second.as_ref().is_none_or(HeldRows::is_in_memory)
    }

    /// Whether one input is both sides.
    pub(super) fn is_itself(&self) -> bool {
        self.second.is_none()
    }

    /// The rows of a side.
    fn side(&self, side: Side) -> &HeldRows {
        match (&self.second, self.plain.input()) {
            (Some(second), JoinInput::Two { build, .. }) if *build != side => second,
            _ => &self.first,
        }
    }

    /// The numbers of rows of the left and of the right side that have been read.
    pub(super) fn rows(&self) -> [usize; 2] {
        [Side::Left, Side::Right].map(|side| self.side(side).rows())
    }

    /// The rows of both sides, which are in memory, as tables.
    pub(super) fn tables(&self) -> [Arc<RowTable>; 2] {
        let left = Arc::new(self.side(Side::Left).table());
        match self.is_itself() {
            true => [Arc::clone(&left), left],
            false => [left, Arc::new(self.side(Side::Right).table())],
        }
    }

    /// A part of the rows of each side. `memory` grows by them.
    ///
    /// # Errors
    ///
    /// When rows cannot be read, and when memory is refused.
    pub(super) async fn sample(
        &self,
        tuning: Tuning,
        memory: &MemoryReservation,
    ) -> Result<[Arc<RowTable>; 2]> {
        let left = self.side(Side::Left).sample(Side::Left, tuning, memory).await?;
        let right = self.side(Side::Right).sample(Side::Right, tuning, memory).await?;
        Ok([Arc::new(left), Arc::new(right)])
    }

    /// The columns of a side.
    pub(super) fn schema(&self, side: Side) -> SchemaRef {
        self.plain.input().side(side).schema()
    }

    /// The rows that have been read as the input of a join.
    pub(super) fn input(&self) -> Result<JoinInput> {
        let input = self.plain.input();
        with_plans(input, |side| Ok(self.side(side).plan(input.side(side))))
    }

    /// The rows that have been read as two inputs of a join, as `change` leaves them.
    pub(super) fn two_inputs(
        &self,
        change: impl Fn(Side, Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>,
    ) -> Result<JoinInput> {
        let input = self.plain.input();
        let plan = |side: Side| change(side, self.side(side).plan(input.side(side)));
        let (build, partitions) = match input {
            JoinInput::Two { build, partitions, .. } => (*build, *partitions),
            JoinInput::Itself { partitions, .. } => (Side::Right, *partitions),
        };
        Ok(JoinInput::Two { left: plan(Side::Left)?, right: plan(Side::Right)?, build, partitions })
    }

    /// All rows as the input of a join. Their memory is no longer reserved.
    pub(super) fn into_input(self) -> Result<JoinInput> {
        let Self { plain, first, second, .. } = self;
        let input = plain.input();
        let build = match input {
            JoinInput::Itself { .. } => Side::Left,
            JoinInput::Two { build, .. } => *build,
        };
        let mut rows = [Some(first), second];
        if build == Side::Right {
            rows.reverse();
        }
        let mut rows = rows.map(|rows| rows.map(Some).unwrap_or_default());
        with_plans(input, |side| match rows[side as usize].take() {
            Some(rows) => Ok(rows.into_plan(input.side(side))),
            None => Ok(Arc::clone(input.side(side))),
        })
    }
}

/// An input with other plans for its sides.
fn with_plans(
    input: &JoinInput,
    mut plan: impl FnMut(Side) -> Result<Arc<dyn ExecutionPlan>>,
) -> Result<JoinInput> {
    match input {
        JoinInput::Itself { .. } => input.with_children(&[plan(Side::Left)?]),
        JoinInput::Two { .. } => input.with_children(&[plan(Side::Left)?, plan(Side::Right)?]),
    }
}
