//! Segments of rows on disk, each in a file of its own.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::spill_file::SpillFile;
use datafusion::physical_plan::SpillManager;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt, stream};

use crate::operator::row_bytes::batch_bytes;

/// Rows in a file. The unit that is read again.
pub(crate) struct Segment<N> {
    /// The caller's notes of the rows.
    pub notes: N,
    pub rows: usize,
    /// The bytes of the rows in memory, as batches.
    pub bytes: usize,
    /// The number of the first row among all.
    pub first_row: u64,
    pub(super) file: Arc<dyn SpillFile>,
}

/// The rows of an input, on disk. Dropping it deletes the files.
pub(crate) struct DiskRows<N = ()> {
    manager: SpillManager,
    pub segments: Vec<Segment<N>>,
    pub rows: u64,
}

impl<N> fmt::Debug for DiskRows<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskRows")
            .field("segments", &self.segments.len())
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

impl<N> DiskRows<N> {
    /// The rows of `segments` in their order, by which they are numbered.
    pub(super) fn new(manager: SpillManager, mut segments: Vec<Segment<N>>) -> Self {
        let mut rows = 0;
        for segment in &mut segments {
            segment.first_row = rows;
            rows += segment.rows as u64;
        }
        Self { manager, segments, rows }
    }

    /// The rows with the segments in another order.
    pub(crate) fn sorted_by_key<K: Ord>(mut self, key: impl FnMut(&Segment<N>) -> K) -> Self {
        self.segments.sort_by_key(key);
        Self::new(self.manager, self.segments)
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        self.manager.schema()
    }

    /// The bytes of all rows in memory, as batches.
    pub(crate) fn bytes(&self) -> usize {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// The rows of a segment, in the order in which they were written. No batch is read ahead: several files are
    /// open at once, and batches read ahead are not reserved.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened.
    pub(crate) fn read(&self, segment: usize) -> Result<SendableRecordBatchStream> {
        let file = Arc::clone(&self.segments[segment].file);
        Ok(gathered(self.manager.read_spill_as_stream_unbuffered(file, None)?))
    }
}

impl<N: Send + Sync + 'static> DiskRows<N> {
    /// The rows of some segments, one after the other.
    pub(crate) fn read_all(self: &Arc<Self>, segments: Range<usize>) -> SendableRecordBatchStream {
        let all = Arc::clone(self);
        let rows = stream::iter(segments).map(move |segment| all.read(segment)).try_flatten();
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(self.schema()), rows))
    }
}

/// Small batches are gathered to this many bytes: with many bands and little memory, rows are
/// written a few dozen at a time, and each batch takes some time for itself. The batches are not reserved,
/// like the batches of other inputs.
const GATHERED_BYTES: usize = 192 << 10;
const GATHERED_ROWS: usize = 8192;

/// The rows of `batches` in fewer ones.
fn gathered(batches: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let schema = batches.schema();
    let state = (batches, None::<RecordBatch>, Arc::clone(&schema));
    let rows = stream::try_unfold(state, |(mut batches, mut next, schema)| async move {
        let (mut waiting, mut rows, mut bytes) = (vec![], 0, 0);
        loop {
            let batch = match next.take() {
                Some(batch) => Some(batch),
                None => batches.next().await.transpose()?,
            };
            let Some(batch) = batch else { break };
            let more = batch_bytes(&batch);
            let is_full = bytes + more > GATHERED_BYTES || rows + batch.num_rows() > GATHERED_ROWS;
            if is_full && !waiting.is_empty() {
                next = Some(batch);
                break;
            }
            (rows, bytes) = (rows + batch.num_rows(), bytes + more);
            waiting.push(batch);
        }
        Ok(match waiting.as_slice() {
            [] => None,
            [one] => Some((one.clone(), (batches, next, schema))),
            many => Some((concat_batches(&schema, many)?, (batches, next, schema))),
        })
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, AsArray, Int64Array};
    use arrow::datatypes::Int64Type;

    use super::*;

    #[tokio::test]
    async fn small_batches_are_gathered_in_order() {
        for (lens, expected) in [
            (vec![10; 50], vec![500]),
            (vec![], vec![]),
            (vec![8192, 1, 8191, 5], vec![8192, 8192, 5]),
            (vec![5, 100_000, 7, 7], vec![5, 100_000, 14]),
            (vec![4000; 5], vec![8000, 8000, 4000]),
        ] {
            let mut first = 0;
            let batches: Vec<_> = lens
                .into_iter()
                .map(|len: i64| {
                    let rows = Arc::new(Int64Array::from_iter_values(first..first + len));
                    first += len;
                    RecordBatch::try_from_iter([("x", rows as ArrayRef)])
                })
                .collect();
            let schema = match batches.first() {
                Some(Ok(batch)) => batch.schema(),
                _ => Arc::new(arrow::datatypes::Schema::empty()),
            };
            let batches = batches.into_iter().map(|batch| Ok(batch.unwrap()));
            let batches = RecordBatchStreamAdapter::new(schema, stream::iter(batches));
            let found: Vec<RecordBatch> = gathered(Box::pin(batches)).try_collect().await.unwrap();
            let lens: Vec<usize> = found.iter().map(RecordBatch::num_rows).collect();
            assert_eq!(lens, expected);
            let rows = found
                .iter()
                .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec());
            assert!(rows.eq(0..first));
        }
    }
}
