//! The segments of a side on disk: each has rows of one band.

use std::ops::Range;
use std::sync::Arc;

use datafusion::common::Result;
use futures::StreamExt;

use crate::disk::DiskRows;
use crate::engine::{ANYWHERE, Axis, Domain};

/// The rows of a segment among those of their side. Pieces of a build side are made of segments.
#[derive(Debug, Clone)]
pub(crate) struct BandNotes {
    pub band: usize,
    /// The part by blocking key that the band belongs to.
    pub key_part: usize,
    /// The part by a hash of the item, where the rows match only rows with an equal item.
    pub bucket: Option<usize>,
    /// The positions of the rows; empty where they have no item.
    pub positions: Range<u32>,
    /// [`StoredForm::domain_size`](crate::engine::StoredForm::domain_size) of the values.
    pub domain_size: Option<u64>,
    /// A bound on the bytes of a row.
    pub widest: usize,
}

impl BandNotes {
    /// Whether the rows lie anywhere on the axis.
    pub(crate) fn lies_anywhere(&self, axis: &dyn Axis) -> bool {
        axis.has_anywhere() && self.positions.start == ANYWHERE
    }
}

/// One side of a join, on disk: by band, the rows without items last.
pub(crate) type SpilledSide = DiskRows<BandNotes>;

impl SpilledSide {
    /// The size of a domain of the values of some segments; `None` where it is of no use.
    pub(crate) fn domain_size(&self, segments: Range<usize>) -> Option<u64> {
        let all = self.segments[segments].iter().map(|segment| segment.notes.domain_size);
        all.collect::<Option<Vec<u64>>>()?.into_iter().max()
    }

    /// A bound on the bytes of a row.
    pub(crate) fn widest(&self) -> usize {
        self.segments.iter().map(|segment| segment.notes.widest).max().unwrap_or(0)
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
}
