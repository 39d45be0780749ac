//! The rows of a side that the writer cuts into bands on their way to disk.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::SpillManager;

use super::bands::Bands;
use crate::disk::{SegmentLimits, SegmentWriter};
use crate::engine::{ANYWHERE, StoredForm, StoredRows};
use crate::exec::rows::segment::{BandNotes, SpilledSide};
use crate::operator::row_bytes::widest_row;

/// Writes one side.
pub(crate) struct SideWriter {
    form: Arc<dyn StoredForm>,
    bands: Arc<Bands>,
    /// Whether rows that can match nothing are part of the answer.
    keeps_itemless: bool,
    rows: SegmentWriter<BandNotes>,
}

impl SideWriter {
    /// A writer for rows of `manager`'s schema, whose first column is the value. `reservation` is empty.
    pub(super) fn new(
        manager: SpillManager,
        form: Arc<dyn StoredForm>,
        bands: Arc<Bands>,
        keeps_itemless: bool,
        limits: SegmentLimits,
        reservation: MemoryReservation,
    ) -> Self {
        let notes = |band| BandNotes {
            band,
            key_part: bands.key_part(band),
            bucket: bands.bucket(band),
            positions: match bands.is_anywhere(band) {
                true => ANYWHERE..ANYWHERE + 1,
                false => 0..0,
            },
            domain_size: Some(0),
            widest: 0,
        };
        let bands_and_rest = (0..=bands.len()).map(notes).collect();
        let (of_note, bands_of_note) = (Arc::clone(&form), Arc::clone(&bands));
        let note = move |notes: &mut BandNotes, batch: &RecordBatch| {
            notes.add(batch, of_note.as_ref(), bands_of_note.is_anywhere(notes.band));
        };
        let rows = SegmentWriter::new(manager, limits, reservation, bands_and_rest, note);
        Self { form, bands, keeps_itemless, rows }
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
        let batch = RecordBatch::try_new(Arc::clone(self.rows.schema()), columns)?;
        let (rest, keeps_itemless) = (self.bands.len(), self.keeps_itemless);
        let band = |row: usize| Some(bands[row]).filter(|band| *band < rest || keeps_itemless);
        self.rows.push(batch, band)
    }

    /// No more rows.
    pub(super) fn finish(self) -> Result<SpilledSide> {
        let rows = self.rows.finish()?;
        // Neighbours have neighbouring positions: pieces are runs of segments.
        Ok(rows.sorted_by_key(|segment| (segment.notes.band, segment.notes.positions.end)))
    }
}

impl BandNotes {
    /// Adds rows: where their values lie, how large a domain of them is, and the bytes of the widest.
    fn add(&mut self, rows: &RecordBatch, form: &dyn StoredForm, is_anywhere: bool) {
        let values = rows.column(0).as_ref();
        self.domain_size = self.domain_size.zip(form.domain_size(values)).map(|(a, b)| a.max(b));
        let widest = rows.columns().iter().map(|column| widest_row(column)).sum();
        self.widest = self.widest.max(widest);
        if is_anywhere {
            return;
        }
        for position in form.positions(values) {
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
        let limits = SegmentLimits {
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
