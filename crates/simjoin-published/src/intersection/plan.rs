//! The memory of a technique, and the works that it is cut into.

use simjoin_gpu::offload::{ALIGNMENT, ArrayLayout};
use simjoin_gpu::runtime::DeviceError;

use super::{PinnedSets, Technique};

/// Words of shared memory that tables and waiting values of IP-HI take.
const SHARED_WORDS: u64 = 8192;

/// The settings of a technique that measurements and tests vary; 0: what suits the sets.
#[derive(Debug, Clone, Copy, Default)]
pub struct TechniqueSettings {
    /// Parts that a pair is cut into.
    pub parts: u32,
    /// Threads of a block, a multiple of 32.
    pub threads: u32,
    /// Blocks of a multiprocessor.
    pub blocks: u32,
    /// Buckets of a hash table, a power of two from 2 to 4096.
    pub buckets: u32,
    /// Values of a bucket.
    pub capacity: u32,
    /// Words of a slice of a bitmap.
    pub slice_words: u64,
    /// Times that all is done, on another copy of the sets each.
    pub rounds: u32,
}

/// A technique with its sizes.
#[derive(Debug, Clone, Copy)]
pub(super) struct TechniquePlan {
    pub technique: Technique,
    pub parts: u32,
    pub threads: u32,
    /// Blocks of a launch at most.
    pub blocks: u32,
    pub buckets: u32,
    pub capacity: u32,
    /// Words of a hash table and of values that wait, for a block.
    pub room_words: u64,
    /// Words of a bitmap, or threads that add up the index.
    pub word_count: u64,
    pub rounds: u32,
    /// Bytes of tables, bitmaps or postings.
    pub room_bytes: u64,
}

/// Where the arrays lie in the memory of a work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places {
    pub offsets: u64,
    /// The values of the first round, and the bytes up to those of the next.
    pub values: u64,
    pub values_step: u64,
    /// Sums of all rounds: 8 bytes for a pair where the technique is the project's own, 4 elsewhere.
    pub overlaps: u64,
    pub room: u64,
    pub counts: u64,
    pub postings: u64,
    pub works: u64,
    pub sums: u64,
    pub end: u64,
}

impl TechniquePlan {
    pub(super) fn new(
        sets: &PinnedSets,
        technique: Technique,
        tuning: TechniqueSettings,
        multiprocessors: u32,
    ) -> Result<Self, DeviceError> {
        let or = |given: u32, other: u32| if given == 0 { other } else { given };
        let blocks = or(tuning.blocks, 8) * multiprocessors;
        let suits = (2 * u64::from(blocks)).div_ceil(sets.pairs().max(1)).clamp(1, 1 << 20) as u32;
        let mut plan = Self {
            technique,
            parts: or(tuning.parts, suits),
            threads: or(tuning.threads, 256).next_multiple_of(32).min(1024),
            blocks,
            buckets: or(tuning.buckets, 1024).next_power_of_two().clamp(2, 4096),
            capacity: tuning.capacity,
            room_words: 0,
            word_count: 0,
            rounds: tuning.rounds.max(1),
            room_bytes: 0,
        };
        match technique {
            Technique::Hashes => plan.tables(sets.longest() / u64::from(plan.parts) + 1),
            Technique::PathAndHashes => plan.shared_tables(),
            Technique::Bitmaps => plan.bitmaps(sets, sets.len() as u64, tuning.slice_words),
            Technique::Bitmap => plan.bitmaps(sets, 1, tuning.slice_words),
            Technique::Postings if sets.universe > u64::from(u32::MAX) => {
                return Err(DeviceError::Internal("values up to 2^32 are not counted".into()));
            }
            Technique::Postings => {
                plan.word_count = u64::from(blocks) * u64::from(plan.threads);
                plan.room_bytes = 4 * sets.values();
            }
            Technique::Ours
            | Technique::IntersectPath
            | Technique::Searches
            | Technique::PathAndSearches => {}
        }
        Ok(plan)
    }

    /// Tables in global memory, for parts of `share` values.
    fn tables(&mut self, share: u64) {
        if self.capacity == 0 {
            self.capacity = (2 * share / u64::from(self.buckets)) as u32 + 1;
        }
        self.room_words = u64::from(self.buckets) * u64::from(self.capacity) + 2 * share;
        self.room_bytes = 4 * self.room_words * u64::from(self.blocks);
    }

    /// Tables in shared memory, which take half of the room at most.
    fn shared_tables(&mut self) {
        let most = (SHARED_WORDS / 2 / u64::from(self.buckets)).max(1) as u32;
        self.capacity = if self.capacity == 0 { most.min(4) } else { self.capacity.min(most) };
        self.room_words = SHARED_WORDS;
    }

    /// Some bitmaps.
    fn bitmaps(&mut self, sets: &PinnedSets, bitmaps: u64, slice_words: u64) {
        let words = sets.universe.div_ceil(32);
        self.word_count = if slice_words == 0 { words } else { slice_words.min(words) };
        self.room_bytes = 4 * self.word_count * bitmaps;
    }

    /// Blocks for so many items.
    pub(super) fn grid(&self, items: u64) -> u32 {
        items.clamp(1, self.blocks.into()) as u32
    }
}

impl Places {
    pub(super) fn of(plan: &TechniquePlan, sets: &PinnedSets) -> Self {
        let (tokens, sums) = match plan.technique {
            Technique::Postings => (sets.universe + 1, 2 * plan.word_count),
            _ => (0, 0),
        };
        let mut layout = ArrayLayout::default();
        let values_step = (4 * sets.values()).next_multiple_of(ALIGNMENT).max(ALIGNMENT);
        Self {
            offsets: layout.add(sets.offsets.len() as u64, 8),
            values: layout.add(plan.rounds.into(), values_step),
            values_step,
            overlaps: layout.add(sets.pairs(), 8),
            room: layout.add(plan.room_bytes, 1),
            counts: layout.add(tokens, 4),
            postings: layout.add(tokens, 8),
            works: layout.add(tokens, 8),
            sums: layout.add(sums, 8),
            end: layout.end(),
        }
    }
}
