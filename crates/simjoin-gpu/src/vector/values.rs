//! Vectors as devices read them: rows of numbers of one width, all of one number of dimensions.

use std::ops::Range;

use simjoin_core::vector::collection::Vectors;
use simjoin_core::vector::width::Vector;

use crate::engine::ItemId;

/// Whether all numbers of a vector are `f32`, bit for bit. NaN need not keep its bits: the host decides its
/// pairs.
pub(super) fn is_narrow(vector: Vector<'_>) -> bool {
    let is_narrow =
        |number: f64| f64::from(number as f32).to_bits() == number.to_bits() || number.is_nan();
    match vector {
        Vector::Narrow(_) => true,
        Vector::Wide(numbers) => numbers.iter().all(|&number| is_narrow(number)),
    }
}

/// Writes the numbers of a vector as `f32`, those that are none [rounded](is_narrow).
pub(super) fn write_narrow(vector: Vector<'_>, to: &mut [f32]) {
    match vector {
        Vector::Narrow(numbers) => to.copy_from_slice(numbers),
        Vector::Wide(numbers) => {
            to.iter_mut().zip(numbers).for_each(|(to, number)| *to = *number as f32);
        }
    }
}

/// Writes the numbers of a vector as `f64`.
pub(super) fn write_wide(vector: Vector<'_>, to: &mut [f64]) {
    match vector {
        Vector::Narrow(_) => to.iter_mut().zip(vector).for_each(|(to, number)| *to = number),
        Vector::Wide(numbers) => to.copy_from_slice(numbers),
    }
}

/// Some items of a collection as vectors of `dimensions` numbers.
#[derive(Debug, Clone)]
pub(super) struct ItemVectors<'a> {
    pub vectors: &'a Vectors,
    pub items: Range<ItemId>,
    pub dimensions: u32,
}

impl<'a> ItemVectors<'a> {
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
    pub(super) fn slice(&self) -> Option<Vector<'a>> {
        let Range { start, end } = self.items;
        if start >= end || !self.are_all_present() {
            return None;
        }
        let numbers = self.vectors.numbers_of(start..end)?;
        (numbers.len() == self.len()).then_some(numbers)
    }

    /// Gives the numbers at some places, item by item, each with where they begin among the places.
    /// Items that are not present have none: their places are 0.
    pub(super) fn for_each(&self, places: Range<usize>, mut give: impl FnMut(usize, Vector<'_>)) {
        /// Items whose numbers are fetched from memory while others are given: they lie anywhere.
        const AHEAD: usize = 4;
        /// The bytes of each that are.
        const BROUGHT: usize = 1 << 10;
        let dimensions = self.dimensions.max(1) as usize;
        let mut place = places.start;
        while place < places.end {
            let (item, first) = (place / dimensions, place % dimensions);
            let ahead = self.items.start + (item + AHEAD) as ItemId;
            if ahead < self.items.end {
                self.vectors.vector(ahead).prefetch(BROUGHT);
            }
            let count = (dimensions - first).min(places.end - place);
            let item = self.items.start + item as ItemId;
            if self.is_present(item) {
                let numbers = self.vectors.vector(item).part(first..first + count);
                give(place - places.start, numbers);
            }
            place += count;
        }
    }
}
