//! Sets that travel with works.

use std::ops::Range;
use std::sync::Arc;

use simjoin_core::set::collection::SetCollection;
use simjoin_core::set::runs::SetId;

use crate::offload::Arena;
use crate::set::device::abi::Sets;

/// Probe sets that travel with a work, and, where rows of the join are counted and some sets have
/// several, the number of rows of each.
#[derive(Debug, Clone)]
pub(in crate::set) struct TravellingSets {
    pub collection: Arc<SetCollection>,
    pub sets: Range<SetId>,
    pub row_counts: Arc<Vec<u32>>,
}

impl TravellingSets {
    /// `counts`: rows of the join are counted.
    pub(in crate::set) fn new(
        collection: &Arc<SetCollection>,
        sets: Range<SetId>,
        counts: bool,
    ) -> Self {
        let row_counts = match counts && !collection.has_no_repeats() {
            true => sets.clone().map(|set| collection.row_count_of(set)).collect(),
            false => vec![],
        };
        Self { collection: Arc::clone(collection), sets, row_counts: Arc::new(row_counts) }
    }

    /// The places of their tokens in the collection.
    fn tokens(&self) -> Range<usize> {
        let (offsets, _) = self.collection.csr();
        let at = |set: SetId| offsets.get(set as usize).copied().unwrap_or(0) as usize;
        at(self.sets.start)..at(self.sets.end)
    }

    /// Declares the sets. Gives them as kernels read them, and the address of their row counts.
    pub(in crate::set) fn declare<'a>(&'a self, arena: &mut Arena<'a>) -> (Sets, u64) {
        let (offsets, tokens) = self.collection.csr();
        let of_sets = self.tokens();
        // Offsets count from the first set of the collection.
        let before = (of_sets.start * size_of::<u32>()) as u64;
        let sets = Sets {
            tokens: arena.copied(&tokens[of_sets]).wrapping_sub(before),
            offsets: arena.copied(&offsets[self.sets.start as usize..=self.sets.end as usize]),
        };
        let row_counts = match self.row_counts.is_empty() {
            true => 0,
            false => arena.copied(&self.row_counts),
        };
        (sets, row_counts)
    }
}
