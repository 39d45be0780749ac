//! Rows by the norm of their vector.
//!
//! Norms of vectors X and Y of one length bound what the functions give of them:
//!
//! ```text
//! |‖X‖ − ‖Y‖| ≤ ‖X − Y‖          X·Y ≤ ‖X‖‖Y‖
//! ```
//!
//! so that partners of X within a distance t have norms between ‖X‖ − t and ‖X‖ + t, and those with
//! products of t > 0 at least have norms of t / ‖X‖ at least. Of a cosine, and of products that may be
//! 0, norms tell nothing: all rows lie at one place.
//!
//! These bounds hold for vectors of one length, of usual numbers. A vector with a number that is NaN,
//! infinite or so great that squares overflow lies [`ANYWHERE`]: the value of a pair may be NaN, and NaN
//! of negative sign lies within every bound. A vector of another length than the
//! longest one lies there as well, because DataFusion's functions fail for the pair, wherever the vector lies: the
//! length is the [kind](crate::engine::RowPlace::kind) of a row.

use std::ops::Range;

use super::bounds::square_of;
use super::metric::{Metric, Threshold};
use super::width::Vector;
use crate::engine::{ANYWHERE, Axis};
use crate::predicate::Side;

/// Units that have positions of their own; the norms beyond have one for each part of an octave.
const LINEAR: u32 = 1 << 12;
/// The bits of the mantissa, of 52, that do not count there: 256 positions for an octave.
const DROPPED: u32 = 52 - 8;
/// Where positions beyond [`LINEAR`] begin.
const BASE: u32 = ((LINEAR as f64).to_bits() >> DROPPED) as u32;
/// The last one, of infinity.
const LAST: u32 = 1 + LINEAR + (f64::INFINITY.to_bits() >> DROPPED) as u32 - BASE;

/// More than what the functions and norms are off relatively, as sums of up to 2³² terms, each rounded
/// by 2⁻⁵³ of the sum so far (Higham, *Accuracy and Stability of Numerical Algorithms*, section 3.1).
const SLACK: f64 = 1.0 / (1 << 18) as f64;
/// More than what they are off where squares underflow: the root of 2³² times the least number.
const TINY: f64 = 1e-140;
/// The squares of greater norms could overflow where two vectors meet.
const MOST_SQUARE: f64 = 1e300;
/// More than the root of it.
const MOST_NORM: f64 = 1e151;

/// The line of norms; of one place alone where they tell nothing.
#[derive(Debug, Clone, Copy)]
pub(super) struct NormAxis {
    norms: Option<Norms>,
    /// About the dimensions of a vector.
    dimensions: u64,
}

/// A metric that norms bound.
#[derive(Debug, Clone, Copy)]
struct Norms {
    /// A distance or, where `is_product`, a product.
    bound: f64,
    is_product: bool,
    /// The norm in which positions are counted.
    unit: f64,
}

/// The position of a norm in units, not NaN. It never falls while the norm rises.
fn position_of(units: f64) -> u32 {
    match units < f64::from(LINEAR) {
        // 0 below 0.
        true => 1 + units as u32,
        false => 1 + LINEAR + (units.to_bits() >> DROPPED) as u32 - BASE,
    }
}

/// The least norm of a position, in units.
fn least_of(position: u32) -> f64 {
    match position.clamp(1, LAST) - 1 {
        units if units < LINEAR => f64::from(units),
        units => f64::from_bits(u64::from(units - LINEAR + BASE) << DROPPED),
    }
}

impl Norms {
    fn of(threshold: Threshold) -> Option<Self> {
        let Threshold { metric, bound, .. } = threshold;
        match metric {
            // An eighth of the distance, so that bands reach a little farther than it alone. Not a
            // number: nothing matches.
            Metric::Euclidean if bound <= 1e140 => {
                let bound = bound.max(0.0);
                Some(Self { bound, is_product: false, unit: (bound / 8.0).max(TINY) })
            }
            Metric::InnerProduct if (1e-200..1e200).contains(&bound) => {
                Some(Self { bound, is_product: true, unit: bound.sqrt() / 64.0 })
            }
            _ => None,
        }
    }

    /// The positions of norms whose partners these may be.
    fn reach(&self, positions: Range<u32>) -> Range<u64> {
        let norm = |position: u32| (least_of(position) * self.unit).min(MOST_NORM);
        // Those of the last position lie below the first of the next.
        let (least, greatest) = (norm(positions.start), norm(positions.end));
        let position = |norm: f64| u64::from(position_of(norm / self.unit));
        match self.is_product {
            true => {
                let low = self.bound * (1.0 - SLACK) / (greatest + TINY) - TINY;
                position(low)..u64::from(ANYWHERE)
            }
            false => {
                let low = least - self.bound - SLACK * (least + self.bound) - TINY;
                let high = (greatest + self.bound) * (1.0 + SLACK) + TINY;
                position(low)..position(high) + 1
            }
        }
    }
}

impl NormAxis {
    pub(super) fn new(threshold: Threshold, dimensions: u64) -> Self {
        Self { norms: Norms::of(threshold), dimensions }
    }

    /// The position of a vector among those of its length.
    pub(super) fn position<'a>(&self, vector: impl Into<Vector<'a>>) -> u32 {
        let Some(norms) = self.norms else { return 1 };
        let square = square_of(vector.into().iter());
        match square <= MOST_SQUARE {
            true => position_of(square.sqrt() / norms.unit),
            // Not a number, either.
            false => ANYWHERE,
        }
    }
}

impl Axis for NormAxis {
    fn reach(&self, _: Side, positions: Range<u32>) -> Option<Range<u64>> {
        match self.norms {
            _ if positions.is_empty() => None,
            Some(norms) => Some(norms.reach(positions)),
            None => Some(1..2),
        }
    }

    fn has_anywhere(&self) -> bool {
        self.norms.is_some()
    }

    fn weight(&self, _: u32) -> u64 {
        self.dimensions
    }
}
