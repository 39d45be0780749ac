//! The common symbols of long strings.

use super::masks::Symbol;

/// The distance within which equal symbols are common.
pub(crate) fn window(a: usize, b: usize) -> usize {
    (a.max(b) / 2).saturating_sub(1)
}

/// The places of each symbol of a long string, in order.
///
/// Reach moves to the right and the first free place is taken: so places are taken or lost in
/// their order, and each symbol needs but its next place.
#[derive(Debug, Clone, Default)]
pub(super) struct Queues {
    /// An open-addressing table of symbols with their next place, [`NONE`] if there is none any
    /// more.
    slots: Vec<QueueSlot>,
    /// For each place of `a`, the next place with its symbol.
    next: Vec<u32>,
    /// The places of `a` that are common, as bits.
    taken: Vec<u64>,
    /// The keys of the common symbols of `b`, in order.
    common: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
struct QueueSlot {
    key: u32,
    next: u32,
    used: bool,
}

const NONE: u32 = u32::MAX;

impl Queues {
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<QueueSlot>()
            + 4 * (self.next.capacity() + self.common.capacity())
            + 8 * self.taken.capacity()
    }

    /// Common symbols and transpositions of two strings.
    pub(super) fn common<T: Symbol>(&mut self, a: &[T], b: &[T]) -> (usize, usize) {
        let window = window(a.len(), b.len());
        self.fill(a);
        for (column, symbol) in b.iter().enumerate() {
            let key = symbol.key();
            let slot = self.slot(key);
            let first = column.saturating_sub(window);
            let mut place = self.slots[slot].next;
            while place != NONE && (place as usize) < first {
                place = self.next[place as usize];
            }
            if place != NONE && place as usize <= column + window {
                self.taken[place as usize / 64] |= 1 << (place % 64);
                self.common.push(key);
                place = self.next[place as usize];
            }
            self.slots[slot].next = place;
        }
        let taken = a.iter().enumerate().filter(|(i, _)| self.taken[i / 64] >> (i % 64) & 1 == 1);
        let differing = taken.zip(&self.common).filter(|((_, x), y)| x.key() != **y).count();
        (self.common.len(), differing / 2)
    }

    /// Queues the places of each symbol of `a`.
    fn fill<T: Symbol>(&mut self, a: &[T]) {
        let slots = (2 * a.len()).next_power_of_two().max(2);
        self.slots.clear();
        self.slots.resize(slots, QueueSlot { key: 0, next: NONE, used: false });
        self.next.clear();
        self.next.resize(a.len(), NONE);
        self.taken.clear();
        self.taken.resize(a.len().div_ceil(64), 0);
        self.common.clear();
        for (place, symbol) in a.iter().enumerate().rev() {
            let key = symbol.key();
            let slot = self.slot(key);
            let slot = &mut self.slots[slot];
            self.next[place] = slot.next;
            *slot = QueueSlot { key, next: place as u32, used: true };
        }
    }

    /// The place of a key in the table, or a free one.
    #[inline]
    fn slot(&self, key: u32) -> usize {
        let mask = self.slots.len() - 1;
        let hash = u64::from(key).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut slot = (hash >> 32) as usize & mask;
        while self.slots[slot].used && self.slots[slot].key != key {
            slot = (slot + 1) & mask;
        }
        slot
    }
}
