//! Which rows lie on disk together: by a hash of the blocking key, then by their position on the
//! family's axis.

use std::hash::BuildHasher;

use arrow::array::BinaryArray;
use foldhash::quality::FixedState;

use crate::engine::Axis;

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
}

impl Bands {
    /// Cuts rows at these positions into about `count` bands of equal weight. `positions` are a
    /// sample.
    pub(crate) fn new(
        mut positions: Vec<u32>,
        axis: &dyn Axis,
        count: usize,
        has_keys: bool,
    ) -> Self {
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
        Self { key_parts, limits }
    }

    /// The number of bands, without the band of rows without an item.
    pub(crate) fn len(&self) -> usize {
        self.key_parts * (self.limits.len() + 1)
    }

    /// The band of each row by its position; [`Self::len`] for rows without an item.
    pub(crate) fn of_rows(&self, positions: &[u32], keys: Option<&BinaryArray>) -> Vec<usize> {
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
            part * (self.limits.len() + 1) + self.limits.partition_point(|&least| least <= position)
        };
        positions.iter().enumerate().map(band).collect()
    }

    /// The part by blocking key that a band belongs to.
    pub(crate) fn key_part(&self, band: usize) -> usize {
        band / (self.limits.len() + 1)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::spec::Side;

    /// The weight of a row is its position.
    #[derive(Debug)]
    struct ByPosition;

    impl Axis for ByPosition {
        fn reach(&self, _: Side, _: Range<u32>) -> Option<Range<u64>> {
            None
        }

        fn weight(&self, position: u32) -> u64 {
            u64::from(position)
        }
    }

    #[test]
    fn bands_weigh_about_the_same() {
        let positions: Vec<u32> = (0..10_000).map(|i| 1 + i % 100).collect();
        let bands = Bands::new(positions.clone(), &ByPosition, 10, false);
        assert_eq!(bands.len(), 10);
        let all: Vec<u32> = (0..=100).collect();
        let of_position = bands.of_rows(&all, None);
        assert!(of_position[1..].is_sorted());
        assert_eq!((of_position[0], of_position[1], of_position[100]), (10, 0, 9));
        let mut weights = [0; 10];
        positions.iter().for_each(|&p| weights[of_position[p as usize]] += p);
        assert!(weights.iter().all(|w| (30_000..70_000).contains(w)), "{weights:?}");
        // One position cannot be cut.
        assert_eq!(Bands::new(vec![7; 1000], &ByPosition, 10, false).len(), 1);
        assert_eq!(Bands::new(vec![], &ByPosition, 10, true).len(), 10);
    }
}
