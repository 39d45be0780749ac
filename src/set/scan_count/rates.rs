//! The cost of counting, and the frequency from which on bits are cheaper than lists.

use super::frequencies::Frequencies;
use crate::engine::Cost;
use crate::set::SetJoin;
use crate::set::rates::Rates;
use crate::simd::Simd;

/// Nanoseconds of one core, as measured on an AMD EPYC with AVX-512.
mod nanos {
    /// Counting the sets of a token, for each set.
    pub(super) const COUNT: f64 = 2.0;
    /// Putting a set into the list of a token, and finding the list again.
    pub(super) const LIST: f64 = 14.0;
    /// Adding to a counter.
    pub(super) const ADD: f64 = 1.2;
    /// Setting a bit in the bitmaps of both sides.
    pub(super) const MARK: f64 = 4.0;
    /// Counting the bits that two sets have in common, a word of each.
    pub(super) const WORD: f64 = 0.1;
    /// Deciding a pair by its counter.
    pub(super) const PAIR: f64 = 2.0;
}

/// Bits of as many sets take the memory of a list of one.
const SMALLEST_SHARE: u64 = 32;

/// How many of `sets` sets a token must have to own a bit: a list of fewer takes less time, or, of less
/// than one in 32, less memory.
pub(in crate::set) fn heavy_from(sets: u64, simd: Simd) -> u64 {
    if cfg!(test) {
        return sets.div_ceil(4).max(2);
    }
    // Both are of pairs of a set with those before it: n²/2 bits, or d²/2 additions besides d
    // entries of lists. The root of the difference in d.
    let bits = nanos::WORD * Rates::of(simd).test / 64.0 * (sets as f64).powi(2) / 2.0;
    let (half, entry) = (nanos::ADD / 2.0, nanos::LIST);
    let even = ((entry * entry + 4.0 * half * bits).sqrt() - entry) / (2.0 * half);
    (even.ceil() as u64).max(sets.div_ceil(SMALLEST_SHARE)).max(2)
}

/// The cost on the CPU.
pub(super) fn estimate(join: &SetJoin, frequencies: &Frequencies) -> Cost {
    let (statistics, spec) = (&join.statistics, &join.spec);
    // The entries of lists, and finding the lists again, are of both sides.
    let tokens = (statistics.tokens + statistics.probe_tokens) / 2.0;
    let light = tokens * frequencies.light_share;
    let words = frequencies.heavy / 64.0;
    let pairs = statistics.admissible_pairs;
    // By those pairs of different build sets whose tokens have been counted.
    let times = 2.0 * pairs / statistics.sets.max(1.0).powi(2);
    let nanos = statistics.tokens * nanos::COUNT
        + light * nanos::LIST
        + (tokens - light) * nanos::MARK
        + frequencies.light_pairs * times * nanos::ADD
        + pairs * (nanos::PAIR + words * nanos::WORD * Rates::of(spec.simd).test);
    Cost::cpu(nanos)
}
