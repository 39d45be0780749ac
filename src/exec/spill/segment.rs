//! What lies on disk: segments of rows of one band, each a file of its own.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::spill_file::SpillFile;
use datafusion::physical_plan::SpillManager;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt, stream};

/// Rows of one band. The unit that is read again, and that pieces of a build side are made of.
pub(super) struct Segment {
    pub band: usize,
    /// The part by blocking key that the band belongs to.
    pub key_part: usize,
    /// The sizes of the sets; empty where the rows have none.
    pub sizes: Range<u32>,
    pub rows: usize,
    pub tokens: u64,
    /// In memory, as batches.
    pub bytes: usize,
    /// The number of the first row among the rows of its side.
    pub first_row: u64,
    pub file: Arc<dyn SpillFile>,
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segment")
            .field("band", &self.band)
            .field("sizes", &self.sizes)
            .field("rows", &self.rows)
            .field("tokens", &self.tokens)
            .finish_non_exhaustive()
    }
}

/// One side of a join, on disk. Dropping it deletes the files.
#[derive(Debug)]
pub(super) struct SpilledSide {
    manager: SpillManager,
    /// By band, those without sets last.
    pub segments: Vec<Segment>,
    pub rows: u64,
}

impl SpilledSide {
    /// `segments` in any order.
    pub fn new(manager: SpillManager, mut segments: Vec<Segment>) -> Self {
        // Neighbours have neighbouring sizes: pieces are runs of segments.
        segments.sort_by_key(|segment| (segment.band, segment.sizes.end));
        let mut rows = 0;
        for segment in &mut segments {
            segment.first_row = rows;
            rows += segment.rows as u64;
        }
        // Nothing is read ahead: several files are open at once, and what is read ahead is not
        // reserved.
        let manager = manager.with_batch_read_buffer_capacity(1);
        Self { manager, segments, rows }
    }

    /// The bytes of all rows in memory, as batches.
    pub fn bytes(&self) -> usize {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// The rows of a segment, in the order in which they were written.
    pub fn read(&self, segment: usize) -> Result<SendableRecordBatchStream> {
        let file = Arc::clone(&self.segments[segment].file);
        self.manager.read_spill_as_stream_unbuffered(file, None)
    }

    /// The rows of some segments, one after the other.
    pub fn read_all(self: &Arc<Self>, segments: Range<usize>) -> SendableRecordBatchStream {
        let side = Arc::clone(self);
        let rows = stream::iter(segments).map(move |segment| side.read(segment)).try_flatten();
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(self.manager.schema()), rows))
    }
}
