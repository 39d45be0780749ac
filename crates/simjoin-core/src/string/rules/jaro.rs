//! Jaro's similarity and Winkler's, as rapidfuzz and DuckDB compute them.
//!
//! A symbol of `b` is common if a symbol of `a` equals it that is at most `max(|a|, |b|) / 2 - 1`
//! places away (but at least 0) and is not yet taken; the first such symbol of `a` is taken. Places at
//! which the common symbols of `a` and those of `b`, each in their order, differ are halved downwards
//! to transpositions.

use super::masks::{Masks, Symbol};
use super::queues::window;
use super::scratch::Scratch;

/// The weight of each symbol of a common prefix.
const PREFIX_WEIGHT: f64 = 0.1;

/// The symbols of a common prefix that count.
pub(crate) const PREFIX: usize = 4;

/// The similarity above which a common prefix counts.
const BOOST_ABOVE: f64 = 0.7;

/// Jaro's similarity: `(m / |a| + m / |b| + (m - t) / m) / 3` for `m` common symbols and `t`
/// transpositions, from the left in `f64`; 0 without common symbols, 1 for two empty strings (as
/// rapidfuzz has it; DuckDB gives 0).
pub(crate) fn jaro<T: Symbol>(scratch: &mut Scratch, a: &[T], b: &[T]) -> f64 {
    if a.is_empty() && b.is_empty() {
        return 1.0;
    }
    let (common, transpositions) = if a.len() <= 64 && b.len() <= 64 {
        scratch.masks.with(a, |masks| short(masks, a.len(), b))
    } else {
        scratch.queues.common(a, b)
    };
    value(a.len(), b.len(), common, transpositions)
}

/// Winkler's similarity: for a Jaro similarity `j` above 0.7 and a common prefix of `p` symbols, of
/// which 4 count, `j + p * 0.1 * (1 - j)` in `f64`, at most 1; otherwise `j`.
pub(crate) fn jaro_winkler<T: Symbol>(scratch: &mut Scratch, a: &[T], b: &[T]) -> f64 {
    let prefix = a.iter().zip(b).take(PREFIX).take_while(|(x, y)| x == y).count();
    boost(jaro(scratch, a, b), prefix)
}

/// Jaro's similarity of strings that are not both empty.
#[inline]
pub(crate) fn value(a: usize, b: usize, common: usize, transpositions: usize) -> f64 {
    if common == 0 {
        return 0.0;
    }
    let m = common as f64;
    (m / a as f64 + m / b as f64 + (m - transpositions as f64) / m) / 3.0
}

/// Winkler's similarity from Jaro's and the length of the common prefix.
#[inline]
pub(crate) fn boost(jaro: f64, prefix: usize) -> f64 {
    if jaro > BOOST_ABOVE {
        (jaro + prefix as f64 * PREFIX_WEIGHT * (1.0 - jaro)).min(1.0)
    } else {
        jaro
    }
}

/// Common symbols and transpositions of a pattern of `rows` symbols and `b`, both at most 64 long.
#[inline]
fn short<T: Symbol>(masks: &Masks, rows: usize, b: &[T]) -> (usize, usize) {
    let window = window(rows, b.len());
    // The rows within reach of the column at hand.
    let mut near = !0_u64 >> (63 - window);
    let (mut in_a, mut in_b) = (0_u64, 0_u64);
    for (column, &symbol) in b.iter().enumerate() {
        let free = masks.of(symbol) & near & !in_a;
        in_a |= free & free.wrapping_neg();
        in_b |= u64::from(free != 0) << column;
        near = near << 1 | u64::from(column < window);
    }
    let common = in_a.count_ones() as usize;
    let (mut differing, mut places) = (0, in_a);
    while in_b != 0 {
        let symbol = b[in_b.trailing_zeros() as usize];
        differing += usize::from(masks.of(symbol) & places & places.wrapping_neg() == 0);
        in_b &= in_b - 1;
        places &= places.wrapping_sub(1);
    }
    (common, differing / 2)
}
