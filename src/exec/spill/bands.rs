//! Which rows lie on disk together: by a hash of the blocking key, then by their position on the
//! family's axis.

use std::hash::BuildHasher;

use arrow::array::BinaryArray;
use foldhash::quality::FixedState;

use crate::engine::{ANYWHERE, Axis};

/// Parts by blocking key, where there is one.
const KEY_PARTS: usize = 16;

/// The parts that both sides are cut into.
///
/// The same key and the same position are in the same band, whatever the side. Where the limits of
/// the positions lie is a matter of speed alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bands {
    /// Of blocking keys.
    key_parts: usize,
    /// The least position of each band but the first, ascending.
    limits: Vec<u32>,
    /// The kind of rows that positions tell something of, where rows may lie anywhere: those and rows
    /// of other kinds are a band behind the others.
    kind: Option<u32>,
}

impl Bands {
    /// Cuts rows at these positions into about `count` bands of equal weight. `positions` are a
    /// sample; most rows are of a `kind`.
    pub(crate) fn new(
        mut positions: Vec<u32>,
        kind: u32,
        axis: &dyn Axis,
        count: usize,
        has_keys: bool,
    ) -> Self {
        let kind = axis.has_anywhere().then_some(kind);
        if kind.is_some() {
            positions.retain(|&position| position != ANYWHERE);
        }
        let key_parts = if has_keys { KEY_PARTS.min(count) } else { 1 };
        let count = (count / key_parts).max(1) as u64;
        positions.sort_unstable();
        // A row weighs something besides its item.
        let weight = |position: u32| axis.weight(position) + 8;
        let all: u64 = positions.iter().map(|&position| weight(position)).sum();
        let mut limits = vec![];
        let mut before = 0;
        for (i, &position) in positions.iter().enumerate() {
            let share = (limits.len() as u64 + 1) * all / count;
            let fits = i > 0 && positions[i - 1] < position && limits.len() + 1 < count as usize;
            if before >= share && fits {
                limits.push(position);
            }
            before += weight(position);
        }
        Self { key_parts, limits, kind }
    }

    /// The number of bands, without the band of rows without an item.
    pub(crate) fn len(&self) -> usize {
        self.key_parts * self.width()
    }

    /// The bands of each part by blocking key.
    fn width(&self) -> usize {
        self.limits.len() + 1 + usize::from(self.kind.is_some())
    }

    /// The band of each row by its position and kind; [`Self::len`] for rows without an item.
    pub(crate) fn of_rows(
        &self,
        positions: &[u32],
        kinds: Option<&[u32]>,
        keys: Option<&BinaryArray>,
    ) -> Vec<usize> {
        let is_usual = |row: usize, position: u32| match (self.kind, kinds) {
            (None, _) => true,
            (Some(kind), Some(kinds)) => position != ANYWHERE && kinds[row] == kind,
            (Some(_), None) => position != ANYWHERE,
        };
        let band = |(row, &position): (usize, &u32)| {
            if position == 0 {
                return self.len();
            }
            let part = match keys {
                Some(keys) if self.key_parts > 1 => {
                    FixedState::default().hash_one(keys.value(row)) as usize % self.key_parts
                }
                _ => 0,
            };
            part * self.width()
                + match is_usual(row, position) {
                    true => self.limits.partition_point(|&least| least <= position),
                    false => self.limits.len() + 1,
                }
        };
        positions.iter().enumerate().map(band).collect()
    }

    /// The part by blocking key that a band belongs to.
    pub(crate) fn key_part(&self, band: usize) -> usize {
        band / self.width()
    }

    /// Whether the rows of a band lie anywhere.
    pub(crate) fn is_anywhere(&self, band: usize) -> bool {
        self.kind.is_some() && band < self.len() && band % self.width() > self.limits.len()
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::spec::Side;

    /// The weight of a row is its position. Rows may lie anywhere, or not.
    #[derive(Debug)]
    struct ByPosition(bool);

    impl Axis for ByPosition {
        fn reach(&self, _: Side, _: Range<u32>) -> Option<Range<u64>> {
            None
        }

        fn has_anywhere(&self) -> bool {
            self.0
        }

        fn weight(&self, position: u32) -> u64 {
            u64::from(position)
        }
    }

    #[test]
    fn bands_weigh_about_the_same() {
        let positions: Vec<u32> = (0..10_000).map(|i| 1 + i % 100).collect();
        let bands = Bands::new(positions.clone(), 0, &ByPosition(false), 10, false);
        assert_eq!(bands.len(), 10);
        let all: Vec<u32> = (0..=100).collect();
        let of_position = bands.of_rows(&all, None, None);
        assert!(of_position[1..].is_sorted());
        assert_eq!((of_position[0], of_position[1], of_position[100]), (10, 0, 9));
        let mut weights = [0; 10];
        positions.iter().for_each(|&p| weights[of_position[p as usize]] += p);
        assert!(weights.iter().all(|w| (30_000..70_000).contains(w)), "{weights:?}");
        // One position cannot be cut.
        assert_eq!(Bands::new(vec![7; 1000], 0, &ByPosition(false), 10, false).len(), 1);
        assert_eq!(Bands::new(vec![], 0, &ByPosition(false), 10, true).len(), 10);
    }

    /// Rows that lie anywhere, by their position or by their kind, have a band behind the others of
    /// their keys.
    #[test]
    fn rows_that_lie_anywhere_have_a_band_of_their_own() {
        let positions: Vec<u32> = (0..1000).map(|i| 1 + i % 100).chain([ANYWHERE; 50]).collect();
        for count in [1, 4, 40] {
            let bands = Bands::new(positions.clone(), 7, &ByPosition(true), count, false);
            let some = [0, 1, 100, ANYWHERE, 1, 100];
            let of_rows = bands.of_rows(&some, Some(&[0, 7, 7, 7, 8, 0]), None);
            let last = bands.len() - 1;
            assert_eq!(of_rows, [last + 1, 0, last - 1, last, last, last]);
            assert!((0..last).all(|band| !bands.is_anywhere(band)) && bands.is_anywhere(last));
            assert!(!bands.is_anywhere(last + 1));
            let of_rows = bands.of_rows(&some, None, None);
            assert_eq!(of_rows, [last + 1, 0, last - 1, last, 0, last - 1]);
            let keyed = Bands::new(positions.clone(), 7, &ByPosition(true), 4 * count, true);
            for band in 0..keyed.len() {
                let is_last =
                    band + 1 == keyed.len() || keyed.key_part(band) < keyed.key_part(band + 1);
                assert_eq!(keyed.is_anywhere(band), is_last);
            }
        }
    }
}
