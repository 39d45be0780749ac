//! Where most vectors lie, whatever the few others are.
//!
//! A mean follows a single vector of great norm. The median of each coordinate does not, so that it tells
//! which vectors are far from most; the mean of those that are not is the centre.

use std::ops::Range;

use datafusion::common::Result;

use crate::engine::ItemId;
use crate::util::cancel::CancelFlag;

/// The centre of some vectors.
#[derive(Debug, Clone, Default)]
pub(super) struct Middle {
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
pub(super) fn spread(
    items: Range<ItemId>,
    count: usize,
) -> impl Iterator<Item = ItemId> + Clone + use<> {
    let len = u64::from(items.end.saturating_sub(items.start));
    let count = len.min(count as u64);
    (0..count).map(move |i| {
        let (low, high) = (i * len / count, (i + 1) * len / count);
        let mixed = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        items.start + (low + mixed % (high - low)) as ItemId
    })
}

/// The square of the distance of a vector from a centre, which may have fewer dimensions. In lanes:
/// additions wait for each other.
pub(super) fn square_from(vector: &[f64], centre: &[f64]) -> f64 {
    const LANES: usize = 8;
    let (front, back) = vector.split_at(centre.len().min(vector.len()));
    let mut sums = [0.0; LANES];
    let (xs, last_x) = front.as_chunks::<LANES>();
    let (cs, last_c) = centre[..front.len()].as_chunks::<LANES>();
    for (x, c) in xs.iter().zip(cs) {
        for lane in 0..LANES {
            let off = x[lane] - c[lane];
            sums[lane] += off * off;
        }
    }
    let (numbers, last) = back.as_chunks::<LANES>();
    for numbers in numbers {
        for lane in 0..LANES {
            sums[lane] += numbers[lane] * numbers[lane];
        }
    }
    let rest: f64 = last_x.iter().zip(last_c).map(|(x, c)| (x - c) * (x - c)).sum();
    sums.iter().sum::<f64>() + rest + last.iter().map(|v| v * v).sum::<f64>()
}

/// Whether the square of a norm is so small that sums with it are finite.
pub(super) fn is_usual(vector: &[f64]) -> bool {
    square_from(vector, &[]) < 1e300
}

impl Middle {
    /// The middle of vectors, without those that are not usual. They are not moved where `is_moved` is not
    /// set.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub(super) fn of<'a>(
        vectors: impl Iterator<Item = &'a [f64]>,
        is_moved: bool,
        cancel: &CancelFlag,
    ) -> Result<Self> {
        let vectors: Vec<&[f64]> = vectors.filter(|vector| is_usual(vector)).collect();
        let median = if is_moved { medians(&vectors, cancel)? } else { vec![] };
        let mut squares = vec![];
        for (step, vector) in vectors.iter().enumerate() {
            cancel.check_at(step)?;
            squares.push(square_from(vector, &median));
        }
        let most = FAR * FAR * typical(squares.clone());
        let near = || vectors.iter().zip(&squares).filter(|(_, square)| **square <= most);
        let near = || near().map(|(vector, _)| *vector);
        let centre = if is_moved { mean(near(), &median, cancel)? } else { vec![] };
        let mut radius = 0.0_f64;
        for (step, vector) in near().enumerate() {
            cancel.check_at(step)?;
            radius = radius.max(square_from(vector, &centre));
        }
        // The centre has moved.
        let limit = most.sqrt() + square_from(&median, &centre).sqrt();
        Ok(Self { centre, radius: radius.sqrt(), limit: limit.max(radius.sqrt()) })
    }
}

/// The median of each coordinate, of some of the vectors.
fn medians(vectors: &[&[f64]], cancel: &CancelFlag) -> Result<Vec<f64>> {
    /// Vectors of which a majority is not far, where few are.
    const SOME: usize = 63;
    let some: Vec<&[f64]> =
        spread(0..vectors.len() as ItemId, SOME).map(|at| vectors[at as usize]).collect();
    let widest = some.iter().map(|vector| vector.len()).max().unwrap_or(0);
    let mut medians = Vec::with_capacity(widest);
    let mut values = Vec::with_capacity(SOME);
    for k in 0..widest {
        cancel.check_at(k)?;
        values.clear();
        values.extend(some.iter().filter_map(|vector| vector.get(k)));
        let middle = (values.len() - 1) / 2;
        medians.push(*values.select_nth_unstable_by(middle, f64::total_cmp).1);
    }
    Ok(medians)
}

/// The median of squares or, where that is 0, one that is not.
fn typical(mut squares: Vec<f64>) -> f64 {
    squares.sort_unstable_by(f64::total_cmp);
    let parts = [(1, 2), (3, 4), (9, 10)].map(|(part, of)| squares.len() * part / of);
    let median = parts.into_iter().filter_map(|place| squares.get(place)).find(|s| **s > 0.0);
    median.or(squares.last()).copied().unwrap_or(0.0)
}

/// The mean of each coordinate of vectors that lie near a median.
fn mean<'a>(
    vectors: impl Iterator<Item = &'a [f64]>,
    median: &[f64],
    cancel: &CancelFlag,
) -> Result<Vec<f64>> {
    let (mut sums, mut counts): (Vec<f64>, Vec<f64>) = (vec![], vec![]);
    for (step, vector) in vectors.enumerate() {
        cancel.check_at(step)?;
        if vector.len() > sums.len() {
            sums.resize(vector.len(), 0.0);
            counts.resize(vector.len(), 0.0);
        }
        for ((sum, count), v) in sums.iter_mut().zip(&mut counts).zip(vector) {
            *sum += v;
            *count += 1.0;
        }
    }
    let means = sums.iter().zip(&counts).map(|(sum, count)| sum / count);
    // Any centre will do.
    let or_median = |(k, mean): (usize, f64)| match mean.is_finite() {
        true => mean,
        false => median.get(k).copied().unwrap_or(0.0),
    };
    Ok(means.enumerate().map(or_median).collect())
}
