//! Rows on their way to disk: gathered, cut into bands, written band by band.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::interleave_record_batch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::SpillManager;

use super::bands::Bands;
use super::files::{OpenFile, WriteOutcome, WriteProgress, disk_error, open_file};
use crate::engine::{ANYWHERE, StoredForm, StoredRows};
use crate::exec::rows::payload::stored_bytes;
use crate::exec::rows::segment::{Segment, SpilledSide};
use crate::operator::row_bytes::widest_row;

/// Rows of a batch on disk, at most: reading takes the memory of a batch.
const BATCH_ROWS: usize = 8192;
/// Each segment keeps a file open: beyond about this many segments, further ones are larger.
const MANY_SEGMENTS: u64 = 128;

/// Writes one side.
pub(crate) struct SideWriter {
    manager: SpillManager,
    form: Arc<dyn StoredForm>,
    bands: Arc<Bands>,
    /// Whether rows that can match nothing are part of the answer.
    keeps_itemless: bool,
    limits: WriterLimits,
    /// Memory for the gathered rows, and as much again for the rows of a band in one piece.
    reservation: MemoryReservation,
    waiting: Vec<RecordBatch>,
    waiting_bytes: usize,
    /// By band, which rows of the waiting batches it gets.
    rows: Vec<Vec<(usize, usize)>>,
    open: Vec<Option<OpenSegment>>,
    done: Vec<Segment>,
    /// The rows and bytes written, for errors.
    written_rows: u64,
    written_bytes: u64,
    /// A bound on the bytes of a row.
    widest: usize,
}

/// The amount that is written at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriterLimits {
    /// Bytes of rows gathered before they are written.
    pub buffer_bytes: usize,
    /// A segment ends when it holds this many bytes; where there are many segments, when it holds
    /// up to `most_segment_bytes`.
    pub segment_bytes: usize,
    pub most_segment_bytes: usize,
    pub segment_rows: usize,
}

struct OpenSegment {
    file: OpenFile,
    positions: Range<u32>,
    rows: usize,
    domain_size: Option<u64>,
    bytes: usize,
}

impl SideWriter {
    /// A writer for rows of `manager`'s schema, whose first column is the value. `reservation` holds
    /// twice the gathered bytes.
    pub(super) fn new(
        manager: SpillManager,
        form: Arc<dyn StoredForm>,
        bands: Arc<Bands>,
        keeps_itemless: bool,
        limits: WriterLimits,
        reservation: MemoryReservation,
    ) -> Self {
        let bands_and_rest = bands.len() + 1;
        Self {
            manager,
            form,
            bands,
            keeps_itemless,
            limits,
            reservation,
            waiting: vec![],
            waiting_bytes: 0,
            rows: vec![vec![]; bands_and_rest],
            open: (0..bands_and_rest).map(|_| None).collect(),
            done: vec![],
            written_rows: 0,
            written_bytes: 0,
            widest: 0,
        }
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        self.manager.schema()
    }

    /// Adds rows with the columns stored for them besides value and key.
    pub(super) fn push(&mut self, rows: StoredRows, stored: Vec<ArrayRef>) -> Result<()> {
        let positions = self.form.positions(rows.values.as_ref());
        let kinds = self.form.kinds(rows.values.as_ref());
        let hashes = self.bands.by_hash().then(|| self.form.hashes(rows.values.as_ref()));
        let (kinds, hashes) = (kinds.as_deref(), hashes.as_deref());
        let bands = self.bands.of_rows(&positions, kinds, hashes, rows.keys.as_ref());
        let mut columns: Vec<ArrayRef> = vec![rows.values];
        columns.extend(rows.keys.map(|keys| Arc::new(keys) as ArrayRef));
        columns.extend(stored);
        let batch = RecordBatch::try_new(Arc::clone(self.schema()), columns)?;
        let number = self.waiting.len();
        for (row, band) in bands.into_iter().enumerate() {
            if band < self.bands.len() || self.keeps_itemless {
                self.rows[band].push((number, row));
            }
        }
        let widest = batch.columns().iter().map(|column| widest_row(column)).sum();
        self.widest = self.widest.max(widest);
        self.waiting_bytes += batch.columns().iter().map(stored_bytes).sum::<usize>();
        self.waiting.push(batch);
        match self.waiting_bytes >= self.reservation.size() / 2 {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Writes the gathered rows.
    fn flush(&mut self) -> Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        // A segment ends with a batch, which therefore holds no more than a segment should: where
        // nothing is known of the sizes there is one band for all.
        let all: usize = waiting.iter().map(RecordBatch::num_rows).sum();
        let row_bytes = std::mem::take(&mut self.waiting_bytes) / all.max(1);
        let fitting = (self.segment_bytes() / row_bytes.max(1)).max(1);
        let most_rows = BATCH_ROWS.min(self.limits.segment_rows).min(fitting);
        let batches: Vec<&RecordBatch> = waiting.iter().collect();
        for band in 0..self.rows.len() {
            let rows = std::mem::take(&mut self.rows[band]);
            for rows in rows.chunks(most_rows) {
                let batch = interleave_record_batch(&batches, rows)?;
                self.write(band, &batch)?;
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
        let mut open = match self.open[band].take() {
            Some(open) => open,
            None => OpenSegment {
                file: open_file(&self.manager).map_err(|e| self.disk_error(e))?,
                positions: 0..0,
                rows: 0,
                domain_size: Some(0),
                bytes: 0,
            },
        };
        let written = (open.file)(Some(batch)).map_err(|e| self.disk_error(e))?;
        let bytes = if let WriteOutcome::Batch(bytes) = written { bytes } else { 0 };
        open.note_values(batch.column(0), self.form.as_ref());
        open.rows += batch.num_rows();
        open.bytes += bytes;
        self.written_rows += batch.num_rows() as u64;
        self.written_bytes += bytes as u64;
        match open.bytes >= self.segment_bytes() || open.rows >= self.limits.segment_rows {
            true => self.close(band, open),
            false => {
                self.open[band] = Some(open);
                Ok(())
            }
        }
    }

    /// The bytes with which a segment ends: more where there are many already.
    fn segment_bytes(&self) -> usize {
        let share = (self.written_bytes / MANY_SEGMENTS) as usize;
        self.limits.segment_bytes.max(share.min(self.limits.most_segment_bytes))
    }

    fn close(&mut self, band: usize, mut open: OpenSegment) -> Result<()> {
        let WriteOutcome::End(Some(file)) = (open.file)(None).map_err(|e| self.disk_error(e))?
        else {
            return Ok(());
        };
        self.done.push(Segment {
            band,
            key_part: self.bands.key_part(band),
            bucket: self.bands.bucket(band),
            positions: match self.bands.is_anywhere(band) {
                true => ANYWHERE..ANYWHERE + 1,
                false => open.positions,
            },
            rows: open.rows,
            domain_size: open.domain_size,
            bytes: open.bytes,
            first_row: 0,
            file,
        });
        Ok(())
    }

    /// No more rows.
    pub(super) fn finish(mut self) -> Result<SpilledSide> {
        self.flush()?;
        for band in 0..self.open.len() {
            if let Some(open) = self.open[band].take() {
                self.close(band, open)?;
            }
        }
        Ok(SpilledSide::new(self.manager, self.done, self.widest))
    }

    /// Says how far spilling came when the disk had no more room.
    fn disk_error(&self, error: DataFusionError) -> DataFusionError {
        let files = self.done.len() + self.open.iter().flatten().count();
        disk_error(
            error,
            &WriteProgress { files, rows: self.written_rows, bytes: self.written_bytes },
        )
    }
}

impl OpenSegment {
    /// Notes where stored values lie, and how large a domain of them is.
    fn note_values(&mut self, values: &ArrayRef, form: &dyn StoredForm) {
        let size = form.domain_size(values.as_ref());
        self.domain_size = self.domain_size.zip(size).map(|(a, b)| a.max(b));
        for position in form.positions(values.as_ref()) {
            if position > 0 {
                let first = self.positions.is_empty();
                let least = if first { position } else { self.positions.start.min(position) };
                self.positions = least..self.positions.end.max(position.saturating_add(1));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::execution::memory_pool::MemoryConsumer;
    use datafusion::execution::runtime_env::RuntimeEnv;
    use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};

    use super::*;
    use crate::engine::{EncodeInput, Family};
    use crate::set::encode::stored_tokens::StoredTokens;
    use crate::set::{Measure, SetFamily};
    use crate::spec::{Call, Predicate, Side};

    /// However much is written, the process is not out of files.
    #[test]
    fn segments_grow_where_there_are_many() {
        let kind = StoredTokens::Signed;
        let fields = vec![
            Field::new("set", kind.list_type(), true),
            Field::new("c0", DataType::Int64, true),
        ];
        let env = Arc::new(RuntimeEnv::default());
        let reservation = MemoryConsumer::new("test").register(&env.memory_pool);
        let metrics = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
        let manager = SpillManager::new(env, metrics, Arc::new(Schema::new(fields)));
        let limits = WriterLimits {
            buffer_bytes: 2048,
            segment_bytes: 16 << 10,
            most_segment_bytes: usize::MAX,
            segment_rows: usize::MAX,
        };
        let call = Call { function: Measure::Jaccard.function(), first: Side::Left };
        let predicate = Predicate::new(call, 0.5);
        let family = SetFamily::default();
        let axis = family.axis(predicate).unwrap();
        let bands = Arc::new(Bands::new(vec![], 0, axis.as_ref(), 1, false));
        let form = Arc::new(kind);
        let mut writer = SideWriter::new(manager, form, bands, false, limits, reservation);
        let lists = arrow::array::ListArray::from_iter_primitive::<arrow::datatypes::Int64Type, _, _>(
            (0..100).map(|i| Some((i..i + 20).map(Some))),
        );
        for _ in 0..500 {
            let input = EncodeInput { values: &lists, keys: None, filter: None };
            for rows in kind.store(&input).unwrap() {
                let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
                writer.push(rows, vec![column]).unwrap();
            }
        }
        let side = writer.finish().unwrap();
        assert_eq!(side.rows, 50_000);
        // 500 batches of 17 kB each: without growing there would be 500 segments or more. The
        // first 128 are as small as they may be, further ones a 128th of all before them.
        let bytes: usize = side.segments.iter().map(|segment| segment.bytes).sum();
        let least = 128.0 * f64::from(16 << 10);
        let many = 128.0 * (1.0 + (bytes as f64 / least).ln());
        assert!(bytes > 8_000_000, "{bytes}");
        assert!((128..=many as usize).contains(&side.segments.len()), "{}", side.segments.len());
    }
}
