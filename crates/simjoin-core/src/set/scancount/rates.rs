//! The costs of counting, and the frequency from which on bits are cheaper than lists.

use crate::set::bitmap::test_rate;
use crate::simd::Simd;
use crate::tuning::Tuning;

/// Nanoseconds of one core, as measured on an AMD EPYC with AVX-512.
pub(super) mod nanos {
    /// Counting the sets of a token, for each set.
    pub(crate) const COUNT: f64 = 2.0;
    /// Putting a set into the list of a token, and finding the list again.
    pub(crate) const LIST: f64 = 14.0;
    /// Adding to a counter.
    pub(crate) const ADD: f64 = 1.2;
    /// Setting a bit in the bitmaps of both sides.
    pub(crate) const MARK: f64 = 4.0;
    /// Counting the bits that two sets have in common, a word of each.
    pub(crate) const WORD: f64 = 0.1;
    /// Deciding a pair by its counter.
    pub(crate) const PAIR: f64 = 2.0;
}

/// Bits of as many sets take the memory of a list of one.
const SMALLEST_SHARE: u64 = 32;

/// The number of `sets` sets that a token must have to own a bit: a list of fewer takes less time, or, of less
/// than one in 32, less memory. Of small sizes, a quarter of the sets.
pub(super) fn heavy_from(sets: u64, simd: Simd, tuning: Tuning) -> u64 {
    if tuning.is_small() {
        return sets.div_ceil(4).max(2);
    }
    // Both are of pairs of a set with those before it: n²/2 bits, or d²/2 additions besides d
    // entries of lists. The root of the difference in d.
    let bits = nanos::WORD * test_rate(simd, tuning) / 64.0 * (sets as f64).powi(2) / 2.0;
    let (half, entry) = (nanos::ADD / 2.0, nanos::LIST);
    let even = ((entry * entry + 4.0 * half * bits).sqrt() - entry) / (2.0 * half);
    (even.ceil() as u64).max(sets.div_ceil(SMALLEST_SHARE)).max(2)
}
