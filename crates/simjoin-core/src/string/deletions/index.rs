//! The residuals of strings, by their hashes.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::residual::{Hasher, residuals, shares};
use super::{MAX_K, Symbols};
use crate::error::Result;
use crate::simd::prefetch;
use crate::string::rules::Symbol;
use crate::util::cancel::CancelFlag;
use crate::util::counters::Counters;
use crate::util::parallel::{Threads, filled, for_each, threads_for};

/// Residuals that are on their way into the index at a time: their places come into the caches
/// meanwhile.
const BATCH: usize = 512;

/// Symbols between two looks at the flag, about.
const SYMBOLS: usize = 1 << 13;

/// Residuals for each bucket, about.
const PER_BUCKET: u64 = 4;

/// Tasks for each thread.
const SHARES: usize = 4;

/// An entry of the index: bits of the hash that its bucket does not tell, and the item.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry(u64);

impl Entry {
    fn new(hash: u64, item: u32) -> Self {
        Self(hash << 32 | u64::from(item))
    }

    /// The lowest bits of the hash.
    pub(super) fn tag(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub(super) fn item(self) -> u32 {
        self.0 as u32
    }
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
    /// The index of `items` for bounds up to `k`, at most [`MAX_K`], by up to `threads` threads. Residuals of items
    /// with different seeds do not meet, so that blocking keys are told apart. Items from the one on with
    /// which the residuals would be 2^32 or more are left out: [`Self::items`] says what is in.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub(crate) fn build<T: Symbol>(
        strings: Symbols<'_, T>,
        items: Range<u32>,
        k: u32,
        seed: impl Fn(u32) -> u64 + Sync,
        threads: Threads,
        cancel: &CancelFlag,
    ) -> Result<Self> {
        let k = k.min(MAX_K);
        let (items, most) = fitting(strings, items, k);
        let shift = 64 - buckets(most).trailing_zeros();
        let threads = threads_for(threads, usize::try_from(most).unwrap_or(usize::MAX));
        let source = Source { strings, k, seed, cancel };
        let shares = || -> Vec<_> {
            let shares = shares(strings, items.clone(), k, SHARES * threads.count());
            shares.into_iter().map(|(items, _)| items).collect()
        };
        let mut heads = Counters::new(buckets(most) as usize + 1, threads);
        for_each(threads, shares(), |items| {
            source.each_batch(items, |batch| {
                for &(hash, _) in batch {
                    heads.prefetch((hash >> shift) as usize);
                }
                for &(hash, _) in batch {
                    heads.raise((hash >> shift) as usize);
                }
            })
        })?;
        // The ends of the buckets become their starts as they are filled.
        let end = heads.accumulate()?;
        let entries = filled(threads, end as usize, 0_u64);
        let entries: Vec<_> = entries.into_iter().map(AtomicU64::new).collect();
        for_each(threads, shares(), |items| {
            let mut places = Vec::with_capacity(BATCH);
            source.each_batch(items, |batch| {
                for &(hash, _) in batch {
                    heads.prefetch((hash >> shift) as usize);
                }
                places.clear();
                for &(hash, _) in batch {
                    let place = heads.lower((hash >> shift) as usize);
                    prefetch(&entries[place as usize]);
                    places.push(place);
                }
                for (&(hash, item), &place) in batch.iter().zip(&places) {
                    entries[place as usize].store(Entry::new(hash, item).0, Relaxed);
                }
            })
        })?;
        let entries = entries.into_iter().map(|entry| Entry(entry.into_inner())).collect();
        Ok(Self { items, k, buckets: heads.into_counts(), entries, shift })
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
    k: u32,
    seed: S,
    cancel: &'a CancelFlag,
}

impl<T: Symbol, S: Fn(u32) -> u64> Source<'_, T, S> {
    /// Calls `work` with all residuals of some items, as hash and item, in batches.
    fn each_batch(&self, items: Range<u32>, mut work: impl FnMut(&[(u64, u32)])) -> Result<()> {
        let mut hasher = Hasher::default();
        let mut batch = Vec::with_capacity(BATCH);
        let mut symbols = SYMBOLS;
        for item in items {
            let string = self.strings.string(item as usize);
            symbols += string.len() + 1;
            if symbols >= SYMBOLS {
                symbols = 0;
                self.cancel.check()?;
            }
            hasher.each((self.seed)(item), string, (0, self.k), |hash, _| {
                batch.push((hash, item));
                if batch.len() == BATCH {
                    work(&batch);
                    batch.clear();
                }
            });
        }
        work(&batch);
        Ok(())
    }
}
