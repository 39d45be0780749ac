//! Exact functions over two strings, and the bounds that follow from their thresholds.
//!
//! A string is a slice of [`Symbol`]s: bytes where both strings are ASCII, Unicode scalar values
//! otherwise. Distances over long strings take time that a query may want to end early, so they ask
//! `stop` about every [`CELLS`] cells of their matrix and return [`Cancelled`] once it says so. All
//! space that grows with the strings is in a [`Scratch`] that serves one pair after another.
//!
//! - [`levenshtein`], [`levenshtein_within`], [`levenshtein_each`]: insertions, deletions, substitutions.
//! - [`indel`], [`indel_within`]: insertions and deletions.
//! - [`damerau`], [`damerau_within`]: transpositions as well, with edits between the two allowed.
//! - [`hamming`]: substitutions, for equal lengths.
//! - [`jaro`], [`jaro_winkler`]: similarities by common symbols and their order.
//! - [`Threshold`]: a function with its bound; which lengths can match, and what they may differ in.

mod band;
mod damerau;
mod indel;
mod jaro;
mod levenshtein;
mod masks;
mod scratch;
mod threshold;

#[cfg(test)]
pub(super) mod tests;

use std::ops::ControlFlow;

pub(crate) use damerau::{damerau, damerau_within};
pub(crate) use indel::{indel, indel_within};
pub(crate) use jaro::{jaro, jaro_winkler};
pub(crate) use levenshtein::{levenshtein, levenshtein_each, levenshtein_within};
pub(crate) use masks::Symbol;
pub(crate) use scratch::{Cancelled, Scratch};
pub(crate) use threshold::{Threshold, similarity};

/// The number of places in which two strings of one length differ, `None` for unequal lengths.
pub(crate) fn hamming<T: Symbol>(a: &[T], b: &[T]) -> Option<u32> {
    (a.len() == b.len()).then(|| a.iter().zip(b).map(|(x, y)| u32::from(x != y)).sum())
}

/// Decides pairs that take no cell of a matrix: the distance if it is at most `k`, `None` beyond. Gives the
/// trimmed strings of the others, the longer one first, of which neither is empty.
fn open<'a, T: Symbol>(
    a: &'a [T],
    b: &'a [T],
    k: usize,
) -> ControlFlow<Option<usize>, [&'a [T]; 2]> {
    if a.len().abs_diff(b.len()) > k {
        return ControlFlow::Break(None);
    }
    let (a, b) = trim(a, b);
    let [long, short] = if a.len() <= b.len() { [b, a] } else { [a, b] };
    match k {
        _ if short.is_empty() => ControlFlow::Break(Some(long.len())),
        0 => ControlFlow::Break(None),
        _ => ControlFlow::Continue([long, short]),
    }
}

/// Both strings without their common prefix and their common suffix, which no edit distance sees.
fn trim<'a, T: Symbol>(a: &'a [T], b: &'a [T]) -> (&'a [T], &'a [T]) {
    let prefix = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[prefix..], &b[prefix..]);
    let suffix = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
    (&a[..a.len() - suffix], &b[..b.len() - suffix])
}
