//! Rows by the size of their set.

use std::ops::Range;

use datafusion::common::Result;

use crate::engine::Axis;
use crate::set::{Bounds, Role};
use crate::spec::{Call, Predicate, Side};

/// The size of a row's set is its position: partners of a set have sizes near its own, as far as
/// the measure bounds them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SizeAxis {
    call: Call,
    bounds: Bounds,
}

impl SizeAxis {
    /// # Errors
    ///
    /// An internal error when another family has the function.
    pub(crate) fn try_new(predicate: Predicate) -> Result<Self> {
        Ok(Self { call: predicate.call, bounds: Bounds::of(&predicate)? })
    }
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

    fn weight(&self, size: u32) -> u64 {
        u64::from(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::Measure;

    /// No partner is missed, whatever the range of sizes.
    #[test]
    fn the_reach_of_a_range_holds_that_of_its_sizes() {
        for measure in Measure::ALL {
            for bound in [0.3, 0.5, 0.8, 1.0, 1.5, 3.0] {
                for first in [Side::Left, Side::Right] {
                    let call = Call { function: measure.function(), first };
                    let axis = SizeAxis::try_new(Predicate { call, bound }).unwrap();
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
