//! What the boxes of a sample tell of those of all.

use datafusion::common::Result;

use super::boxes::{BOX_ITEMS, Points, enclose, gap};
use super::cells::refine;
use crate::util::cancel::CancelFlag;

/// The share of pairs of groups that `limit` leaves within reach, were these points all there are.
/// Real groups lie closer than those of a sample.
///
/// # Errors
///
/// When the work is cancelled.
pub(super) fn share_in_reach(
    points: Points<'_>,
    some: &mut [u32],
    limit: f32,
    cancel: &CancelFlag,
) -> Result<f64> {
    /// Groups that are held against all.
    const ROWS: usize = 64;
    refine(points, some, 0, cancel)?;
    let mut ends = vec![];
    for group in some.chunks(BOX_ITEMS as usize) {
        let start = ends.len();
        ends.resize(start + 2 * points.dims, 0.0);
        enclose(points, group.iter().copied(), &mut ends[start..]);
    }
    let groups: Vec<&[f32]> = ends.chunks_exact(2 * points.dims).collect();
    let (mut within, mut all) = (0_usize, 0_usize);
    for row in groups.iter().step_by((groups.len() / ROWS).max(1)) {
        cancel.check()?;
        all += groups.len();
        within += groups.iter().filter(|other| gap(row, other) <= limit).count();
    }
    Ok(within as f64 / all.max(1) as f64)
}
