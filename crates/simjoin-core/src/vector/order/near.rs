//! Points cut down to groups where their coordinates lie in a processor's cache.

use std::mem::size_of;

use super::points::{Points, enclose};
use crate::simd::{Floats, Simd, kernels};
use crate::tuning::{Size, Tuning};
use crate::vector::boxes::{BLOCK_ITEMS, BOX_ITEMS, LANES};

/// [`Sizes::at_once`].
const AT_ONCE: Size = Size { usual: 1 << 13, small: 1 << 6 };

/// Into what points are cut: items whose numbers, divided by `block`, are equal, and those again by
/// `group`, a part of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub block: usize,
    pub group: usize,
    /// Points that are cut at once, at most.
    pub at_once: usize,
}

impl Sizes {
    /// The groups and blocks of items.
    pub(super) fn of_items(tuning: Tuning) -> Self {
        Self::new(BLOCK_ITEMS as usize, BOX_ITEMS as usize, tuning)
    }

    pub(super) fn new(block: usize, group: usize, tuning: Tuning) -> Self {
        Self { block, group, at_once: tuning.size(AT_ONCE) }
    }

    /// Where `len` items, from `first` on, are cut; `None` where they are of one group.
    pub(super) fn middle(self, first: usize, len: usize) -> Option<usize> {
        let end = first + len;
        // The first end of a group behind the first item.
        if (first + 1).next_multiple_of(self.group) >= end {
            return None;
        }
        let unit = if len > self.block { self.block } else { self.group };
        let middle = first.midpoint(end).next_multiple_of(unit);
        Some(if middle >= end { (end - 1) / unit * unit } else { middle })
    }
}

/// The step of a sample of some points.
pub(super) fn step(count: usize) -> usize {
    const SAMPLE: usize = 1 << 8;
    (count / SAMPLE).max(1)
}

/// The coordinate of the greatest variance, by the sums and the sums of squares of `count` points.
pub(super) fn greatest(sums: &[f32], squares: &[f32], count: f32) -> usize {
    let mut best = (f32::NEG_INFINITY, 0);
    for (k, (sum, square)) in sums.iter().zip(squares).enumerate() {
        let variance = square - sum * sum / count;
        if variance > best.0 {
            best = (variance, k);
        }
    }
    best.1
}

/// A row of coordinates, with zeros behind the last one.
type Row = [f32; LANES];

/// The boxes of neighbouring groups.
#[derive(Debug, Default)]
pub(super) struct Ends<'a> {
    /// The number of the first group.
    pub first: usize,
    /// The ends of each group's box.
    pub ends: &'a mut [f32],
}

impl Ends<'_> {
    /// The ends of a group, where it is one of these; of `dims` coordinates.
    fn of(&mut self, group: usize, dims: usize) -> Option<&mut [f32]> {
        let start = group.checked_sub(self.first)? * 2 * dims;
        self.ends.get_mut(start..start + 2 * dims)
    }
}

/// Copies of some points, one behind the other, with the buffers to cut them.
#[derive(Debug)]
pub(super) struct Near<'a> {
    points: Points<'a>,
    simd: Simd,
    rows: Vec<Row>,
    slack: Vec<f32>,
    /// The number of each row's point.
    numbers: Vec<u32>,
    /// Rows in the order that is made: the number of each one below a coordinate whose bits ascend as its
    /// values do.
    keyed: Vec<u64>,
}

kernels! {
    /// The sums and the sums of squares of the coordinates of every `step`th row, from the first one on.
    fn moments[F: Floats,](rows: &[Row], keyed: &[u64], step: usize, to: &mut [Row; 2]) {
        // SAFETY: the caller promises the instructions of the form; a row has as many numbers as a vector.
        unsafe {
            let row = |keyed: u64| F::load(rows[keyed as u32 as usize].as_ptr());
            let from = row(keyed[0]);
            let (mut sums, mut squares) = (F::splat(0.0), F::splat(0.0));
            for &keyed in keyed.iter().step_by(step) {
                let off = F::sub(row(keyed), from);
                sums = F::add(sums, off);
                squares = F::add_product(squares, off, off);
            }
            F::store(to[0].as_mut_ptr(), sums);
            F::store(to[1].as_mut_ptr(), squares);
        }
    }
}

/// Bits that are in the order of the values.
#[inline]
fn ordered(value: f32) -> u32 {
    let bits = value.to_bits();
    bits ^ ((bits as i32 >> 31) as u32 | 1 << 31)
}

impl<'a> Near<'a> {
    /// The bytes allocated for parts of `points` points, at most.
    pub(super) fn bytes(points: usize) -> usize {
        points.min(AT_ONCE.usual) * (size_of::<Row>() + 2 * size_of::<u32>() + size_of::<u64>())
    }

    pub(super) fn new(points: Points<'a>) -> Self {
        let simd = Simd::detect();
        Self { points, simd, rows: vec![], slack: vec![], numbers: vec![], keyed: vec![] }
    }

    /// Cuts at most [`Sizes::at_once`] points down to groups, whose points then ascend; the first one is going to be
    /// item `first`. Writes the boxes of groups that `ends` has.
    pub(super) fn refine(
        &mut self,
        some: &mut [u32],
        first: usize,
        sizes: Sizes,
        ends: &mut Ends<'_>,
    ) {
        let Self { points, simd, rows, slack, numbers, keyed } = self;
        rows.clear();
        rows.extend(some.iter().map(|&point| {
            let mut row = [0.0; LANES];
            row[..points.dims].copy_from_slice(points.of(point));
            row
        }));
        slack.clear();
        slack.extend(some.iter().map(|&point| points.slack[point as usize]));
        numbers.clear();
        numbers.extend_from_slice(some);
        keyed.clear();
        keyed.extend(0..some.len() as u64);
        let mut rest = vec![(&mut keyed[..], some, first)];
        while let Some((keyed, some, first)) = rest.pop() {
            let Some(middle) = sizes.middle(first, some.len()) else {
                let group = || keyed.iter().map(|keyed| *keyed as u32 as usize);
                some.iter_mut().zip(group()).for_each(|(point, row)| *point = numbers[row]);
                some.sort_unstable();
                // Groups that several parts have a share of are none of `ends`.
                if let Some(ends) = ends.of(first / sizes.group, points.dims) {
                    enclose(group().map(|row| (&rows[row][..], slack[row])), ends);
                }
                continue;
            };
            let (mut found, step) = ([[0.0; LANES]; 2], step(keyed.len()));
            moments(*simd, rows, keyed, step, &mut found);
            let count = keyed.len().div_ceil(step) as f32;
            let dim = greatest(&found[0][..points.dims], &found[1], count);
            for keyed in keyed.iter_mut() {
                let row = *keyed as u32;
                *keyed = u64::from(ordered(rows[row as usize][dim])) << 32 | u64::from(row);
            }
            keyed.select_nth_unstable(middle - first);
            let (low, high) = keyed.split_at_mut(middle - first);
            let (some_low, some_high) = some.split_at_mut(middle - first);
            rest.push((high, some_high, middle));
            rest.push((low, some_low, first));
        }
    }
}
