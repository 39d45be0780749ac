//! Rows by the sum of their weights.

use std::ops::Range;

use super::limits::total_ratios;
use super::measure::WeightedMeasure;
use crate::engine::Axis;
use crate::predicate::{Predicate, Side};

/// The line of totals, in steps of a sixteenth of a power of two; of one place where every two totals meet.
#[derive(Debug, Clone, Copy)]
pub(super) struct TotalAxis {
    /// By side, the least and the greatest ratio of the total of a partner; `None` where all meet.
    ratios: Option<[[f64; 2]; 2]>,
    /// No pair matches.
    is_void: bool,
}

/// Positions for each doubling of the total.
const STEPS: u32 = 16;

impl TotalAxis {
    pub(super) fn new(measure: WeightedMeasure, predicate: &Predicate) -> Self {
        let sides = [Side::Left, Side::Right];
        let ratios = |side: Side| {
            let is_first = side == predicate.call.first;
            total_ratios(measure, predicate.bound, is_first)
        };
        let ratios = match sides.map(ratios) {
            [Some(left), Some(right)] => Some([left, right]),
            _ => None,
        };
        Self { ratios, is_void: predicate.bound.is_nan() }
    }

    /// The position of a total above 0.
    pub(super) fn position(&self, total: u64) -> u32 {
        if self.ratios.is_none() {
            return 1;
        }
        let exponent = total.max(1).ilog2();
        let mantissa = match exponent.checked_sub(4) {
            Some(shift) => total >> shift,
            None => total << (4 - exponent),
        };
        STEPS * exponent + (mantissa % u64::from(STEPS)) as u32 + 1
    }

    /// The least total at a position.
    fn least_at(position: u32) -> f64 {
        let steps = position.saturating_sub(1);
        let within = 1.0 + f64::from(steps % STEPS) / f64::from(STEPS);
        within * 2.0_f64.powi((steps / STEPS) as i32)
    }
}

impl Axis for TotalAxis {
    fn reach(&self, side: Side, positions: Range<u32>) -> Option<Range<u64>> {
        /// The last position.
        const LAST: u64 = 64 * STEPS as u64 + 1;
        if positions.is_empty() || self.is_void {
            return None;
        }
        let Some(ratios) = self.ratios else { return Some(1..2) };
        let [least, most] = ratios[side as usize];
        let lowest = Self::least_at(positions.start) * least * (1.0 - 1e-9);
        let highest = Self::least_at(positions.end) * most * (1.0 + 1e-9) + 1.0;
        // Conversions saturate.
        let first = self.position(lowest.floor() as u64);
        let last = self.position(highest.ceil() as u64);
        Some(u64::from(first)..(u64::from(last) + 2).min(LAST + 1))
    }
}
