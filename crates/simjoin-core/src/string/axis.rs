//! Rows by the length of their text, in scalars.

use std::ops::Range;

use super::threshold::Threshold;
use crate::engine::{ANYWHERE, Axis};
use crate::predicate::Side;

/// The line of lengths; of one place alone where every two lengths meet.
#[derive(Debug, Clone, Copy)]
pub(super) struct LengthAxis {
    threshold: Threshold,
}

/// The last position of a length: longer texts lie there as well.
const LAST: u32 = ANYWHERE - 1;

impl LengthAxis {
    pub(super) fn new(threshold: Threshold) -> Self {
        Self { threshold }
    }

    /// The threshold whose matches lie near each other.
    pub(super) fn threshold(self) -> Threshold {
        self.threshold
    }

    /// The position of a length.
    pub(super) fn position(&self, len: u32) -> u32 {
        match self.threshold.meets_every_length() {
            true => 1,
            false => len.min(LAST - 1) + 1,
        }
    }
}

impl Axis for LengthAxis {
    fn reach(&self, _: Side, positions: Range<u32>) -> Option<Range<u64>> {
        if positions.is_empty() || self.threshold.is_void() {
            return None;
        }
        if self.threshold.meets_every_length() {
            return Some(1..2);
        }
        // Longer texts have longer partners.
        let lens = [positions.start.max(1) - 1, positions.end - 1];
        let [first, last] = lens.map(|len| self.threshold.partner_lens(len));
        let end = if positions.end > LAST { u64::from(ANYWHERE) } else { last.end + 1 };
        Some((first.start + 1).min(u64::from(LAST))..end.min(u64::from(ANYWHERE)))
    }

    fn weight(&self, position: u32) -> u64 {
        /// Scalars of a text of which nothing is known.
        const USUAL: u64 = 16;
        match self.threshold.meets_every_length() {
            true => USUAL,
            false => u64::from(position.max(1)),
        }
    }
}
