//! Residuals by parts of the range of hashes.

use crate::util::parallel::Threads;

/// Residuals of a part, about.
const PART: u64 = 1 << 15;

/// The most parts: each has a place that is written to.
const MOST_PARTS: u64 = 1 << 11;

/// Residuals of a chunk.
const CHUNK: usize = 512;

/// The number of parts that residuals are spread over, a power of two.
pub(super) fn part_count(residuals: u64) -> usize {
    (residuals / PART).clamp(1, MOST_PARTS).next_power_of_two() as usize
}

/// The number of `threads` threads that spread so many residuals, each over chunks of its own: what these lack
/// to be full is half of the residuals at most, or the chunks are those of one thread.
pub(super) fn spreading_threads(threads: Threads, residuals: u64) -> Threads {
    let open = (part_count(residuals) * CHUNK) as u64;
    threads.at_most((residuals / 2 / open) as usize)
}

/// The bytes of so many residuals in parts, at most.
pub(super) fn spread_bytes(residuals: u64) -> u64 {
    // A residual, half of it in chunks that are not full, and the number of a chunk for each of its residuals.
    let each = size_of::<u64>() as u64 + size_of::<u64>() as u64 / 2 + 1;
    let open = (part_count(residuals) * CHUNK) as u64 * 9;
    residuals.saturating_mul(each).saturating_add(open)
}

/// Residuals in parts, by the highest bits of their hashes.
pub(super) struct ResidualParts {
    /// Chunks of all parts.
    chunks: Vec<u64>,
    /// For each chunk, the one before it of the same part.
    before: Vec<u32>,
    /// The end of the residuals written to each part.
    ends: Vec<usize>,
    bits: u32,
}

/// No chunk comes before the first of a part.
const NONE: u32 = u32::MAX;

impl ResidualParts {
    /// `count` parts, a power of two, for `most` residuals.
    pub(super) fn new(count: usize, most: u64) -> Self {
        // All parts together have at most a chunk each that is not full.
        let mut chunks = Vec::with_capacity(most as usize + count * CHUNK);
        chunks.resize(count * CHUNK, 0);
        let ends = (0..count).map(|part| part * CHUNK).collect();
        Self { chunks, before: vec![NONE; count], ends, bits: count.trailing_zeros() }
    }

    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    #[inline(always)]
    pub(super) fn push(&mut self, residual: u64) {
        let part = residual.checked_shr(u64::BITS - self.bits).unwrap_or(0) as usize;
        let end = &mut self.ends[part];
        self.chunks[*end] = residual;
        *end += 1;
        if end.is_multiple_of(CHUNK) {
            let full = (*end / CHUNK - 1) as u32;
            *end = self.chunks.len();
            self.before.push(full);
            self.chunks.resize(self.chunks.len() + CHUNK, 0);
        }
    }

    /// The residuals of a part, chunk by chunk.
    fn chunks(&self, part: usize) -> impl Iterator<Item = &[u64]> {
        let end = self.ends[part];
        let last = (end / CHUNK) as u32;
        let chunks = std::iter::successors(Some(last), |&chunk| {
            Some(self.before[chunk as usize]).filter(|&before| before != NONE)
        });
        chunks.map(move |chunk| {
            let start = chunk as usize * CHUNK;
            &self.chunks[start..if chunk == last { end } else { start + CHUNK }]
        })
    }
}

/// Finds what occurs more than once.
#[derive(Default)]
pub(super) struct Sieve {
    /// Slots of hashes: whether one fell on it, and whether two did.
    slots: Vec<u8>,
    kept: Vec<u64>,
}

impl Sieve {
    /// The residuals of a part, which lie in several places, whose hash, above the lowest `shift` bits, another
    /// one has, and few others: sorted.
    pub(super) fn repeated(&mut self, spread: &[ResidualParts], part: usize, shift: u32) -> &[u64] {
        let Self { slots, kept } = self;
        kept.clear();
        let chunks = || spread.iter().flat_map(|parts| parts.chunks(part));
        let count: usize = chunks().map(<[u64]>::len).sum();
        if count == 0 {
            return kept;
        }
        let part_bits = spread[0].bits;
        // No more bits than hashes have.
        let bits = (4 * count).next_power_of_two().trailing_zeros();
        let bits = bits.min(u64::BITS - shift - part_bits);
        slots.clear();
        slots.resize(1 << bits, 0);
        let slot = |residual: u64| (residual << part_bits >> (u64::BITS - bits)) as usize;
        for chunk in chunks() {
            for &residual in chunk {
                let slot = &mut slots[slot(residual)];
                *slot = (2 * *slot + 1).min(3);
            }
        }
        for chunk in chunks() {
            kept.extend(chunk.iter().filter(|&&residual| slots[slot(residual)] == 3));
        }
        kept.sort_unstable();
        kept
    }
}
