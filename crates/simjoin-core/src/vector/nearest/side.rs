//! A side of a search, read where its numbers lie.

use std::ops::Range;

use super::on_devices::SideNumbers;
use crate::engine::NeighbourSide;
use crate::error::Result;
use crate::memory::Reservation;
use crate::util::cancel::CancelFlag;
use crate::vector::metric::Metric;
use crate::vector::middle::{Middle, is_usual, spread};
use crate::vector::numbers::{NumberColumn, NumberRow, holds_vectors};
use crate::vector::width::Vector;

/// The vectors among the rows of a side, but for those with NaN, numbered in their order.
#[derive(Debug)]
pub(super) struct SideColumn {
    /// The numbers of the batches that have rows of the side.
    columns: Vec<NumberColumn>,
    /// By vector: the place of its column among `columns`, and the row there.
    vectors: Vec<(u32, u32)>,
    /// By vector: its place among the rows of the side.
    pub(super) places: Vec<u32>,
    /// 0 where there is no vector.
    pub(super) dimensions: u32,
    _memory: Reservation,
}

/// A side, or the reason why it has vectors that a device does not take.
pub(super) type Read = std::result::Result<SideColumn, String>;

impl SideColumn {
    /// Reads a side, with `of_origin` the values that its argument is made of.
    pub(super) fn read(
        side: &NeighbourSide<'_>,
        of_origin: bool,
        metric: Metric,
        (memory, cancel): (Reservation, &CancelFlag),
    ) -> Result<Read> {
        let argument = side.argument;
        memory.try_grow(side.rows.len() * (size_of::<(u32, u32)>() + size_of::<u32>()))?;
        let (mut columns, mut vectors, mut places) = (vec![], vec![], vec![]);
        let (mut rows, mut start, mut dimensions) = (side.rows.iter().enumerate().peekable(), 0, 0);
        vectors.reserve_exact(side.rows.len());
        places.reserve_exact(side.rows.len());
        for (batch, count) in argument.rows().iter().enumerate() {
            let end = start + *count as u32;
            // A side may be few rows of a large table.
            if rows.peek().is_none_or(|(_, row)| **row >= end) {
                start = end;
                continue;
            }
            cancel.check()?;
            let column = argument.values(batch, 0..*count, of_origin)?;
            if !argument.is_stored(of_origin) {
                memory.try_grow(column.get_array_memory_size())?;
            }
            if !holds_vectors(column.data_type()) {
                return Ok(Err(format!("a column of {}", column.data_type())));
            }
            let numbers = NumberColumn::try_new(&column)?;
            while let Some((place, row)) = rows.next_if(|(_, row)| **row < end) {
                match numbers.row((row - start) as usize) {
                    NumberRow::Null => {}
                    // The function looks at the length of these before.
                    NumberRow::WithNull(_) if metric.measures_nulls() => {
                        return Ok(Err("vectors with NULL".to_string()));
                    }
                    NumberRow::WithNull(_) => {}
                    NumberRow::Vector(range) => {
                        let len = u32::try_from(range.len()).unwrap_or(u32::MAX);
                        if dimensions != 0 && len != dimensions || len == 0 {
                            return Ok(Err("vectors of several lengths".to_string()));
                        }
                        dimensions = len;
                        // No score of a vector with NaN ranks.
                        if !numbers.has_nan(range) {
                            vectors.push((columns.len() as u32, row - start));
                            places.push(place as u32);
                        }
                    }
                }
            }
            start = end;
            columns.push(numbers);
        }
        Ok(Ok(Self { columns, vectors, places, dimensions, _memory: memory }))
    }

    /// The numbers of a vector: the column that has them, and where they lie there.
    fn place(&self, number: usize) -> (&NumberColumn, Range<usize>) {
        let (column, row) = self.vectors[number];
        let numbers = &self.columns[column as usize];
        match numbers.row(row as usize) {
            NumberRow::Vector(range) => (numbers, range),
            NumberRow::Null | NumberRow::WithNull(_) => (numbers, 0..0),
        }
    }

    /// The number of vectors.
    pub(super) fn len(&self) -> u32 {
        self.vectors.len() as u32
    }

    /// A vector, where it lies or, where its numbers are of another type, in `buffer`.
    pub(super) fn vector<'a>(&'a self, number: u32, buffer: &'a mut Vec<f64>) -> Vector<'a> {
        let (numbers, range) = self.place(number as usize);
        numbers.vector(range, buffer)
    }

    /// Gives the pieces of vectors at some places of all their numbers, each with where it begins there.
    fn for_each(
        &self,
        places: Range<usize>,
        mut give: impl FnMut(&NumberColumn, Range<usize>, usize),
    ) {
        let dimensions = self.dimensions.max(1) as usize;
        let mut place = places.start;
        while place < places.end {
            let (number, first) = (place / dimensions, place % dimensions);
            let count = (dimensions - first).min(places.end - place);
            let (numbers, range) = self.place(number);
            let start = range.start + first;
            give(numbers, start..start + count, place - places.start);
            place += count;
        }
    }

    /// The middle of most of the vectors; whole numbers where all numbers of the sample are whole, so that
    /// differences stay exact.
    pub(super) fn centre(&self, cancel: &CancelFlag) -> Result<Vec<f64>> {
        const SAMPLED: usize = 1 << 10;
        let some = spread(0..self.vectors.len() as u32, SAMPLED).map(|number| {
            let (numbers, range) = self.place(number as usize);
            let mut vector = vec![];
            numbers.append(range, &mut vector);
            vector
        });
        let some: Vec<Vec<f64>> = some.filter(|vector| is_usual(Vector::Wide(vector))).collect();
        let whole = some.iter().flatten().all(|number| number.fract() == 0.0);
        let vectors = some.iter().map(|vector| Vector::Wide(vector));
        let Middle { mut centre, .. } = Middle::of(vectors, true, cancel)?;
        centre.resize(self.dimensions as usize, 0.0);
        centre.iter_mut().filter(|_| whole).for_each(|mean| *mean = mean.round());
        Ok(centre)
    }
}

impl SideNumbers for SideColumn {
    fn count(&self) -> u32 {
        self.vectors.len() as u32
    }

    fn write_narrow(&self, places: Range<usize>, to: &mut [f32]) -> bool {
        let mut all = true;
        self.for_each(places, |numbers, range, at| {
            let len = range.len();
            all &= numbers.write_narrow(range, &mut to[at..at + len]);
        });
        all
    }

    fn write_wide(&self, places: Range<usize>, to: &mut [f64]) {
        self.for_each(places, |numbers, range, at| {
            let len = range.len();
            numbers.write_wide(range, &mut to[at..at + len]);
        });
    }
}
