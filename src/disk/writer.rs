//! Rows on their way to disk: gathered, and written band by band.

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::interleave_record_batch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::SpillManager;

use super::files::{OpenFile, WriteOutcome, WriteProgress, disk_error, open_file};
use super::segments::{DiskRows, Segment};
use crate::operator::row_bytes::batch_bytes;

/// Rows of a batch on disk, at most: reading takes the memory of a batch.
const BATCH_ROWS: usize = 8192;
/// Each segment keeps a file open: beyond about this many segments, further ones are larger.
const MANY_SEGMENTS: u64 = 128;
/// The bytes of gathered rows that are reserved in any case.
pub(crate) const LEAST_BUFFER_BYTES: usize = 64 << 10;

/// The amount that is written at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SegmentLimits {
    /// Bytes of rows gathered before they are written.
    pub buffer_bytes: usize,
    /// A segment ends when it holds this many bytes, and has up to half as many more; where there are many segments,
    /// when it holds up to `most_segment_bytes`.
    pub segment_bytes: usize,
    pub most_segment_bytes: usize,
    /// A segment ends when it holds this many rows, and has less than twice as many.
    pub segment_rows: usize,
}

/// Adds the rows of a batch to the notes of their segment.
type NoteRows<N> = Box<dyn Fn(&mut N, &RecordBatch) + Send>;

/// Writes the rows of an input.
pub(crate) struct SegmentWriter<N> {
    manager: SpillManager,
    limits: SegmentLimits,
    /// Memory for the gathered rows, and as much again for the rows of a band in one piece.
    reservation: MemoryReservation,
    waiting: Vec<RecordBatch>,
    waiting_rows: usize,
    waiting_bytes: usize,
    bands: Vec<WrittenBand<N>>,
    note: NoteRows<N>,
    done: Vec<Segment<N>>,
    written: WriteProgress,
}

/// Rows that are written together.
struct WrittenBand<N> {
    /// The notes of a segment without rows.
    notes: N,
    /// The waiting rows: the batch of each, and its place there.
    rows: Vec<(usize, usize)>,
    open: Option<OpenSegment<N>>,
}

struct OpenSegment<N> {
    file: OpenFile,
    notes: N,
    rows: usize,
    bytes: usize,
}

impl<N: Clone> SegmentWriter<N> {
    /// A writer of rows of `manager`'s schema into a band for each of `notes`, which every segment of the band begins
    /// with and `note` adds to. `reservation`, which is empty, takes twice the gathered bytes.
    pub(crate) fn new(
        manager: SpillManager,
        limits: SegmentLimits,
        reservation: MemoryReservation,
        notes: Vec<N>,
        note: impl Fn(&mut N, &RecordBatch) + Send + 'static,
    ) -> Self {
        if reservation.try_grow(2 * limits.buffer_bytes).is_err() {
            // The rows read may have taken all memory; the writer needs this little to free it.
            reservation.grow(2 * LEAST_BUFFER_BYTES.min(limits.buffer_bytes));
        }
        let band = |notes| WrittenBand { notes, rows: vec![], open: None };
        Self {
            manager,
            limits,
            reservation,
            waiting: vec![],
            waiting_rows: 0,
            waiting_bytes: 0,
            bands: notes.into_iter().map(band).collect(),
            note: Box::new(note),
            done: vec![],
            written: WriteProgress::default(),
        }
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        self.manager.schema()
    }

    /// Adds the rows of a batch that have a band.
    ///
    /// # Errors
    ///
    /// When rows cannot be written.
    pub(crate) fn push(
        &mut self,
        batch: RecordBatch,
        band: impl Fn(usize) -> Option<usize>,
    ) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let number = self.waiting.len();
        for row in 0..batch.num_rows() {
            if let Some(band) = band(row) {
                self.bands[band].rows.push((number, row));
            }
        }
        self.waiting_rows += batch.num_rows();
        self.waiting_bytes += batch_bytes(&batch);
        self.waiting.push(batch);
        let is_full = self.waiting_bytes >= self.reservation.size() / 2;
        // More rows make no larger batches.
        match is_full || self.waiting_rows >= BATCH_ROWS * self.bands.len() {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Writes the gathered rows.
    fn flush(&mut self) -> Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        // A segment ends with a batch, which therefore holds no more than half of it: where
        // nothing is known of the sizes there is one band for all.
        let all = std::mem::take(&mut self.waiting_rows);
        let row_bytes = std::mem::take(&mut self.waiting_bytes) / all.max(1);
        let fitting = (self.segment_bytes() / 2 / row_bytes.max(1)).max(1);
        let most_rows = BATCH_ROWS.min(self.limits.segment_rows).min(fitting);
        let batches: Vec<&RecordBatch> = waiting.iter().collect();
        for band in 0..self.bands.len() {
            let rows = std::mem::take(&mut self.bands[band].rows);
            for rows in rows.chunks(most_rows) {
                self.write(band, &copies(&batches, rows)?)?;
            }
        }
        // Few rows at a time make small batches, many files and much to read: the rows that have
        // been read give their memory back bit by bit.
        let held = self.reservation.size();
        let more = held.min((2 * self.limits.buffer_bytes).saturating_sub(held));
        let _ = self.reservation.try_grow(more);
        Ok(())
    }

    fn write(&mut self, band: usize, batch: &RecordBatch) -> Result<()> {
        let mut open = match self.bands[band].open.take() {
            Some(open) => open,
            None => {
                let file = open_file(&self.manager).map_err(|e| disk_error(e, &self.written))?;
                self.written.files += 1;
                OpenSegment { file, notes: self.bands[band].notes.clone(), rows: 0, bytes: 0 }
            }
        };
        let written = (open.file)(Some(batch)).map_err(|e| disk_error(e, &self.written))?;
        let bytes = if let WriteOutcome::Batch(bytes) = written { bytes } else { 0 };
        (self.note)(&mut open.notes, batch);
        open.rows += batch.num_rows();
        open.bytes += bytes;
        self.written.rows += batch.num_rows() as u64;
        self.written.bytes += bytes as u64;
        match open.bytes >= self.segment_bytes() || open.rows >= self.limits.segment_rows {
            true => self.close(open),
            false => {
                self.bands[band].open = Some(open);
                Ok(())
            }
        }
    }

    /// The bytes with which a segment ends: more where there are many already.
    fn segment_bytes(&self) -> usize {
        let share = (self.written.bytes / MANY_SEGMENTS) as usize;
        self.limits.segment_bytes.max(share.min(self.limits.most_segment_bytes))
    }

    fn close(&mut self, mut open: OpenSegment<N>) -> Result<()> {
        let ended = (open.file)(None).map_err(|e| disk_error(e, &self.written))?;
        let OpenSegment { notes, rows, bytes, .. } = open;
        let WriteOutcome::End(Some(file)) = ended else {
            return internal_err!("a segment of {rows} rows has no file");
        };
        self.done.push(Segment { notes, rows, bytes, first_row: 0, file });
        Ok(())
    }

    /// No more rows: all of them, in the order in which segments ended.
    ///
    /// # Errors
    ///
    /// When rows cannot be written.
    pub(crate) fn finish(mut self) -> Result<DiskRows<N>> {
        self.flush()?;
        for band in 0..self.bands.len() {
            if let Some(open) = self.bands[band].open.take() {
                self.close(open)?;
            }
        }
        Ok(DiskRows::new(self.manager, self.done))
    }
}

/// Copies of rows: the batch of each, and its place there.
pub(crate) fn copies(batches: &[&RecordBatch], rows: &[(usize, usize)]) -> Result<RecordBatch> {
    match batches.first() {
        // Rows of an input that nothing reads.
        Some(batch) if batch.num_columns() == 0 => {
            let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
            Ok(RecordBatch::try_new_with_options(batch.schema(), vec![], &options)?)
        }
        _ => Ok(interleave_record_batch(batches, rows)?),
    }
}
