//! Points cut at medians of the coordinate of their greatest variance.

use datafusion::common::Result;

use super::points::Points;
use crate::util::cancel::{CancelFlag, select_nth_unstable_by};
use crate::vector::boxes::{BLOCK_ITEMS, BOX_ITEMS, LANES};

/// The coordinate of the greatest variance of some points; of many points, of a sample. Compared with
/// the widest coordinate, blocks are out of reach of a quarter more of the others.
fn widest(points: Points<'_>, some: &[u32]) -> usize {
    const SAMPLE: usize = 1 << 8;
    let step = (some.len() / SAMPLE).max(1);
    let Some(&first) = some.first() else { return 0 };
    let (mut sums, mut squares, mut count) = ([0.0_f32; LANES], [0.0_f32; LANES], 0.0);
    for &point in some.iter().step_by(step) {
        count += 1.0;
        for (k, (value, from)) in points.of(point).iter().zip(points.of(first)).enumerate() {
            let off = value - from;
            sums[k] += off;
            squares[k] += off * off;
        }
    }
    let mut best = (f32::NEG_INFINITY, 0);
    for k in 0..points.dims {
        let variance = squares[k] - sums[k] * sums[k] / count;
        if variance > best.0 {
            best = (variance, k);
        }
    }
    best.1
}

/// Brings the points that come first in coordinate `dim` in front of the place `middle`.
fn cut(
    points: Points<'_>,
    some: &mut [u32],
    middle: usize,
    dim: usize,
    cancel: &CancelFlag,
) -> Result<()> {
    let at = |point: u32| points.of(point)[dim];
    select_nth_unstable_by(some, middle, cancel, |a, b| {
        at(*a).total_cmp(&at(*b)).then_with(|| a.cmp(b))
    })
}

/// Into what points are cut: items whose numbers, divided by `block`, are equal, and those again by
/// `group`, a part of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub block: usize,
    pub group: usize,
}

impl Sizes {
    pub(super) const OF_ITEMS: Self =
        Self { block: BLOCK_ITEMS as usize, group: BOX_ITEMS as usize };
}

/// Cuts points down to groups, whose points then ascend. The first one is going to be item `first`.
///
/// # Errors
///
/// When the work is cancelled.
pub(super) fn refine(
    points: Points<'_>,
    some: &mut [u32],
    first: usize,
    sizes: Sizes,
    cancel: &CancelFlag,
) -> Result<()> {
    let mut rest = vec![(some, first)];
    while let Some((some, first)) = rest.pop() {
        let end = first + some.len();
        // The first end of a group behind the first item.
        let next = (first + 1).next_multiple_of(sizes.group);
        if next >= end {
            some.sort_unstable();
            continue;
        }
        let unit = if some.len() > sizes.block { sizes.block } else { sizes.group };
        let middle = first.midpoint(end).next_multiple_of(unit);
        let middle = if middle >= end { (end - 1) / unit * unit } else { middle };
        let dim = widest(points, some);
        cut(points, some, middle - first, dim, cancel)?;
        let (low, high) = some.split_at_mut(middle - first);
        rest.push((high, middle));
        rest.push((low, first));
    }
    Ok(())
}

/// A perfect tree of cuts, found from some points, by which others find their leaf.
#[derive(Debug)]
pub(super) struct Cuts {
    depth: u32,
    /// The coordinate and the place of each cut: those of the children of cut i are 2i + 1 and 2i + 2.
    cuts: Vec<(usize, f32)>,
}

impl Cuts {
    /// A tree of 2^`depth` leaves.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub(super) fn of(
        points: Points<'_>,
        some: &mut [u32],
        depth: u32,
        cancel: &CancelFlag,
    ) -> Result<Self> {
        let count = (1_usize << depth) - 1;
        let mut cuts = Vec::with_capacity(count);
        let mut parts = vec![some];
        for _ in 0..depth {
            let mut halves = Vec::with_capacity(2 * parts.len());
            for part in parts {
                let middle = part.len() / 2;
                if part.is_empty() {
                    cuts.push((0, 0.0));
                } else {
                    let dim = widest(points, part);
                    cut(points, part, middle, dim, cancel)?;
                    cuts.push((dim, points.of(part[middle])[dim]));
                }
                halves.extend(<[_; 2]>::from(part.split_at_mut(middle)));
            }
            parts = halves;
        }
        Ok(Self { depth, cuts })
    }

    pub(super) fn leaves(&self) -> u32 {
        1 << self.depth
    }

    /// The leaf of a point.
    #[inline]
    pub(super) fn leaf(&self, point: &[f32]) -> u32 {
        let mut at = 0;
        for _ in 0..self.depth {
            let (dim, place) = self.cuts[at];
            at = 2 * at + 1 + usize::from(point[dim] >= place);
        }
        (at - self.cuts.len()) as u32
    }
}
