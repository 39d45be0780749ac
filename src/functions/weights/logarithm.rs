//! Logarithms of ratios to base 2 by arithmetic of integers, which every processor does alike.

/// Binary places beyond those of the result. The truncated squares move a result by less than `2^-56`.
const GUARD: u32 = 8;

/// The logarithm of `numerator / denominator` to base 2 in units of `2^-places`, rounded to the nearest; 0 for
/// ratios up to 1. `places` is 40 at most.
pub(in crate::functions) fn log2_ratio(numerator: u64, denominator: u64, places: u32) -> u64 {
    if denominator == 0 || numerator <= denominator {
        return 0;
    }
    let [upper, lower] = [numerator, denominator].map(u128::from);
    let mut whole = numerator.ilog2() - denominator.ilog2();
    if upper < lower << whole {
        whole -= 1;
    }
    // From 1 to less than 2, with 63 places behind the point.
    let mut mantissa = (upper << 63) / (lower << whole);
    let mut log = u64::from(whole);
    for _ in 0..places + GUARD {
        let square = mantissa * mantissa;
        let doubled = square >> 127;
        log = (log << 1) | doubled as u64;
        mantissa = square >> (63 + doubled);
    }
    (log + (1 << (GUARD - 1))) >> GUARD
}
