//! A set of integers that is known in full, numbered without a table.

use std::mem::size_of;

/// Places of a word.
const PLACES: u64 = u64::BITS as u64;

/// A set of integers below a limit, which numbers them in ascending order.
///
/// A bit for each place and a count for each word: twelve bits to eight places, where an array of
/// numbers takes thirty-two to one. Nothing can be added once it is numbered, so that it serves
/// where the tokens can be read twice.
#[derive(Debug, Default)]
pub struct ValueSet {
    words: Vec<u64>,
    /// The number of values in the words before each.
    before: Vec<u32>,
    len: u32,
}

impl ValueSet {
    /// The bytes of a set of values up to `greatest`.
    pub fn footprint(greatest: u64) -> u64 {
        (greatest / PLACES + 1) * (size_of::<u64>() + size_of::<u32>()) as u64
    }

    /// An empty set for values up to `greatest`.
    pub fn with_greatest(greatest: u64) -> Self {
        Self { words: vec![0; (greatest / PLACES) as usize + 1], before: vec![], len: 0 }
    }

    /// Adds a value. One beyond the greatest is left out.
    #[inline]
    pub fn insert(&mut self, value: u64) {
        if let Some(word) = self.words.get_mut((value / PLACES) as usize) {
            *word |= 1 << (value % PLACES);
        }
    }

    /// Numbers the values that have been added.
    pub fn number_all(&mut self) {
        self.before = Vec::with_capacity(self.words.len());
        self.len = 0;
        for word in &self.words {
            self.before.push(self.len);
            self.len += word.count_ones();
        }
    }

    /// The number of values.
    pub fn len(&self) -> u32 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of a value.
    #[inline]
    pub fn number(&self, value: u64) -> Option<u32> {
        let place = (value / PLACES) as usize;
        let word = *self.words.get(place)?;
        let bit = 1 << (value % PLACES);
        (word & bit != 0).then(|| self.before[place] + (word & (bit - 1)).count_ones())
    }

    /// The bytes allocated.
    pub fn size_in_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>() + self.before.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbered_in_order() {
        let values = [0, 1, 63, 64, 127, 128, 1000, 4095];
        let mut set = ValueSet::with_greatest(4095);
        values.iter().rev().for_each(|&value| set.insert(value));
        set.insert(64);
        set.insert(1 << 40);
        set.number_all();
        assert_eq!(set.len(), 8);
        for value in 0..5000 {
            let number = values.iter().position(|&v| v == value).map(|n| n as u32);
            assert_eq!(set.number(value), number, "{value}");
        }
        assert_eq!(set.number(u64::MAX), None);
        assert_eq!(set.size_in_bytes() as u64, ValueSet::footprint(4095));
    }
}
