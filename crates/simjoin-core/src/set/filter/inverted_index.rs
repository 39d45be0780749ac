//! The inverted index over the prefixes of the build side.

use std::ops::Range;

use crate::engine::PrepareContext;
use crate::error::Result;
use crate::memory::copies;
use crate::set::collection::SetCollection;
use crate::set::runs::{Run, SetId};

/// Sets indexed between two looks at the cancel flag.
const CHECK_EVERY: SetId = 4096;

/// Posting lists in flat arrays: for each token, the sets in whose prefix it stands, ascending.
///
/// Because set ids follow (blocking key, size), the postings of one key and a size range are one
/// stretch of a list.
#[derive(Debug)]
pub(crate) struct InvertedIndex {
    /// `offsets[token]..offsets[token + 1]` is the list of the token.
    offsets: Vec<u64>,
    sets: Vec<SetId>,
}

impl InvertedIndex {
    /// Indexes the first `prefix(run)` tokens of every set.
    pub(crate) fn try_new(
        build: &SetCollection,
        prefix: impl Fn(Run) -> u32,
        context: PrepareContext<'_>,
    ) -> Result<Self> {
        let prefix_tokens = |set: SetId, prefix: u32| {
            let tokens = build.tokens(set);
            &tokens[..tokens.len().min(prefix as usize)]
        };
        let universe = build.universe() as usize;
        let mut offsets = copies(context.reservation, universe + 1, 0_u64)?;
        for (run, sets) in build.runs().iter() {
            context.cancel.check()?;
            let prefix = prefix(run);
            let sets = if prefix == 0 { 0..0 } else { sets };
            for set in sets {
                if set % CHECK_EVERY == 0 {
                    context.cancel.check()?;
                }
                prefix_tokens(set, prefix).iter().for_each(|&t| offsets[t as usize] += 1);
            }
        }
        // Each offset becomes the end of its list; filling from the back turns it into the start.
        let mut total = 0;
        for offset in &mut offsets {
            total += *offset;
            *offset = total;
        }
        let mut sets = copies(context.reservation, total as usize, 0)?;
        let runs: Vec<(Run, Range<SetId>)> = build.runs().iter().collect();
        for (run, range) in runs.into_iter().rev() {
            context.cancel.check()?;
            let prefix = prefix(run);
            let range = if prefix == 0 { 0..0 } else { range };
            for set in range.rev() {
                if set % CHECK_EVERY == 0 {
                    context.cancel.check()?;
                }
                for &token in prefix_tokens(set, prefix) {
                    let place = &mut offsets[token as usize];
                    *place -= 1;
                    sets[*place as usize] = set;
                }
            }
        }
        Ok(Self { offsets, sets })
    }

    /// Where the postings of `token` with sets in `range` lie.
    #[inline]
    pub(crate) fn stretch(&self, token: u32, range: &Range<SetId>) -> Range<usize> {
        let (start, end) = (self.offsets[token as usize], self.offsets[token as usize + 1]);
        let list = &self.sets[start as usize..end as usize];
        let first = list.partition_point(|&s| s < range.start);
        let last = first + list[first..].partition_point(|&s| s < range.end);
        start as usize + first..start as usize + last
    }

    /// The sets of a stretch.
    #[inline]
    pub(crate) fn sets(&self, stretch: Range<usize>) -> &[SetId] {
        &self.sets[stretch]
    }
}
