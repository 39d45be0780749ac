//! The rows on disk that probe a piece of the build side.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::metrics::Count;
use futures::StreamExt;

use crate::exec::rows::arguments::ROWS_PER_SLICE;
use crate::exec::rows::segment::SpilledSide;
use crate::exec::rows::visited::{Visit, Visited};
use crate::tuning::Tuning;

/// Segments of the probe side that meet one piece, taken by any number of workers.
#[derive(Debug)]
pub(crate) struct SegmentFeed {
    side: Arc<SpilledSide>,
    segments: Vec<(usize, bool)>,
    next: AtomicUsize,
    marks: Option<Arc<Visited>>,
    visits: Count,
    /// Rows that are taken at a time, at most.
    most_rows: usize,
}

impl SegmentFeed {
    /// Some segments of `side`, each with whether no later piece meets it. `marks` are the rows of
    /// the side that have a match, where the answer needs them; `visits` counts the rows read.
    pub(crate) fn new(
        side: &Arc<SpilledSide>,
        segments: Vec<(usize, bool)>,
        marks: &Option<Arc<Visited>>,
        (visits, tuning): (&Count, Tuning),
    ) -> Self {
        Self {
            side: Arc::clone(side),
            segments,
            next: AtomicUsize::new(0),
            marks: marks.clone(),
            visits: visits.clone(),
            most_rows: tuning.size(ROWS_PER_SLICE),
        }
    }
}

/// One worker's way through a feed.
pub(crate) struct SegmentReader {
    feed: Arc<SegmentFeed>,
    open: Option<SegmentStream>,
}

struct SegmentStream {
    stream: SendableRecordBatchStream,
    /// The rest of a batch.
    rest: Option<RecordBatch>,
    next_row: u64,
    is_last: bool,
}

impl SegmentReader {
    pub(crate) fn new(feed: Arc<SegmentFeed>) -> Self {
        Self { feed, open: None }
    }

    /// The next rows; `None` once all segments have been taken.
    pub(crate) async fn next(&mut self) -> Result<Option<(RecordBatch, Visit)>> {
        loop {
            if let Some(open) = &mut self.open {
                let batch = match open.rest.take() {
                    Some(rest) => Some(rest),
                    None => open.stream.next().await.transpose()?,
                };
                if let Some(batch) = batch {
                    let rows = batch.num_rows().min(self.feed.most_rows);
                    if rows < batch.num_rows() {
                        open.rest = Some(batch.slice(rows, batch.num_rows() - rows));
                    }
                    let visit = Visit {
                        marks: self.feed.marks.clone(),
                        first_row: open.next_row,
                        is_last: open.is_last,
                    };
                    open.next_row += rows as u64;
                    self.feed.visits.add(rows);
                    return Ok(Some((batch.slice(0, rows), visit)));
                }
                self.open = None;
            }
            let next = self.feed.next.fetch_add(1, Ordering::Relaxed);
            let Some(&(segment, is_last)) = self.feed.segments.get(next) else {
                return Ok(None);
            };
            self.open = Some(SegmentStream {
                stream: self.feed.side.read(segment)?,
                rest: None,
                next_row: self.feed.side.segments[segment].first_row,
                is_last,
            });
        }
    }
}
