//! Segments on disk: rows of one band, each segment in a file of its own.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::spill_file::SpillFile;
use datafusion::physical_plan::SpillManager;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt, stream};

use crate::engine::{ANYWHERE, Axis, Domain};
use crate::exec::rows::payload::stored_bytes;

/// Rows of one band. The unit that is read again, and that pieces of a build side are made of.
pub(crate) struct Segment {
    pub band: usize,
    /// The part by blocking key that the band belongs to.
    pub key_part: usize,
    /// The part by a hash of the item, where the rows match only rows with an equal item.
    pub bucket: Option<usize>,
    /// The positions of the rows; empty where they have no item.
    pub positions: Range<u32>,
    pub rows: usize,
    /// [`StoredForm::domain_size`] of the values.
    pub domain_size: Option<u64>,
    /// The bytes of the rows in memory, as batches.
    pub bytes: usize,
    /// The number of the first row among the rows of its side.
    pub first_row: u64,
    pub file: Arc<dyn SpillFile>,
}

impl Segment {
    /// Whether its rows lie anywhere on the axis.
    pub(crate) fn lies_anywhere(&self, axis: &dyn Axis) -> bool {
        axis.has_anywhere() && self.positions.start == ANYWHERE
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segment")
            .field("band", &self.band)
            .field("positions", &self.positions)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
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
            let more = batch.columns().iter().map(stored_bytes).sum::<usize>();
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

/// One side of a join, on disk. Dropping it deletes the files.
#[derive(Debug)]
pub(crate) struct SpilledSide {
    manager: SpillManager,
    /// By band, those without items last.
    pub segments: Vec<Segment>,
    pub rows: u64,
    /// A bound on the bytes of a row.
    pub widest: usize,
}

impl SpilledSide {
    /// `segments` in any order.
    pub(crate) fn new(manager: SpillManager, mut segments: Vec<Segment>, widest: usize) -> Self {
        // Neighbours have neighbouring positions: pieces are runs of segments.
        segments.sort_by_key(|segment| (segment.band, segment.positions.end));
        let mut rows = 0;
        for segment in &mut segments {
            segment.first_row = rows;
            rows += segment.rows as u64;
        }
        // No batch is read ahead: several files are open at once, and batches read ahead are not
        // reserved.
        let manager = manager.with_batch_read_buffer_capacity(1);
        Self { manager, segments, rows, widest }
    }

    /// The size of a domain of the values of some segments; `None` where it is of no use.
    pub(crate) fn domain_size(&self, segments: Range<usize>) -> Option<u64> {
        let all = self.segments[segments].iter().map(|segment| segment.domain_size);
        all.collect::<Option<Vec<u64>>>()?.into_iter().max()
    }

    /// The values of some segments, gathered into an empty domain of their size.
    pub(crate) async fn fill(
        &self,
        mut domain: Box<dyn Domain>,
        segments: Range<usize>,
    ) -> Result<Arc<dyn Domain>> {
        for segment in segments {
            let mut batches = self.read(segment)?;
            while let Some(batch) = batches.next().await.transpose()? {
                domain.add(batch.column(0).as_ref());
                tokio::task::yield_now().await;
            }
        }
        domain.close();
        Ok(domain.into())
    }

    /// The bytes of all rows in memory, as batches.
    pub(crate) fn bytes(&self) -> usize {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// The rows of a segment, in the order in which they were written.
    pub(crate) fn read(&self, segment: usize) -> Result<SendableRecordBatchStream> {
        let file = Arc::clone(&self.segments[segment].file);
        Ok(gathered(self.manager.read_spill_as_stream_unbuffered(file, None)?))
    }

    /// The rows of some segments, one after the other.
    pub(crate) fn read_all(self: &Arc<Self>, segments: Range<usize>) -> SendableRecordBatchStream {
        let side = Arc::clone(self);
        let rows = stream::iter(segments).map(move |segment| side.read(segment)).try_flatten();
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(self.manager.schema()), rows))
    }
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
