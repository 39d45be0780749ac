//! A hash table whose slots hold the identity of an entry.

use std::mem::size_of;

use crate::error::Result;
use crate::util::parallel::{Threads, filled, map};

/// An entry of a [`Table`], or a free place.
pub trait Slot: Copy {
    const FREE: Self;

    fn is_free(&self) -> bool;

    /// The hash under which the entry is found. Its high bits should be good ones.
    fn hash(&self) -> u32;
}

/// Open addressing with linear probing.
///
/// Slots follow the high bits of the hash, so that growing reads and writes both in order. A
/// caller with many keys to find looks at the [first slot](Self::first) of each one before it
/// searches for any: these reads do not wait for each other, as searches with their branches do.
#[derive(Debug)]
pub struct Table<S> {
    /// A power of two, or none at all.
    slots: Vec<S>,
    len: usize,
    /// The entries are one of so many shares by their hashes, whose places are all of these: a power
    /// of two.
    shares: usize,
}

impl<S> Default for Table<S> {
    fn default() -> Self {
        Self::with_shares(1)
    }
}

impl<S> Table<S> {
    /// A table of one of `shares` [shares](Self::share).
    pub(crate) fn with_shares(shares: usize) -> Self {
        Self { slots: vec![], len: 0, shares }
    }
}

impl<S: Slot> Table<S> {
    #[inline]
    fn index(&self, hash: u32) -> usize {
        let places = self.slots.len();
        index(hash, places * self.shares) & places.wrapping_sub(1)
    }

    /// The slot where a search for `hash` begins.
    #[inline]
    pub fn first(&self, hash: u32) -> S {
        self.slots.get(self.index(hash)).copied().unwrap_or(S::FREE)
    }

    /// The entry with this hash for which `is_it` is true.
    #[inline]
    pub fn find(&self, hash: u32, mut is_it: impl FnMut(&S) -> bool) -> Option<S> {
        let mut index = self.index(hash);
        loop {
            let slot = self.slots.get(index)?;
            if slot.is_free() {
                return None;
            }
            if is_it(slot) {
                return Some(*slot);
            }
            index = (index + 1) & (self.slots.len() - 1);
        }
    }

    /// Like [`Self::find`], to be changed. The caller leaves the entry's hash as it is.
    #[inline]
    pub(crate) fn find_mut(
        &mut self,
        hash: u32,
        mut is_it: impl FnMut(&S) -> bool,
    ) -> Option<&mut S> {
        let mut index = self.index(hash);
        loop {
            let slot = self.slots.get(index)?;
            if slot.is_free() {
                return None;
            }
            if is_it(slot) {
                return self.slots.get_mut(index);
            }
            index = (index + 1) & (self.slots.len() - 1);
        }
    }

    /// One of `shares` shares of the entries, by their hashes: a power of two. Shares ascend as
    /// places do.
    pub fn share(&self, share: usize, shares: usize) -> impl Iterator<Item = &S> {
        let end = |share: usize| self.slots.len() * share / shares;
        let (own, rest) = (&self.slots[end(share)..end(share + 1)], &self.slots[end(share + 1)..]);
        // Entries whose places were taken are in the places behind, up to the first free one.
        let behind = rest.iter().chain(&self.slots[..end(share)]).take_while(|s| !s.is_free());
        let entries = own.iter().filter(|s| !s.is_free()).chain(behind);
        entries.filter(move |s| share_of(s.hash(), shares) == share)
    }

    /// A table of entries that are in shares by their hashes, like those of [`Self::share`].
    pub(crate) fn of_shares(shares: Vec<Vec<S>>, threads: Threads) -> Result<Self>
    where
        S: Send + Sync,
    {
        let len = shares.iter().map(Vec::len).sum();
        let mut table = Self { slots: filled(threads, slots_for(len, 0), S::FREE), len, shares: 1 };
        let width = table.slots.len() / shares.len().max(1);
        if width == 0 {
            shares.into_iter().flatten().for_each(|slot| table.place(slot));
            return Ok(table);
        }
        let places = table.slots.len();
        let tasks = shares.into_iter().zip(table.slots.chunks_mut(width)).enumerate().collect();
        let displaced = map(threads, tasks, |(share, (entries, own)): (usize, (Vec<S>, _))| {
            let own: &mut [S] = own;
            let mut displaced = vec![];
            for slot in entries {
                let from = index(slot.hash(), places) - share * width;
                match own[from..].iter_mut().find(|place| place.is_free()) {
                    Some(place) => *place = slot,
                    None => displaced.push(slot),
                }
            }
            Ok(displaced)
        })?;
        displaced.into_iter().flatten().for_each(|slot| table.place(slot));
        Ok(table)
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Adds an entry that is not there. Entries that come in the order of their hashes, as another
    /// table has them, would crowd the first places of a table that grows meanwhile: it is grown for
    /// [all of them](Self::reserve) before.
    pub fn insert(&mut self, slot: S) {
        self.reserve(1);
        self.place(slot);
        self.len += 1;
    }

    /// Has places for `count` more entries.
    pub fn reserve(&mut self, count: usize) {
        let slots = slots_for(self.len + count, self.slots.len());
        if slots > self.slots.len() {
            let old = std::mem::replace(&mut self.slots, vec![S::FREE; slots]);
            old.into_iter().filter(|s| !s.is_free()).for_each(|s| self.place(s));
        }
    }

    fn place(&mut self, slot: S) {
        let mut index = self.index(slot.hash());
        while !self.slots[index].is_free() {
            index = (index + 1) & (self.slots.len() - 1);
        }
        self.slots[index] = slot;
    }

    /// All entries.
    pub fn iter(&self) -> impl Iterator<Item = &S> {
        self.slots.iter().filter(|s| !s.is_free())
    }

    /// The places, to be changed. The caller leaves the hashes of entries as they are.
    pub(crate) fn slots_mut(&mut self) -> &mut [S] {
        &mut self.slots
    }

    /// Takes out the entries for which `leaves` is true.
    pub fn extract(&mut self, leaves: impl Fn(&S) -> bool) -> Vec<S> {
        let all: Vec<S> = self.iter().copied().collect();
        self.slots.fill(S::FREE);
        self.len = 0;
        let (out, rest): (Vec<S>, Vec<S>) = all.into_iter().partition(leaves);
        rest.into_iter().for_each(|slot| self.insert(slot));
        out
    }

    /// The bytes allocated.
    pub fn size_in_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<S>()
    }

    /// The bytes of a table of `entries` entries while it grows.
    pub fn bytes(entries: usize) -> usize {
        Self::default().growth(entries) * 3 / 2
    }

    /// The bytes of tables that grow to `entries` entries together.
    pub(crate) fn bytes_in_shares(entries: usize, shares: usize) -> usize {
        // At most 20/7 slots for each entry, after half as many.
        (entries * 3 + shares * 16) * size_of::<S>() * 3 / 2
    }

    /// The bytes that are allocated on top while `count` entries are added.
    pub fn growth(&self, count: usize) -> usize {
        match slots_for(self.len + count, self.slots.len()) {
            // The old and the new slots exist together.
            slots if slots > self.slots.len() => slots * size_of::<S>(),
            _ => 0,
        }
    }
}

/// The place of a hash among `places` places.
#[inline]
fn index(hash: u32, places: usize) -> usize {
    ((u64::from(hash) * places as u64) >> 32) as usize
}

/// The share of a hash among `shares` shares.
#[inline]
fn share_of(hash: u32, shares: usize) -> usize {
    index(hash, shares)
}

/// The number of slots that `entries` entries need, of which at most 7/10 are taken; at least
/// `slots`.
fn slots_for(entries: usize, slots: usize) -> usize {
    let mut slots = slots.max(16);
    while entries * 10 > slots * 7 {
        slots *= 2;
    }
    if entries == 0 { 0 } else { slots }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq)]
    struct Entry(u32, u32);

    impl Slot for Entry {
        const FREE: Self = Self(0, u32::MAX);

        fn is_free(&self) -> bool {
            self.1 == u32::MAX
        }

        // Many collisions, and runs that wrap around the end.
        fn hash(&self) -> u32 {
            u32::MAX - self.0 % 7
        }
    }

    #[derive(Debug, Clone, Copy)]
    struct Spread(u32);

    impl Slot for Spread {
        const FREE: Self = Self(u32::MAX);

        fn is_free(&self) -> bool {
            self.0 == u32::MAX
        }

        fn hash(&self) -> u32 {
            (self.0.wrapping_mul(0x9e37_79b9) ^ self.0 >> 7).wrapping_mul(0x85eb_ca6b)
        }
    }

    impl Table<Spread> {
        /// The places that a search for the farthest entry visits.
        fn farthest(&self) -> usize {
            let places = self.slots.len();
            let steps = |(at, slot): (usize, &Spread)| match slot.is_free() {
                true => 0,
                false => (at + places - self.index(slot.hash())) % places + 1,
            };
            self.slots.iter().enumerate().map(steps).max().unwrap_or(0)
        }
    }

    /// Shares of two tables, which come in the order of their hashes, are found near their places.
    #[test]
    fn shares_of_tables_spread_over_all_places() {
        let halves = [0, 1].map(|half| {
            let mut table = Table::default();
            (0..40_000).for_each(|i| table.insert(Spread(2 * i + half)));
            table
        });
        for shares in [1, 8, 64] {
            let tables: Vec<_> = (0..shares)
                .map(|share| {
                    let mut table = Table::with_shares(shares);
                    for half in &halves {
                        let slots: Vec<Spread> = half.share(share, shares).copied().collect();
                        table.reserve(slots.len());
                        slots.into_iter().for_each(|slot| table.insert(slot));
                    }
                    table
                })
                .collect();
            assert_eq!(tables.iter().map(Table::len).sum::<usize>(), 80_000);
            let farthest = tables.iter().map(Table::farthest).max();
            assert!(farthest < Some(100), "{shares} shares: {farthest:?} places");
            for token in (0..80_000).step_by(7) {
                let slot = Spread(token);
                let table = &tables[share_of(slot.hash(), shares)];
                assert!(table.find(slot.hash(), |other| other.0 == token).is_some());
            }
        }
    }

    #[test]
    fn entries_are_found_among_collisions() {
        let mut table = Table::default();
        assert_eq!(table.find(3, |_: &Entry| true), None);
        for i in 0..1000 {
            let before = table.size_in_bytes();
            let growth = table.growth(1);
            table.insert(Entry(i, i + 1));
            assert!(table.size_in_bytes() <= before.max(growth));
        }
        for i in 0..1000 {
            let found = table.find(Entry(i, 0).hash(), |e| e.0 == i);
            assert_eq!(found, Some(Entry(i, i + 1)));
        }
        assert_eq!(table.find(Entry(1, 0).hash(), |e| e.0 == 1000), None);
        let mut odd = table.extract(|e| e.0 % 2 == 1);
        odd.sort_unstable_by_key(|e| e.0);
        assert_eq!((odd.len(), odd[3]), (500, Entry(7, 8)));
        assert_eq!(table.find(Entry(7, 0).hash(), |e| e.0 == 7), None);
        assert_eq!(table.find(Entry(8, 0).hash(), |e| e.0 == 8), Some(Entry(8, 9)));
        assert_eq!(table.iter().count(), 500);
        for shares in [1, 2, 8, 1 << 12] {
            let parts: Vec<Vec<Entry>> =
                (0..shares).map(|share| table.share(share, shares).copied().collect()).collect();
            assert_eq!(parts.iter().flatten().count(), 500);
            let same = Table::of_shares(parts, Threads::small(3)).unwrap();
            assert_eq!(same.len(), 500);
            for i in (0..1000).step_by(2) {
                assert_eq!(same.find(Entry(i, 0).hash(), |e| e.0 == i), Some(Entry(i, i + 1)));
            }
        }
    }
}
