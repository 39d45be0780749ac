//! Levenshtein's distance and Jaro's functions for many pairs at a time, in the lanes of vectors.
//!
//! - [`Pattern`] and [`Band`]: one probe against strings of one length, up to a bound of 15 edits. The
//!   band of diagonals that a path within the bound touches is at most `k + 1` wide, so that bit
//!   vectors of 8 bits serve for `k <= 7` and of 16 bits for `k <= 15`, at any length.
//! - [`CodeRows`]: Jaro's functions, of one probe and strings of one length, all of up to 32 codes.
//! - [`Characters`]: UTF-8 as two bytes for each character, for [`pairs`].
//! - [`pairs`]: a column of strings against another, without a bound; other counts of edits as well.
//!
//! The strings of a [`Band`] hold codes 0 to 63 in place of symbols. Codes may stand for several
//! symbols each: distances over codes are never more than those over symbols.

mod band;
mod characters;
mod jaro;
pub(super) mod pairs;
mod pattern;

#[cfg(test)]
mod tests;

pub(crate) use band::{Band, LaneStrings};
pub(super) use characters::{Characters, MOST as MOST_BYTES};
pub(super) use jaro::CodeRows;
pub(crate) use pattern::MAX_K;
pub(super) use pattern::Pattern;

/// The number of codes that the lanes tell apart.
pub(crate) const CODES: usize = 64;

/// Appends the columns of strings of one length to `columns`: of eight strings, the first codes, then
/// the second ones, and so on. `string(i)` is the `i`-th of `count` strings of `len` codes. The last
/// group of eight is filled up with code 63.
pub(super) fn interleave<'a>(
    columns: &mut Vec<u8>,
    count: usize,
    len: usize,
    string: impl Fn(usize) -> &'a [u8],
) {
    let start = columns.len();
    columns.resize(start + count.div_ceil(8) * 8 * len, 63);
    if len == 0 {
        return;
    }
    for (group, columns) in columns[start..].chunks_exact_mut(8 * len).enumerate() {
        for lane in 0..8.min(count - 8 * group) {
            for (column, &code) in columns.chunks_exact_mut(8).zip(string(8 * group + lane)) {
                column[lane] = code % CODES as u8;
            }
        }
    }
}
