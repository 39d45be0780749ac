//! Items that many rows have, found whatever the order of the rows.

use crate::shuffle::place::{BLOCK, Place};

/// Items are told apart by the slot that their hash falls into.
const SLOTS: usize = 256;
/// Bits of an element: 52 of its block of places, above them 8 of the class of its key.
const BITS: usize = 60;
/// Counts of a slot: its rows, and for each bit the rows whose item has it.
const COUNTS: usize = 1 + BITS;
/// The least part of all rows that a heavy item has.
const LEAST_PART: u64 = SLOTS as u64 / 2;

/// Counts of rows from which an item can be read that more than half of a slot's rows have: its
/// bits are those that most rows of the slot have. (Cormode, Muthukrishnan: "What's hot and what's
/// not: tracking most frequent items dynamically", TODS 2005, section 3.)
///
/// All counts are sums over rows. Other algorithms for frequent elements depend on the order of the
/// rows, or on their division among partitions: tasks that read the same rows in different orders
/// would derive different tiles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HeavyItems {
    /// By slot; empty before the first row.
    counts: Vec<u64>,
}

fn element(key: u32, block: Place) -> u64 {
    (u64::from(key) << 52) | (block / BLOCK)
}

fn slot(element: u64) -> usize {
    (element.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as usize % SLOTS
}

impl HeavyItems {
    /// Adds a row with an item of this class of keys, at the start of its block.
    pub(crate) fn add(&mut self, key: u32, block: Place) {
        self.counts.resize(SLOTS * COUNTS, 0);
        let element = element(key, block);
        let counts = &mut self.counts[slot(element) * COUNTS..][..COUNTS];
        counts[0] += 1;
        for (bit, count) in counts[1..].iter_mut().enumerate() {
            *count += (element >> bit) & 1;
        }
    }

    /// Makes each row count as `times` rows.
    pub(crate) fn scale(&mut self, times: u64) {
        self.counts.iter_mut().for_each(|count| *count = count.saturating_mul(times));
    }

    /// The counts that are not 0, with their numbers.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        (0..).zip(self.counts.iter().copied()).filter(|(_, count)| *count > 0)
    }

    /// Adds a count of another task. Returns whether there is a count of that number.
    pub(crate) fn merge(&mut self, number: u32, more: u64) -> bool {
        self.counts.resize(SLOTS * COUNTS, 0);
        match self.counts.get_mut(number as usize) {
            Some(count) => *count = count.saturating_add(more),
            None => return false,
        }
        true
    }

    /// The items that are a noticeable part of all rows, by the class of their keys and their
    /// block, each with its rows, or some more.
    pub(crate) fn found(&self) -> Vec<((u32, Place), u64)> {
        let slots = || self.counts.chunks_exact(COUNTS).enumerate();
        let all: u64 = slots().map(|(_, counts)| counts[0]).fold(0, u64::saturating_add);
        let heavy = |(number, counts): (usize, &[u64])| {
            let (mut found, mut rows) = (0, counts[0]);
            for (bit, &with) in counts[1..].iter().enumerate() {
                let without = counts[0].saturating_sub(with);
                found |= u64::from(with > without) << bit;
                rows = rows.min(with.max(without));
            }
            let is_heavy = rows > all / LEAST_PART && rows > counts[0] / 2;
            let item = ((found >> 52) as u32, (found & ((1 << 52) - 1)) * BLOCK);
            (is_heavy && slot(found) == number).then_some((item, rows))
        };
        slots().filter_map(heavy).collect()
    }
}
