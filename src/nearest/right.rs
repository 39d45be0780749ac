//! The right side: in memory whole, or on disk and in memory by windows.

use std::ops::Range;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::StreamExt;

use super::budget::SearchBudget;
use super::stored::{Stored, Writer};
use super::table::{RowTable, TableBuilder};
use crate::operator::errors::is_out_of_memory;

/// Right rows that are in memory.
#[derive(Debug, Clone)]
pub(super) struct Window {
    pub table: Arc<RowTable>,
    /// The number of the first row among all right rows.
    pub first: u32,
    /// The pieces that the rows are of.
    pub pieces: Range<usize>,
}

/// The resources with which a side is read.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    pub budget: SearchBudget,
    pub memory: Arc<MemoryReservation>,
    pub context: Arc<TaskContext>,
    pub metrics: ExecutionPlanMetricsSet,
}

/// The right side, or the one that is both sides.
#[derive(Debug)]
pub(super) struct Right {
    rows: RowStore,
    /// The window that was asked for last.
    current: Option<Window>,
    memory: Arc<MemoryReservation>,
    budget: SearchBudget,
    most: WindowSize,
    /// The pieces of the window that was made last.
    last_pieces: usize,
}

#[derive(Debug)]
enum RowStore {
    Memory(Arc<RowTable>),
    Disk(Stored),
}

/// The most that a window holds: the pieces of rows on disk, the rows of those in memory.
#[derive(Debug, Clone, Copy)]
struct WindowSize {
    pieces: usize,
    rows: usize,
}

impl Right {
    /// Reads `input`, to disk where it does not fit into memory. `itself` is set where the rows are both
    /// sides.
    ///
    /// # Errors
    ///
    /// The errors of the input and of the disk; and when memory is refused, where inputs may not go to disk.
    pub(super) async fn read(
        mut input: SendableRecordBatchStream,
        itself: bool,
        reading: &Reading,
    ) -> Result<Self> {
        let Reading { mut budget, memory, .. } = reading.clone();
        let schema = input.schema();
        let mut builder = TableBuilder::new(Arc::clone(&schema), memory.new_empty());
        let mut writer = None;
        if budget.spills_always() {
            writer = Some(reading.writer(&budget, &input)?);
        }
        while let Some(batch) = input.next().await {
            let batch = batch?;
            if let Some(writer) = &mut writer {
                writer.push(batch)?;
                continue;
            }
            let refused = match builder.push(batch.clone()) {
                Ok(()) if builder.bytes() <= budget.whole(itself) => continue,
                Ok(()) => None,
                Err(error) if is_out_of_memory(&error) && budget.may_spill() => Some(batch),
                Err(error) => return Err(error),
            };
            if refused.is_some() {
                budget = budget.within(builder.bytes());
            }
            let mut to_disk = reading.writer(&budget, &input)?;
            let schema = Arc::clone(&schema);
            let (held, reserved) = builder.into_batches();
            builder = TableBuilder::new(schema, memory.new_empty());
            for batch in held.into_iter().chain(refused) {
                to_disk.push(batch)?;
                tokio::task::yield_now().await;
            }
            drop(reserved);
            writer = Some(to_disk);
        }
        let stored = writer.map(Writer::finish).transpose()?;
        let rows = match stored {
            Some(stored) if stored.pieces() > 0 => RowStore::Disk(stored),
            _ => RowStore::Memory(Arc::new(builder.finish())),
        };
        let most = WindowSize { pieces: usize::MAX, rows: usize::MAX };
        Ok(Self { rows, current: None, memory, budget, most, last_pieces: 1 })
    }

    /// The number of rows.
    pub(super) fn rows(&self) -> usize {
        match &self.rows {
            RowStore::Memory(table) => table.rows(),
            RowStore::Disk(stored) => stored.rows(),
        }
    }

    /// The number of pieces: 1 in memory, unless windows were made [smaller](Self::narrow).
    pub(super) fn pieces(&self) -> usize {
        match &self.rows {
            RowStore::Memory(table) => table.rows().div_ceil(self.most.rows).max(1),
            RowStore::Disk(stored) => stored.pieces(),
        }
    }

    pub(super) fn is_on_disk(&self) -> bool {
        matches!(self.rows, RowStore::Disk(_))
    }

    /// The shares of memory, as far as they are known.
    pub(super) fn budget(&self) -> &SearchBudget {
        &self.budget
    }

    /// The bytes of the rows; `None` where they are on disk.
    pub(super) fn bytes_in_memory(&self) -> Option<usize> {
        match &self.rows {
            RowStore::Memory(table) => Some(table.bytes()),
            RowStore::Disk(_) => None,
        }
    }

    /// A table without rows.
    pub(super) fn empty(&self) -> RowTable {
        let schema = match &self.rows {
            RowStore::Memory(table) => table.schema_ref(),
            RowStore::Disk(stored) => stored.schema(),
        };
        RowTable::of(Arc::clone(schema), vec![])
    }

    /// Makes windows from now on at most half as large as the last one; `false` where they cannot be smaller.
    pub(super) fn narrow(&mut self) -> bool {
        self.current = None;
        match &self.rows {
            RowStore::Memory(table) => {
                let rows = self.most.rows.min(table.rows());
                self.most.rows = (rows / 2).max(1);
                rows > 1
            }
            RowStore::Disk(_) => {
                // Own rows are such a window, too.
                let pieces = self.last_pieces;
                self.most.pieces = (pieces / 2).max(1);
                self.last_pieces = self.most.pieces;
                pieces > 1
            }
        }
    }

    /// The rows of the largest window, about.
    pub(super) fn window_rows(&self) -> usize {
        match &self.rows {
            RowStore::Memory(table) => table.rows().min(self.most.rows),
            RowStore::Disk(stored) => {
                stored.rows() / stored.pieces().max(1) * self.last_pieces.max(1)
            }
        }
    }

    /// Forgets the window that was asked for last.
    pub(super) fn release(&mut self) {
        self.current = None;
    }

    /// The rows of a piece and of as many behind it as left rows may take, which are rows of this side.
    ///
    /// # Errors
    ///
    /// When a piece cannot be read, and when memory for one is refused.
    pub(super) async fn own(&mut self, piece: usize) -> Result<Window> {
        let pieces = piece..self.pieces();
        let RowStore::Disk(stored) = &self.rows else { return self.window(pieces, None).await };
        self.current = None;
        let pieces = piece..pieces.end.min(piece.saturating_add(self.most.pieces));
        self.read_window(stored, pieces, self.budget.beside_windows()).await
    }

    /// Reads the first of some pieces and as many behind it as `bytes` admit.
    async fn read_window(
        &self,
        stored: &Stored,
        pieces: Range<usize>,
        bytes: usize,
    ) -> Result<Window> {
        let first = stored.first_row(pieces.start) as u32;
        let rows = self.budget.piece_rows();
        let (table, pieces) = stored.read(pieces, bytes, rows, &self.memory).await?;
        Ok(Window { table: Arc::new(table), first, pieces })
    }

    /// The rows of the first of `pieces` and of as many behind it as memory holds. `own` are left rows that
    /// are rows of this side, too, and are in memory.
    ///
    /// # Errors
    ///
    /// When a piece cannot be read, and when memory for one is refused.
    pub(super) async fn window(
        &mut self,
        pieces: Range<usize>,
        own: Option<&Window>,
    ) -> Result<Window> {
        let stored = match &self.rows {
            RowStore::Memory(table) if self.pieces() == 1 => {
                return Ok(Window { table: Arc::clone(table), first: 0, pieces: 0..1 });
            }
            RowStore::Memory(table) => {
                let first = pieces.start * self.most.rows;
                let rows = first..table.rows().min(first + self.most.rows);
                let pieces = pieces.start..pieces.start + 1;
                return Ok(Window {
                    table: Arc::new(table.slice(rows)),
                    first: first as u32,
                    pieces,
                });
            }
            RowStore::Disk(stored) => stored,
        };
        let is_at_start = |window: &&Window| {
            window.pieces.start == pieces.start && window.pieces.end <= pieces.end
        };
        let most_end = pieces.start.saturating_add(self.most.pieces);
        if let Some(window) = own.filter(is_at_start) {
            let end = window.pieces.end.min(most_end);
            self.last_pieces = end - pieces.start;
            if end == window.pieces.end {
                return Ok(window.clone());
            }
            let rows = stored.first_row(end) - window.first as usize;
            let table = Arc::new(window.table.slice(0..rows));
            return Ok(Window { table, first: window.first, pieces: pieces.start..end });
        }
        if let Some(window) = self.current.as_ref().filter(is_at_start) {
            return Ok(window.clone());
        }
        self.current = None;
        // Own rows are a window of their own.
        let next = own.map(|own| own.pieces.start).filter(|start| pieces.contains(start));
        let end = next.filter(|start| *start > pieces.start).unwrap_or(pieces.end);
        let end = end.min(most_end);
        let window = self.read_window(stored, pieces.start..end, self.budget.window()).await?;
        self.last_pieces = window.pieces.len();
        self.current = Some(window.clone());
        Ok(window)
    }
}

impl Reading {
    fn writer(&self, budget: &SearchBudget, input: &SendableRecordBatchStream) -> Result<Writer> {
        let memory = self.memory.new_empty();
        Writer::try_new(input.schema(), budget, &self.context, &self.metrics, memory)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, RecordBatch};
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::execution::memory_pool::MemoryConsumer;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use futures::stream;

    use super::*;
    use crate::config::{SimJoinOptions, SpillChoice};

    /// The right side of `rows` rows, under a limit of 1 MiB.
    async fn right(rows: i64, spill: SpillChoice) -> Result<Right> {
        let runtime = RuntimeEnvBuilder::new().with_memory_limit(1 << 20, 1.0).build_arc()?;
        let pool = &runtime.memory_pool;
        let options = SimJoinOptions { spill, ..SimJoinOptions::default() };
        let reading = Reading {
            budget: SearchBudget::new(pool, &options),
            memory: Arc::new(MemoryConsumer::new("test").register(pool)),
            context: Arc::new(TaskContext::default().with_runtime(Arc::clone(&runtime))),
            metrics: ExecutionPlanMetricsSet::new(),
        };
        let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
        let batch = |first: i64| {
            let ids = Int64Array::from_iter_values(first..rows.min(first + 1_000));
            Ok(RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(ids)])?)
        };
        let batches: Vec<_> = (0..rows).step_by(1_000).map(batch).collect();
        let input = RecordBatchStreamAdapter::new(Arc::clone(&schema), stream::iter(batches));
        Right::read(Box::pin(input), true, &reading).await
    }

    /// All rows are in some window, whose size falls until it cannot, also where the window is that of left rows.
    #[tokio::test]
    async fn windows_become_smaller_to_the_last() -> Result<()> {
        for (rows, spill, least) in
            [(60_000, SpillChoice::Always, 1_000), (5_000, SpillChoice::Auto, 1)]
        {
            let mut right = right(rows, spill).await?;
            assert_eq!(right.is_on_disk(), spill == SpillChoice::Always);
            let own = match &right.rows {
                RowStore::Memory(_) => right.window(0..1, None).await?,
                RowStore::Disk(stored) => {
                    let most = usize::MAX;
                    let (table, pieces) = stored.read(0..4, most, most, &right.memory).await?;
                    Window { table: Arc::new(table), first: 0, pieces }
                }
            };
            let mut before = usize::MAX;
            loop {
                let (mut next, mut all) = (0, 0);
                while next < right.pieces() {
                    let window = right.window(next..right.pieces(), Some(&own)).await?;
                    assert_eq!(window.first as usize, all);
                    (next, all) = (window.pieces.end, all + window.table.rows());
                }
                assert_eq!(all, rows as usize);
                let first = right.window(0..right.pieces(), Some(&own)).await?;
                assert!(first.table.rows() < before);
                before = first.table.rows();
                if before < 200 || !right.narrow() {
                    break;
                }
            }
            assert!(
                before < own.table.rows() && before >= least,
                "{before} of {}",
                own.table.rows()
            );
        }
        Ok(())
    }
}
