//! The sample of two sides whose best pairs tell the bounds of rounds.

use crate::tuning::{Size, Tuning};

/// Left rows of a sample.
const LEFT_ROWS: usize = 64;

/// Right rows of a sample, at least and at most: enough for about two neighbours of `count` where that is
/// within these limits.
const RIGHT_ROWS: Size<[usize; 2]> = Size { usual: [1 << 12, 1 << 17], small: [16, 17] };

/// Pairs of rows that a last round may look at without a narrower one before it.
const FEW_PAIRS: Size = Size { usual: 1 << 18, small: 1 << 6 };

/// The sizes of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundSample {
    /// The rows of the left side.
    pub left: usize,
    /// The rows of the right side.
    pub right: usize,
    /// The pairs of a left row within the sample that stand for its best ones: as many as the best ones are of all right
    /// rows, and at least one, which is farther.
    pub count: usize,
}

impl RoundSample {
    /// The sample of a left and a right side, given their rows, for the `count` best pairs of each left row.
    pub fn of([left, right]: [usize; 2], count: usize, tuning: Tuning) -> Self {
        let [least, most] = tuning.size(RIGHT_ROWS);
        let sampled = (2 * right / count.max(1)).clamp(least, most).min(right);
        let share = sampled as f64 / right.max(1) as f64;
        let of_sample = ((count as f64 * share).ceil() as usize).clamp(1, sampled.max(1));
        Self { left: left.min(LEFT_ROWS), right: sampled, count: of_sample }
    }

    /// Whether rounds by narrower bounds pay before the last one.
    pub fn pays([left, right]: [usize; 2], count: usize, tuning: Tuning) -> bool {
        left.saturating_mul(right) > tuning.size(FEW_PAIRS) && right > count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_hold_two_neighbours_of_the_best_or_as_many_rows_as_they_may() {
        let of = |rows, count| RoundSample::of([1_000_000, rows], count, Tuning::USUAL);
        assert_eq!(of(1_000_000, 10), RoundSample { left: 64, right: 131_072, count: 2 });
        assert_eq!(of(1_000_000, 100), RoundSample { left: 64, right: 20_000, count: 2 });
        assert_eq!(of(10_000, 1_000), RoundSample { left: 64, right: 4_096, count: 410 });
        assert_eq!(of(300, 1), RoundSample { left: 64, right: 300, count: 1 });
        assert_eq!(of(0, 1), RoundSample { left: 64, right: 0, count: 1 });
        assert!(RoundSample::pays([1_000, 1_000], 10, Tuning::USUAL));
        assert!(!RoundSample::pays([100, 1_000], 10, Tuning::USUAL));
        assert!(!RoundSample::pays([1 << 20, 10], 10, Tuning::USUAL));
    }
}
