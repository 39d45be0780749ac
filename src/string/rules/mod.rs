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

pub(crate) use alike::{Alike, Level, ORDERED};
pub(crate) use damerau::Damerau;
pub(crate) use edits::Edits;
pub(crate) use indel::Indel;
pub(crate) use jaro::{PREFIX, boost, jaro, jaro_winkler, value as jaro_value};
pub(crate) use levenshtein::{Levenshtein, levenshtein_each};
pub(crate) use masks::Symbol;
pub(crate) use meter::Cancelled;
pub(crate) use queues::window;
pub(crate) use scratch::{SCRATCH_OF_EDITS, SCRATCH_OF_JARO, Scratch};
pub(crate) use threshold::{Threshold, similarity};

/// The number of places in which two strings of one length differ, `None` for unequal lengths.
pub(crate) fn hamming<T: Symbol>(a: &[T], b: &[T]) -> Option<u32> {
    (a.len() == b.len()).then(|| a.iter().zip(b).map(|(x, y)| u32::from(x != y)).sum())
}
