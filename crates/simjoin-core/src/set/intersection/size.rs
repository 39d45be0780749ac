//! The algorithm that serves two runs, tile by tile, on one core or several.

use crate::simd::Simd;
use crate::tuning::Size;
use crate::util::parallel::{self, Threads};

use super::Key;
use super::path::cut;
use super::search::search;

/// Where one run is this many times as long as the other, the values of the shorter one are
/// searched in the longer one.
const SKEWED: usize = 256;
/// Values of a tile: both its runs stay in a core's second cache while they are checked and merged.
const TILE: Size = Size { usual: 1 << 16, small: 1 << 8 };
/// Values that one more core is worth waking for.
const SHARE: Size = Size { usual: 1 << 19, small: 1 << 10 };

/// A slice of values, which may be known to be a run.
#[derive(Debug, Clone, Copy)]
pub struct KeySlice<'a, K> {
    /// The values.
    pub keys: &'a [K],
    /// Whether the values are known to ascend strictly.
    pub known: bool,
}

impl<'a, K: Key> KeySlice<'a, K> {
    /// Whether the values from one place to another ascend, the one before them included.
    #[inline]
    fn ascends(&self, simd: Simd, from: usize, to: usize) -> bool {
        self.known || K::ascends(simd, &self.keys[from.saturating_sub(1)..to])
    }
}

/// The number of common values of two runs, on up to `threads` threads.
pub fn size<K: Key>(simd: Simd, a: &[K], b: &[K], threads: Threads) -> u64 {
    let known = |keys| KeySlice { keys, known: true };
    size_if_ascending(simd, known(a), known(b), threads).unwrap_or_else(|| K::merge(simd, a, b))
}

/// The number of common values of two slices, on up to `threads` threads; `None` if one of them
/// is no run.
pub fn size_if_ascending<K: Key>(
    simd: Simd,
    a: KeySlice<K>,
    b: KeySlice<K>,
    threads: Threads,
) -> Option<u64> {
    let (short, long) = if a.keys.len() <= b.keys.len() { (a, b) } else { (b, a) };
    let total = a.keys.len() + b.keys.len();
    let threads = threads.at_most(total / threads.tuning.size(SHARE));
    if long.keys.len() / SKEWED > short.keys.len() {
        let ascend = short.ascends(simd, 0, short.keys.len()) && all_ascend(simd, long, threads);
        return ascend.then(|| skewed(short.keys, long.keys));
    }
    // Runs that need no check are one tile: memory comes faster to few long merges.
    let tile = if a.known && b.known { usize::MAX } else { threads.tuning.size(TILE) };
    if threads.count() == 1 {
        return piece(simd, a, b, (0, 0), (a.keys.len(), b.keys.len()), tile);
    }
    // More pieces than threads, so that they end together.
    let pieces = 4 * threads.count();
    let mut tasks = vec![];
    let mut from = (0, 0);
    for number in 1..=pieces {
        let (mut i, mut j) = (a.keys.len(), b.keys.len());
        if number < pieces {
            (i, j) = cut(a.keys, b.keys, total / pieces * number);
        }
        // Slices that are no runs have cuts in any order.
        let to = (i.max(from.0), j.max(from.1));
        tasks.push((from, to));
        from = to;
    }
    let sizes = parallel::map(threads, tasks, |(from, to)| Ok(piece(simd, a, b, from, to, tile)));
    sizes.ok()?.into_iter().sum()
}

/// Whether a long slice is a run, on up to `threads` threads.
fn all_ascend<K: Key>(simd: Simd, run: KeySlice<K>, threads: Threads) -> bool {
    if run.known || threads.count() == 1 {
        return run.ascends(simd, 0, run.keys.len());
    }
    let share = run.keys.len().div_ceil(threads.count());
    let tasks = (0..threads.count()).map(|number| number * share..(number + 1) * share).collect();
    let ascend = parallel::map(threads, tasks, |part: std::ops::Range<usize>| {
        let end = part.end.min(run.keys.len());
        Ok(run.ascends(simd, part.start.min(end), end))
    });
    ascend.is_ok_and(|parts| parts.into_iter().all(|ascends| ascends))
}

/// The common values of a short run and a long one.
fn skewed<K: Key>(short: &[K], long: &[K]) -> u64 {
    match is_interval(long) {
        true => within(long, short),
        false => search(short, long),
    }
}

/// Merges the values from one place of two slices to another, in tiles of `most` values; `None` if they, or the
/// values before them, do not ascend.
fn piece<K: Key>(
    simd: Simd,
    a: KeySlice<K>,
    b: KeySlice<K>,
    (mut i, mut j): (usize, usize),
    (to_a, to_b): (usize, usize),
    most: usize,
) -> Option<u64> {
    let (mut seen_a, mut seen_b) = (i, j);
    let mut common = 0;
    while i < to_a && j < to_b {
        // The next tile lies within these values.
        let end = |from: usize, to| from.saturating_add(most).min(to);
        let (end_a, end_b) = (end(i, to_a), end(j, to_b));
        if !(a.ascends(simd, seen_a, end_a) && b.ascends(simd, seen_b, end_b)) {
            return None;
        }
        (seen_a, seen_b) = (end_a, end_b);
        let (rest_a, rest_b) = (&a.keys[i..end_a], &b.keys[j..end_b]);
        let (from_a, from_b) = match rest_a.len() + rest_b.len() <= most {
            true => (rest_a.len(), rest_b.len()),
            false => cut(rest_a, rest_b, most),
        };
        common += tile(simd, &rest_a[..from_a], &rest_b[..from_b]);
        i += from_a;
        j += from_b;
    }
    (a.ascends(simd, seen_a, to_a) && b.ascends(simd, seen_b, to_b)).then_some(common)
}

/// The common values of two runs that lie in a cache.
#[inline]
fn tile<K: Key>(simd: Simd, a: &[K], b: &[K]) -> u64 {
    match (is_interval(a), is_interval(b)) {
        (true, _) => within(a, b),
        (_, true) => within(b, a),
        _ => K::merge(simd, a, b),
    }
}

/// Whether a run has every value from its first to its last.
#[inline]
fn is_interval<K: Key>(run: &[K]) -> bool {
    match (run.first(), run.last()) {
        (Some(first), Some(last)) => last.rank().wrapping_sub(first.rank()) == run.len() as u64 - 1,
        _ => false,
    }
}

/// The values of a run that lie in an interval.
fn within<K: Key>(interval: &[K], run: &[K]) -> u64 {
    let (Some(first), Some(last)) = (interval.first(), interval.last()) else { return 0 };
    let end = run.partition_point(|key| key <= last);
    (end - run[..end].partition_point(|key| key < first)) as u64
}
