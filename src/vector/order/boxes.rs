//! Boxes around groups of items.

use std::mem::size_of;
use std::sync::OnceLock;

use super::basis::{Basis, LANES};
use super::reach::Extent;
use crate::engine::ItemId;
use crate::vector::bounds::Frame;

/// Items of a group: those whose numbers, divided by this, are equal.
pub(in crate::vector) const BOX_ITEMS: u32 = 16;

/// Items whose numbers, divided by this, are equal are neighbours in the order, whatever lies beside
/// them: what is compared at once had better be such a block, or several.
pub(in crate::vector) const BLOCK_ITEMS: u32 = 64;

/// Boxes around the vectors of groups of items, in a few coordinates.
///
/// Two groups hold no pair that satisfies the threshold where the sum, over the coordinates in their
/// order, of `max(0, low_b − high_a, low_a − high_b)²` exceeds `limit`: computed in `f32`, each step
/// rounded in any direction.
#[derive(Debug, Default)]
pub(in crate::vector) struct Boxes {
    /// The coordinates of a box.
    pub dims: u32,
    /// By group, `dims` lower ends and then `dims` upper ones. Those of a group that holds items of
    /// several blocking keys, or vectors without a place, are infinite.
    pub ends: Vec<f32>,
    pub limit: f32,
    /// About the share of pairs of blocks that are within reach of each other.
    pub share: f32,
    /// The answer of [`Self::shares`].
    pub shares: OnceLock<[f32; 2]>,
}

/// Points, with a bound on what their coordinates are off.
#[derive(Debug, Clone, Copy)]
pub(super) struct Points<'a> {
    pub dims: usize,
    /// `dims` coordinates for each point.
    pub coordinates: &'a [f32],
    /// Infinite for those that have no place.
    pub slack: &'a [f32],
}

impl Points<'_> {
    #[inline]
    pub(super) fn of(&self, point: u32) -> &[f32] {
        &self.coordinates[point as usize * self.dims..][..self.dims]
    }
}

impl Boxes {
    /// Infinite ones for `items` items.
    pub(super) fn unknown(items: u32, dims: usize, limit: f32, share: f32) -> Self {
        let groups = items.div_ceil(BOX_ITEMS) as usize;
        let mut ends = Vec::with_capacity(groups * 2 * dims);
        for _ in 0..groups {
            ends.extend(std::iter::repeat_n(f32::NEG_INFINITY, dims));
            ends.extend(std::iter::repeat_n(f32::INFINITY, dims));
        }
        Self { dims: dims as u32, ends, limit, share, shares: OnceLock::new() }
    }

    pub(super) fn bytes(items: usize, dims: usize) -> usize {
        items.div_ceil(BOX_ITEMS as usize) * 2 * dims * size_of::<f32>()
    }

    pub(in crate::vector) fn size_in_bytes(&self) -> usize {
        self.ends.capacity() * size_of::<f32>()
    }

    /// The group of an item.
    #[inline]
    pub(in crate::vector) fn group(item: ItemId) -> usize {
        (item / BOX_ITEMS) as usize
    }

    /// The ends of a group.
    #[inline]
    pub(in crate::vector) fn ends_of(&self, group: usize) -> &[f32] {
        let width = 2 * self.dims as usize;
        &self.ends[group * width..][..width]
    }

    /// The number of groups.
    pub(in crate::vector) fn groups(&self) -> usize {
        self.ends.len() / (2 * self.dims.max(1) as usize)
    }

    /// About the shares of pairs of groups, and of tiles of sixteen groups, that are within reach of
    /// each other.
    pub(in crate::vector) fn shares(&self) -> [f32; 2] {
        *self.shares.get_or_init(|| [1, 16].map(|groups| self.share_of_tiles(groups)))
    }

    /// The share of tiles of `groups` neighbouring groups.
    pub(in crate::vector) fn share_of_tiles(&self, groups: usize) -> f32 {
        const SAMPLED: usize = 1 << 7;
        let tiles = self.groups().div_ceil(groups);
        let items = |tile: usize| (tile * groups) as u32 * BOX_ITEMS;
        let end = self.groups() as u32 * BOX_ITEMS;
        let sample: Vec<Extent> = (0..tiles)
            .step_by(tiles.div_ceil(SAMPLED).max(1))
            .map(|tile| self.extent(items(tile)..items(tile + 1).min(end)))
            .collect();
        let pairs = sample.len() * sample.len().saturating_sub(1) / 2;
        if pairs == 0 {
            return 1.0;
        }
        let near = |(place, a): (usize, &Extent)| {
            sample[..place].iter().filter(|b| a.gap(b, self.dims as usize) <= self.limit).count()
        };
        let near: usize = sample.iter().enumerate().map(near).sum();
        near as f32 / pairs as f32
    }

    /// Whether two groups hold no pair.
    #[cfg(test)]
    pub(in crate::vector) fn are_apart(&self, a: usize, b: usize) -> bool {
        gap(halves(self.ends_of(a)), halves(self.ends_of(b))) > self.limit
    }
}

/// The lower and the upper ends of a box that lie one behind the other.
pub(super) fn halves(ends: &[f32]) -> [&[f32]; 2] {
    let (low, high) = ends.split_at(ends.len() / 2);
    [low, high]
}

/// The square of the distance of two boxes, of their lower and their upper ends.
#[inline]
pub(super) fn gap([low_a, high_a]: [&[f32]; 2], [low_b, high_b]: [&[f32]; 2]) -> f32 {
    let mut sum = 0.0_f32;
    for ((low_a, high_a), (low_b, high_b)) in low_a.iter().zip(high_a).zip(low_b.iter().zip(high_b))
    {
        let off = (low_b - high_a).max(low_a - high_b).max(0.0);
        sum += off * off;
    }
    sum
}

/// Writes the ends of the box around some points, all of which have a place. Their coordinates lie
/// within their slack.
pub(super) fn enclose(points: Points<'_>, some: &[u32], ends: &mut [f32]) {
    let mut low = [f32::INFINITY; LANES];
    let mut high = [f32::NEG_INFINITY; LANES];
    for &point in some {
        let slack = points.slack[point as usize];
        let values = points.of(point).iter().zip(low.iter_mut().zip(&mut high));
        for (&value, (low, high)) in values {
            let (below, above) = (value - slack, value + slack);
            *low = if below < *low { below } else { *low };
            *high = if above > *high { above } else { *high };
        }
    }
    // Differences are rounded by half a step at most.
    let (lower, upper) = ends.split_at_mut(points.dims);
    lower.iter_mut().zip(low).for_each(|(place, value)| *place = value.next_down());
    upper.iter_mut().zip(high).for_each(|(place, value)| *place = value.next_up());
}

/// The limit for boxes in the coordinates of `basis`: `None` where no box is out of any reach.
///
/// Partners X and Y lie at most `far` from each other, hence their images PX and PY at most
/// ‖P‖ `far`. The box of X holds PX.
pub(super) fn limit(frame: &Frame, basis: &Basis, dimensions: usize) -> Option<f32> {
    /// Twice the rounding of an `f32`.
    const STEP: f64 = 1.0 / (1 << 23) as f64;
    let far = f64::from(frame.limits(dimensions, [0.0; 2], 0.0)?.reject);
    // Differences, squares and sums, each rounded in any direction.
    let rounding = 1.0 + (2.0 * basis.dims as f64 + 16.0) * STEP;
    let limit = far * basis.stretch * rounding * (1.0 + 1e-6) + 1e-40;
    let float = limit as f32;
    let float = if f64::from(float) < limit { float.next_up() } else { float };
    float.is_finite().then_some(float)
}
