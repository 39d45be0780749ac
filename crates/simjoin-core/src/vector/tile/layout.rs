//! Where the places of rows lie.

use std::iter::StepBy;
use std::slice::{ChunksMut, IterMut};

use crate::simd::TILE;

/// A way to pack rows in groups: what the products read together lies together, whatever the length of
/// the vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::vector) struct RowLayout {
    /// The rows of a group.
    pub unit: usize,
    /// The places of a row that follow each other, before those of the next row.
    run: usize,
}

impl RowLayout {
    /// One place of all rows of a group after the other: what a register tile broadcasts lies in one line
    /// of the cache.
    pub(in crate::vector) const LANES: Self = Self { unit: 12, run: 1 };

    /// Tiles of sixteen rows of sixteen places, for a matrix unit.
    pub(in crate::vector) const TILES: Self = Self { unit: TILE, run: TILE };

    /// The number of rows to the end of the last group.
    pub(in crate::vector) fn padded(self, rows: usize) -> usize {
        rows.next_multiple_of(self.unit)
    }

    /// The elements that rows of so many places take.
    pub(in crate::vector) fn len(self, rows: usize, places: usize) -> usize {
        rows.div_ceil(self.unit) * self.group(places)
    }

    fn group(self, places: usize) -> usize {
        self.unit * places.next_multiple_of(self.run)
    }

    /// Where the first place of a row lies.
    pub(in crate::vector) fn start(self, row: usize, places: usize) -> usize {
        let group = self.group(places);
        row / self.unit * group + (row % self.unit * self.run).min(group)
    }

    /// The places of a row, in their order, with those that fill its last run.
    pub(in crate::vector) fn row<E>(
        self,
        numbers: &mut [E],
        row: usize,
        places: usize,
    ) -> TilePlaces<'_, E> {
        let end = (row / self.unit + 1) * self.group(places);
        let own = &mut numbers[self.start(row, places)..end];
        match self.run {
            1 => TilePlaces::Apart(own.iter_mut().step_by(self.unit)),
            run => TilePlaces::InRuns {
                now: [].iter_mut(),
                next: own.chunks_mut(self.unit * run),
                run,
            },
        }
    }
}

/// The places of a row.
pub(in crate::vector) enum TilePlaces<'a, E> {
    Apart(StepBy<IterMut<'a, E>>),
    InRuns {
        now: IterMut<'a, E>,
        /// Each begins with a run.
        next: ChunksMut<'a, E>,
        run: usize,
    },
}

impl<'a, E> Iterator for TilePlaces<'a, E> {
    type Item = &'a mut E;

    #[inline]
    fn next(&mut self) -> Option<&'a mut E> {
        match self {
            Self::Apart(places) => places.next(),
            Self::InRuns { now, next, run } => {
                if now.len() == 0 {
                    let chunk = next.next()?;
                    let run = chunk.len().min(*run);
                    *now = chunk[..run].iter_mut();
                }
                now.next()
            }
        }
    }
}
