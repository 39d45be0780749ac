//! The sets of each token.

use crate::error::Result;
use crate::set::collection::SetCollection;
use crate::set::runs::SetId;
use crate::util::cancel::CancelFlag;

/// The sets of each token by rising size, and the sizes of sets.
#[derive(Debug)]
pub(super) struct SizeOrderedIndex {
    /// The sets of token `t` are `sets[starts[t]..starts[t + 1]]`, ascending.
    starts: Vec<u64>,
    sets: Vec<SetId>,
    /// The sizes that sets have, ascending, and behind the last set of each.
    sizes: Vec<u32>,
    ends: Vec<SetId>,
}

impl SizeOrderedIndex {
    /// The bytes of the index of a collection.
    pub(super) fn bytes(sets: &SetCollection) -> usize {
        let universe = sets.universe() as usize + 2;
        universe * size_of::<u64>()
            + sets.token_count() * size_of::<SetId>()
            + sets.runs().len() * (size_of::<u32>() + size_of::<SetId>())
    }

    /// The index of a collection without blocking keys.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub(super) fn new(collection: &SetCollection, cancel: &CancelFlag) -> Result<Self> {
        let mut starts = vec![0_u64; collection.universe() as usize + 2];
        let (_, tokens) = collection.csr();
        // The place behind the next token counts a token: filling moves it to where that one begins.
        tokens.iter().for_each(|token| starts[*token as usize + 2] += 1);
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        let mut sets = vec![0; tokens.len()];
        for set in 0..collection.len() {
            cancel.check_at(set as usize)?;
            for token in collection.tokens(set) {
                let place = &mut starts[*token as usize + 1];
                sets[*place as usize] = set;
                *place += 1;
            }
        }
        let runs = collection.runs().iter();
        let (sizes, ends) = runs.map(|(run, sets)| (run.size, sets.end)).unzip();
        Ok(Self { starts, sets, sizes, ends })
    }

    /// The sets of a token, ascending.
    #[inline]
    pub(super) fn sets(&self, token: u32) -> &[SetId] {
        let [start, end] = [0, 1].map(|next| self.starts[token as usize + next] as usize);
        &self.sets[start..end]
    }

    /// The first set of a size for which `holds`, which larger sizes hold likewise.
    pub(super) fn first_where(&self, holds: impl Fn(u32) -> bool) -> SetId {
        let before = self.sizes.partition_point(|size| !holds(*size));
        before.checked_sub(1).map_or(0, |last| self.ends[last])
    }

    /// Behind the last set of a size of at least `from` for which `holds`, which smaller sizes from `from` on hold
    /// likewise; behind the sets of smaller sizes where none does.
    pub(super) fn end_where(&self, from: u32, holds: impl Fn(u32) -> bool) -> SetId {
        let first = self.sizes.partition_point(|size| *size < from);
        let holding = self.sizes[first..].partition_point(|size| holds(*size));
        (first + holding).checked_sub(1).map_or(0, |last| self.ends[last])
    }
}
