//! Rows by the size of their set.

use std::ops::Range;

use crate::engine::Axis;
use crate::error::Result;
use crate::predicate::{Call, Predicate, Side};
use crate::set::measure::{Bounds, Role};

/// The size of a row's set is its position: partners of a set have sizes near its own, as far as
/// the measure bounds them.
#[derive(Debug, Clone, Copy)]
pub struct SizeAxis {
    call: Call,
    bounds: Bounds,
    equal_up_to: u32,
}

/// Sizes that are looked at for sets that match only equal ones.
const MOST_EQUAL: u32 = 1 << 10;

impl SizeAxis {
    /// # Errors
    ///
    /// An internal error when another family has the function.
    pub fn try_new(predicate: Predicate) -> Result<Self> {
        let bounds = Bounds::of(&predicate)?;
        let size = (1..=MOST_EQUAL).find(|&size| !matches_only_equal(&bounds, size));
        let equal_up_to = size.unwrap_or(MOST_EQUAL + 1) - 1;
        Ok(Self { call: predicate.call, bounds, equal_up_to })
    }
}

/// Whether sets of this size match only equal sets, on either side.
fn matches_only_equal(bounds: &Bounds, size: u32) -> bool {
    [Role::First, Role::Second].into_iter().all(|role| match bounds.size_range(role, size) {
        Some(range) => range == (size, size) && bounds.min_overlap(role, size, size) == Some(size),
        None => true,
    })
}

impl Axis for SizeAxis {
    fn reach(&self, side: Side, sizes: Range<u32>) -> Option<Range<u64>> {
        // Both ends of the range of partners rise with the size. A small set may have no partner at
        // all where a larger one has some (an overlap of more tokens than it holds).
        let role = Role::of(self.call, side);
        let (_, greatest) = self.bounds.size_range(role, sizes.end.checked_sub(1)?)?;
        let least = self.bounds.size_range(role, sizes.start).map_or(1, |(least, _)| least);
        Some(u64::from(least)..u64::from(greatest) + 1)
    }

    fn equal_up_to(&self) -> u32 {
        self.equal_up_to
    }

    fn weight(&self, size: u32) -> u64 {
        u64::from(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::measure::Measure;

    /// Up to the size that the axis names, sets match equal sets alone.
    #[test]
    fn small_sets_match_only_equal_ones() {
        let up_to = |measure: Measure, bound: f64| {
            let call = Call { function: measure.function(), first: Side::Left };
            SizeAxis::try_new(Predicate::new(call, bound)).unwrap().equal_up_to()
        };
        assert_eq!(up_to(Measure::Jaccard, 0.8), 3);
        assert_eq!(up_to(Measure::Jaccard, 0.5), 0);
        assert_eq!(up_to(Measure::Jaccard, 1.0), MOST_EQUAL);
        assert_eq!(up_to(Measure::Containment, 0.9), 0);
        for measure in Measure::ALL {
            for bound in [0.6, 0.75, 0.9, 0.97, 3.0] {
                for size in 1..=up_to(measure, bound).min(20) {
                    for other in 1..50 {
                        for common in 1..=size.min(other) {
                            let [common, size, other] = [common, size, other].map(u64::from);
                            let matches = [(size, other), (other, size)]
                                .map(|(a, b)| measure.value(common, a, b) >= bound);
                            let is_equal = common == size && common == other;
                            assert!(is_equal || matches == [false; 2], "{measure} {bound} {size}");
                        }
                    }
                }
            }
        }
    }

    /// No partner is missed, whatever the range of sizes.
    #[test]
    fn the_reach_of_a_range_holds_that_of_its_sizes() {
        for measure in Measure::ALL {
            for bound in [0.3, 0.5, 0.8, 1.0, 1.5, 3.0] {
                for first in [Side::Left, Side::Right] {
                    let call = Call { function: measure.function(), first };
                    let axis = SizeAxis::try_new(Predicate::new(call, bound)).unwrap();
                    for side in [Side::Left, Side::Right] {
                        let role = Role::of(call, side);
                        for start in 1..30 {
                            for end in start + 1..32 {
                                let found = axis.reach(side, start..end);
                                for size in start..end {
                                    let Some((least, greatest)) =
                                        axis.bounds.size_range(role, size)
                                    else {
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
}
