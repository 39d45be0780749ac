//! Boxes around groups of the items of a collection.

use std::mem::size_of;
use std::ops::Range;
use std::sync::OnceLock;

use crate::engine::ItemId;
use crate::error::Result;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::{Threads, filled, for_each, steps_per_task, threads_for};

/// The coordinates of a box, at most: the lanes of a kernel.
pub(super) const LANES: usize = 16;

/// Items of a group: those whose numbers, divided by this, are equal.
pub const BOX_ITEMS: u32 = 16;

/// Items whose numbers, divided by this, are equal are neighbours in the order, whatever lies beside
/// them: what is compared at once had better be such a block, or several.
pub const BLOCK_ITEMS: u32 = 64;

/// Boxes around the vectors of groups of items, in a few coordinates.
///
/// Two groups hold no pair that satisfies the threshold where the sum, over the coordinates in their
/// order, of `max(0, low_b − high_a, low_a − high_b)²` exceeds `limit`: computed in `f32`, each step
/// rounded in any direction.
#[derive(Debug, Default)]
pub struct Boxes {
    /// The coordinates of a box.
    pub dims: u32,
    /// By group, `dims` lower ends and then `dims` upper ones. The ends of a group that holds items of
    /// several blocking keys, or vectors without a place, are infinite.
    pub ends: Vec<f32>,
    pub limit: f32,
    /// About the share of pairs of blocks that are within reach of each other.
    pub share: f32,
    /// The answer of [`Self::shares`].
    pub shares: OnceLock<[f32; 2]>,
}

/// A box: its lower and its upper ends.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    pub low: [f32; LANES],
    pub high: [f32; LANES],
}

impl Boxes {
    /// Infinite ones for `items` items, written by several threads.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub(super) fn unknown(
        items: u32,
        dims: usize,
        limit: f32,
        threads: Threads,
        cancel: &CancelFlag,
    ) -> Result<Self> {
        /// Groups of a task, at least.
        const LEAST: usize = 1 << 9;
        let width = (2 * dims).max(1);
        let groups = items.div_ceil(BOX_ITEMS) as usize;
        let mut ends = filled(threads, groups * 2 * dims, f32::NEG_INFINITY);
        let share = steps_per_task(threads, groups, LEAST);
        let tasks = ends.chunks_mut(share * width).collect();
        for_each(threads_for(threads, groups * dims), tasks, |ends: &mut [f32]| {
            cancel.check()?;
            ends.chunks_exact_mut(width).for_each(|ends| ends[dims..].fill(f32::INFINITY));
            Ok(())
        })?;
        Ok(Self { dims: dims as u32, ends, limit, ..Self::default() })
    }

    pub(super) fn bytes(items: usize, dims: usize) -> usize {
        items.div_ceil(BOX_ITEMS as usize) * 2 * dims * size_of::<f32>()
    }

    pub(super) fn size_in_bytes(&self) -> usize {
        self.ends.capacity() * size_of::<f32>()
    }

    /// The group of an item.
    #[inline]
    pub(super) fn group(item: ItemId) -> usize {
        (item / BOX_ITEMS) as usize
    }

    /// The ends of a group.
    #[inline]
    pub fn ends_of(&self, group: usize) -> &[f32] {
        let width = 2 * self.dims as usize;
        &self.ends[group * width..][..width]
    }

    /// The number of groups.
    pub fn groups(&self) -> usize {
        self.ends.len() / (2 * self.dims.max(1) as usize)
    }

    /// The box around some items, and others of their groups.
    pub fn extent(&self, items: Range<ItemId>) -> Extent {
        let (dims, mut extent) = (self.dims as usize, Extent::EMPTY);
        for group in Self::group(items.start)..items.end.div_ceil(BOX_ITEMS) as usize {
            let (low, high) = self.ends_of(group).split_at(dims);
            extent.add(low, high);
        }
        extent
    }

    /// About the shares of pairs of groups, and of tiles of sixteen groups, that are within reach of
    /// each other.
    pub fn shares(&self) -> [f32; 2] {
        *self.shares.get_or_init(|| [1, 16].map(|groups| self.share_of_tiles(groups)))
    }

    /// The share of tiles of `groups` neighbouring groups.
    pub fn share_of_tiles(&self, groups: usize) -> f32 {
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
    pub(super) fn are_apart(&self, a: usize, b: usize) -> bool {
        gap(halves(self.ends_of(a)), halves(self.ends_of(b))) > self.limit
    }
}

impl Extent {
    pub(super) const EMPTY: Self =
        Self { low: [f32::INFINITY; LANES], high: [f32::NEG_INFINITY; LANES] };

    /// The square of the distance of two boxes in `dims` coordinates.
    pub(super) fn gap(&self, other: &Self, dims: usize) -> f32 {
        gap(self.ends(dims), other.ends(dims))
    }

    fn ends(&self, dims: usize) -> [&[f32]; 2] {
        [&self.low[..dims], &self.high[..dims]]
    }

    fn add(&mut self, low: &[f32], high: &[f32]) {
        self.low.iter_mut().zip(low).for_each(|(all, low)| *all = all.min(*low));
        self.high.iter_mut().zip(high).for_each(|(all, high)| *all = all.max(*high));
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
