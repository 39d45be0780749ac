//! Deletion neighbourhoods: strings within `k` edits have a common residual.
//!
//! If `levenshtein(a, b) <= k`, some string comes from `a` by at most `k` deletions and from `b` by at
//! most `k` deletions (Mor and Fraenkel, "A hash code method for detecting and correcting spelling
//! errors", CACM 1982; FastSS, SymSpell). More precisely the longer string, of length `n`, loses
//! exactly `min(k, n)`. An index holds the hashes of all residuals of its strings; a probe looks its own
//! up, and what it meets is verified on the symbols, once however many residuals it shares.
//!
//! Strings that look for each other ([`Own`]) have an index of the residuals that several of them have, which
//! are few.
//!
//! The number of residuals is known from the lengths ([`residuals`]), and with it the memory
//! ([`Deletions::bytes_for`]). What does not fit is indexed in ranges of items, best in the order of
//! lengths, since a probe needs only the ranges with lengths within `k` of its own. This pays for
//! `k = 1` and mostly for `k = 2`.

mod index;
mod own;
mod probe;
mod residual;

#[cfg(test)]
mod tests;

pub(super) use index::Deletions;
pub(super) use own::Own;
pub(crate) use own::{OwnProbes, OwnSearcher};
pub(super) use probe::DeletionProbes;
pub(crate) use probe::Searcher;
pub(super) use residual::residuals;

/// Strings one behind another: string `i` is `symbols[starts[i]..starts[i + 1]]`.
#[derive(Debug)]
pub(crate) struct Symbols<'a, T> {
    pub symbols: &'a [T],
    pub starts: &'a [usize],
}

impl<T> Clone for Symbols<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Symbols<'_, T> {}

impl<'a, T> Symbols<'a, T> {
    /// String `item`, which is below [`Self::len`].
    #[inline]
    pub(super) fn string(&self, item: usize) -> &'a [T] {
        &self.symbols[self.starts[item]..self.starts[item + 1]]
    }
}

/// The greatest bound of an index.
pub(crate) const MAX_K: u32 = 2;
