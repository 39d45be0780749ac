//! The right side: in memory whole, or on disk and in memory by windows.

use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::{Stream, StreamExt, TryStreamExt, stream};

use super::budget::SearchBudget;
use super::table::{RowTable, TableBuilder, check_count};
use crate::disk::{DiskRows, SegmentWriter, spill_manager};
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
    /// Each piece is a segment.
    Disk(DiskRows),
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
        let mut reading = reading.clone();
        let (budget, memory) = (&mut reading.budget, Arc::clone(&reading.memory));
        let schema = input.schema();
        let mut builder = TableBuilder::new(Arc::clone(&schema), memory.new_empty());
        let (mut fits, mut refused) = (!budget.spills_always(), None);
        while fits && let Some(batch) = input.next().await.transpose()? {
            match builder.push(batch.clone()) {
                Ok(()) => fits = builder.bytes() <= budget.whole(itself),
                Err(error) if is_out_of_memory(&error) && budget.may_spill() => {
                    *budget = budget.within(builder.bytes());
                    (fits, refused) = (false, Some(batch));
                }
                Err(error) => return Err(error),
            }
        }
        let rows = match fits {
            true => RowStore::Memory(Arc::new(builder.finish())),
            false => {
                let (held, reserved) = builder.into_batches();
                // Reserved until the last of them is written.
                let held = stream::iter(held.into_iter().chain(refused)).map(move |batch| {
                    let _reserved = &reserved;
                    Ok(batch)
                });
                let stored = reading.store(&schema, held.chain(input)).await?;
                match stored.segments.is_empty() {
                    true => RowStore::Memory(Arc::new(RowTable::of(schema, vec![]))),
                    false => RowStore::Disk(stored),
                }
            }
        };
        let budget = reading.budget;
        let most = WindowSize { pieces: usize::MAX, rows: usize::MAX };
        Ok(Self { rows, current: None, memory, budget, most, last_pieces: 1 })
    }

    /// The number of rows.
    pub(super) fn rows(&self) -> usize {
        match &self.rows {
            RowStore::Memory(table) => table.rows(),
            RowStore::Disk(stored) => stored.rows as usize,
        }
    }

    /// The number of pieces: 1 in memory, unless windows were made [smaller](Self::narrow).
    pub(super) fn pieces(&self) -> usize {
        match &self.rows {
            RowStore::Memory(table) => table.rows().div_ceil(self.most.rows).max(1),
            RowStore::Disk(stored) => stored.segments.len(),
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
                stored.rows as usize / stored.segments.len().max(1) * self.last_pieces.max(1)
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

    /// Reads the first of some pieces, and those behind it while they take at most `bytes` and memory is not refused.
    async fn read_window(
        &self,
        stored: &DiskRows,
        pieces: Range<usize>,
        bytes: usize,
    ) -> Result<Window> {
        /// Files that are read at a time, whose threads wait for each other.
        const READS: usize = 4;
        let (start, segments) = (pieces.start, &stored.segments);
        let most_rows = self.budget.piece_rows();
        // Reserved before the rows are read.
        let ahead = self.memory.new_empty();
        let (mut end, mut rows) = (start, 0);
        for segment in &segments[pieces] {
            rows += segment.rows;
            let fits = ahead.size().saturating_add(segment.bytes) <= bytes && rows <= most_rows;
            if end > start && !fits {
                break;
            }
            match ahead.try_grow(segment.bytes) {
                Err(error) if is_out_of_memory(&error) && end > start => break,
                other => other?,
            }
            end += 1;
        }
        let read = |piece: usize| async move { stored.read(piece)?.try_collect::<Vec<_>>().await };
        let mut builder = TableBuilder::new(Arc::clone(stored.schema()), self.memory.new_empty());
        let mut read = stream::iter(start..end).map(read).buffered(READS);
        for (before, segment) in segments[start..end].iter().enumerate() {
            let batches = read.next().await.transpose()?.unwrap_or_default();
            ahead.shrink(segment.bytes);
            let batches_before = builder.batches();
            match batches.into_iter().try_for_each(|batch| builder.push(batch)) {
                Err(error) if is_out_of_memory(&error) && before > 0 => {
                    builder.truncate(batches_before);
                    end = start + before;
                    break;
                }
                other => other?,
            }
        }
        let first = segments[start].first_row as u32;
        Ok(Window { table: Arc::new(builder.finish()), first, pieces: start..end })
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
            let rows = stored.segments[end].first_row as usize - window.first as usize;
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
    /// Writes rows of a side to disk.
    ///
    /// # Errors
    ///
    /// The errors of the rows and of the disk, and where there are too many for their numbers.
    pub(super) async fn store(
        &self,
        schema: &SchemaRef,
        rows: impl Stream<Item = Result<RecordBatch>>,
    ) -> Result<DiskRows> {
        let manager = spill_manager(&self.context, &self.metrics, Arc::clone(schema))?;
        let (limits, memory) = (self.budget.pieces(), self.memory.new_empty());
        let mut writer = SegmentWriter::new(manager, limits, memory, vec![()], |(), _| {});
        let (mut rows, mut count) = (pin!(rows), 0);
        while let Some(batch) = rows.next().await.transpose()? {
            count += batch.num_rows();
            check_count(count)?;
            writer.push(batch, |_| Some(0))?;
            tokio::task::yield_now().await;
        }
        writer.finish()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::execution::memory_pool::MemoryConsumer;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;

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
                RowStore::Disk(stored) => right.read_window(stored, 0..4, usize::MAX).await?,
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
