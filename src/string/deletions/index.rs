//! The residuals of strings, by their hashes.

use std::ops::Range;

use super::residual::{Hasher, residuals};
use super::{MAX_K, Symbols};
use crate::simd::prefetch;
use crate::string::rules::{Cancelled, Symbol};

/// Residuals that are on their way into the index at a time: their places come into the caches
/// meanwhile.
const BATCH: usize = 512;

/// Batches between two questions whether to stop.
const BATCHES: usize = 128;

/// Residuals for each bucket, about.
const PER_BUCKET: u64 = 4;

/// An entry of the index: bits of the hash that its bucket does not tell, and the item.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Entry {
    pub(super) tag: u32,
    pub(super) item: u32,
}

/// The hashes of all residuals of some items.
#[derive(Debug, Clone)]
pub(crate) struct Deletions {
    pub(super) items: Range<u32>,
    pub(super) k: u32,
    /// The entries of bucket `b` are `entries[buckets[b]..buckets[b + 1]]`.
    pub(super) buckets: Vec<u32>,
    pub(super) entries: Vec<Entry>,
    shift: u32,
}

impl Deletions {
    /// The index of `items` for bounds up to `k`, at most [`MAX_K`]. Residuals of items with
    /// different seeds do not meet, so that blocking keys are told apart. Items from the one on with
    /// which the residuals would be 2^32 or more are left out: [`Self::items`] says what is in.
    pub(crate) fn build<T: Symbol>(
        strings: Symbols<'_, T>,
        items: Range<u32>,
        k: u32,
        seed: impl Fn(u32) -> u64,
        stop: &mut impl FnMut() -> bool,
    ) -> Result<Self, Cancelled> {
        let k = k.min(MAX_K);
        let (items, most) = fitting(strings, items, k);
        let shift = 64 - buckets(most).trailing_zeros();
        let mut heads = vec![0_u32; buckets(most) as usize + 1];
        let source = Source { strings, items: items.clone(), k, seed };
        source.each_batch(stop, |batch| {
            for &(hash, _) in batch {
                prefetch(&heads[(hash >> shift) as usize]);
            }
            for &(hash, _) in batch {
                heads[(hash >> shift) as usize] += 1;
            }
        })?;
        // The ends of the buckets become their starts as they are filled.
        let mut end = 0;
        for head in &mut heads {
            end += *head;
            *head = end;
        }
        let mut entries = vec![Entry::default(); end as usize];
        let mut places = Vec::with_capacity(BATCH);
        source.each_batch(stop, |batch| {
            for &(hash, _) in batch {
                prefetch(&heads[(hash >> shift) as usize]);
            }
            places.clear();
            for &(hash, _) in batch {
                let head = &mut heads[(hash >> shift) as usize];
                *head -= 1;
                prefetch(&entries[*head as usize]);
                places.push(*head);
            }
            for (&(hash, item), &place) in batch.iter().zip(&places) {
                entries[place as usize] = Entry { tag: hash as u32, item };
            }
        })?;
        Ok(Self { items, k, buckets: heads, entries, shift })
    }

    /// The items whose residuals are in the index.
    pub(crate) fn items(&self) -> Range<u32> {
        self.items.clone()
    }

    /// The bytes that an index of so many residuals takes at most.
    pub(crate) fn bytes_for(residuals: u64) -> u64 {
        let entries = residuals.saturating_mul(size_of::<Entry>() as u64);
        entries.saturating_add((buckets(residuals) + 1) * size_of::<u32>() as u64)
    }

    /// The bytes that the index holds beyond its own size.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + self.buckets.capacity() * size_of::<u32>()
    }

    /// The bucket of a hash.
    #[inline(always)]
    pub(super) fn bucket(&self, hash: u64) -> usize {
        (hash >> self.shift) as usize
    }
}

/// The number of buckets for so many residuals: a power of two from 2 on.
fn buckets(residuals: u64) -> u64 {
    (residuals / PER_BUCKET).clamp(2, 1 << 40).next_power_of_two()
}

/// The first items whose residuals can be numbered, and a bound of how many these are.
fn fitting<T>(strings: Symbols<'_, T>, items: Range<u32>, k: u32) -> (Range<u32>, u64) {
    let mut most = 0_u64;
    for item in items.clone() {
        let more = residuals(strings.string(item as usize).len() as u64, k);
        match most.checked_add(more).filter(|&sum| sum <= u32::MAX.into()) {
            Some(sum) => most = sum,
            None => return (items.start..item, most),
        }
    }
    (items, most)
}

/// Where residuals come from.
struct Source<'a, T, S> {
    strings: Symbols<'a, T>,
    items: Range<u32>,
    k: u32,
    seed: S,
}

impl<T: Symbol, S: Fn(u32) -> u64> Source<'_, T, S> {
    /// Calls `work` with all residuals, as hash and item, in batches.
    fn each_batch(
        &self,
        stop: &mut impl FnMut() -> bool,
        mut work: impl FnMut(&[(u64, u32)]),
    ) -> Result<(), Cancelled> {
        let mut hasher = Hasher::default();
        let mut batch = Vec::with_capacity(BATCH);
        let mut batches = 0;
        for item in self.items.clone() {
            let string = self.strings.string(item as usize);
            hasher.each((self.seed)(item), string, (0, self.k), |hash, _| batch.push((hash, item)));
            if batch.len() < BATCH {
                continue;
            }
            batches += batch.len().div_ceil(BATCH);
            batch.chunks(BATCH).for_each(&mut work);
            batch.clear();
            if batches >= BATCHES {
                batches = 0;
                if stop() {
                    return Err(Cancelled);
                }
            }
        }
        work(&batch);
        Ok(())
    }
}
