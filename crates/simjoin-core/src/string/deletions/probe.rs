//! The search for strings that share a residual with probes.

use std::ops::Range;

use super::residual::Hasher;
use super::{Deletions, Symbols};
use crate::engine::Match;
use crate::simd::prefetch;
use crate::string::rules::{Cancelled, Scratch, Symbol, levenshtein_each};
use crate::tuning::{Size, Tuning};

/// Residuals that are looked up at a time: what one needs comes into the caches while others go on.
const BATCH: usize = 1024;

/// Items that are met before they are verified, besides those of one probe.
const MOST_MET: Size = Size { usual: 1 << 12, small: 1 << 4 };

/// Probes against an index: which strings, and what they look for.
#[derive(Debug, Clone)]
pub(crate) struct DeletionProbes<'a, T, S, I> {
    /// Strings, some of which are probes.
    pub strings: Symbols<'a, T>,
    /// The probes.
    pub range: Range<u32>,
    /// The seed of the items that a probe can match.
    pub seed: S,
    /// The items that a probe looks for.
    pub items: I,
    /// The bound, at most that of the index.
    pub k: u32,
}

/// Space for probes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Searcher {
    hasher: Hasher,
    /// The residuals of a batch, as hash and probe.
    hashes: Vec<(u64, u32)>,
    /// The items that probes of the batch meet, as probe and item, in the order of the probes.
    met: Vec<(u32, u32)>,
    /// For each item of the index, the last probe that met it.
    last: Vec<u32>,
    /// The number of the probe at hand.
    number: u32,
    exact: Scratch,
    tuning: Tuning,
}

impl Searcher {
    /// Space for probes.
    pub(crate) fn new(tuning: Tuning) -> Self {
        Self { tuning, ..Self::default() }
    }

    /// Leaves each item that a probe has met once.
    fn remove_repeated(&mut self, index: &Deletions) {
        let items = index.items.len();
        if self.last.len() < items {
            self.last.resize(items, 0);
        }
        let (last, number) = (&mut self.last, &mut self.number);
        let mut probe = None;
        self.met.retain(|&(of, item)| {
            if probe != Some(of) {
                probe = Some(of);
                if *number == u32::MAX {
                    last.fill(0);
                    *number = 0;
                }
                *number += 1;
            }
            let last = &mut last[(item - index.items.start) as usize];
            std::mem::replace(last, *number) != *number
        });
    }
}

impl Deletions {
    /// Pushes all items within the bound of each probe, each once, with their distances, in the
    /// order of the probes; `strings` are those of the index. Returns the number of candidates that
    /// were verified.
    pub(crate) fn probe<T: Symbol>(
        &self,
        searcher: &mut Searcher,
        strings: Symbols<'_, T>,
        probes: &DeletionProbes<'_, T, impl Fn(u32) -> u64, impl Fn(u32) -> Range<u32>>,
        out: &mut Vec<Match>,
        stop: &mut impl FnMut() -> bool,
    ) -> Result<usize, Cancelled> {
        let k = probes.k.min(self.k);
        let mut candidates = 0;
        searcher.hashes.clear();
        for probe in probes.range.clone() {
            let string = probes.strings.string(probe as usize);
            // The longer string loses as many symbols as it may.
            let longest = (string.len() as u64).min(k.into()) as u32;
            let Searcher { hasher, hashes, .. } = searcher;
            hasher.each((probes.seed)(probe), string, (0, longest), |hash, _| {
                prefetch(&self.buckets[self.bucket(hash)]);
                hashes.push((hash, probe));
            });
            if hashes.len() < BATCH && probe + 1 < probes.range.end {
                continue;
            }
            let mut looked_up = 0;
            while looked_up < searcher.hashes.len() {
                looked_up = self.look_up(searcher, strings, probes, looked_up);
                candidates += searcher.met.len();
                self.verify(searcher, strings, probes, out, stop)?;
            }
            searcher.hashes.clear();
            if stop() {
                return Err(Cancelled);
            }
        }
        Ok(candidates)
    }

    /// Pushes what probes of a batch meet within the bound.
    fn verify<T: Symbol>(
        &self,
        searcher: &mut Searcher,
        strings: Symbols<'_, T>,
        probes: &DeletionProbes<'_, T, impl Fn(u32) -> u64, impl Fn(u32) -> Range<u32>>,
        out: &mut Vec<Match>,
        stop: &mut impl FnMut() -> bool,
    ) -> Result<(), Cancelled> {
        let k = probes.k.min(self.k);
        for of_probe in searcher.met.chunk_by(|a, b| a.0 == b.0) {
            let probe = of_probe[0].0;
            let texts = of_probe.iter().map(|&(_, i)| (i, strings.string(i as usize)));
            let string = probes.strings.string(probe as usize);
            levenshtein_each(&mut searcher.exact, string, texts, k, stop, |build, detail| {
                out.push(Match { probe, build, detail });
            })?;
        }
        Ok(())
    }

    /// Lists what probes of a batch meet, from a place in its residuals on: up to the returned place, where
    /// the residuals of a probe begin, for a probe may meet any number of items.
    fn look_up<T: Symbol>(
        &self,
        searcher: &mut Searcher,
        strings: Symbols<'_, T>,
        probes: &DeletionProbes<'_, T, impl Fn(u32) -> u64, impl Fn(u32) -> Range<u32>>,
        from: usize,
    ) -> usize {
        let Searcher { hashes, met, last, tuning, .. } = &mut *searcher;
        let most_met = tuning.size(MOST_MET);
        met.clear();
        for &(hash, _) in &hashes[from..] {
            prefetch(self.entries[self.buckets[self.bucket(hash)] as usize..].as_ptr());
        }
        let mut of = None;
        let mut items = 0..0;
        let mut end = hashes.len();
        for (place, &(hash, probe)) in hashes.iter().enumerate().skip(from) {
            if of != Some(probe) {
                if met.len() >= most_met {
                    end = place;
                    break;
                }
                of = Some(probe);
                let wanted = (probes.items)(probe);
                items = wanted.start.max(self.items.start)..wanted.end.min(self.items.end);
            }
            let bucket = self.bucket(hash);
            let entries = self.buckets[bucket] as usize..self.buckets[bucket + 1] as usize;
            let wanted = items.len() as u32;
            for entry in &self.entries[entries] {
                let item = entry.item();
                if entry.tag() == hash as u32 && item.wrapping_sub(items.start) < wanted {
                    met.push((probe, item));
                    prefetch(last.as_ptr().wrapping_add((item - self.items.start) as usize));
                    prefetch(&strings.starts[item as usize]);
                }
            }
        }
        searcher.remove_repeated(self);
        for &(_, item) in &searcher.met {
            prefetch(strings.string(item as usize).as_ptr());
        }
        end
    }
}
