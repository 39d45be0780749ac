//! The search of strings for those before them that share a residual.

use std::ops::Range;

use super::super::Symbols;
use super::Own;
use crate::engine::Match;
use crate::simd::prefetch;
use crate::string::rules::{Cancelled, Scratch, Symbol, levenshtein_each};
use crate::tuning::{Size, Tuning};

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
    tuning: Tuning,
}

impl OwnSearcher {
    /// Space for probes.
    pub(crate) fn new(tuning: Tuning) -> Self {
        Self { tuning, ..Self::default() }
    }
}

/// Strings of a collection that look for those before them.
#[derive(Debug, Clone)]
pub(crate) struct OwnProbes<'a, T, F> {
    /// The strings of the collection.
    pub strings: Symbols<'a, T>,
    /// The strings that look for others.
    pub range: Range<u32>,
    /// The first item that a probe may match: from there on to the probe, none is longer than it.
    pub first: F,
    /// The bound, at most that of the groups.
    pub k: u32,
}

/// Items that are met before they are verified, besides those of one probe.
const MOST_MET: Size = Size { usual: 1 << 12, small: 1 << 4 };

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
        let most_met = searcher.tuning.size(MOST_MET);
        let mut candidates = 0;
        let mut done = probes.range.start;
        for probe in probes.range.clone() {
            self.meet(searcher, probes, probe);
            let end = probe + 1;
            if searcher.met.len() >= most_met || end == probes.range.end {
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
