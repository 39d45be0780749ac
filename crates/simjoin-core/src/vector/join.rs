//! The join whose strategies are compared.

use std::sync::Arc;

use super::boxes::{BLOCK_ITEMS, Boxes};
use super::choice::NumberForm;
use super::collection::Vectors;
use super::cost::{all_pairs, least_ratio};
use super::index::{SampledIndex, least_of_index, sample};
use super::metric::Joining;
use super::tile::PANEL;
use crate::engine::{Cost, Pairing, Terms};
use crate::error::Result;

/// A join whose strategies are compared, and the figures that they share.
#[derive(Debug)]
pub struct VectorJoin {
    pub build: Arc<Vectors>,
    pub joining: Joining,
    /// The filter that decides pairs on the CPU, once it is chosen.
    pub(super) filter: Option<NumberForm>,
    /// The index that takes less time than comparing all pairs, if there is one, once one has been made.
    sampled: Option<Option<SampledIndex>>,
}

/// The time to hold the boxes of a self-join against each other, in nanoseconds of a core.
fn passing_cost(items: u32, boxes: &Boxes) -> f64 {
    /// The time for a block and the box of a panel, and for a coordinate.
    const PAIR: f64 = 1.0;
    const COORDINATE: f64 = 0.15;
    let pairs = f64::from(items / BLOCK_ITEMS) * f64::from(items) / PANEL as f64 / 2.0;
    // As many of those above the panels' as of them.
    pairs * f64::from(2.0 * boxes.share).min(1.0) * (PAIR + COORDINATE * f64::from(boxes.dims))
}

impl VectorJoin {
    /// A join of which no part has been chosen.
    pub fn new(build: Arc<Vectors>, joining: Joining) -> Self {
        Self { build, joining, filter: None, sampled: None }
    }

    /// The time for all pairs by the filter that is chosen, by products in `f32` before that, in
    /// nanoseconds of a core.
    pub(super) fn pairs(&self) -> f64 {
        self.pairs_of(self.filter.as_ref().map_or(1.0, NumberForm::ratio))
    }

    /// The time for all pairs by a filter that takes `ratio` of the time of products in `f32`.
    fn pairs_of(&self, ratio: f64) -> f64 {
        let (build, spec) = (&self.build, &self.joining.spec);
        let all = ratio * all_pairs(build, spec);
        match (spec.pairing(), build.boxes()) {
            (Pairing::Unordered, Some(boxes)) => {
                f64::from(boxes.share) * all / 2.0 + passing_cost(build.len(), boxes)
            }
            (Pairing::Unordered, None) => all / 2.0,
            // The boxes of two inputs do not meet.
            (Pairing::All, _) => all,
        }
    }

    /// Whether an open device takes less time than `least` nanoseconds of a core, whatever a sample says:
    /// an estimate for the CPU is not refined then.
    fn loses(least: f64, terms: &Terms<'_>) -> bool {
        let least = Cost::cpu(least).elapsed(terms.context.threads.count());
        terms.open_device.is_some_and(|nanos| nanos < least)
    }

    /// Chooses what decides pairs on the CPU, where that is compared and may win.
    pub(super) fn choose_filter(&mut self, terms: &Terms<'_>) -> Result<()> {
        /// Nanoseconds of a core for the sample, at most.
        const SAMPLE: f64 = 5e6;
        let widest = self.build.runs().iter().map(|run| run.lens[1]).max().unwrap_or(0);
        let ratio = least_ratio(self.joining.spec.simd, widest).min(1.0);
        let pairs = self.pairs_of(ratio);
        let may_win = !Self::loses(pairs.min(SAMPLE) + 0.5 * pairs, terms);
        if self.filter.is_none() && may_win {
            let Joining { threshold, ref spec, .. } = self.joining;
            self.filter = Some(NumberForm::of(&self.build, threshold, spec, terms.context)?);
        }
        Ok(())
    }

    /// Makes an index, where it may take less time than comparing all pairs, in the order that suits the
    /// vectors.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub(super) fn sample_index(&mut self, terms: &Terms<'_>) -> Result<()> {
        self.choose_filter(terms)?;
        let Joining { threshold, ref spec, .. } = self.joining;
        if self.sampled.is_none() && !Self::loses(least_of_index(&self.build, spec), terms) {
            // What an index must save time beside: the pairs on the threads, or an open device.
            let threads = terms.context.threads.count() as f64;
            let of_device = terms.open_device.map_or(f64::INFINITY, |nanos| nanos * threads);
            let pairs = self.pairs().min(of_device);
            let found = sample(&self.build, threshold, spec, pairs, terms.context)?;
            self.sampled = Some(found);
        }
        Ok(())
    }

    /// Whether an index has been made that takes less time than comparing all pairs.
    pub fn has_index(&self) -> bool {
        self.sampled().is_some()
    }

    /// The index that takes less time, where one has been made.
    pub(super) fn sampled(&self) -> Option<&SampledIndex> {
        self.sampled.as_ref()?.as_ref()
    }
}
