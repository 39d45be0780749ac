//! An index over strings of codes: which of them can be near a probe, and which are.
//!
//! The strings come in *runs* of one length (and one blocking key). An element of a string is a code
//! with its occurrence: the n-th `a` is the n-th element of its kind. Each length has 64 [`Elements`],
//! those that tell its strings apart best; a *signature* has a bit for each. Strings of one run are in the
//! order of a k-d tree over these bits (`order.rs`); blocks of 64 and groups of 8 of them know the union
//! and the intersection of their signatures: a box. A probe `x` that may have `s` elements that a string
//! lacks, and lack `t` elements that the string has, meets a box only if
//!
//! ```text
//! bits(x & !union) <= s   and   bits(intersection & !x) <= t
//! ```
//!
//! Strings that are left are verified by [`lanes`](crate::string::lanes), 64 at a time. Codes may stand for
//! several symbols each, so all of this may find too much, never too little; only the symbols decide.
//!
//! Before a join: [`Elements::choose`], `order`, the items rearranged, [`StringBoxes::build`]. For each probe
//! and each run whose length can match: [`StringBoxes::probe`]. For the cost: [`StringBoxes::survivors`].

mod build;
mod elements;
mod order;
mod probe;

#[cfg(test)]
mod tests;

pub(crate) use build::StringBoxes;
pub use elements::Elements;
pub(super) use order::order;
pub use probe::{ProbeSpace, UNKNOWN};
pub(crate) use probe::{Survivors, Wanted};

/// Strings one behind another: string `i` is `codes[starts[i]..starts[i + 1]]`, of codes below 64.
#[derive(Debug, Clone, Copy)]
pub struct Codes<'a> {
    pub codes: &'a [u8],
    pub starts: &'a [usize],
}

impl<'a> Codes<'a> {
    /// The number of strings.
    pub(super) fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// String `item`, which is below [`Self::len`].
    #[inline]
    pub(super) fn string(&self, item: usize) -> &'a [u8] {
        &self.codes[self.starts[item]..self.starts[item + 1]]
    }
}

/// The items between two questions whether to stop.
const ITEMS: usize = 1 << 13;
