//! Orders of points in which neighbours lie near each other.

use std::ops::Range;

use super::boxes::{FANOUT, PANEL};
use crate::error::Result;
use crate::tuning::Size;
use crate::util::cancel::{CancelFlag, select_nth_unstable_by, sort_unstable_by_key};
use crate::util::parallel::{Threads, for_each, map};
use crate::vector::middle::spread;

/// Some points, of which a few coordinates matter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Points<'a> {
    /// `stride` coordinates for each point.
    pub coordinates: &'a [f32],
    pub stride: usize,
    /// The coordinates by which points are ordered, the best first.
    pub dims: &'a [usize],
}

impl Points<'_> {
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

/// How the points of an index are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::vector) enum Order {
    /// By the median of the widest dimension, again and again: four such cuts make the sixteen
    /// parts of a directory's page.
    Quantiles,
    /// By cells as wide as the threshold, along the curve of Morton (1966).
    Cells,
}

impl Order {
    /// Orders points; `reach` is the width of a cell.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub(super) fn sort(
        self,
        points: Points<'_>,
        order: &mut [u32],
        reach: f32,
        threads: Threads,
        cancel: &CancelFlag,
    ) -> Result<()> {
        match self {
            Self::Quantiles => by_quantiles(points, order, threads, cancel),
            Self::Cells => by_cells(points, order, reach, cancel),
        }
    }
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
fn cut(points: Points<'_>, order: &mut [u32], cancel: &CancelFlag) -> Result<Option<usize>> {
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

fn by_quantiles(
    points: Points<'_>,
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

/// Dimensions of cells, at most.
const CELL_DIMS: usize = 6;

fn by_cells(points: Points<'_>, order: &mut [u32], reach: f32, cancel: &CancelFlag) -> Result<()> {
    let dims = &points.dims[..points.dims.len().min(CELL_DIMS)];
    if dims.is_empty() {
        return Ok(());
    }
    let bits = 60 / dims.len() as u32;
    let frames: Vec<(usize, f32, f32)> = dims
        .iter()
        .map(|&dim| {
            let [least, most] = points.range(order, dim);
            let cells = ((most - least) / reach).clamp(1.0, 2_f32.powi(bits.min(20) as i32) - 1.0);
            (dim, least, cells / (most - least).max(f32::MIN_POSITIVE))
        })
        .collect();
    let bits: Range<u32> = 0..bits.min(20);
    let last = (1 << bits.end) - 1;
    let key = |point: u32| {
        let mut key = 0_u64;
        for (place, &(dim, least, scale)) in frames.iter().enumerate() {
            // Saturates.
            let cell = (((points.at(point, dim) - least) * scale) as u32).min(last);
            for bit in bits.clone() {
                key |= u64::from(cell >> bit & 1) << (bit as usize * frames.len() + place);
            }
        }
        key
    };
    let mut keyed: Vec<(u64, u32)> = order.iter().map(|&point| (key(point), point)).collect();
    sort_unstable_by_key(&mut keyed, cancel, |&keyed| keyed)?;
    order.iter_mut().zip(keyed).for_each(|(place, (_, point))| *place = point);
    Ok(())
}
