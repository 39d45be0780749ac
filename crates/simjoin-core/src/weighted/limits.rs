//! The weight that two sets need in common to match, by what is known of them.
//!
//! Sets match where the exact value of the measure reaches the threshold. The limits here are a little lower than they
//! need be, far beyond all errors of rounding: they leave out only pairs that are certain not to match.

use super::measure::{Mass, WeightedMeasure};
use super::signature::signature_bytes;
use crate::engine::{MatchSpec, Pairing};
use crate::error::Result;
use crate::predicate::Predicate;

/// The part of a limit that is given up to rounding in `f64`.
pub(super) const SLACK: f64 = 1e-9;
/// The same in `f32`.
pub(super) const SLACK_32: f32 = 1e-5;

/// A measure with its threshold, in a join whose probe side is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct WeightLimits {
    pub measure: WeightedMeasure,
    /// The least value that qualifies; NaN where none does.
    pub threshold: f64,
    /// Whether the probe sets are the first arguments.
    pub probe_is_first: bool,
    /// Whether the probe sets are the build sets.
    pub is_self_join: bool,
    pub form: LimitForm,
}

/// The form of the weight that is needed in common.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum LimitForm {
    /// The product of the norms of what both sets have left is at least this. Norms are relative to those of the sets
    /// where `relative`.
    Product { least: f64, relative: bool },
    /// The lesser of the sums of what both have left is at least `probe` times the total of the probe set and `build`
    /// times that of the build set.
    Sum { probe: f64, build: f64 },
}

impl WeightLimits {
    /// The limits of a predicate.
    ///
    /// # Errors
    ///
    /// An internal error when another family has the function.
    pub(super) fn of(predicate: &Predicate, spec: &MatchSpec) -> Result<Self> {
        let measure = WeightedMeasure::of(predicate.call.function)?;
        let probe_is_first = spec.probe == predicate.call.first;
        let threshold = predicate.bound;
        let t = threshold * (1.0 - SLACK);
        let form = match (measure, probe_is_first) {
            (WeightedMeasure::Cosine, _) => LimitForm::Product { least: t, relative: true },
            (WeightedMeasure::Overlap, _) => LimitForm::Product { least: t, relative: false },
            (WeightedMeasure::Jaccard, _) => {
                let share = t / (1.0 + t);
                LimitForm::Sum { probe: share, build: share }
            }
            (WeightedMeasure::Dice, _) => LimitForm::Sum { probe: t / 2.0, build: t / 2.0 },
            (WeightedMeasure::Containment, true) => LimitForm::Sum { probe: t, build: 0.0 },
            (WeightedMeasure::Containment, false) => LimitForm::Sum { probe: 0.0, build: t },
        };
        let is_self_join = spec.pairing() == Pairing::Unordered;
        Ok(Self { measure, threshold, probe_is_first, is_self_join, form })
    }

    /// The value of a probe set and a build set that have `common` in common.
    #[inline]
    pub(super) fn value(&self, common: u64, probe: Mass, build: Mass) -> f64 {
        self.measure.value_in(self.probe_is_first, common, probe, build)
    }

    /// The bytes of the signatures of postings.
    pub(super) fn signature_bytes(&self) -> usize {
        signature_bytes(match self.form {
            LimitForm::Product { least, relative: true } => least * least,
            LimitForm::Product { .. } => 0.0,
            LimitForm::Sum { probe, build } => probe + build,
        })
    }

    /// Whether no pair matches.
    pub(super) fn is_void(&self) -> bool {
        self.threshold.is_nan() || self.threshold > self.measure.function().info().range[1]
    }
}

/// The least and the greatest total of a partner of a set, in totals of the set, which is the first argument where
/// `is_first`; `None` where partners may have any.
pub(super) fn total_ratios(measure: WeightedMeasure, t: f64, is_first: bool) -> Option<[f64; 2]> {
    match measure {
        WeightedMeasure::Cosine | WeightedMeasure::Overlap => None,
        WeightedMeasure::Jaccard => Some([t, 1.0 / t]),
        WeightedMeasure::Dice => Some([t / (2.0 - t), (2.0 - t) / t]),
        WeightedMeasure::Containment if is_first => Some([t, f64::INFINITY]),
        WeightedMeasure::Containment => Some([0.0, 1.0 / t]),
    }
}

impl WeightLimits {
    /// The share of a token in the whole weight of a set: of its sum, or of the square of its norm.
    #[inline]
    pub(super) fn share(&self, weight: u32, mass: Mass) -> f64 {
        let weight = f64::from(weight);
        match self.form {
            LimitForm::Product { .. } => weight * weight / mass.squares as f64,
            LimitForm::Sum { .. } => weight / mass.total as f64,
        }
    }
}
