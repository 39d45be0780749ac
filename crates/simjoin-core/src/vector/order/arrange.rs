//! The order of the items of a collection.

use std::mem::{size_of, take};
use std::ops::Range;

use super::axes;
use super::basis::{Basis, ROWS};
use super::cells::{Cuts, refine};
use super::near::{Ends, Near, Sizes};
use super::points::{Points, enclose, limit};
use super::sample::share_in_reach;
use crate::engine::ItemId;
use crate::error::Result;
use crate::simd::Simd;
use crate::tuning::Size;
use crate::util::cancel::CancelFlag;
use crate::util::counting_sort::{self, Sorted};
use crate::util::parallel::{Threads, collect, for_each, ranges, steps_per_task, threads_for};
use crate::vector::bounds::{Frame, Rounded};
use crate::vector::boxes::{BOX_ITEMS, Boxes, LANES};
use crate::vector::collection::Run;
use crate::vector::metric::{Metric, Threshold};
use crate::vector::middle::spread;
use crate::vector::width::Vector;

/// Runs of fewer items keep their order.
const LEAST_ITEMS: Size = Size { usual: 1 << 12, small: 1 << 7 };

/// Items of a leaf, of which each is ordered by itself.
const LEAF: Size = Size { usual: 1 << 12, small: 1 << 8 };

/// Items that a task handles by a few steps each, at least.
const LEAST_TASK: usize = 1 << 13;

/// The share of pairs of blocks within reach above which an order is not worth making.
const MOST_SHARE: f64 = 0.75;

/// The purpose of an order.
#[derive(Debug, Clone, Copy)]
pub struct OrderRequest {
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
    pub vector: &'a (dyn Fn(ItemId) -> Option<Vector<'a>> + Sync),
    pub runs: &'a [Run],
    pub threads: Threads,
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
    let least_items = resources.threads.tuning.size(LEAST_ITEMS);
    let is_many = |run: &&Run| run.items.len() >= least_items;
    let is_alike = |run: &&Run| run.lens[0] == run.lens[1] && run.lens[0] >= 2;
    let mut runs = resources.runs.iter().filter(is_many).filter(is_alike);
    let Some(longest) = runs.clone().max_by_key(|run| run.items.len()) else { return Ok(None) };
    let d = longest.lens[0] as usize;
    let items = resources.runs.last().map_or(0, |run| run.items.end);
    let scratch = resources.threads.count() * Near::bytes(longest.items.len());
    if !reserve(bytes(items as usize, longest.items.len(), d) + scratch) {
        return Ok(None);
    }
    let Some(space) = Space::of(threshold, longest.items.clone(), d, resources)? else {
        return Ok(None);
    };
    // The longest run speaks for all.
    let sample: Vec<ItemId> = spread(longest.items.clone(), space.sample_len()).collect();
    let sample = space.points(sample.len(), None, |at| sample[at])?;
    let share = space.share(&sample)?;
    if share > most_share {
        return Ok(None);
    }
    drop(sample);
    let Resources { threads, cancel, .. } = resources;
    let all = |range: Range<usize>| range.start as u32..range.end as u32;
    let mut order = collect(threads, items as usize, LEAST_TASK, cancel, all)?;
    let mut boxes = Boxes::unknown(items, space.basis.dims, space.limit, threads, cancel)?;
    boxes.share = share as f32;
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
    items * 4 + projected + axes::bytes(d) + Boxes::bytes(items, LANES.min(d)) + (1 << 16)
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
    /// The leaf of each point, where there are cuts; that behind the last of those that have no place.
    leaves: Vec<u32>,
}

impl Projected {
    fn points(&self) -> Points<'_> {
        Points { dims: self.dims, coordinates: &self.coordinates, slack: &self.slack }
    }

    /// The points that have a place.
    fn usual(&self) -> Vec<u32> {
        let slack = (0..).zip(&self.slack);
        slack.filter(|(_, slack)| slack.is_finite()).map(|(point, _)| point).collect()
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
        let some = spread(items.clone(), axes::sample_len(d));
        let vectors: Vec<Vector<'_>> = some.filter_map(|item| (resources.vector)(item)).collect();
        let threads = threads_for(resources.threads, vectors.len() * d);
        let frame = Frame::of_some(threshold, &vectors, threads, resources.cancel)?;
        let basis = axes::basis_of(&vectors, d, &frame, threads, resources.cancel)?;
        let simd = Simd::detect();
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

    /// The [share](share_in_reach) of pairs of the sample within reach.
    fn share(&self, sample: &Projected) -> Result<f64> {
        let Resources { threads, cancel, .. } = self.resources;
        let (limit, mut usual) = (self.limit, sample.usual());
        share_in_reach(sample.points(), &mut usual, self.longest, limit, threads, cancel)
    }

    /// So many items as points, with their leaves where there are cuts: `item` tells each of them.
    fn points(
        &self,
        count: usize,
        cuts: Option<&Cuts>,
        item: impl Fn(usize) -> ItemId + Sync,
    ) -> Result<Projected> {
        /// Numbers of a task, at least.
        const LEAST: usize = 1 << 13;
        let least = (LEAST / self.d).max(1).next_multiple_of(ROWS);
        let dims = self.basis.dims;
        let mut points = Projected {
            dims,
            // Memory of zeros is first touched where it is written.
            coordinates: vec![0.0; count * dims],
            slack: vec![0.0; count],
            leaves: vec![0; if cuts.is_some() { count } else { 0 }],
        };
        let threads = threads_for(self.resources.threads, count * self.d);
        let share = steps_per_task(threads, count, least);
        let places =
            points.coordinates.chunks_mut(share * dims).zip(points.slack.chunks_mut(share));
        let mut leaves = points.leaves.chunks_mut(share);
        let tasks = ranges(threads, count, least).into_iter().zip(places);
        let tasks = tasks.map(|(range, places)| (range, places, leaves.next()));
        for_each(threads, tasks.collect(), |(range, (coordinates, slack), leaves)| {
            self.project(range.map(&item), coordinates, slack)?;
            if let Some((leaves, cuts)) = leaves.zip(cuts) {
                let own = Points { dims, coordinates, slack };
                leaves.iter_mut().enumerate().for_each(|(at, leaf)| *leaf = cuts.place(own, at));
            }
            Ok(())
        })?;
        Ok(points)
    }

    fn project(
        &self,
        mut items: impl Iterator<Item = ItemId>,
        coordinates: &mut [f32],
        slack: &mut [f32],
    ) -> Result<()> {
        let d = self.d;
        self.basis.project_each(self.simd, coordinates, |step, row| {
            self.resources.cancel.check_at(step)?;
            let vector = items.next().and_then(self.resources.vector);
            let vector = vector.filter(|vector| vector.len() == d);
            slack[step] = match vector.map(|vector| self.frame.point_of(vector, row.iter_mut())) {
                Some(Rounded::Usual { square, off }) => self.basis.slack(square, off),
                _ => {
                    row.fill(0.0);
                    f32::INFINITY
                }
            };
            Ok(())
        })
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
        let (first, count) = (items.start as usize, items.len());
        let mut points = self.points(count, Some(&cuts), |at| (first + at) as ItemId)?;
        let leaves = take(&mut points.leaves);
        let sorted = counting_sort::sort(&leaves, cuts.leaves() as usize + 1, threads, cancel)?;
        drop(leaves);
        let Sorted { starts, numbers } = sorted;
        let starts: Vec<usize> = starts.into_iter().map(|start| start as usize).collect();
        let task = threads.least(LEAST_TASK);
        let places = order.chunks_mut(task).zip(numbers.chunks(task));
        for_each(threads_for(threads, count), places.collect(), |(to, from): (&mut [u32], _)| {
            to.copy_from_slice(from);
            Ok(())
        })?;
        drop(numbers);
        // Those in the last leaf have no place.
        let usual = starts[cuts.leaves() as usize];
        // Whole groups, and a last one.
        let is_last = items.end == all && usual == order.len();
        let end = if is_last { all } else { (items.start + usual as u32) / BOX_ITEMS * BOX_ITEMS };
        let start = items.start.next_multiple_of(BOX_ITEMS);
        let mut boxes = GroupBoxes::of(start..end.max(start), boxes);
        let mut tasks = vec![];
        let mut rest = &mut order[..usual];
        for bounds in starts[..=cuts.leaves() as usize].windows(2) {
            let (own, others) = rest.split_at_mut(bounds[1] - bounds[0]);
            rest = others;
            tasks.push((
                own,
                first + bounds[0],
                boxes.within(first + bounds[0]..first + bounds[1]),
            ));
        }
        let between = boxes.between();
        let threads = threads_for(threads, usual * self.basis.dims);
        for_each(threads, tasks, |(own, first, ends)| {
            refine(
                points.points(),
                own,
                first,
                Sizes::of_items(self.resources.threads.tuning),
                ends,
                cancel,
            )
        })?;
        for (step, (group, ends)) in between.into_iter().enumerate() {
            cancel.check_at(step)?;
            let from = group * BOX_ITEMS as usize - first;
            let own = &order[from..count.min(from + BOX_ITEMS as usize)];
            enclose(points.points().with_slack(own), ends);
        }
        if items.start > 0 {
            let parts = order.chunks_mut(self.resources.threads.least(LEAST_TASK)).collect();
            for_each(threads_for(self.resources.threads, count), parts, |part: &mut [u32]| {
                part.iter_mut().for_each(|item| *item += items.start);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Cuts of the items of a run into leaves.
    fn cuts(&self, items: Range<ItemId>) -> Result<Cuts> {
        /// Points of a sample for each leaf.
        const POINTS: usize = 16;
        let Resources { threads, cancel, .. } = self.resources;
        let leaves = (items.len() / threads.tuning.size(LEAF)).max(1).next_power_of_two();
        let leaves = leaves.min(MOST_SAMPLE / POINTS);
        let some: Vec<ItemId> =
            if leaves > 1 { spread(items, POINTS * leaves).collect() } else { vec![] };
        let points = self.points(some.len(), None, |at| some[at])?;
        Cuts::of(points.points(), &mut points.usual(), leaves.ilog2(), threads, cancel)
    }
}

/// The boxes of groups of items, which are shared out.
struct GroupBoxes<'a> {
    width: usize,
    /// The groups that have not been given away, and their boxes.
    groups: Range<usize>,
    ends: &'a mut [f32],
    /// Groups between those that were given away.
    between: Vec<(usize, &'a mut [f32])>,
}

impl<'a> GroupBoxes<'a> {
    /// The boxes of the groups of some items, the first of which begins a group.
    fn of(items: Range<ItemId>, boxes: &'a mut Boxes) -> Self {
        let width = 2 * boxes.dims as usize;
        let groups = Boxes::group(items.start)..items.end.div_ceil(BOX_ITEMS) as usize;
        let ends = &mut boxes.ends[groups.start * width..groups.end * width];
        Self { width, groups, ends, between: vec![] }
    }

    /// The boxes of the first `count` groups.
    fn take(&mut self, count: usize) -> Ends<'a> {
        let (ends, rest) = take(&mut self.ends).split_at_mut(count * self.width);
        self.ends = rest;
        self.groups.start += count;
        Ends { first: self.groups.start - count, ends }
    }

    fn take_between(&mut self, end: usize) {
        while self.groups.start < end {
            let Ends { first, ends } = self.take(1);
            self.between.push((first, ends));
        }
    }

    /// The boxes of the groups all of whose items are some of `items`, which lie behind those before.
    fn within(&mut self, items: Range<usize>) -> Ends<'a> {
        let group = BOX_ITEMS as usize;
        let end = (items.end / group).min(self.groups.end);
        let start = items.start.div_ceil(group);
        if start >= end {
            return Ends::default();
        }
        self.take_between(start);
        self.take(end - self.groups.start)
    }

    /// The groups that were not given away, each with its box.
    fn between(mut self) -> Vec<(usize, &'a mut [f32])> {
        self.take_between(self.groups.end);
        self.between
    }
}
