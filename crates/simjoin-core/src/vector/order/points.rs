//! Points in a few coordinates, and the boxes around them.

use super::basis::Basis;
use crate::vector::bounds::Frame;
use crate::vector::boxes::LANES;

/// Points, with a bound on what their coordinates are off.
#[derive(Debug, Clone, Copy)]
pub(super) struct Points<'a> {
    pub dims: usize,
    /// `dims` coordinates for each point.
    pub coordinates: &'a [f32],
    /// Infinite for those that have no place.
    pub slack: &'a [f32],
}

impl<'a> Points<'a> {
    #[inline]
    pub(super) fn of(&self, point: u32) -> &'a [f32] {
        &self.coordinates[point as usize * self.dims..][..self.dims]
    }

    /// Some points, each with its slack.
    pub(super) fn with_slack(self, some: &[u32]) -> impl Iterator<Item = (&'a [f32], f32)> {
        some.iter().map(move |&point| (self.of(point), self.slack[point as usize]))
    }
}

/// Writes the ends of the box around some points, all of which have a place: their coordinates, perhaps with
/// others behind them, and the slack within which these lie.
pub(super) fn enclose<'a>(some: impl Iterator<Item = (&'a [f32], f32)>, ends: &mut [f32]) {
    let mut low = [f32::INFINITY; LANES];
    let mut high = [f32::NEG_INFINITY; LANES];
    for (coordinates, slack) in some {
        let values = coordinates.iter().zip(low.iter_mut().zip(&mut high));
        for (&value, (low, high)) in values {
            let (below, above) = (value - slack, value + slack);
            *low = if below < *low { below } else { *low };
            *high = if above > *high { above } else { *high };
        }
    }
    // Differences are rounded by half a step at most.
    let (lower, upper) = ends.split_at_mut(ends.len() / 2);
    lower.iter_mut().zip(low).for_each(|(place, value)| *place = value.next_down());
    upper.iter_mut().zip(high).for_each(|(place, value)| *place = value.next_up());
}

/// The limit for boxes in the coordinates of `basis`: `None` where no box is out of any reach.
///
/// Partners X and Y lie at most `far` from each other, hence their images PX and PY at most
/// ‖P‖ `far`. The box of X holds PX.
pub(super) fn limit(frame: &Frame, basis: &Basis, dimensions: usize) -> Option<f32> {
    /// Twice the rounding of an `f32`.
    const STEP: f64 = 1.0 / (1 << 23) as f64;
    let far = f64::from(frame.limits(dimensions, [0.0; 2], 0.0)?.reject);
    // Differences, squares and sums, each rounded in any direction.
    let rounding = 1.0 + (2.0 * basis.dims as f64 + 16.0) * STEP;
    let limit = far * basis.stretch * rounding * (1.0 + 1e-6) + 1e-40;
    let float = limit as f32;
    let float = if f64::from(float) < limit { float.next_up() } else { float };
    float.is_finite().then_some(float)
}
