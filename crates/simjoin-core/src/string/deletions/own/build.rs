//! The making of the groups: some threads spread residuals over parts, then they thin parts out.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::super::residual::{Hasher, residuals, shares};
use super::super::{MAX_K, Symbols};
use super::Own;
use super::parts::{ResidualParts, Sieve, part_count, spreading_threads};
use crate::error::Result;
use crate::string::rules::Symbol;
use crate::util::cancel::CancelFlag;
use crate::util::counters::Counters;
use crate::util::parallel::{Threads, filled, for_each, map, steps_per_task};

/// Symbols between two looks at the flag, about.
const SYMBOLS: usize = 1 << 16;

impl Own {
    /// The groups of all `count` strings for bounds up to `k`, at most [`MAX_K`], by up to `threads` threads.
    /// Few residuals of items with different seeds meet. `None` where there are 2^31 strings or 2^32 residuals.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub(crate) fn build<T: Symbol>(
        strings: Symbols<'_, T>,
        count: u32,
        k: u32,
        seed: impl Fn(u32) -> u64 + Sync,
        threads: Threads,
        cancel: &CancelFlag,
    ) -> Result<Option<Self>> {
        let k = k.min(MAX_K);
        let len = |item: u32| strings.string(item as usize).len() as u64;
        let most = (0..count).fold(0_u64, |sum, item| sum.saturating_add(residuals(len(item), k)));
        if most > u32::MAX.into() || count > i32::MAX as u32 {
            return Ok(None);
        }
        let build = Build { strings, k, seed, count, threads, cancel };
        let parts = build.spread(most)?;
        let of_items = Counters::new(count as usize + 1, threads);
        let groups = build.groups(&parts, &of_items)?;
        drop(parts);
        let groups = Groups::joined(groups, threads)?;
        let (item_starts, of_items) = build.list(&groups, of_items)?;
        let Groups { ends: groups, items } = groups;
        Ok(Some(Self { groups, items, item_starts, of_items, k }))
    }
}

/// The strings, and how their groups are made.
struct Build<'a, T, S> {
    strings: Symbols<'a, T>,
    k: u32,
    seed: S,
    count: u32,
    threads: Threads,
    cancel: &'a CancelFlag,
}

impl<T: Symbol, S: Fn(u32) -> u64 + Sync> Build<'_, T, S> {
    /// The bits of a number that hold an item and whether it has lost as many symbols as it may.
    fn item_bits(&self) -> u32 {
        33 - self.count.leading_zeros()
    }

    /// The residuals of all strings, `most` at most, in one set of parts for each thread.
    fn spread(&self, most: u64) -> Result<Vec<ResidualParts>> {
        let (strings, k) = (self.strings, self.k);
        let part_count = part_count(most);
        let threads = spreading_threads(self.threads, most);
        let shares = shares(strings, 0..self.count, k, threads.count());
        map(self.threads, shares, |(items, most)| {
            let mut parts = ResidualParts::new(part_count, most);
            let mut hasher = Hasher::default();
            let mut since = SYMBOLS;
            for item in items {
                let string = strings.string(item as usize);
                since += string.len() + 1;
                if since >= SYMBOLS {
                    since = 0;
                    self.cancel.check()?;
                }
                let shortest = string.len().saturating_sub(k as usize);
                hasher.each((self.seed)(item), string, (0, k), |hash, left| {
                    let hash = hash >> self.item_bits() << self.item_bits();
                    parts.push(hash | u64::from(item) << 1 | u64::from(left == shortest));
                });
            }
            Ok(parts)
        })
    }

    /// The groups of all residuals, those of some parts after the other. Counts them for each item.
    fn groups(&self, spread: &[ResidualParts], of_items: &Counters) -> Result<Vec<Groups>> {
        let count = spread.first().map_or(0, ResidualParts::count);
        let share = steps_per_task(self.threads, count, 1);
        let tasks = (0..count).step_by(share).map(|part| part..count.min(part + share)).collect();
        map(self.threads, tasks, |parts: Range<usize>| {
            let (mut groups, mut sieve) = (Groups::default(), Sieve::default());
            for part in parts {
                self.cancel.check()?;
                let residuals = sieve.repeated(spread, part, self.item_bits());
                groups.add(residuals, self.item_bits(), |item| of_items.raise(item as usize));
            }
            groups.ends.shrink_to_fit();
            groups.items.shrink_to_fit();
            Ok(groups)
        })
    }

    /// The groups of each item, which have been counted, and where they begin.
    fn list(&self, groups: &Groups, mut of_items: Counters) -> Result<(Vec<u32>, Vec<u32>)> {
        let total = of_items.accumulate()?;
        let lists = filled(self.threads, total as usize, 0_u32);
        let lists: Vec<_> = lists.into_iter().map(AtomicU32::new).collect();
        let count = groups.ends.len() - 1;
        let share = steps_per_task(self.threads, count, 1 << 10);
        let tasks = (0..count).step_by(share).map(|first| first..count.min(first + share));
        for_each(self.threads, tasks.collect(), |numbers: Range<usize>| {
            self.cancel.check()?;
            for number in numbers {
                let group = groups.ends[number] as usize..groups.ends[number + 1] as usize;
                for item in longer(&groups.items[group]) {
                    lists[of_items.lower(item as usize) as usize].store(number as u32, Relaxed);
                }
            }
            Ok(())
        })?;
        let starts = of_items.into_counts();
        let mut lists: Vec<_> = lists.into_iter().map(AtomicU32::into_inner).collect();
        if self.threads.count() > 1 {
            self.sort(&starts, &mut lists)?;
        }
        Ok((starts, lists))
    }

    /// Sorts the groups of each item as one thread lists them, the last one first.
    fn sort(&self, starts: &[u32], lists: &mut [u32]) -> Result<()> {
        let share = steps_per_task(self.threads, starts.len(), 1 << 10);
        let (mut rest, mut tasks) = (lists, vec![]);
        for first in (0..starts.len() - 1).step_by(share) {
            let starts = &starts[first..starts.len().min(first + share + 1)];
            let (part, behind) = rest.split_at_mut((starts[starts.len() - 1] - starts[0]) as usize);
            rest = behind;
            tasks.push((starts, part));
        }
        for_each(self.threads, tasks, |(starts, lists)| {
            self.cancel.check()?;
            for ends in starts.windows(2) {
                let list = (ends[0] - starts[0]) as usize..(ends[1] - starts[0]) as usize;
                lists[list].sort_unstable_by(|a, b| b.cmp(a));
            }
            Ok(())
        })
    }
}

/// Groups of items that share a residual.
struct Groups {
    /// The items of group `g` are `items[ends[g]..ends[g + 1]]`.
    ends: Vec<u32>,
    items: Vec<u32>,
}

impl Default for Groups {
    fn default() -> Self {
        Self { ends: vec![0], items: vec![] }
    }
}

impl Groups {
    /// Adds the groups of some residuals, which are sorted, and calls `count` with each item that has such a
    /// group; the lowest `item_bits` bits of a residual tell its item.
    fn add(&mut self, residuals: &[u64], item_bits: u32, mut count: impl FnMut(u32)) {
        let mask = (1 << item_bits) - 1;
        for group in residuals.chunk_by(|a, b| (a ^ b) >> item_bits == 0) {
            if group.len() < 2 {
                continue;
            }
            let first = self.items.len();
            self.items.extend(group.iter().map(|&residual| (residual & mask) as u32));
            longer(&self.items[first..]).for_each(&mut count);
            self.ends.push(self.items.len() as u32);
        }
    }

    /// Groups one behind another.
    fn joined(mut parts: Vec<Self>, threads: Threads) -> Result<Self> {
        if parts.len() <= 1 {
            return Ok(parts.pop().unwrap_or_default());
        }
        let lens = parts.iter().map(|part| (part.ends.len() - 1, part.items.len()));
        let (groups, count) = lens.fold((0, 0), |sum, len| (sum.0 + len.0, sum.1 + len.1));
        let mut ends = filled(threads, groups + 1, 0_u32);
        let mut items = filled(threads, count, 0_u32);
        let (mut rest_ends, mut rest_items) = (&mut ends[1..], &mut items[..]);
        let (mut tasks, mut first) = (vec![], 0);
        for part in parts {
            let to_ends = rest_ends.split_off_mut(..part.ends.len() - 1).unwrap_or_default();
            let to_items = rest_items.split_off_mut(..part.items.len()).unwrap_or_default();
            let len = part.items.len() as u32;
            tasks.push((part, first, to_ends, to_items));
            first += len;
        }
        for_each(threads, tasks, |(part, first, ends, items): (Self, u32, _, &mut [u32])| {
            items.copy_from_slice(&part.items);
            let of_part = part.ends[1..].iter().map(|end| first + end);
            ends.iter_mut().zip(of_part).for_each(|(to, end): (&mut u32, u32)| *to = end);
            Ok(())
        })?;
        Ok(Self { ends, items })
    }
}

/// The items of a group that may be the longer string of a match with one before.
fn longer(group: &[u32]) -> impl Iterator<Item = u32> {
    group.iter().skip(1).filter(|&&item| item & 1 == 1).map(|&item| item >> 1)
}
