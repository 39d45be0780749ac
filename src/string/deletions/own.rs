//! The residuals that several strings of one collection have.
//!
//! Most residuals are of one string alone, and are of no use where strings look for each other. So all of
//! them are spread over parts by their hashes, and each part, which the caches hold, is thinned out and sorted: only
//! what is left is ever read at random places.

use std::ops::Range;

use super::residual::{Hasher, residuals};
use super::{MAX_K, Symbols};
use crate::engine::Match;
use crate::simd::prefetch;
use crate::string::rules::{Cancelled, Scratch, Symbol, levenshtein_each};

/// Residuals of a part, about.
const PART: u64 = if cfg!(test) { 1 << 5 } else { 1 << 15 };

/// The most parts: each has a place that is written to.
const MOST_PARTS: u64 = 1 << 11;

/// Residuals of a chunk.
const CHUNK: usize = if cfg!(test) { 4 } else { 512 };

/// Residuals between two questions whether to stop, about.
const RESIDUALS: usize = 1 << 16;

/// Groups of items that share a residual.
///
/// A residual is a number: from the highest bit on its hash, then its item, then whether the item has lost
/// as many symbols as it may, as the longer string of a match has.
#[derive(Debug, Clone)]
pub(crate) struct Own {
    /// The items of group `g` are `items[groups[g]..groups[g + 1]]`, in their order: each twice its number,
    /// and one where it has lost as many symbols as it may.
    groups: Vec<u32>,
    items: Vec<u32>,
    /// The groups of item `i` by residuals for which it may be the longer string:
    /// `of_items[item_starts[i]..item_starts[i + 1]]`.
    item_starts: Vec<u32>,
    of_items: Vec<u32>,
    k: u32,
}

impl Own {
    /// The groups of all `count` strings for bounds up to `k`, at most [`MAX_K`]. Few residuals of items with
    /// different seeds meet. `None` where there are 2^31 strings or 2^32 residuals.
    pub(crate) fn build<T: Symbol>(
        strings: Symbols<'_, T>,
        count: u32,
        k: u32,
        seed: impl Fn(u32) -> u64,
        stop: &mut impl FnMut() -> bool,
    ) -> Result<Option<Self>, Cancelled> {
        let k = k.min(MAX_K);
        let len = |item: u32| strings.string(item as usize).len() as u64;
        let most = (0..count).fold(0_u64, |sum, item| sum.saturating_add(residuals(len(item), k)));
        if most > u32::MAX.into() || count > i32::MAX as u32 {
            return Ok(None);
        }
        let item_bits = 32 - count.leading_zeros();
        let mut parts = Parts::new(most);
        let mut hasher = Hasher::default();
        let mut since = 0;
        for item in 0..count {
            let string = strings.string(item as usize);
            let shortest = string.len().saturating_sub(k as usize);
            hasher.each(seed(item), string, (0, k), |hash, left| {
                let hash = hash >> (item_bits + 1) << (item_bits + 1);
                parts.push(hash | u64::from(item) << 1 | u64::from(left == shortest));
            });
            since += string.len() + 1;
            if since >= RESIDUALS {
                since = 0;
                if stop() {
                    return Err(Cancelled);
                }
            }
        }
        let mut own = Self {
            groups: vec![0],
            items: vec![],
            item_starts: vec![0; count as usize + 1],
            of_items: vec![],
            k,
        };
        let mut sieve = Sieve::default();
        for part in 0..parts.count() {
            if stop() {
                return Err(Cancelled);
            }
            own.add(sieve.repeated(&parts, part, item_bits + 1), item_bits);
        }
        drop(parts);
        own.groups.shrink_to_fit();
        own.items.shrink_to_fit();
        own.list_groups();
        Ok(Some(own))
    }

    /// Adds the groups of some residuals, which are sorted, and counts those of each item.
    fn add(&mut self, residuals: &[u64], item_bits: u32) {
        let mask = (2 << item_bits) - 1;
        for group in residuals.chunk_by(|a, b| (a ^ b) >> (item_bits + 1) == 0) {
            if group.len() < 2 {
                continue;
            }
            let first = self.items.len();
            self.items.extend(group.iter().map(|&residual| (residual & mask) as u32));
            for item in longer(&self.items[first..]) {
                self.item_starts[item as usize] += 1;
            }
            self.groups.push(self.items.len() as u32);
        }
    }

    /// Lists the groups of each item.
    fn list_groups(&mut self) {
        // Ends become starts as the lists are filled.
        let mut end = 0;
        for start in &mut self.item_starts {
            end += *start;
            *start = end;
        }
        self.of_items = vec![0; end as usize];
        for (number, group) in (0..).zip(self.groups.windows(2)) {
            for item in longer(&self.items[group[0] as usize..group[1] as usize]) {
                let place = &mut self.item_starts[item as usize];
                *place -= 1;
                self.of_items[*place as usize] = number;
            }
        }
    }

    /// The bytes that groups of so many strings with so many residuals take at most, while they are made.
    pub(crate) fn bytes_for(count: u64, residuals: u64) -> u64 {
        // A residual in a chunk; its item in a group, where a list that grows takes twice its size; half a group;
        // and a group of its item.
        let each = 8 + 2 * 4 + 2 * 2 + 4;
        let chunks = parts(residuals) * 9 * CHUNK as u64;
        residuals.saturating_mul(each).saturating_add(chunks).saturating_add(4 * (count + 1))
    }

    /// The bytes that the groups hold beyond their own size.
    pub(crate) fn bytes(&self) -> usize {
        let Self { groups, items, item_starts, of_items, .. } = self;
        4 * (groups.capacity() + items.capacity() + item_starts.capacity() + of_items.capacity())
    }

    /// The groups of an item.
    #[inline]
    fn groups_of(&self, item: u32) -> &[u32] {
        let starts = &self.item_starts[item as usize..];
        &self.of_items[starts[0] as usize..starts[1] as usize]
    }
}

/// The items of a group that may be the longer string of a match with one before.
fn longer(group: &[u32]) -> impl Iterator<Item = u32> {
    group.iter().skip(1).filter(|&&item| item & 1 == 1).map(|&item| item >> 1)
}

/// The number of parts for so many residuals: a power of two.
fn parts(residuals: u64) -> u64 {
    (residuals / PART).clamp(1, MOST_PARTS).next_power_of_two()
}

/// Residuals in parts, by the highest bits of their hashes.
struct Parts {
    /// Chunks of all parts.
    chunks: Vec<u64>,
    /// For each chunk, the one before it of the same part.
    before: Vec<u32>,
    /// Of each part, the end of what is written.
    ends: Vec<usize>,
    bits: u32,
}

/// No chunk comes before the first of a part.
const NONE: u32 = u32::MAX;

impl Parts {
    fn new(most: u64) -> Self {
        let count = parts(most) as usize;
        // All parts together have at most a chunk each that is not full.
        let mut chunks = Vec::with_capacity(most as usize + count * CHUNK);
        chunks.resize(count * CHUNK, 0);
        let ends = (0..count).map(|part| part * CHUNK).collect();
        Self { chunks, before: vec![NONE; count], ends, bits: count.trailing_zeros() }
    }

    fn count(&self) -> usize {
        self.ends.len()
    }

    #[inline(always)]
    fn push(&mut self, residual: u64) {
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
struct Sieve {
    /// Slots of hashes: whether one fell on it, and whether two did.
    slots: Vec<u8>,
    kept: Vec<u64>,
}

impl Sieve {
    /// The residuals of a part whose hash, above the lowest `shift` bits, another one has, and few others:
    /// sorted.
    fn repeated(&mut self, parts: &Parts, part: usize, shift: u32) -> &[u64] {
        let Self { slots, kept } = self;
        kept.clear();
        let count: usize = parts.chunks(part).map(<[u64]>::len).sum();
        if count == 0 {
            return kept;
        }
        // No more bits than hashes have.
        let bits = (4 * count).next_power_of_two().trailing_zeros();
        let bits = bits.min(u64::BITS - shift - parts.bits);
        slots.clear();
        slots.resize(1 << bits, 0);
        let slot = |residual: u64| (residual << parts.bits >> (u64::BITS - bits)) as usize;
        for &residual in parts.chunks(part).flatten() {
            let slot = &mut slots[slot(residual)];
            *slot = (2 * *slot + 1).min(3);
        }
        for chunk in parts.chunks(part) {
            kept.extend(chunk.iter().filter(|&&residual| slots[slot(residual)] == 3));
        }
        kept.sort_unstable();
        kept
    }
}

/// Space for probes.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnSearcher {
    /// The items that each probe meets, as probe and item.
    met: Vec<(u32, u32)>,
    /// For each item, the number of the last probe that met it.
    last: Vec<u32>,
    /// The number of the last probe.
    number: u32,
    exact: Scratch,
}

/// Strings of a collection that look for those before them.
#[derive(Debug, Clone)]
pub(crate) struct OwnProbes<'a, T, F> {
    /// The strings of the collection.
    pub strings: Symbols<'a, T>,
    /// Those that look for others.
    pub range: Range<u32>,
    /// The first item that a probe may match: from there on to the probe, none is longer than it.
    pub first: F,
    /// The bound, at most that of the groups.
    pub k: u32,
}

/// Items that are met before they are verified, besides those of one probe.
const MOST_MET: usize = if cfg!(test) { 1 << 4 } else { 1 << 12 };

impl Own {
    /// Pushes each probe with itself and with the items before it within the bound, each once, with their
    /// distances, in the order of the probes. Returns the number of candidates that were verified.
    pub(crate) fn probe<T: Symbol>(
        &self,
        searcher: &mut OwnSearcher,
        probes: &OwnProbes<'_, T, impl Fn(u32) -> u32>,
        out: &mut Vec<Match>,
        stop: &mut impl FnMut() -> bool,
    ) -> Result<usize, Cancelled> {
        searcher.last.resize(self.item_starts.len(), 0);
        searcher.met.clear();
        let mut candidates = 0;
        let mut done = probes.range.start;
        for probe in probes.range.clone() {
            self.meet(searcher, probes, probe);
            let end = probe + 1;
            if searcher.met.len() >= MOST_MET || end == probes.range.end {
                candidates += searcher.met.len();
                self.verify(searcher, probes, done..end, out, stop)?;
                done = end;
                if stop() {
                    return Err(Cancelled);
                }
            }
        }
        Ok(candidates)
    }

    /// Lists the items before a probe that share a residual with it.
    #[inline]
    fn meet<T: Symbol>(
        &self,
        searcher: &mut OwnSearcher,
        probes: &OwnProbes<'_, T, impl Fn(u32) -> u32>,
        probe: u32,
    ) {
        let groups = self.groups_of(probe);
        if groups.is_empty() {
            return;
        }
        let OwnSearcher { met, last, number, .. } = searcher;
        *number = number.wrapping_add(1);
        if *number == 0 {
            last.fill(0);
            *number = 1;
        }
        let first = (probes.first)(probe);
        for &group in groups {
            let group = &self.groups[group as usize..];
            for &item in &self.items[group[0] as usize..group[1] as usize] {
                let item = item >> 1;
                if item >= probe {
                    break;
                }
                let last = &mut last[item as usize];
                if item >= first && std::mem::replace(last, *number) != *number {
                    met.push((probe, item));
                    prefetch(&probes.strings.starts[item as usize]);
                }
            }
        }
    }

    /// Pushes what some probes meet within the bound.
    fn verify<T: Symbol>(
        &self,
        searcher: &mut OwnSearcher,
        probes: &OwnProbes<'_, T, impl Fn(u32) -> u32>,
        range: Range<u32>,
        out: &mut Vec<Match>,
        stop: &mut impl FnMut() -> bool,
    ) -> Result<(), Cancelled> {
        let (strings, k) = (probes.strings, probes.k.min(self.k));
        let OwnSearcher { met, exact, .. } = searcher;
        for &(_, item) in met.iter() {
            prefetch(strings.string(item as usize).as_ptr());
        }
        let mut met_by = met.chunk_by(|a, b| a.0 == b.0).peekable();
        for probe in range {
            out.push(Match { probe, build: probe, detail: 0 });
            let Some(of_probe) = met_by.next_if(|of_probe| of_probe[0].0 == probe) else {
                continue;
            };
            let texts = of_probe.iter().map(|&(_, i)| (i, strings.string(i as usize)));
            let string = strings.string(probe as usize);
            levenshtein_each(exact, string, texts, k, stop, |build, detail| {
                out.push(Match { probe, build, detail });
            })?;
        }
        met.clear();
        Ok(())
    }
}
