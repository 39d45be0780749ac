//! Vectors as devices read them: rows of numbers of one width, all of one number of dimensions.

use std::ops::Range;

use crate::engine::ItemId;
use crate::simd::prefetch;
use crate::vector::collection::Vectors;

/// Whether a number is an `f32`, bit for bit. NaN need not keep its bits: the host decides its pairs.
pub(super) fn is_narrow(number: f64) -> bool {
    f64::from(number as f32).to_bits() == number.to_bits() || number.is_nan()
}

/// Some items of a collection as vectors of `dimensions` numbers.
#[derive(Debug, Clone)]
pub(super) struct Values<'a> {
    pub vectors: &'a Vectors,
    pub items: Range<ItemId>,
    pub dimensions: u32,
}

impl<'a> Values<'a> {
    /// Whether an item is a vector of as many dimensions.
    pub(super) fn is_present(&self, item: ItemId) -> bool {
        self.vectors.is_vector(item) && self.vectors.dimensions(item) == self.dimensions
    }

    /// Whether all items are.
    pub(super) fn are_all_present(&self) -> bool {
        self.items.clone().all(|item| self.is_present(item))
    }

    /// By word: a bit for each of 32 items that is present.
    pub(super) fn present(&self, word: usize) -> u32 {
        let first = self.items.start + 32 * word as u32;
        let items = first..self.items.end.min(first + 32);
        items.rev().fold(0, |bits, item| bits << 1 | u32::from(self.is_present(item)))
    }

    /// The number of words.
    pub(super) fn words(&self) -> usize {
        self.items.len().div_ceil(32)
    }

    /// The number of numbers.
    pub(super) fn len(&self) -> usize {
        self.items.len() * self.dimensions as usize
    }

    /// The numbers, where they lie one behind the other: every item is present.
    pub(super) fn slice(&self) -> Option<&'a [f64]> {
        let Range { start, end } = self.items;
        if start >= end || !self.are_all_present() {
            return None;
        }
        let numbers = self.vectors.numbers_of(start..end)?;
        (numbers.len() == self.len()).then_some(numbers)
    }

    /// Gives the numbers at some places, item by item, each with where they begin among the places.
    /// Items that are not present have none: their places are 0.
    pub(super) fn for_each(&self, places: Range<usize>, mut give: impl FnMut(usize, &[f64])) {
        /// Items whose numbers are fetched from memory while others are given: they lie anywhere.
        const AHEAD: usize = 4;
        let dimensions = self.dimensions.max(1) as usize;
        let mut place = places.start;
        while place < places.end {
            let (item, first) = (place / dimensions, place % dimensions);
            let ahead = self.items.start + (item + AHEAD) as ItemId;
            if ahead < self.items.end {
                self.vectors
                    .vector(ahead)
                    .chunks(8)
                    .take(16)
                    .for_each(|line| prefetch(line.as_ptr()));
            }
            let count = (dimensions - first).min(places.end - place);
            let item = self.items.start + item as ItemId;
            if self.is_present(item)
                && let Some(numbers) = self.vectors.vector(item).get(first..first + count)
            {
                give(place - places.start, numbers);
            }
            place += count;
        }
    }
}
