//! Probe vectors that travel with works.

use std::ops::Range;
use std::sync::Arc;

use simjoin_core::vector::collection::Vectors;
use simjoin_core::vector::width::Vector;

use crate::engine::{Collection, ItemId};
use crate::error::Result;
use crate::memory::{Memory, Reservation};
use crate::offload::{Arena, bytes_of};
use crate::vector::columns::Given;
use crate::vector::values::{ItemVectors, is_narrow, write_narrow, write_wide};

/// The numbers of vectors, as they travel.
#[derive(Debug)]
enum TravellingNumbers {
    /// Numbers as `f32`.
    Narrow(Vec<f32>),
    /// Numbers as `f64`, in another order than in the collection.
    Wide(Vec<f64>),
    /// The numbers as they lie in the collection; `wide` says whether as `f64`.
    Whole { wide: bool },
}

/// Probe vectors that travel with a work, and, where rows of the join are counted and some vectors
/// have several, the number of rows of each.
#[derive(Debug)]
pub(super) struct TravellingVectors {
    pub collection: Arc<Vectors>,
    pub items: Range<ItemId>,
    numbers: TravellingNumbers,
    present: Vec<u32>,
    row_counts: Vec<u32>,
    /// The memory of the arrays.
    _memory: Reservation,
}

impl TravellingVectors {
    /// `counts`: rows of the join are counted.
    ///
    /// # Errors
    ///
    /// Where memory is refused.
    pub(super) fn new(
        collection: &Arc<Vectors>,
        items: Range<ItemId>,
        dimensions: u32,
        counts: bool,
        reservation: &dyn Memory,
    ) -> Result<Self> {
        let values = ItemVectors { vectors: collection, items: items.clone(), dimensions };
        let slice = values.slice();
        let count = values.len();
        let mut wide = false;
        values.for_each(0..count, |_, numbers| {
            wide |= !is_narrow(numbers);
        });
        let row_counts = match counts && !collection.groups().has_no_repeats() {
            true => items.len(),
            false => 0,
        };
        let bytes = match (wide, slice) {
            (true, Some(Vector::Wide(_))) | (false, Some(Vector::Narrow(_))) => 0,
            (true, _) => count * size_of::<f64>(),
            (false, _) => count * size_of::<f32>(),
        };
        let memory = reservation.new_empty();
        memory.try_grow(bytes + (values.words() + row_counts) * size_of::<u32>())?;
        let numbers = match (wide, slice) {
            (true, Some(Vector::Wide(_))) | (false, Some(Vector::Narrow(_))) => {
                TravellingNumbers::Whole { wide }
            }
            (true, _) => {
                let mut wide = vec![0.0; count];
                values.for_each(0..count, |at, numbers| {
                    write_wide(numbers, &mut wide[at..at + numbers.len()]);
                });
                TravellingNumbers::Wide(wide)
            }
            (false, _) => {
                let mut narrow = vec![0.0; count];
                values.for_each(0..count, |at, numbers| {
                    write_narrow(numbers, &mut narrow[at..at + numbers.len()]);
                });
                TravellingNumbers::Narrow(narrow)
            }
        };
        let present = match values.are_all_present() {
            true => vec![],
            false => (0..values.words()).map(|word| values.present(word)).collect(),
        };
        let groups = collection.groups();
        let counted = items.clone().take(row_counts);
        let row_counts = counted.map(|item| groups.row_count_of(item)).collect();
        let collection = Arc::clone(collection);
        Ok(Self { collection, items, numbers, present, row_counts, _memory: memory })
    }

    /// None of a collection.
    pub(super) fn nothing(collection: &Arc<Vectors>, reservation: &dyn Memory) -> Self {
        Self {
            collection: Arc::clone(collection),
            items: 0..0,
            numbers: TravellingNumbers::Whole { wide: true },
            present: vec![],
            row_counts: vec![],
            _memory: reservation.new_empty(),
        }
    }

    /// Whether the numbers are `f64`.
    fn are_wide(&self) -> bool {
        matches!(self.numbers, TravellingNumbers::Wide(_) | TravellingNumbers::Whole { wide: true })
    }

    fn bytes(&self) -> &[u8] {
        match &self.numbers {
            TravellingNumbers::Narrow(numbers) => bytes_of(numbers),
            TravellingNumbers::Wide(numbers) => bytes_of(numbers),
            TravellingNumbers::Whole { .. } => {
                let numbers = self.collection.numbers_of(self.items.clone());
                match numbers.unwrap_or(Vector::EMPTY) {
                    Vector::Narrow(numbers) => bytes_of(numbers),
                    Vector::Wide(numbers) => bytes_of(numbers),
                }
            }
        }
    }

    /// Declares the vectors. Gives them as kernels prepare them, with the centre at an address, and the
    /// address of their row counts; 0 where every vector has one row.
    pub(super) fn declare<'a>(&'a self, arena: &mut Arena<'a>, centre: u64) -> (Given, u64) {
        let mut optional = |numbers: &'a [u32]| match numbers.is_empty() {
            true => 0,
            false => arena.copied(numbers),
        };
        let (present, row_counts) = (optional(&self.present), optional(&self.row_counts));
        let (values, count) = (arena.copied(self.bytes()), self.items.len() as u32);
        (Given { values, present, centre, count, wide: self.are_wide() }, row_counts)
    }
}
