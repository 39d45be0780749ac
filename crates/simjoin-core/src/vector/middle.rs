//! Where most vectors lie, whatever the few others are.
//!
//! A mean follows a single vector of great norm. The median of each coordinate does not, so that it tells
//! which vectors are far from most; the mean of those that are not is the centre.

use std::ops::Range;

use super::width::{Number, Vector, by_width};
use crate::engine::ItemId;
use crate::error::Result;
use crate::simd::{Floats, Simd, kernels};
use crate::util::cancel::CancelFlag;
use crate::util::parallel::{Threads, map, ranges};

/// The centre of some vectors.
#[derive(Debug, Clone, Default)]
pub struct Middle {
    /// By dimension; none where vectors are not moved.
    pub centre: Vec<f64>,
    /// The greatest distance from the centre, of vectors that are not far.
    pub radius: f64,
    /// Vectors at a greater distance from the centre are far.
    pub limit: f64,
}

/// Vectors at more than this many times the median distance are far.
const FAR: f64 = 8.0;

/// `count` items of a range, at most, spread over it. They lie at no equal distances, which what the
/// range holds could have, too.
pub fn spread(items: Range<ItemId>, count: usize) -> impl Iterator<Item = ItemId> + Clone + use<> {
    let len = u64::from(items.end.saturating_sub(items.start));
    let count = len.min(count as u64);
    (0..count).map(move |i| {
        let (low, high) = (i * len / count, (i + 1) * len / count);
        let mixed = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        items.start + (low + mixed % (high - low)) as ItemId
    })
}

/// The square of the distance of a vector from a centre, which may have fewer dimensions.
pub(super) fn square_from(vector: Vector<'_>, centre: &[f64]) -> f64 {
    by_width!(vector, |numbers| square_of_numbers(numbers, centre))
}

/// [`square_from`] of numbers of one type.
pub(super) fn square_of_numbers<T: Number>(vector: &[T], centre: &[f64]) -> f64 {
    square(Simd::detect(), vector, centre)
}

kernels! {
    /// The sum, which has one order in every form. In lanes: additions wait for each other.
    fn square[F: Floats, ; T: Number](vector: &[T], centre: &[f64]) -> f64 {
        const LANES: usize = 8;
        let (front, back) = vector.split_at(centre.len().min(vector.len()));
        let mut sums = [0.0; LANES];
        let (xs, last_x) = front.as_chunks::<LANES>();
        let (cs, last_c) = centre[..front.len()].as_chunks::<LANES>();
        for (x, c) in xs.iter().zip(cs) {
            for lane in 0..LANES {
                let off = x[lane].wide() - c[lane];
                sums[lane] += off * off;
            }
        }
        let (numbers, last) = back.as_chunks::<LANES>();
        for numbers in numbers {
            for lane in 0..LANES {
                sums[lane] += numbers[lane].wide() * numbers[lane].wide();
            }
        }
        let off = last_x.iter().zip(last_c).map(|(x, c)| x.wide() - c);
        let rest: f64 = off.map(|off| off * off).sum();
        sums.iter().sum::<f64>() + rest + last.iter().map(|v| v.wide() * v.wide()).sum::<f64>()
    }
}

/// Whether the square of a norm is so small that sums with it are finite.
pub fn is_usual(vector: Vector<'_>) -> bool {
    square_from(vector, &[]) < 1e300
}

impl Middle {
    /// The middle of vectors, without those that are not usual. They are not moved where `is_moved` is not
    /// set.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub fn of<'a>(
        vectors: impl Iterator<Item = Vector<'a>>,
        is_moved: bool,
        cancel: &CancelFlag,
    ) -> Result<Self> {
        Self::of_some(&vectors.collect::<Vec<_>>(), is_moved, Threads::ONE, cancel)
    }

    /// Like [`Self::of`], by several threads: the same to the last bit.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub(super) fn of_some(
        vectors: &[Vector<'_>],
        is_moved: bool,
        threads: Threads,
        cancel: &CancelFlag,
    ) -> Result<Self> {
        let each = Each { threads, cancel };
        let usual = each.vector(vectors, |vector| is_usual(vector).then_some(vector))?;
        let usual: Vec<Vector<'_>> = usual.into_iter().flatten().collect();
        let median = if is_moved { medians(&usual, each)? } else { vec![] };
        let squares = each.vector(&usual, |vector| square_from(vector, &median))?;
        let most = FAR * FAR * typical(squares.clone());
        let near = usual.iter().zip(&squares).filter(|(_, square)| **square <= most);
        let near: Vec<Vector<'_>> = near.map(|(vector, _)| *vector).collect();
        let centre = if is_moved { mean(&near, &median, each)? } else { vec![] };
        let radii = each.vector(&near, |vector| square_from(vector, &centre))?;
        let radius = radii.into_iter().fold(0.0, f64::max);
        // The centre has moved.
        let limit = most.sqrt() + square_of_numbers(&median, &centre).sqrt();
        Ok(Self { centre, radius: radius.sqrt(), limit: limit.max(radius.sqrt()) })
    }
}

/// The threads that go through vectors or through coordinates.
#[derive(Clone, Copy)]
struct Each<'a> {
    threads: Threads,
    cancel: &'a CancelFlag,
}

impl Each<'_> {
    /// `value` of each vector.
    fn vector<'a, T: Send>(
        self,
        vectors: &[Vector<'a>],
        value: impl Fn(Vector<'a>) -> T + Sync,
    ) -> Result<Vec<T>> {
        /// Vectors of a task, at least.
        const LEAST: usize = 1 << 3;
        let parts = map(self.threads, ranges(self.threads, vectors.len(), LEAST), |range| {
            let values = vectors[range].iter().enumerate().map(|(step, &vector)| {
                self.cancel.check_at(step)?;
                Ok(value(vector))
            });
            values.collect::<Result<Vec<T>>>()
        })?;
        Ok(parts.into_iter().flatten().collect())
    }

    /// `values` of ranges of the coordinates of vectors, one behind the other.
    fn coordinates(
        self,
        vectors: &[Vector<'_>],
        values: impl Fn(Range<usize>) -> Vec<f64> + Sync,
    ) -> Result<Vec<f64>> {
        /// Coordinates of a task, at least: two lines of the cache.
        const LEAST: usize = 1 << 4;
        let widest = vectors.iter().map(|vector| vector.len()).max().unwrap_or(0);
        let parts = map(self.threads, ranges(self.threads, widest, LEAST), |range| {
            self.cancel.check()?;
            Ok(values(range))
        })?;
        Ok(parts.concat())
    }
}

/// The median of each coordinate, of some of the vectors.
fn medians(vectors: &[Vector<'_>], each: Each<'_>) -> Result<Vec<f64>> {
    /// Vectors of which a majority is not far, where few are.
    const SOME: usize = 63;
    let some: Vec<Vector<'_>> =
        spread(0..vectors.len() as ItemId, SOME).map(|at| vectors[at as usize]).collect();
    each.coordinates(&some, |range| {
        let mut values = Vec::with_capacity(SOME);
        let median = |k| {
            values.clear();
            values.extend(some.iter().filter_map(|vector| vector.get(k)));
            let middle = (values.len() - 1) / 2;
            *values.select_nth_unstable_by(middle, f64::total_cmp).1
        };
        range.map(median).collect()
    })
}

/// The median of squares or, where that is 0, one that is not.
fn typical(mut squares: Vec<f64>) -> f64 {
    squares.sort_unstable_by(f64::total_cmp);
    let parts = [(1, 2), (3, 4), (9, 10)].map(|(part, of)| squares.len() * part / of);
    let median = parts.into_iter().filter_map(|place| squares.get(place)).find(|s| **s > 0.0);
    median.or(squares.last()).copied().unwrap_or(0.0)
}

/// The mean of each coordinate of vectors that lie near a median.
fn mean(vectors: &[Vector<'_>], median: &[f64], each: Each<'_>) -> Result<Vec<f64>> {
    each.coordinates(vectors, |range| {
        let mut sums = vec![(0.0, 0.0); range.len()];
        for vector in vectors {
            let own = vector.part(range.start.min(vector.len())..range.end.min(vector.len()));
            for ((sum, count), v) in sums.iter_mut().zip(own) {
                *sum += v;
                *count += 1.0;
            }
        }
        // Any centre will do.
        let or_median = |(k, (sum, count)): (usize, (f64, f64))| match sum / count {
            mean if mean.is_finite() => mean,
            _ => median.get(k).copied().unwrap_or(0.0),
        };
        range.clone().zip(sums).map(or_median).collect()
    })
}
