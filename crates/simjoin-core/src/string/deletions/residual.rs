//! The hashes of what is left of a string after some deletions.

use std::ops::Range;

use super::Symbols;
use crate::string::rules::Symbol;

/// An upper bound of the number of residuals of a string of `len` symbols after at most `k` deletions;
/// it is met unless equal symbols stand side by side.
pub(crate) fn residuals(len: u64, k: u32) -> u64 {
    let mut total = 0_u64;
    let mut choices = 1_u64;
    for deleted in 0..=u64::from(k).min(len) {
        total = total.saturating_add(choices);
        choices = match choices.checked_mul(len - deleted) {
            Some(product) => product / (deleted + 1),
            None => u64::MAX,
        };
    }
    total
}

/// Ranges of items with about as many residuals each, `count` of them at most, and a bound of how many these are.
pub(super) fn shares<T>(
    strings: Symbols<'_, T>,
    items: Range<u32>,
    k: u32,
    count: usize,
) -> Vec<(Range<u32>, u64)> {
    let of = |item: u32| residuals(strings.string(item as usize).len() as u64, k);
    let total = items.clone().map(of).fold(0, u64::saturating_add);
    let each = total.div_ceil(count.max(1) as u64);
    let (mut shares, mut first, mut sum) = (vec![], items.start, 0_u64);
    for item in items.clone() {
        sum = sum.saturating_add(of(item));
        if sum >= each || item + 1 == items.end {
            shares.push((first..item + 1, sum));
            (first, sum) = (item + 1, 0);
        }
    }
    shares
}

/// An odd number, the weight of a place over that of the place before.
const BASE: u64 = 0x9E37_79B9_7F4A_7C15;

/// The inverse of [`BASE`] modulo 2^64.
const INVERSE: u64 = {
    // Newton's iteration doubles the bits that are right; an odd number has three of its own.
    let mut inverse = BASE;
    let mut bits = 3;
    while bits < 64 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(BASE.wrapping_mul(inverse)));
        bits *= 2;
    }
    inverse
};

/// Makes hashes of residuals: polynomials over the symbols, so that from the sums of its prefixes each
/// residual of a string takes a few operations, whatever its length.
#[derive(Debug, Clone, Default)]
pub(super) struct Hasher {
    /// The sum of the first `i` weighted symbols.
    sums: Vec<u64>,
}

impl Hasher {
    /// Calls `residual` with the hash and the length of each residual of a string after `least` to `most`
    /// deletions; `most` is 2 at most. Deletions among equal symbols side by side give one residual.
    #[inline(always)]
    pub(super) fn each<T: Symbol>(
        &mut self,
        seed: u64,
        string: &[T],
        (least, most): (u32, u32),
        mut residual: impl FnMut(u64, usize),
    ) {
        self.sums.clear();
        let (mut sum, mut weight) = (0_u64, 1_u64);
        self.sums.push(0);
        for symbol in string {
            sum = sum.wrapping_add(scatter(symbol.key()).wrapping_mul(weight));
            weight = weight.wrapping_mul(BASE);
            self.sums.push(sum);
        }
        let len = string.len();
        let sums = &self.sums[..len + 1];
        let mut found = |sum: u64, left: usize| residual(finish(sum, seed, left), left);
        if least == 0 {
            found(sum, len);
        }
        for p in 0..len {
            if p > 0 && string[p] == string[p - 1] {
                continue;
            }
            let shift = |sum: u64| sum.wrapping_mul(INVERSE);
            if least <= 1 && most >= 1 {
                found(sums[p].wrapping_add(shift(sum.wrapping_sub(sums[p + 1]))), len - 1);
            }
            if most < 2 {
                continue;
            }
            let head = sums[p].wrapping_sub(shift(sums[p + 1]));
            for q in p + 1..len {
                if string[q] == string[q - 1] && q - 1 != p {
                    continue;
                }
                let middle = head.wrapping_add(shift(sums[q]));
                let tail = shift(shift(sum.wrapping_sub(sums[q + 1])));
                found(middle.wrapping_add(tail), len - 2);
            }
        }
    }
}

/// A number that looks random, for a symbol.
#[inline(always)]
fn scatter(key: u32) -> u64 {
    let x = (u64::from(key) + 1).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (x ^ (x >> 29)).wrapping_mul(0x94D0_49BB_1331_11EB)
}

/// A hash whose high and low bits depend on all of the sum, the seed and the length.
#[inline(always)]
fn finish(sum: u64, seed: u64, len: usize) -> u64 {
    let x = (sum ^ seed).wrapping_add(len as u64);
    let x = (x ^ (x >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    x ^ (x >> 32)
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;
    use crate::string::rules::tests::Random;

    /// Lists the strings that are left after deleting any `left` symbols or fewer.
    fn all(string: &[u32], left: u32, found: &mut HashSet<Vec<u32>>) {
        found.insert(string.to_vec());
        for i in 0..if left == 0 { 0 } else { string.len() } {
            let mut shorter = string.to_vec();
            shorter.remove(i);
            all(&shorter, left - 1, found);
        }
    }

    #[test]
    fn each_residual_has_one_hash_of_its_own() {
        let mut random = Random(81);
        let mut strings: HashMap<u64, Vec<u32>> = HashMap::new();
        let mut hasher = Hasher::default();
        for _ in 0..2_000 {
            let len = random.below(9);
            let string = random.string(len, 3);
            for k in 0..=2 {
                let mut hashes = HashSet::new();
                let mut calls = 0;
                hasher.each(7, &string, (0, k), |hash, left| {
                    assert!(left + k as usize >= string.len());
                    hashes.insert(hash);
                    calls += 1;
                });
                let mut expected = HashSet::new();
                all(&string, k, &mut expected);
                assert_eq!(hashes.len(), expected.len(), "{string:?} {k}");
                assert!(calls <= residuals(string.len() as u64, k));
                for residual in expected {
                    hasher.each(7, &residual, (0, 0), |hash, _| {
                        assert!(hashes.contains(&hash), "{string:?} {residual:?}");
                        assert_eq!(*strings.entry(hash).or_insert(residual.clone()), residual);
                    });
                }
            }
        }
    }

    #[test]
    fn residuals_are_counted_beforehand() {
        let counts: Vec<u64> = (0..4).map(|k| residuals(5, k)).collect();
        assert_eq!(counts, [1, 6, 16, 26]);
        assert_eq!(residuals(0, 2), 1);
        assert_eq!(residuals(1, 2), 2);
        assert_eq!(residuals(u64::MAX, 2), u64::MAX);
    }
}
