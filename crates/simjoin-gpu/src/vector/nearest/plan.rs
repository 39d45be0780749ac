//! The sizes of a search: its sample, its tiles, its room.

use crate::offload::tiles::TileUnit;
use crate::tuning::{Size, Tuning};
use crate::vector::abi::MAX_UNIT_COLUMNS;
use crate::vector::estimate::BUS;
use crate::vector::shape::{NumberType, VectorKernel, VectorShape};

/// The most neighbours of a row that a search finds.
pub(super) const MOST_NEIGHBOURS: usize = 128;

/// Rows and columns are prepared to a multiple of it: of every strip and stage.
const PADDING: u32 = 768;

/// The most pairs that a list has room for: their places are 32 bits.
const MOST_LISTED: u64 = u32::MAX as u64 - (1 << 20);

/// The columns from which the thresholds of rows follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SampledStages {
    pub stages: u32,
    /// The stages of a group.
    pub group_stages: u32,
    /// The groups of a row: each of four lanes has some.
    pub groups: u32,
}

impl SampledStages {
    /// The sample for so many neighbours among so many columns; `None` where these are too few.
    pub(super) fn of(columns: u32, neighbours: u32, shape: &VectorShape) -> Option<Self> {
        /// Groups for each neighbour, so that few groups have two of the nearest columns.
        const GROUPS: u32 = 8;
        // The part of the columns that makes the time of both passes least is about √k by this, on an H200.
        let divisor = match shape.numbers {
            NumberType::Halves => 45.0,
            NumberType::Integers => 22.0,
        };
        let all = columns / shape.stage_columns;
        let part = f64::from(columns) * f64::from(neighbours).sqrt() / divisor;
        let wanted = (part / f64::from(shape.stage_columns)).ceil() as u32;
        let stages = wanted.max(neighbours * GROUPS / 4).min(all);
        if 4 * stages < neighbours {
            return None;
        }
        let unit = MAX_UNIT_COLUMNS / shape.stage_columns;
        let mut group_stages = 1;
        while 2 * group_stages <= unit && 4 * (stages / (2 * group_stages)) >= GROUPS * neighbours {
            group_stages *= 2;
        }
        Some(Self { stages, group_stages, groups: 4 * stages.div_ceil(group_stages) })
    }
}

/// A number of vectors with those that fill the last tile.
pub(super) fn padded(count: u32) -> u32 {
    count.next_multiple_of(PADDING)
}

/// The tiles of strips of `rows` rows with stages of columns: those of some columns for all strips, one range
/// of columns after the other, so that these stay near the multiprocessors. `same`: rows are columns of the
/// same number, and meet themselves and later ones.
pub(super) fn units(rows: u32, stages: u32, shape: &VectorShape, same: bool) -> Vec<TileUnit> {
    let width = MAX_UNIT_COLUMNS / shape.stage_columns;
    let mut units = vec![];
    for first in (0..stages).step_by(width as usize) {
        let end = stages.min(first + width);
        for strip in (0..rows).step_by(shape.strip_rows as usize) {
            let earliest = if same { first.max(strip / shape.stage_columns) } else { first };
            if earliest < end {
                units.push(TileUnit { strip, first_stage: earliest, stages: end - earliest });
            }
        }
    }
    units
}

/// The pairs that are expected to pass the thresholds, in the buckets of all rows.
pub(super) fn expected_pairs(
    rows: u32,
    columns: u32,
    neighbours: u32,
    sample: SampledStages,
    stage: u32,
) -> u64 {
    let sampled = f64::from(sample.stages * stage).max(1.0);
    // As many groups as there are for a neighbour, and what two of them in one group cost.
    let of_row = f64::from(neighbours) * f64::from(columns) / sampled;
    (1.2 * of_row * f64::from(rows)) as u64
}

/// The estimated work of a search, in nanoseconds of a device of 132 multiprocessors, with the copies of both sides.
/// `itself`: rows are columns.
pub(super) fn estimated_work(
    [rows, columns]: [u32; 2],
    itself: bool,
    neighbours: u32,
    dimensions: u32,
) -> f64 {
    let shape = VectorShape::new(VectorKernel::Warpgroups, dimensions);
    let Some(sample) = SampledStages::of(columns, neighbours, &shape) else { return 0.0 };
    let [rows, columns] = [rows, columns].map(f64::from);
    let (part, given) = if itself { (0.5, rows) } else { (1.0, rows + columns) };
    let met = part * columns + f64::from(sample.stages * shape.stage_columns);
    rows * met / shape.rate(dimensions) + 4.0 * given * f64::from(dimensions) / BUS
}

/// Room for pairs: `times` as many as expected, and some.
pub(super) fn room(expected: u64, times: u64, tuning: Tuning) -> u64 {
    const LEAST: Size<u64> = Size { usual: 1 << 22, small: 1 << 13 };
    expected.saturating_mul(times).saturating_add(tuning.size(LEAST)).min(MOST_LISTED)
}

/// Room for the neighbours of some rows. Ties are few, mostly; rows for which there is no room are not served.
pub(super) fn found_room(rows: u32, neighbours: u32, with_ties: bool) -> u32 {
    let least = u64::from(rows) * u64::from(neighbours);
    let room = if with_ties { least + least / 2 + 4096 } else { least };
    room.min(u32::MAX.into()) as u32
}

/// A step through `count` vectors that comes by each of them once, and by near ones at far places.
pub(super) fn stride(count: u32) -> u32 {
    const GOLDEN: f64 = 0.618_033_988_749_895;
    let mut stride = ((f64::from(count) * GOLDEN) as u32).max(1);
    while greatest_divisor(count, stride) != 1 {
        stride += 1;
    }
    stride
}

fn greatest_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(dimensions: u32) -> VectorShape {
        VectorShape::new(VectorKernel::Warpgroups, dimensions)
    }

    #[test]
    fn samples_have_groups_for_the_neighbours() {
        assert_eq!(SampledStages::of(1000, 16, &shape(8)), None);
        for (columns, neighbours) in
            [(1024, 16), (20_000, 10), (1_000_000, 10), (1 << 27, 128), (600, 1)]
        {
            let SampledStages { stages, group_stages, groups } =
                SampledStages::of(columns, neighbours, &shape(128)).unwrap();
            assert!(groups >= neighbours && stages * 256 <= columns);
            assert!(128 % group_stages == 0 && groups == 4 * stages.div_ceil(group_stages));
        }
    }

    #[test]
    fn units_meet_each_pair_once() {
        for (rows, same, dimensions) in [(3 * 768, true, 8), (768, false, 8), (1536, true, 300)] {
            let shape = shape(dimensions);
            let stages = padded(rows) / shape.stage_columns;
            let mut met = std::collections::BTreeSet::new();
            for unit in units(rows, stages, &shape, same) {
                for stage in unit.first_stage..unit.first_stage + unit.stages {
                    assert!(met.insert((unit.strip, stage)));
                }
            }
            for row in 0..rows {
                for column in (if same { row } else { 0 })..rows {
                    let strip = row / shape.strip_rows * shape.strip_rows;
                    assert!(met.contains(&(strip, column / shape.stage_columns)));
                }
            }
        }
    }

    #[test]
    fn strides_come_by_all_vectors() {
        for count in [1, 2, 3, 10, 999, 1000] {
            let stride = u64::from(stride(count));
            let all: std::collections::BTreeSet<_> =
                (0..u64::from(count)).map(|place| place * stride % u64::from(count)).collect();
            assert_eq!(all.len(), count as usize);
        }
    }
}
