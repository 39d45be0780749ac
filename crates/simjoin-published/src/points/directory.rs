//! The directory of the published index, as `kernels/published_points_directory.cuh` reads it: three
//! levels of 16 blocks, by quantiles of the first three dimensions.

use std::ops::Range;

use crate::engine::{ItemId, PrepareContext};
use crate::error::Result;
use crate::memory::Reservation;
use crate::vector::collection::Vectors;

const WAYS: usize = 16;
const LEVELS: usize = 3;
const LEAVES: usize = WAYS.pow(LEVELS as u32);
const BLOCKS: usize = WAYS + WAYS * WAYS + LEAVES;
/// Where the parts of a directory begin, in words.
const DIMENSIONS: usize = 4 * BLOCKS;
const STARTS: usize = DIMENSIONS + 4;
const COLUMNS: usize = STARTS + LEAVES + 8;

/// A directory of all vectors of a collection, in words.
#[derive(Debug)]
pub(super) struct Directory {
    pub words: Vec<u32>,
    _memory: Reservation,
}

/// A column, with its number in the dimension of a level.
#[derive(Debug, Clone, Copy)]
struct Keyed {
    number: f64,
    item: ItemId,
}

impl Directory {
    /// The directory of the vectors of some dimensions; `None` where one of them is not finite, or they
    /// have no dimension.
    ///
    /// # Errors
    ///
    /// Where memory is refused, or the work cancelled.
    pub(super) fn of(
        build: &Vectors,
        dimensions: u32,
        context: PrepareContext<'_>,
    ) -> Result<Option<Self>> {
        let is_column =
            |&item: &ItemId| build.is_vector(item) && build.dimensions(item) == dimensions;
        let count = (0..build.len()).filter(is_column).count();
        let is_finite = |item| build.vector(item).iter().all(|number| number.is_finite());
        if dimensions == 0 || !(0..build.len()).filter(is_column).all(is_finite) {
            return Ok(None);
        }
        let memory = context.reservation.new_empty();
        memory.try_grow((COLUMNS + count + 1) * size_of::<u32>() + count * size_of::<Keyed>())?;
        let mut order = Vec::with_capacity(count);
        order.extend((0..build.len()).filter(is_column).map(|item| Keyed { number: 0.0, item }));
        let mut words = vec![0; COLUMNS + count + 1];
        for level in 0..LEVELS {
            words[DIMENSIONS + level] = dimension_of(level, dimensions);
        }
        words[STARTS..COLUMNS].fill(count as u32);
        let mut cut = Cut { build, dimensions, words: &mut words, context };
        cut.level(0, 0, 0, &mut order)?;
        for (word, column) in words[COLUMNS..].iter_mut().zip(&order) {
            *word = column.item;
        }
        Ok(Some(Self { words, _memory: memory }))
    }
}

/// The dimension of a level.
fn dimension_of(level: usize, dimensions: u32) -> u32 {
    (level as u32).min(dimensions - 1)
}

/// The part `way` of `count` columns.
fn part(count: usize, way: usize) -> Range<usize> {
    count * way / WAYS..count * (way + 1) / WAYS
}

/// A directory in the making.
struct Cut<'a> {
    build: &'a Vectors,
    dimensions: u32,
    words: &'a mut [u32],
    context: PrepareContext<'a>,
}

impl Cut<'_> {
    /// Makes the blocks of a level under block `above`, of columns from place `first` on.
    fn level(
        &mut self,
        level: usize,
        above: usize,
        first: usize,
        columns: &mut [Keyed],
    ) -> Result<()> {
        self.context.cancel.check()?;
        let dimension = dimension_of(level, self.dimensions) as usize;
        for column in columns.iter_mut() {
            column.number = self.build.vector(column.item).get(dimension).unwrap_or(0.0);
        }
        split(columns, 0..WAYS, columns.len(), 0);
        let before: usize = (1..=level).map(|level| WAYS.pow(level as u32)).sum();
        for way in 0..WAYS {
            let (block, part) = (above * WAYS + way, part(columns.len(), way));
            let start = first + part.start;
            let columns = &mut columns[part];
            self.extent(before + block, columns);
            match level + 1 < LEVELS {
                true => self.level(level + 1, block, start, columns)?,
                false => self.words[STARTS + block] = start as u32,
            }
        }
        Ok(())
    }

    fn extent(&mut self, block: usize, columns: &[Keyed]) {
        let numbers = columns.iter().map(|column| column.number);
        let least = numbers.clone().fold(f64::INFINITY, f64::min).to_bits();
        let greatest = numbers.fold(f64::NEG_INFINITY, f64::max).to_bits();
        let words = [least, least >> 32, greatest, greatest >> 32].map(|bits| bits as u32);
        self.words[4 * block..4 * block + 4].copy_from_slice(&words);
    }
}

/// Puts the parts `ways` of `count` columns, which `columns` holds from place `first` on, in order.
fn split(columns: &mut [Keyed], ways: Range<usize>, count: usize, first: usize) {
    if ways.len() < 2 || columns.is_empty() {
        return;
    }
    let middle = ways.start + ways.len() / 2;
    let at = part(count, middle).start - first;
    if at > 0 && at < columns.len() {
        columns.select_nth_unstable_by(at, |a, b| a.number.total_cmp(&b.number));
    }
    let (below, above) = columns.split_at_mut(at);
    split(below, ways.start..middle, count, first);
    split(above, middle..ways.end, count, first + at);
}
