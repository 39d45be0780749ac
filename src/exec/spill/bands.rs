//! Which rows lie on disk together: by a hash of the blocking key, then by the size of the set.

use std::hash::BuildHasher;
use std::ops::Range;

use arrow::array::{Array, BinaryArray, LargeListArray};
use foldhash::quality::FixedState;

use crate::set::{Bounds, Role};

/// Parts by blocking key, where there is one.
const KEY_PARTS: usize = 16;

/// The parts that both sides are cut into.
///
/// The same key and the same size are in the same band, whatever the side. Where the limits of the
/// sizes lie is a matter of speed alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bands {
    /// Of blocking keys.
    key_parts: usize,
    /// The least size of each band but the first, ascending.
    limits: Vec<u32>,
}

impl Bands {
    /// Cuts sets of these sizes into about `count` bands that hold as many tokens each. `sizes`
    /// are a sample.
    pub fn of_sizes(mut sizes: Vec<u32>, count: usize, has_keys: bool) -> Self {
        let key_parts = if has_keys { KEY_PARTS.min(count) } else { 1 };
        let count = (count / key_parts).max(1) as u64;
        sizes.sort_unstable();
        // A set weighs something besides its tokens.
        let weight = |size: u32| u64::from(size) + 8;
        let all: u64 = sizes.iter().map(|&size| weight(size)).sum();
        let mut limits = vec![];
        let mut before = 0;
        for (i, &size) in sizes.iter().enumerate() {
            let share = (limits.len() as u64 + 1) * all / count;
            if before >= share && i > 0 && sizes[i - 1] < size && limits.len() + 1 < count as usize
            {
                limits.push(size);
            }
            before += weight(size);
        }
        Self { key_parts, limits }
    }

    /// The number of bands, those without sets aside.
    pub fn len(&self) -> usize {
        self.key_parts * (self.limits.len() + 1)
    }

    /// The band of each row; [`Self::len`] for rows without a set.
    pub fn of_rows(&self, lists: &LargeListArray, keys: Option<&BinaryArray>) -> Vec<usize> {
        let sizes = lists.value_offsets().windows(2).map(|ends| (ends[1] - ends[0]) as u32);
        let band = |(row, size): (usize, u32)| {
            if lists.is_null(row) {
                return self.len();
            }
            let part = match keys {
                Some(keys) if self.key_parts > 1 => {
                    FixedState::default().hash_one(keys.value(row)) as usize % self.key_parts
                }
                _ => 0,
            };
            part * (self.limits.len() + 1) + self.limits.partition_point(|&least| least <= size)
        };
        sizes.enumerate().map(band).collect()
    }

    /// The part by blocking key that a band belongs to.
    pub fn key_part(&self, band: usize) -> usize {
        band / (self.limits.len() + 1)
    }
}

/// The sizes that a partner of a set with a size in `sizes` may have; `None` when there is none.
/// `role` is that of the sets.
pub(crate) fn partner_sizes(bounds: &Bounds, role: Role, sizes: Range<u32>) -> Option<Range<u64>> {
    // Both ends of the range of partners rise with the size. A small set may have no partner at
    // all where a larger one has some (an overlap of more tokens than it holds).
    let (_, greatest) = bounds.size_range(role, sizes.end.checked_sub(1)?)?;
    let least = bounds.size_range(role, sizes.start).map_or(1, |(least, _)| least);
    Some(u64::from(least)..u64::from(greatest) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::Measure;

    #[test]
    fn bands_hold_about_as_many_tokens() {
        let sizes: Vec<u32> = (0..10_000).map(|i| 1 + i % 100).collect();
        let bands = Bands::of_sizes(sizes.clone(), 10, false);
        assert_eq!(bands.len(), 10);
        let lists = LargeListArray::from_iter_primitive::<arrow::datatypes::Int64Type, _, _>(
            (0..=100).map(|size| (size > 0).then(|| vec![Some(1); size])),
        );
        let of_size = bands.of_rows(&lists, None);
        assert!(of_size[1..].is_sorted());
        assert_eq!((of_size[0], of_size[1], of_size[100]), (10, 0, 9));
        let mut tokens = [0; 10];
        sizes.iter().for_each(|&size| tokens[of_size[size as usize]] += size);
        assert!(tokens.iter().all(|t| (30_000..70_000).contains(t)), "{tokens:?}");
        // One size cannot be cut.
        assert_eq!(Bands::of_sizes(vec![7; 1000], 10, false).len(), 1);
        assert_eq!(Bands::of_sizes(vec![], 10, true).len(), 10);
    }

    /// No partner is missed, whatever the range of sizes.
    #[test]
    fn partners_of_a_range_are_those_of_its_sizes() {
        for measure in Measure::ALL {
            for threshold in [0.3, 0.5, 0.8, 1.0, 1.5, 3.0] {
                let bounds = Bounds::new(measure, threshold);
                for role in [Role::First, Role::Second] {
                    for start in 1..30 {
                        for end in start + 1..32 {
                            let found = partner_sizes(&bounds, role, start..end);
                            for size in start..end {
                                let Some((least, greatest)) = bounds.size_range(role, size) else {
                                    continue;
                                };
                                let found = found.clone().unwrap();
                                assert!(found.start <= u64::from(least), "{measure} {size}");
                                assert!(found.end > u64::from(greatest), "{measure} {size}");
                            }
                        }
                    }
                }
            }
        }
    }
}
