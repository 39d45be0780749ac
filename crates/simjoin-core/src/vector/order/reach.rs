//! The tiles of vectors that lie in each other's reach.
//!
//! A tile is a range of neighbouring items with a box around them, in a few coordinates that distances
//! do not exceed; the boxes of sixteen neighbouring tiles have a box in the level above, and so on up
//! (the directory of Böhm, Noll, Plant and Zherdin, BTW 2009, over tiles). Two tiles whose boxes lie
//! farther apart than the threshold have no match.
//!
//! ```text
//! block   16 boxes: by coordinate, their lower ends, then their upper ends
//! level   the blocks of all tiles, or of all blocks of the level below
//! ```

use std::mem::size_of;
use std::ops::Range;

use crate::simd::{Floats, Simd, kernels};
use crate::util::parallel::{Threads, for_each, steps_per_task};
use crate::vector::boxes::{Boxes, Extent, LANES};

/// Boxes of a block.
const FANOUT: u32 = 16;
/// The floats of a block for one coordinate.
const ENDS: usize = 2 * FANOUT as usize;

/// The boxes of tiles, level by level.
#[derive(Debug)]
pub struct Reach {
    simd: Simd,
    dims: usize,
    limit: f32,
    tiles: u32,
    /// The levels of boxes, from that of the tiles up to that of a single block.
    levels: Vec<Vec<f32>>,
}

impl Reach {
    /// The bytes for `items` items in tiles of `tile` items.
    pub fn bytes(boxes: &Boxes, items: u32, tile: u32) -> usize {
        let block = boxes.dims as usize * ENDS * size_of::<f32>();
        let (mut blocks, mut level) = (0, items.div_ceil(tile).div_ceil(FANOUT).max(1));
        while level > 1 {
            blocks += level as usize;
            level = level.div_ceil(FANOUT);
        }
        (blocks + 1) * block
    }

    /// The levels over `items` items in tiles of `tile` items, made on up to `threads` threads.
    pub fn of(boxes: &Boxes, items: u32, tile: u32, threads: Threads) -> Self {
        let dims = boxes.dims as usize;
        let tiles = items.div_ceil(tile);
        let of_tile = |at: u32| {
            let first = at.saturating_mul(tile);
            boxes.extent(first..first.saturating_add(tile).min(items))
        };
        let mut levels = vec![level(tiles, dims, threads, of_tile)];
        while levels.last().is_some_and(|level| level.len() > dims * ENDS) {
            let below = levels.last().map_or(&[][..], Vec::as_slice);
            let blocks = (below.len() / (dims * ENDS)) as u32;
            let above = level(blocks, dims, Threads::ONE, |at| extent_of_block(below, dims, at));
            levels.push(above);
        }
        Self { simd: Simd::detect(), dims, limit: boxes.limit, tiles, levels }
    }

    /// The lower or the upper end of the box of a tile in a coordinate; `None` where there is no such
    /// tile.
    pub fn end(&self, tile: u32, coordinate: usize, is_upper: bool) -> Option<f32> {
        let block = (tile / FANOUT) as usize * self.dims * ENDS;
        let place = (tile % FANOUT + if is_upper { FANOUT } else { 0 }) as usize;
        let level = self.levels.first().filter(|_| tile < self.tiles && coordinate < self.dims)?;
        level.get(block + coordinate * ENDS + place).copied()
    }

    /// Adds the tiles of `range` that lie in the reach of a box to `found`, ascending.
    pub fn tiles(&self, extent: &Extent, range: Range<u32>, found: &mut Vec<u32>) {
        let range = range.start..range.end.min(self.tiles);
        if self.dims == 0 {
            return found.extend(range);
        }
        if !range.is_empty() {
            self.visit(self.levels.len() - 1, 0, extent, &range, found);
        }
    }

    fn visit(
        &self,
        level: usize,
        block: u32,
        extent: &Extent,
        range: &Range<u32>,
        found: &mut Vec<u32>,
    ) {
        let boxes = &self.levels[level][block as usize * self.dims * ENDS..][..self.dims * ENDS];
        let mut near = in_reach(self.simd, boxes, extent, self.limit);
        // The children that have tiles of the range: some, as the block has.
        let (first, bits) = (block * FANOUT, 4 * level as u32);
        let start = (range.start >> bits).saturating_sub(first);
        let last = ((range.end - 1) >> bits) - first;
        near &= u16::MAX << start;
        near &= u16::MAX >> (FANOUT - 1 - last.min(FANOUT - 1));
        while near != 0 {
            let child = first + near.trailing_zeros();
            near &= near - 1;
            match level {
                0 => found.push(child),
                _ => self.visit(level - 1, child, extent, range, found),
            }
        }
    }
}

/// The blocks of `count` boxes.
fn level(
    count: u32,
    dims: usize,
    threads: Threads,
    extent: impl Fn(u32) -> Extent + Sync,
) -> Vec<f32> {
    let number = count.div_ceil(FANOUT).max(1) as usize;
    let mut blocks = vec![0.0; number * dims * ENDS];
    if dims == 0 {
        return blocks;
    }
    let write = |first: u32, block: &mut [f32]| {
        for child in 0..FANOUT {
            let Extent { low, high } =
                if first + child < count { extent(first + child) } else { Extent::EMPTY };
            for (k, ends) in block.chunks_exact_mut(ENDS).enumerate() {
                ends[child as usize] = low[k];
                ends[(FANOUT + child) as usize] = high[k];
            }
        }
    };
    let share = steps_per_task(threads, number, 4);
    let tasks = (0..).step_by(share * FANOUT as usize).zip(blocks.chunks_mut(share * dims * ENDS));
    let written = for_each(threads, tasks.collect(), |(first, blocks)| {
        let blocks = blocks.chunks_exact_mut(dims * ENDS);
        (first..)
            .step_by(FANOUT as usize)
            .zip(blocks)
            .for_each(|(first, block)| write(first, block));
        Ok(())
    });
    debug_assert!(written.is_ok());
    blocks
}

fn extent_of_block(level: &[f32], dims: usize, at: u32) -> Extent {
    let mut extent = Extent::EMPTY;
    let block = level[at as usize * dims * ENDS..].chunks_exact(ENDS).take(dims);
    for (k, ends) in block.enumerate() {
        let (low, high) = ends.split_at(FANOUT as usize);
        extent.low[k] = low.iter().copied().fold(f32::INFINITY, f32::min);
        extent.high[k] = high.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    }
    extent
}

kernels! {
    /// The boxes of a block whose sum of squared gaps to a box is not above the limit.
    fn in_reach[F: Floats,](block: &[f32], extent: &Extent, limit: f32) -> u16 {
        let dims = block.len() / ENDS;
        assert!(dims <= LANES);
        // SAFETY: the caller promises the instructions of the form; blocks have `ENDS` floats for each
        // of at most `LANES` coordinates.
        unsafe {
            let zero = F::splat(0.0);
            let mut sum = zero;
            for k in 0..dims {
                let ends = block.as_ptr().add(k * ENDS);
                let below = F::sub(F::load(ends), F::splat(*extent.high.get_unchecked(k)));
                let above = F::sub(F::splat(*extent.low.get_unchecked(k)), F::load(ends.add(ENDS / 2)));
                let gap = F::max(F::max(below, above), zero);
                sum = F::add_product(sum, gap, gap);
            }
            !F::less(F::splat(limit), sum)
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::vector::boxes::BOX_ITEMS;

    /// Boxes of groups that wander through space; some are infinite.
    fn ends(rng: &mut StdRng, groups: usize, dims: usize) -> Vec<f32> {
        let mut place = vec![0.0_f32; dims];
        let mut ends = vec![];
        for _ in 0..groups {
            place.iter_mut().for_each(|place| *place += rng.random_range(-1.0..1.0));
            let width =
                if rng.random_bool(0.02) { f32::INFINITY } else { rng.random_range(0.0..1.0) };
            ends.extend(place.iter().map(|place| place - width));
            ends.extend(place.iter().map(|place| place + width));
        }
        ends
    }

    #[test]
    fn the_tiles_in_reach_are_those_of_all_tiles() {
        let mut rng = StdRng::seed_from_u64(5);
        for round in 0..60 {
            let dims = [1, 2, 7, 16][rng.random_range(0..4)];
            let items = rng.random_range(1..40_000_u32);
            let tile = BOX_ITEMS << rng.random_range(0..5);
            let ends = ends(&mut rng, items.div_ceil(BOX_ITEMS) as usize, dims);
            // No sum is so near to the limit that the way of rounding matters.
            let limit = rng.random_range(0.0..30.0);
            let boxes = Boxes { dims: dims as u32, ends, limit, ..Boxes::default() };
            let reach = Reach::of(&boxes, items, tile, Threads::small(rng.random_range(1..4)));
            assert!(
                reach.levels.iter().map(Vec::len).sum::<usize>() * 4
                    <= Reach::bytes(&boxes, items, tile)
            );
            let tiles = items.div_ceil(tile);
            for at in [0, tiles / 2, tiles - 1, tiles] {
                let own = boxes.extent((at * tile).min(items)..items.min((at + 1) * tile));
                for k in 0..dims {
                    let ends = [false, true].map(|is_upper| reach.end(at, k, is_upper));
                    let own = (at < tiles).then_some([own.low[k], own.high[k]]);
                    assert_eq!(ends, own.map_or([None; 2], |own| own.map(Some)));
                }
            }
            for _ in 0..20 {
                let first = rng.random_range(0..items);
                let own = boxes.extent(first..items.min(first + rng.random_range(1..300)));
                let start = rng.random_range(0..tiles);
                let range = start..rng.random_range(start..tiles + 2);
                let mut found = vec![];
                reach.tiles(&own, range.clone(), &mut found);
                let in_reach = |&at: &u32| {
                    let other = boxes.extent(at * tile..items.min((at + 1) * tile));
                    own.gap(&other, dims) <= limit
                };
                let expected: Vec<u32> =
                    (range.start..range.end.min(tiles)).filter(in_reach).collect();
                assert_eq!(
                    found, expected,
                    "round {round}: {dims} of {items} by {tile}, {range:?}"
                );
            }
        }
    }
}
