//! The distinct weighted sets of some rows.

use std::mem::size_of;
use std::ops::Range;
use std::sync::Arc;

use super::measure::Mass;
use crate::engine::{ItemId, KeyId, MatchSpec, Pairing, RowGroups, collection};
use crate::simd::prefetch;
use crate::values::dictionary::Dictionary;

/// The tokens of a build side, whose ids are their ranks: rare ones first.
#[derive(Debug, Default)]
pub(super) struct RankedTokens {
    pub dictionary: Dictionary,
}

impl RankedTokens {
    pub(super) fn len(&self) -> usize {
        self.dictionary.len() as usize
    }
}

/// Neighbouring sets of one blocking key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyRun {
    pub key: KeyId,
    pub items: Range<ItemId>,
}

/// The distinct weighted sets of each blocking key, by the key, the total, and their tokens.
#[derive(Debug, Default)]
pub(super) struct WeightedSets {
    /// Where the tokens of each set begin; one more.
    pub(super) starts: Vec<usize>,
    /// The ranks of tokens, ascending within a set, without the tokens that the build side does not have.
    pub(super) tokens: Vec<u32>,
    pub(super) weights: Vec<u32>,
    /// The sums over all tokens of each set.
    pub(super) masses: Vec<Mass>,
    pub(super) runs: Vec<KeyRun>,
    pub(super) ranked: Arc<RankedTokens>,
    pub(super) groups: RowGroups,
}

impl WeightedSets {
    /// The number of sets.
    pub(super) fn len(&self) -> u32 {
        self.masses.len() as u32
    }

    /// The tokens and weights of a set.
    #[inline]
    pub(super) fn set(&self, item: ItemId) -> (&[u32], &[u32]) {
        let range = self.starts[item as usize]..self.starts[item as usize + 1];
        (&self.tokens[range.clone()], &self.weights[range])
    }

    /// Fetches a set that is compared soon.
    #[inline]
    pub(super) fn prefetch(&self, item: ItemId) {
        /// The numbers of a cache line.
        const LINE: usize = 16;
        let (tokens, weights) = self.set(item);
        for at in (0..tokens.len()).step_by(LINE) {
            prefetch(&tokens[at]);
            prefetch(&weights[at]);
        }
        prefetch(&self.masses[item as usize]);
    }

    /// The sums of a set.
    #[inline]
    pub(super) fn mass(&self, item: ItemId) -> Mass {
        self.masses[item as usize]
    }

    /// The key of a set.
    pub(super) fn key_of(&self, item: ItemId) -> KeyId {
        let run = self.runs.partition_point(|run| run.items.end <= item);
        self.runs.get(run).map_or(0, |run| run.key)
    }

    /// The sets of a key.
    pub(super) fn items_of(&self, key: KeyId) -> Range<ItemId> {
        match self.runs.binary_search_by_key(&key, |run| run.key) {
            Ok(run) => self.runs[run].items.clone(),
            Err(_) => 0..0,
        }
    }

    /// The probe sets that a join expects, by those of this build side.
    pub(super) fn probe_ratio(&self, spec: &MatchSpec) -> f64 {
        match spec.pairing() {
            Pairing::Unordered => 1.0,
            Pairing::All => spec.probe_rows.ratio(self.groups.row_count()),
        }
    }
}

collection!(WeightedSets, |this| {
    this.starts.capacity() * size_of::<usize>()
        + (this.tokens.capacity() + this.weights.capacity()) * size_of::<u32>()
        + this.masses.capacity() * size_of::<Mass>()
        + this.runs.capacity() * size_of::<KeyRun>()
});
