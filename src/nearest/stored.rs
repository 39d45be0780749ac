//! Rows of an input on disk, in pieces that are read one by one.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::interleave_record_batch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, exec_err, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::spill_file::SpillFile;
use datafusion::physical_plan::SpillManager;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};

use super::budget::SearchBudget;
use super::table::{RowTable, TableBuilder};
use crate::exec::rows::payload::stored_bytes;
use crate::exec::spill::{
    OpenFile, WriteOutcome, WriteProgress, disk_error, open_file, spill_manager,
};
use crate::operator::errors::is_out_of_memory;

/// Rows of a batch on disk, at most.
const BATCH_ROWS: usize = 8192;

/// The bytes of the rows of a batch, without those of its buffers that it does not use.
pub(super) fn bytes_of(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(stored_bytes).sum()
}

/// A copy of some rows of a batch, which keeps none of the other rows in memory.
pub(super) fn copy_of(batch: &RecordBatch, rows: Range<usize>) -> Result<RecordBatch> {
    copies(&[batch], &rows.map(|row| (0, row)).collect::<Vec<_>>())
}

/// Copies of rows: the batch of each, and its place there.
fn copies(batches: &[&RecordBatch], rows: &[(usize, usize)]) -> Result<RecordBatch> {
    match batches.first() {
        // Rows of an input that nothing reads.
        Some(batch) if batch.num_columns() == 0 => {
            let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
            Ok(RecordBatch::try_new_with_options(batch.schema(), vec![], &options)?)
        }
        _ => Ok(interleave_record_batch(batches, rows)?),
    }
}

/// Rows in a file.
struct StoredPiece {
    file: Arc<dyn SpillFile>,
    /// The number of its first row.
    first: usize,
    rows: usize,
    /// The bytes of the rows in memory, as batches.
    bytes: usize,
}

/// The rows of an input, on disk. Dropping it deletes the files.
pub(super) struct Stored {
    manager: SpillManager,
    pieces: Vec<StoredPiece>,
    rows: usize,
}

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stored").field("pieces", &self.pieces.len()).finish_non_exhaustive()
    }
}

impl Stored {
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn pieces(&self) -> usize {
        self.pieces.len()
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        self.manager.schema()
    }

    /// All rows, piece by piece.
    pub(super) fn batches(self: Arc<Self>) -> BoxStream<'static, Result<RecordBatch>> {
        let pieces = stream::iter(0..self.pieces.len()).map(move |piece| {
            let file = Arc::clone(&self.pieces[piece].file);
            self.manager.read_spill_as_stream_unbuffered(file, None)
        });
        pieces.try_flatten().boxed()
    }

    /// The number of the first row of a piece.
    pub(super) fn first_row(&self, piece: usize) -> usize {
        self.pieces[piece].first
    }

    /// Reads the first of `pieces`, and those behind it while they take at most `bytes` and `rows` and
    /// memory is not refused. The rows, and the pieces that they are of.
    ///
    /// # Errors
    ///
    /// When a file cannot be read, and when memory for one piece is refused.
    pub(super) async fn read(
        &self,
        pieces: Range<usize>,
        bytes: usize,
        rows: usize,
        memory: &MemoryReservation,
    ) -> Result<(RowTable, Range<usize>)> {
        /// Files that are read at a time, whose threads wait for each other.
        const READS: usize = 4;
        // Reserved before the rows are read.
        let ahead = memory.new_empty();
        let (mut end, mut all) = (pieces.start, 0);
        for piece in &self.pieces[pieces.clone()] {
            all += piece.rows;
            let fits = ahead.size().saturating_add(piece.bytes) <= bytes && all <= rows;
            if end > pieces.start && !fits {
                break;
            }
            match ahead.try_grow(piece.bytes) {
                Err(error) if is_out_of_memory(&error) && end > pieces.start => break,
                other => other?,
            }
            end += 1;
        }
        let read = |piece: usize| async move {
            let file = Arc::clone(&self.pieces[piece].file);
            let batches = self.manager.read_spill_as_stream_unbuffered(file, None)?;
            batches.try_collect::<Vec<_>>().await
        };
        let mut builder = TableBuilder::new(Arc::clone(self.schema()), memory.new_empty());
        let mut read = stream::iter(pieces.start..end).map(read).buffered(READS);
        for piece in pieces.start..end {
            let batches = read.next().await.transpose()?.unwrap_or_default();
            ahead.shrink(self.pieces[piece].bytes);
            let before = builder.batches();
            match batches.into_iter().try_for_each(|batch| builder.push(batch)) {
                Err(error) if is_out_of_memory(&error) && piece > pieces.start => {
                    builder.truncate(before);
                    end = piece;
                    break;
                }
                other => other?,
            }
        }
        Ok((builder.finish(), pieces.start..end))
    }
}

/// Writes the rows of an input to disk.
pub(super) struct Writer {
    manager: SpillManager,
    memory: MemoryReservation,
    /// Rows, in batches of the input, that are to be written.
    waiting: Vec<RecordBatch>,
    waiting_rows: usize,
    waiting_bytes: usize,
    open: Option<(OpenFile, usize, usize)>,
    done: Vec<StoredPiece>,
    piece_bytes: usize,
    piece_rows: usize,
    rows: usize,
    bytes: u64,
}

impl Writer {
    /// Writes pieces that suit `budget`. `memory` grows by what is gathered.
    ///
    /// # Errors
    ///
    /// When the session's disk manager cannot be used.
    pub(super) fn try_new(
        schema: SchemaRef,
        budget: &SearchBudget,
        context: &TaskContext,
        metrics: &ExecutionPlanMetricsSet,
        memory: MemoryReservation,
    ) -> Result<Self> {
        let manager = spill_manager(context, metrics, schema)?;
        let gathered = budget.piece();
        // Gathered rows, and a copy of them on their way to the file.
        if memory.try_grow(2 * gathered).is_err() {
            // The rows read may have taken all memory; the writer needs this little to free it.
            memory.grow(2 * gathered);
        }
        Ok(Self {
            manager,
            memory,
            waiting: vec![],
            waiting_rows: 0,
            waiting_bytes: 0,
            open: None,
            done: vec![],
            piece_bytes: budget.piece(),
            piece_rows: budget.piece_rows(),
            rows: 0,
            bytes: 0,
        })
    }

    /// Adds rows.
    ///
    /// # Errors
    ///
    /// When they cannot be written, and where there are too many for their numbers.
    pub(super) fn push(&mut self, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.waiting_bytes += bytes_of(&batch);
        self.waiting_rows += batch.num_rows();
        self.waiting.push(batch);
        match self.waiting_bytes >= self.memory.size() / 2 || self.waiting_rows >= BATCH_ROWS {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Writes what is gathered.
    fn flush(&mut self) -> Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        let rows = std::mem::take(&mut self.waiting_rows);
        let row_bytes = std::mem::take(&mut self.waiting_bytes) / rows.max(1);
        let fitting = (self.piece_bytes / row_bytes.max(1)).max(1);
        let most = BATCH_ROWS.min(self.piece_rows).min(fitting);
        let places = waiting
            .iter()
            .enumerate()
            .flat_map(|(batch, rows)| (0..rows.num_rows()).map(move |row| (batch, row)));
        let places: Vec<_> = places.collect();
        let batches: Vec<&RecordBatch> = waiting.iter().collect();
        for rows in places.chunks(most) {
            self.write(&copies(&batches, rows)?)?;
        }
        Ok(())
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let more = bytes_of(batch);
        let is_full = self.open.as_ref().is_some_and(|(_, rows, bytes)| {
            bytes + more > self.piece_bytes || rows + batch.num_rows() > self.piece_rows
        });
        if is_full {
            self.close()?;
        }
        let (mut file, rows, bytes) = match self.open.take() {
            Some(open) => open,
            None => (open_file(&self.manager).map_err(|e| self.error(e))?, 0, 0),
        };
        let written = file(Some(batch)).map_err(|e| self.error(e))?;
        let more = if let WriteOutcome::Batch(bytes) = written { bytes } else { 0 };
        self.rows += batch.num_rows();
        self.bytes += more as u64;
        self.open = Some((file, rows + batch.num_rows(), bytes + more));
        if self.rows > u32::MAX as usize {
            return exec_err!(
                "NEAREST joins at most {} rows of its right side, found more",
                u32::MAX
            );
        }
        Ok(())
    }

    /// Ends the piece that is open.
    fn close(&mut self) -> Result<()> {
        let Some((mut file, rows, bytes)) = self.open.take() else { return Ok(()) };
        let WriteOutcome::End(Some(file)) = file(None).map_err(|e| self.error(e))? else {
            return internal_err!("a piece with {rows} rows has no file");
        };
        self.done.push(StoredPiece { file, first: self.rows - rows, rows, bytes });
        Ok(())
    }

    /// No more rows.
    ///
    /// # Errors
    ///
    /// When they cannot be written.
    pub(super) fn finish(mut self) -> Result<Stored> {
        self.flush()?;
        self.close()?;
        Ok(Stored { manager: self.manager, pieces: self.done, rows: self.rows })
    }

    fn error(
        &self,
        error: datafusion::common::DataFusionError,
    ) -> datafusion::common::DataFusionError {
        let files = self.done.len() + usize::from(self.open.is_some());
        disk_error(error, &WriteProgress { files, rows: self.rows as u64, bytes: self.bytes })
    }
}
