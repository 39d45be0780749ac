//! Points cut at medians of the coordinate of their greatest variance.

use super::near::{Ends, Near, Sizes, greatest, step};
use super::points::Points;
use crate::error::Result;
use crate::util::cancel::{CancelFlag, select_nth_unstable_by};
use crate::util::parallel::{Threads, for_each, map, threads_for};
use crate::vector::boxes::LANES;

/// The steps of cutting points down to groups, for each of them.
const STEPS_PER_POINT: usize = 1 << 5;

/// The coordinate of the greatest variance of some points; of many points, of a sample. Compared with
/// the widest coordinate, blocks are out of reach of a quarter more of the others.
fn widest(points: Points<'_>, some: &[u32]) -> usize {
    let step = step(some.len());
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
    greatest(&sums[..points.dims], &squares, count)
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

/// Cuts points down to groups, whose points then ascend. The first one is going to be item `first`. Writes the
/// boxes of groups that `ends` has.
///
/// # Errors
///
/// When the work is cancelled.
pub(super) fn refine(
    points: Points<'_>,
    some: &mut [u32],
    first: usize,
    sizes: Sizes,
    mut ends: Ends<'_>,
    cancel: &CancelFlag,
) -> Result<()> {
    let mut near = Near::new(points);
    let mut rest = vec![(some, first)];
    while let Some((some, first)) = rest.pop() {
        if some.len() <= sizes.at_once {
            cancel.check()?;
            near.refine(some, first, sizes, &mut ends);
        } else if let Some((low, high)) = halves(points, some, first, sizes, cancel)? {
            rest.extend([high, low]);
        }
    }
    Ok(())
}

/// Points, and the number of the item that the first one is going to be.
type Part<'a> = (&'a mut [u32], usize);

/// Cuts points in two; puts those of a group in their order.
fn halves<'a>(
    points: Points<'_>,
    some: &'a mut [u32],
    first: usize,
    sizes: Sizes,
    cancel: &CancelFlag,
) -> Result<Option<(Part<'a>, Part<'a>)>> {
    let Some(middle) = sizes.middle(first, some.len()) else {
        some.sort_unstable();
        return Ok(None);
    };
    let dim = widest(points, some);
    cut(points, some, middle - first, dim, cancel)?;
    let (low, high) = some.split_at_mut(middle - first);
    Ok(Some(((low, first), (high, middle))))
}

/// Like [`refine`], by several threads: they share the halves out, and the halves of these.
///
/// # Errors
///
/// When the work is cancelled.
pub(super) fn refine_by(
    points: Points<'_>,
    some: &mut [u32],
    sizes: Sizes,
    threads: Threads,
    cancel: &CancelFlag,
) -> Result<()> {
    let threads = threads_for(threads, STEPS_PER_POINT * some.len());
    let mut parts = vec![(some, 0)];
    while parts.len() < threads.count() && !parts.is_empty() {
        let cut = map(threads, parts, |(some, first)| halves(points, some, first, sizes, cancel))?;
        parts = cut.into_iter().flatten().flat_map(|(low, high)| [low, high]).collect();
    }
    for_each(threads, parts, |(some, first)| {
        refine(points, some, first, sizes, Ends::default(), cancel)
    })
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
        threads: Threads,
        cancel: &CancelFlag,
    ) -> Result<Self> {
        let count = (1_usize << depth) - 1;
        let threads = threads_for(threads, STEPS_PER_POINT * some.len());
        let mut cuts = Vec::with_capacity(count);
        let mut parts = vec![some];
        for _ in 0..depth {
            let halves = map(threads, parts, |part: &mut [u32]| {
                let middle = part.len() / 2;
                let mut own = (0, 0.0);
                if !part.is_empty() {
                    let dim = widest(points, part);
                    cut(points, part, middle, dim, cancel)?;
                    own = (dim, points.of(part[middle])[dim]);
                }
                Ok((own, <[_; 2]>::from(part.split_at_mut(middle))))
            })?;
            parts = Vec::with_capacity(2 * halves.len());
            for (own, halves) in halves {
                cuts.push(own);
                parts.extend(halves);
            }
        }
        Ok(Self { depth, cuts })
    }

    pub(super) fn leaves(&self) -> u32 {
        1 << self.depth
    }

    /// The leaf of a point; that behind the last where it has no place.
    #[inline]
    pub(super) fn place(&self, points: Points<'_>, point: usize) -> u32 {
        match points.slack[point].is_finite() {
            true => self.leaf(points.of(point as u32)),
            false => self.leaves(),
        }
    }

    #[inline]
    fn leaf(&self, point: &[f32]) -> u32 {
        let mut at = 0;
        for _ in 0..self.depth {
            let (dim, place) = self.cuts[at];
            at = 2 * at + 1 + usize::from(point[dim] >= place);
        }
        (at - self.cuts.len()) as u32
    }
}
