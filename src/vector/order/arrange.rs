//! The order of the items of a collection.

use std::mem::size_of;
use std::ops::Range;

use datafusion::common::Result;

use super::basis::{Basis, ROWS};
use super::cells::{Cuts, Sizes, refine};
use super::points::{Points, enclose, limit};
use super::sample::share_in_reach;
use crate::engine::ItemId;
use crate::simd::Simd;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::{for_each, steps_per_task, threads_for};
use crate::vector::bounds::{Frame, Rounded, is_far};
use crate::vector::boxes::{BOX_ITEMS, Boxes, LANES};
use crate::vector::collection::Run;
use crate::vector::metric::{Metric, Threshold};
use crate::vector::middle::spread;

/// Runs of fewer items keep their order. Tests want orders of few.
const LEAST_ITEMS: usize = if cfg!(test) { 1 << 7 } else { 1 << 12 };

/// Items of a leaf, of which each is ordered by itself. Tests want many.
const LEAF: usize = if cfg!(test) { 1 << 8 } else { 1 << 12 };

/// The share of pairs of blocks within reach above which an order is not worth making.
const MOST_SHARE: f64 = 0.75;

/// How many vectors of `d` dimensions the axes are found from.
fn of_axes(d: usize) -> usize {
    ((1 << 22) / d).clamp(64, 1 << 11)
}

/// The purpose of an order.
#[derive(Debug, Clone, Copy)]
pub(in crate::vector) struct OrderRequest {
    pub threshold: Threshold,
    /// The greatest share of the pairs of blocks that may be within reach, as a sample has it.
    pub most_share: f64,
}

impl OrderRequest {
    pub(in crate::vector) fn of(threshold: Threshold) -> Self {
        Self { threshold, most_share: MOST_SHARE }
    }
}

/// The vectors that are going to be items.
#[derive(Clone, Copy)]
pub(in crate::vector) struct Resources<'a> {
    /// The numbers of an item; `None` where it is no vector.
    pub vector: &'a (dyn Fn(ItemId) -> Option<&'a [f64]> + Sync),
    pub runs: &'a [Run],
    pub threads: usize,
    pub cancel: &'a CancelFlag,
}

/// An order with its boxes.
#[derive(Debug)]
pub(in crate::vector) struct Arranged {
    /// By new item, the old one.
    pub order: Vec<ItemId>,
    pub boxes: Boxes,
}

/// An order of the items within their runs. `None` where it would not pay, or where `reserve` does
/// not grant the bytes that it takes.
///
/// # Errors
///
/// When the work is cancelled.
pub(in crate::vector) fn arrange(
    request: OrderRequest,
    resources: Resources<'_>,
    reserve: impl Fn(usize) -> bool,
) -> Result<Option<Arranged>> {
    let OrderRequest { threshold, most_share } = request;
    if threshold.metric == Metric::InnerProduct || threshold.is_void() {
        return Ok(None);
    }
    let is_many = |run: &&Run| run.items.len() >= LEAST_ITEMS;
    let is_alike = |run: &&Run| run.lens[0] == run.lens[1] && run.lens[0] >= 2;
    let mut runs = resources.runs.iter().filter(is_many).filter(is_alike);
    let Some(longest) = runs.clone().max_by_key(|run| run.items.len()) else { return Ok(None) };
    let d = longest.lens[0] as usize;
    let items = resources.runs.last().map_or(0, |run| run.items.end);
    if !reserve(bytes(items as usize, longest.items.len(), d)) {
        return Ok(None);
    }
    let Some(space) = Space::of(threshold, longest.items.clone(), d, resources)? else {
        return Ok(None);
    };
    // The longest run speaks for all.
    let sample = space.points(spread(longest.items.clone(), space.sample_len()).collect())?;
    let share = sample.share(longest.items.len(), space.limit, resources.cancel)?;
    if share > most_share {
        return Ok(None);
    }
    drop(sample);
    let mut order: Vec<ItemId> = (0..items).collect();
    let mut boxes = Boxes::unknown(items, space.basis.dims, space.limit, share as f32);
    runs.by_ref().filter(|run| run.lens[0] as usize == d).try_for_each(|run| {
        let own = &mut order[run.items.start as usize..run.items.end as usize];
        space.arrange(run.items.clone(), items, own, &mut boxes)
    })?;
    Ok(Some(Arranged { order, boxes }))
}

/// A bound on the bytes of an order of `items` items and of making it, where no run has more than
/// `most` items, of `d` dimensions.
fn bytes(items: usize, most: usize, d: usize) -> usize {
    let dims = LANES.min(d);
    let projected = (most + most.min(MOST_SAMPLE)) * (dims * size_of::<f32>() + 3 * 4);
    let axes = of_axes(d) * d * size_of::<f32>() + 6 * LANES * d * size_of::<f64>();
    items * 4 + projected + axes + Boxes::bytes(items, LANES.min(d)) + (1 << 16)
}

/// At most.
const MOST_SAMPLE: usize = 1 << 18;

/// The coordinates of an order.
struct Space<'a> {
    frame: Frame,
    basis: Basis,
    limit: f32,
    d: usize,
    longest: usize,
    simd: Simd,
    resources: Resources<'a>,
}

/// Points with what is known of them.
#[derive(Default)]
struct Projected {
    dims: usize,
    coordinates: Vec<f32>,
    slack: Vec<f32>,
}

impl Projected {
    fn points(&self) -> Points<'_> {
        Points { dims: self.dims, coordinates: &self.coordinates, slack: &self.slack }
    }

    /// Those that have a place.
    fn usual(&self) -> Vec<u32> {
        let slack = (0..).zip(&self.slack);
        slack.filter(|(_, slack)| slack.is_finite()).map(|(point, _)| point).collect()
    }

    /// See [`share_in_reach`].
    fn share(&self, all: usize, limit: f32, cancel: &CancelFlag) -> Result<f64> {
        share_in_reach(self.points(), &mut self.usual(), all, limit, cancel)
    }
}

impl<'a> Space<'a> {
    /// The coordinates for the vectors of a run. `None` where no two of them could be out of reach.
    fn of(
        threshold: Threshold,
        items: Range<ItemId>,
        d: usize,
        resources: Resources<'a>,
    ) -> Result<Option<Self>> {
        let some: Vec<ItemId> = spread(items.clone(), of_axes(d)).collect();
        let vectors = || some.iter().filter_map(|&item| (resources.vector)(item));
        let frame = Frame::of_vectors(threshold, vectors(), resources.cancel)?;
        let mut points = Vec::with_capacity(some.len() * d);
        for vector in vectors() {
            let start = points.len();
            points.resize(start + d, 0.0_f32);
            // A few that are far from most would make all axes point at them.
            match frame.point_of(vector, points[start..].iter_mut()) {
                Rounded::Usual { square, .. } if !is_far(square) => {}
                _ => points.truncate(start),
            }
        }
        let simd = Simd::detect();
        let basis = Basis::of(&mut points, d, simd, resources.cancel)?;
        let Some(limit) = limit(&frame, &basis, d).filter(|_| basis.dims > 0) else {
            return Ok(None);
        };
        let longest = items.len();
        Ok(Some(Self { frame, basis, limit, d, longest, simd, resources }))
    }

    /// The size of a sample of the longest run.
    fn sample_len(&self) -> usize {
        const LEAST: usize = 1 << 14;
        (self.longest / 64).clamp(LEAST, MOST_SAMPLE)
    }

    /// Items as points.
    fn points(&self, items: Vec<ItemId>) -> Result<Projected> {
        /// Items of a task, at least.
        const LEAST: usize = 1 << 9;
        let dims = self.basis.dims;
        let mut points = Projected {
            dims,
            coordinates: vec![0.0; items.len() * dims],
            slack: vec![f32::INFINITY; items.len()],
        };
        let threads = threads_for(self.resources.threads, items.len() * self.d);
        let share = steps_per_task(threads, items.len(), LEAST);
        let places =
            points.coordinates.chunks_mut(share * dims).zip(points.slack.chunks_mut(share));
        let tasks = items.chunks(share).zip(places).collect();
        for_each(threads, tasks, |(items, (coordinates, slack))| {
            self.project(items, coordinates, slack)
        })?;
        Ok(points)
    }

    fn project(&self, items: &[ItemId], coordinates: &mut [f32], slack: &mut [f32]) -> Result<()> {
        let (d, dims) = (self.d, self.basis.dims);
        let mut rows = vec![0.0_f32; ROWS * d];
        let mut own = [[0.0; LANES]; ROWS];
        let places = coordinates.chunks_mut(ROWS * dims).zip(slack.chunks_mut(ROWS));
        for (step, (items, (coordinates, slack))) in items.chunks(ROWS).zip(places).enumerate() {
            if step % 64 == 0 {
                self.resources.cancel.check()?;
            }
            for ((row, &item), slack) in rows.chunks_exact_mut(d).zip(items).zip(slack) {
                let vector = (self.resources.vector)(item).filter(|vector| vector.len() == d);
                let rounded = vector.map(|v| self.frame.point_of(v, row.iter_mut()));
                match rounded {
                    Some(Rounded::Usual { square, off }) => *slack = self.basis.slack(square, off),
                    _ => row.fill(0.0),
                }
            }
            self.basis.project(self.simd, &rows, &mut own);
            for (to, from) in coordinates.chunks_exact_mut(dims).zip(&own) {
                to.copy_from_slice(&from[..dims]);
            }
        }
        Ok(())
    }

    /// Orders the items of a run, of `all` items.
    fn arrange(
        &self,
        items: Range<ItemId>,
        all: ItemId,
        order: &mut [ItemId],
        boxes: &mut Boxes,
    ) -> Result<()> {
        let Resources { threads, cancel, .. } = self.resources;
        let cuts = self.cuts(items.clone())?;
        let points = self.points(items.clone().collect())?;
        let mut leaves = self.leaves(&cuts, points.points())?;
        let first = items.start as usize;
        let starts = sort_by_leaf(&mut leaves, cuts.leaves() + 1, order, cancel)?;
        drop(leaves);
        // Those in the last leaf have no place.
        let usual = starts[cuts.leaves() as usize];
        let mut tasks = vec![];
        let mut rest = &mut order[..usual];
        for bounds in starts[..=cuts.leaves() as usize].windows(2) {
            let (own, others) = rest.split_at_mut(bounds[1] - bounds[0]);
            tasks.push((own, first + bounds[0]));
            rest = others;
        }
        let threads = threads_for(threads, usual * self.basis.dims);
        for_each(threads, tasks, |(own, first)| {
            refine(points.points(), own, first, Sizes::OF_ITEMS, cancel)
        })?;
        // Whole groups, and a last one.
        let is_last = items.end == all && usual == order.len();
        let end = if is_last { all } else { (items.start + usual as u32) / BOX_ITEMS * BOX_ITEMS };
        let start = items.start.next_multiple_of(BOX_ITEMS);
        if start < end {
            self.enclose(points.points(), items.start, start..end, order, boxes)?;
        }
        order.iter_mut().for_each(|item| *item += items.start);
        Ok(())
    }

    /// Writes the boxes of the groups of `items`. The points in their order are item `first` and
    /// those behind it.
    fn enclose(
        &self,
        points: Points<'_>,
        first: ItemId,
        items: Range<ItemId>,
        order: &[u32],
        boxes: &mut Boxes,
    ) -> Result<()> {
        /// Groups of a task, at least.
        const LEAST: usize = 1 << 4;
        let width = 2 * points.dims;
        let groups = Boxes::group(items.start)..items.end.div_ceil(BOX_ITEMS) as usize;
        let own = &order[(items.start - first) as usize..(items.end - first) as usize];
        let threads = threads_for(self.resources.threads, own.len() * points.dims);
        let share = steps_per_task(threads, groups.len(), LEAST);
        let ends = boxes.ends[groups.start * width..groups.end * width].chunks_mut(share * width);
        let tasks = own.chunks(share * BOX_ITEMS as usize).zip(ends).collect();
        for_each(threads, tasks, |(own, ends)| {
            self.resources.cancel.check()?;
            let groups = own.chunks(BOX_ITEMS as usize).zip(ends.chunks_exact_mut(width));
            groups.for_each(|(group, ends)| enclose(points, group, ends));
            Ok(())
        })
    }

    /// Cuts of the items of a run into leaves.
    fn cuts(&self, items: Range<ItemId>) -> Result<Cuts> {
        /// Points of a sample for each leaf.
        const POINTS: usize = 16;
        let leaves = (items.len() / LEAF).max(1).next_power_of_two();
        let leaves = leaves.min(MOST_SAMPLE / POINTS);
        let some = if leaves > 1 { spread(items, POINTS * leaves).collect() } else { vec![] };
        let points = self.points(some)?;
        let mut usual = points.usual();
        Cuts::of(points.points(), &mut usual, leaves.ilog2(), self.resources.cancel)
    }

    /// The leaf of each point; that behind the last of those that have no place.
    fn leaves(&self, cuts: &Cuts, points: Points<'_>) -> Result<Vec<u32>> {
        let count = points.slack.len();
        let mut leaves = vec![0; count];
        let threads = threads_for(self.resources.threads, 8 * count);
        let share = steps_per_task(threads, count, 1 << 10);
        let tasks = leaves.chunks_mut(share).enumerate().collect();
        for_each(threads, tasks, |(task, leaves): (usize, &mut [u32])| {
            self.resources.cancel.check()?;
            for (point, leaf) in (task * share..).zip(leaves) {
                *leaf = match points.slack[point].is_finite() {
                    true => cuts.leaf(points.of(point as u32)),
                    false => cuts.leaves(),
                };
            }
            Ok(())
        })?;
        Ok(leaves)
    }
}

/// Writes the points, which are numbered from 0, in the order of their leaves and then of their
/// numbers; where each leaf starts, and the last one ends.
fn sort_by_leaf(
    leaves: &mut [u32],
    count: u32,
    order: &mut [u32],
    cancel: &CancelFlag,
) -> Result<Vec<usize>> {
    let mut starts = vec![0_usize; count as usize + 1];
    for &leaf in leaves.iter() {
        starts[leaf as usize + 1] += 1;
    }
    for i in 1..starts.len() {
        starts[i] += starts[i - 1];
    }
    let mut next = starts.clone();
    for (point, &leaf) in leaves.iter().enumerate() {
        cancel.check_at(point)?;
        let place = &mut next[leaf as usize];
        order[*place] = point as u32;
        *place += 1;
    }
    Ok(starts)
}
