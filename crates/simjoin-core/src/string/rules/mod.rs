//! Exact functions over two strings, and the bounds that follow from their thresholds.
//!
//! A string is a slice of [`Symbol`]s: bytes where both strings are ASCII, Unicode scalar values
//! otherwise. Distances over long strings take time that a query may want to end early, so they ask
//! `stop` about every [`CELLS`] cells of their matrix and return [`Cancelled`] once it says so. All
//! space that grows with the strings is in a [`Scratch`] that serves one pair after another.
//!
//! - [`Edits`]: a distance, in full or within a bound, of three kinds:
//!   - [`Levenshtein`], [`levenshtein_each`]: insertions, deletions, substitutions;
//!   - [`Indel`]: insertions and deletions;
//!   - [`Damerau`]: transpositions as well, with edits between the two allowed.
//! - [`hamming`]: substitutions, for equal lengths.
//! - [`jaro`], [`jaro_winkler`]: similarities by common symbols and their order.
//! - [`Threshold`]: a function with its bound; which lengths can match, and what they may differ in;
//!   [`Alike`]: the same for Jaro's functions by the common prefix, with the orders that match.

mod alike;
mod band;
mod blocks;
mod damerau;
mod edits;
mod indel;
mod jaro;
mod levenshtein;
mod masks;
mod meter;
mod queues;
mod scratch;
mod threshold;
mod waves;

#[cfg(test)]
pub(super) mod tests;

pub(super) use alike::{Alike, Level, ORDERED};
pub(super) use damerau::Damerau;
pub(super) use edits::Edits;
pub(crate) use indel::Indel;
pub(crate) use jaro::boost;
pub(super) use jaro::{PREFIX, jaro, jaro_winkler, value as jaro_value};
pub(super) use levenshtein::Levenshtein;
pub(crate) use levenshtein::levenshtein_each;
pub(crate) use masks::Symbol;
pub(super) use meter::Cancelled;
pub(super) use queues::window;
pub(super) use scratch::Scratch;
pub(crate) use scratch::{SCRATCH_OF_EDITS, SCRATCH_OF_JARO};
pub(super) use threshold::{Threshold, similarity};

/// The number of places in which two strings of one length differ, `None` for unequal lengths.
pub(super) fn hamming<T: Symbol>(a: &[T], b: &[T]) -> Option<u32> {
    (a.len() == b.len()).then(|| a.iter().zip(b).map(|(x, y)| u32::from(x != y)).sum())
}
