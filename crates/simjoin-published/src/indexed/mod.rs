//! Published filters by inverted index on a GPU, to compare with `bwjoin`.
//!
//! | strategy | | |
//! |---|---|---|
//! | `bwjoin-published` | [`BlockPerRow`] | a block a row sorts tiles of postings |
//! | `fgssjoin` | [`ThreadPerRow`] | a thread a row counts prefix tokens in cells |
//! | `sf-gssjoin` | [`Atomics`] | all tokens are indexed, and overlaps counted in cells |
//!
//! Each is a [`CandidateLookup`] in the product's index, and right where the published code is not: cells are
//! of bounded tiles, counters have 64 bits, bounds are integers of the host.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use simjoin_gpu::runtime::{DeviceError, Images, images};
use simjoin_gpu::set::bwjoin::{self, CandidateLookup, Launcher};
use simjoin_gpu::set::device::OPENER;

use crate::engine::{
    DeviceOpener, DevicePlace, Estimate, PrepareContext, PreparedJoin, Strategy, Terms,
    required_place,
};
use crate::error::Result;
use crate::set::SetJoin;

/// The kernels of the lookups.
static PUBLISHED: Images = images!("published_indexed");

/// A published filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PublishedIndex {
    Bwjoin,
    FgssJoin,
    SfGssJoin,
}

impl PublishedIndex {
    /// The lookup of a join: `threads` are those of a block of Bwjoin, `part_sets` the sets that are
    /// indexed together.
    fn lookup(self, threads: u32, part_sets: u32) -> Arc<dyn CandidateLookup> {
        match self {
            Self::Bwjoin => Arc::new(BlockPerRow { threads, part_sets }),
            Self::FgssJoin => Arc::new(ThreadPerRow { part_sets }),
            Self::SfGssJoin => Arc::new(Atomics { part_sets }),
        }
    }
}

impl Strategy<SetJoin> for PublishedIndex {
    fn name(&self) -> &'static str {
        match self {
            Self::Bwjoin => "bwjoin-published",
            Self::FgssJoin => "fgssjoin",
            Self::SfGssJoin => "sf-gssjoin",
        }
    }

    fn devices(&self) -> Option<&'static dyn DeviceOpener<SetJoin>> {
        Some(&OPENER)
    }

    fn estimate(&self, join: &mut SetJoin, terms: &Terms<'_>) -> Result<Estimate> {
        bwjoin::estimate(join, terms)
    }

    fn prepare(
        &self,
        join: &SetJoin,
        _: &Estimate,
        place: Option<&Arc<dyn DevicePlace>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let threads = join.spec.gpu.block_size.unwrap_or(32);
        let lookup = self.lookup(threads, join.spec.gpu.partition);
        bwjoin::prepare(lookup, join, &required_place(place)?, context)
    }
}

/// Bwjoin: a block a row.
#[derive(Debug)]
struct BlockPerRow {
    threads: u32,
    part_sets: u32,
}

impl BlockPerRow {
    /// Postings that a thread has in a tile, and words of shared memory for each thread, as in
    /// `kernels/published_index_blocks.cuh`.
    const TILE_ITEMS: u32 = 4;
    const WORDS_OF_THREAD: u32 = 28;
}

impl CandidateLookup for BlockPerRow {
    fn kernel(&self) -> &'static str {
        "index_blocks"
    }

    fn budgets(&self) -> (u64, u64) {
        (1 << 28, 1 << 16)
    }

    fn part_sets(&self) -> u32 {
        self.part_sets
    }

    fn least_capacity(&self) -> u32 {
        Self::TILE_ITEMS * self.threads
    }

    fn filter(&self, launcher: &mut Launcher<'_, '_>) -> Result<(), DeviceError> {
        let words = Self::WORDS_OF_THREAD * self.threads + 1;
        launcher.block_a_row(&PUBLISHED, self.kernel(), (self.threads, words))
    }
}

/// fgSSJoin: a thread a row counts in a matrix of cells.
#[derive(Debug)]
struct ThreadPerRow {
    part_sets: u32,
}

impl CandidateLookup for ThreadPerRow {
    fn kernel(&self) -> &'static str {
        "index_threads"
    }

    fn budgets(&self) -> (u64, u64) {
        (1 << 31, 1 << 17)
    }

    fn part_sets(&self) -> u32 {
        self.part_sets
    }

    fn has_cells(&self) -> bool {
        true
    }

    fn filter(&self, launcher: &mut Launcher<'_, '_>) -> Result<(), DeviceError> {
        launcher.thread_a_row(&PUBLISHED, self.kernel())?;
        launcher.warp_a_row(&PUBLISHED, "index_gather")
    }
}

/// sf-gSSJoin: a warp a row counts all tokens by atomic additions.
#[derive(Debug)]
struct Atomics {
    part_sets: u32,
}

impl CandidateLookup for Atomics {
    fn kernel(&self) -> &'static str {
        "index_atomics"
    }

    fn budgets(&self) -> (u64, u64) {
        (1 << 31, 1 << 17)
    }

    fn part_sets(&self) -> u32 {
        self.part_sets
    }

    fn takes_all_tokens(&self) -> bool {
        true
    }

    fn has_cells(&self) -> bool {
        true
    }

    fn filter(&self, launcher: &mut Launcher<'_, '_>) -> Result<(), DeviceError> {
        launcher.warp_a_row(&PUBLISHED, self.kernel())?;
        launcher.warp_a_row(&PUBLISHED, "index_gather_counted")
    }

    fn deciding(&self) -> (&'static Images, [&'static str; 2]) {
        (&PUBLISHED, ["index_decide_counted_pairs", "index_decide_counted_count"])
    }
}
