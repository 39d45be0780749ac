//! The boxes of all vectors, as those of a sample tell them.

use datafusion::common::Result;

use super::cells::{Sizes, refine};
use super::points::{Points, enclose};
use crate::util::cancel::CancelFlag;
use crate::vector::boxes::{BLOCK_ITEMS, gap, halves};

/// About the share of pairs of blocks that `limit` leaves within reach, of `all` points of which these
/// are a sample.
///
/// Blocks of a sample are wider than those of all points. Those of fewer points are not, but touch fewer
/// faces of the cells that they lie in: with the points of a block less by the root of the part that the
/// sample is, the shares of clusters come out right within a quarter, at a sixth of the points and at a
/// sixtieth.
///
/// # Errors
///
/// When the work is cancelled.
pub(super) fn share_in_reach(
    points: Points<'_>,
    some: &mut [u32],
    all: usize,
    limit: f32,
    cancel: &CancelFlag,
) -> Result<f64> {
    /// Blocks that are held against all.
    const ROWS: usize = 64;
    let part = some.len() as f64 / all.max(1) as f64;
    let block = (f64::from(BLOCK_ITEMS) * part.min(1.0).sqrt()).ceil().max(1.0) as usize;
    refine(points, some, 0, Sizes { block, group: block }, cancel)?;
    let mut ends = vec![];
    for block in some.chunks(block) {
        let start = ends.len();
        ends.resize(start + 2 * points.dims, 0.0);
        enclose(points, block, &mut ends[start..]);
    }
    let blocks: Vec<[&[f32]; 2]> = ends.chunks_exact(2 * points.dims).map(halves).collect();
    let (mut within, mut pairs) = (0_usize, 0_usize);
    for row in blocks.iter().step_by((blocks.len() / ROWS).max(1)) {
        cancel.check()?;
        pairs += blocks.len();
        within += blocks.iter().filter(|other| gap(*row, **other) <= limit).count();
    }
    Ok(within as f64 / pairs.max(1) as f64)
}
