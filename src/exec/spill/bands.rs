//! The bands in which rows lie on disk together: by a hash of the blocking key, then by their position on
//! the family's axis, or, where rows match only equal ones, by a hash of their items.

use std::hash::BuildHasher;

use arrow::array::BinaryArray;
use foldhash::quality::FixedState;

use crate::engine::{ANYWHERE, Axis};

/// Parts by blocking key, where there is one.
const KEY_PARTS: usize = 16;

/// The parts that both sides are cut into.
///
/// Rows of one key and one position are in one band, whatever the side. Where the limits of
/// the positions lie is a matter of speed alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bands {
    /// The number of parts by blocking keys.
    key_parts: usize,
    /// Rows up to a position match only rows with an equal item: in front of the other bands, they
    /// have bands by a hash of it. 0 where that is of no use.
    equal_up_to: u32,
    buckets: usize,
    /// The least position of each band but the first, ascending.
    limits: Vec<u32>,
    /// The kind of rows whose positions can be compared, where rows may lie anywhere. Rows that lie anywhere
    /// and rows of other kinds are a band behind the others.
    kind: Option<u32>,
}

impl Bands {
    /// Cuts rows at these positions into about `count` bands of equal weight. `positions` are a
    /// sample, of rows of the kind `kind`.
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
        let sum = |positions: &[u32]| positions.iter().map(|&p| weight(p)).sum::<u64>();
        let mut equal_up_to = axis.equal_up_to();
        let equal = positions.partition_point(|&position| position <= equal_up_to);
        let of_equal = sum(&positions[..equal]) * count / sum(&positions).max(1);
        let mut buckets = of_equal.min(count - 1);
        if buckets < 2 {
            (equal_up_to, buckets) = (0, 0);
        } else {
            positions.drain(..equal);
        }
        let count = count - buckets;
        let all = sum(&positions);
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
        Self { key_parts, equal_up_to, buckets: buckets as usize, limits, kind }
    }

    /// The number of bands, without the band of rows without an item.
    pub(crate) fn len(&self) -> usize {
        self.key_parts * self.width()
    }

    /// The bands of each part by blocking key.
    fn width(&self) -> usize {
        self.buckets + self.limits.len() + 1 + usize::from(self.kind.is_some())
    }

    /// Whether the bands of rows depend on the hashes of their items.
    pub(crate) fn by_hash(&self) -> bool {
        self.buckets > 0
    }

    /// The band of each row by its position, kind and hash; [`Self::len`] for rows without an item.
    pub(crate) fn of_rows(
        &self,
        positions: &[u32],
        kinds: Option<&[u32]>,
        hashes: Option<&[u32]>,
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
            let bucket = hashes.map(|hashes| hashes[row] as usize % self.buckets.max(1));
            part * self.width()
                + match (is_usual(row, position), bucket) {
                    (true, Some(bucket)) if position <= self.equal_up_to => bucket,
                    (true, _) => {
                        self.buckets + self.limits.partition_point(|&least| least <= position)
                    }
                    (false, _) => self.buckets + self.limits.len() + 1,
                }
        };
        positions.iter().enumerate().map(band).collect()
    }

    /// The part by blocking key that a band belongs to.
    pub(crate) fn key_part(&self, band: usize) -> usize {
        band / self.width()
    }

    /// The bucket of a band of rows that match only rows with an equal item: those of other buckets
    /// are none.
    pub(crate) fn bucket(&self, band: usize) -> Option<usize> {
        let bucket = band % self.width();
        (band < self.len() && bucket < self.buckets).then_some(bucket)
    }

    /// Whether the rows of a band lie anywhere.
    pub(crate) fn is_anywhere(&self, band: usize) -> bool {
        let last = self.buckets + self.limits.len();
        self.kind.is_some() && band < self.len() && band % self.width() > last
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

    /// Rows up to position 3 match only equal ones.
    #[derive(Debug)]
    struct EqualUpToThree;

    impl Axis for EqualUpToThree {
        fn reach(&self, _: Side, _: Range<u32>) -> Option<Range<u64>> {
            None
        }

        fn equal_up_to(&self) -> u32 {
            3
        }

        fn weight(&self, _: u32) -> u64 {
            1
        }
    }

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
        let of_position = bands.of_rows(&all, None, None, None);
        assert!(of_position[1..].is_sorted());
        assert_eq!((of_position[0], of_position[1], of_position[100]), (10, 0, 9));
        let mut weights = [0; 10];
        positions.iter().for_each(|&p| weights[of_position[p as usize]] += p);
        assert!(weights.iter().all(|w| (30_000..70_000).contains(w)), "{weights:?}");
        // One position cannot be cut.
        assert_eq!(Bands::new(vec![7; 1000], 0, &ByPosition(false), 10, false).len(), 1);
        assert_eq!(Bands::new(vec![], 0, &ByPosition(false), 10, true).len(), 10);
    }

    /// Rows that match only equal ones lie in bands by their hash, whatever their position.
    #[test]
    fn rows_that_match_only_equal_ones_lie_by_their_hash() {
        let positions: Vec<u32> = (0..1000).map(|i| 1 + i % 6).collect();
        for (count, has_keys) in [(10, false), (160, true)] {
            let bands = Bands::new(positions.clone(), 0, &EqualUpToThree, count, has_keys);
            assert!(bands.by_hash());
            let width = bands.width();
            assert_eq!((width, bands.len() % width), (8, 0));
            let of_rows = |positions: &[u32], hashes: &[u32]| {
                let rows = bands.of_rows(positions, None, Some(hashes), None);
                rows.into_iter().map(|band| (band, bands.bucket(band))).collect::<Vec<_>>()
            };
            let found = of_rows(&[1, 2, 3, 3, 0], &[7, 7, 7, 8, 7]);
            assert_eq!(found[0].1, Some(2));
            assert_eq!([found[1], found[2]], [found[0]; 2]);
            assert_ne!(found[3], found[0]);
            assert_eq!(found[4], (bands.len(), None));
            // The bands of other rows are behind, by their positions.
            let found = of_rows(&[4, 5, 6, 4], &[7, 8, 9, 1]);
            assert_eq!(found[0], found[3]);
            assert!(found.iter().all(|&(band, bucket)| bucket.is_none() && band >= 5));
            assert!(found[..3].is_sorted() && found[0] < found[2]);
        }
        // One band by hash has no use.
        let few = Bands::new(vec![9; 1000], 0, &EqualUpToThree, 10, false);
        assert!(!few.by_hash() && few.bucket(0).is_none());
        assert!(!Bands::new(positions, 0, &ByPosition(false), 10, false).by_hash());
    }

    /// Rows that lie anywhere, by their position or by their kind, have a band behind the others of
    /// their keys.
    #[test]
    fn rows_that_lie_anywhere_have_a_band_of_their_own() {
        let positions: Vec<u32> = (0..1000).map(|i| 1 + i % 100).chain([ANYWHERE; 50]).collect();
        for count in [1, 4, 40] {
            let bands = Bands::new(positions.clone(), 7, &ByPosition(true), count, false);
            let some = [0, 1, 100, ANYWHERE, 1, 100];
            let of_rows = bands.of_rows(&some, Some(&[0, 7, 7, 7, 8, 0]), None, None);
            let last = bands.len() - 1;
            assert_eq!(of_rows, [last + 1, 0, last - 1, last, last, last]);
            assert!((0..last).all(|band| !bands.is_anywhere(band)) && bands.is_anywhere(last));
            assert!(!bands.is_anywhere(last + 1));
            let of_rows = bands.of_rows(&some, None, None, None);
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
