//! Orders of points in which neighbours lie near each other.

use super::boxes::{FANOUT, PANEL};
use crate::error::Result;
use crate::tuning::Size;
use crate::util::cancel::{CancelFlag, select_nth_unstable_by};
use crate::util::parallel::{Threads, for_each, map};
use crate::vector::middle::spread;

/// Some points, of which a few coordinates matter.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartialPoints<'a> {
    /// `stride` coordinates for each point.
    pub coordinates: &'a [f32],
    pub stride: usize,
    /// The coordinates by which points are ordered, the best first.
    pub dims: &'a [usize],
}

impl PartialPoints<'_> {
    #[inline]
    fn at(&self, point: u32, dim: usize) -> f32 {
        self.coordinates[point as usize * self.stride + dim]
    }

    /// The least and the greatest coordinate of some points in a dimension; of many points, of a
    /// sample, those left out that are far from most.
    fn range(&self, points: &[u32], dim: usize) -> [f32; 2] {
        const SAMPLE: usize = 1 << 10;
        let start = [f32::INFINITY, f32::NEG_INFINITY];
        let add = |[least, most]: [f32; 2], value: f32| [least.min(value), most.max(value)];
        if points.len() <= SAMPLE {
            return points.iter().fold(start, |all, &point| add(all, self.at(point, dim)));
        }
        let some = |count| spread(0..points.len() as u32, count);
        let values = |count| some(count).map(|place| self.at(points[place as usize], dim));
        let all = values(SAMPLE).fold(start, add);
        let near = near(values(64).collect());
        [all[0].max(near[0]), all[1].min(near[1])]
    }
}

/// Where those values lie that are not far from most: within many times the range of the half in the
/// middle.
fn near(mut values: Vec<f32>) -> [f32; 2] {
    const TIMES: f32 = 8.0;
    values.sort_unstable_by(f32::total_cmp);
    let part = |part: usize| values.get(values.len() * part / 64).copied().unwrap_or(0.0);
    let reach = TIMES * (part(48) - part(16));
    // Where most are equal, others matter nonetheless.
    [part(4).min(part(16) - reach), part(60).max(part(48) + reach)]
}

/// The first part of `len` points: about half of them, in whole subtrees.
fn first_half(len: usize) -> usize {
    let mut unit = PANEL;
    while unit * FANOUT < len {
        unit *= FANOUT;
    }
    ((len / 2).next_multiple_of(unit)).min((len - 1) / unit * unit)
}

/// Cuts points at a median; the place of the cut, unless they are few.
fn cut(points: PartialPoints<'_>, order: &mut [u32], cancel: &CancelFlag) -> Result<Option<usize>> {
    if order.len() <= PANEL {
        return Ok(None);
    }
    let mut widest = (f32::NEG_INFINITY, 0);
    for &dim in points.dims {
        let [least, most] = points.range(order, dim);
        if most - least > widest.0 {
            widest = (most - least, dim);
        }
    }
    let (middle, dim) = (first_half(order.len()), widest.1);
    let by = |a: &u32, b: &u32| points.at(*a, dim).total_cmp(&points.at(*b, dim)).then(a.cmp(b));
    select_nth_unstable_by(order, middle, cancel, by)?;
    Ok(Some(middle))
}

/// Orders points by the median of the widest dimension, again and again: four such cuts make the sixteen
/// parts of a directory's page.
///
/// # Errors
///
/// When the work is cancelled.
pub(super) fn sort(
    points: PartialPoints<'_>,
    order: &mut [u32],
    threads: Threads,
    cancel: &CancelFlag,
) -> Result<()> {
    /// Points that one task orders.
    const TASK: Size = Size { usual: 1 << 14, small: 1 << 8 };
    let task = threads.tuning.size(TASK);
    let mut parts = vec![order];
    while threads.count() > 1 && parts.iter().any(|part| part.len() > task) {
        let halves = map(threads, parts, |part| {
            match if part.len() > task { cut(points, part, cancel)? } else { None } {
                Some(middle) => Ok(Vec::from(<[_; 2]>::from(part.split_at_mut(middle)))),
                None => Ok(vec![part]),
            }
        })?;
        parts = halves.into_iter().flatten().collect();
    }
    for_each(threads, parts, |part| {
        let mut rest = vec![part];
        while let Some(part) = rest.pop() {
            if let Some(middle) = cut(points, part, cancel)? {
                rest.extend(<[_; 2]>::from(part.split_at_mut(middle)));
            }
        }
        Ok(())
    })
}
