//! A hash table whose slots hold the identity of an entry.

use std::mem::size_of;

/// An entry of a [`Table`], or a free place.
pub(crate) trait Slot: Copy {
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
pub(crate) struct Table<S> {
    /// A power of two, or none at all.
    slots: Vec<S>,
    len: usize,
}

impl<S> Default for Table<S> {
    fn default() -> Self {
        Self { slots: vec![], len: 0 }
    }
}

impl<S: Slot> Table<S> {
    #[inline]
    fn index(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.slots.len() as u64) >> 32) as usize
    }

    /// The slot where a search for `hash` begins.
    #[inline]
    pub(crate) fn first(&self, hash: u32) -> S {
        self.slots.get(self.index(hash)).copied().unwrap_or(S::FREE)
    }

    /// The entry with this hash for which `is_it` is true.
    #[inline]
    pub(crate) fn find(&self, hash: u32, mut is_it: impl FnMut(&S) -> bool) -> Option<S> {
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

    /// Adds an entry that is not there.
    pub(crate) fn insert(&mut self, slot: S) {
        let slots = slots_for(self.len + 1, self.slots.len());
        if slots > self.slots.len() {
            let old = std::mem::replace(&mut self.slots, vec![S::FREE; slots]);
            old.into_iter().filter(|s| !s.is_free()).for_each(|s| self.place(s));
        }
        self.place(slot);
        self.len += 1;
    }

    fn place(&mut self, slot: S) {
        let mut index = self.index(slot.hash());
        while !self.slots[index].is_free() {
            index = (index + 1) & (self.slots.len() - 1);
        }
        self.slots[index] = slot;
    }

    /// All entries.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &S> {
        self.slots.iter().filter(|s| !s.is_free())
    }

    /// All entries, to be changed. The caller leaves their hashes as they are.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut S> {
        self.slots.iter_mut().filter(|s| !s.is_free())
    }

    /// Takes out the entries for which `leaves` is true.
    pub(crate) fn extract(&mut self, leaves: impl Fn(&S) -> bool) -> Vec<S> {
        let all: Vec<S> = self.iter().copied().collect();
        self.slots.fill(S::FREE);
        self.len = 0;
        let (out, rest): (Vec<S>, Vec<S>) = all.into_iter().partition(leaves);
        rest.into_iter().for_each(|slot| self.insert(slot));
        out
    }

    /// The bytes allocated.
    pub(crate) fn size_in_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<S>()
    }

    /// The bytes of a table of `entries` entries while it grows.
    pub(crate) fn bytes(entries: usize) -> usize {
        Self::default().growth(entries) * 3 / 2
    }

    /// How many bytes are allocated on top while `count` entries are added.
    pub(crate) fn growth(&self, count: usize) -> usize {
        match slots_for(self.len + count, self.slots.len()) {
            // The old and the new slots exist together.
            slots if slots > self.slots.len() => slots * size_of::<S>(),
            _ => 0,
        }
    }
}

/// How many slots `entries` entries need, of which at most 7/10 are taken; at least `slots`.
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
    }
}
