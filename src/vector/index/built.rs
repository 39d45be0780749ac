//! The points of a build side with their trees.

use std::mem::size_of;
use std::ops::Range;
use std::sync::Arc;

use datafusion::common::Result;

use super::boxes::{BOX_DIMS, PANEL, Shape, Tree, fill_nodes, fill_panels, node_len};
use super::order::{Order, Points};
use crate::engine::{ItemId, PrepareContext};
use crate::util::parallel::{filled, for_each, steps_per_task, threads_for};
use crate::vector::bounds::{Frame, Limits, Rounded, is_far};
use crate::vector::collection::{Run, Vectors};
use crate::vector::middle::spread;

/// Runs of fewer items have no tree: their panels would be half empty.
const LEAST_ITEMS: usize = 2 * PANEL;

/// The points of one blocking key. Its items have neighbouring ranks: those with points, in the
/// order of the tree, then those to be compared by the function, then those that match nothing, or, with
/// NaN, none but these.
#[derive(Debug, Clone, Default)]
struct Grove {
    ranks: Range<u32>,
    /// The number of points, and of items that are compared by the function.
    points: u32,
    others: u32,
    dimensions: u32,
    dims: [u8; BOX_DIMS],
    dim_count: u8,
    /// The places of its first panel and its first node.
    panels: usize,
    nodes: usize,
}

/// The build side's vectors as points in an order, with boxes around neighbours.
#[derive(Debug)]
pub(in crate::vector) struct VectorIndex {
    pub vectors: Arc<Vectors>,
    pub frame: Frame,
    /// By rank the item, and by item the rank. The ranks of a blocking key follow each other as its
    /// items do.
    items: Vec<ItemId>,
    ranks: Vec<u32>,
    groves: Vec<Grove>,
    panels: Vec<f32>,
    nodes: Vec<f32>,
    /// A bound on r(y) of all points.
    most_off: f64,
    /// The bytes that it has reserved.
    pub bytes: usize,
}

/// The partners of a probe vector that are compared with it.
#[derive(Debug)]
pub(super) struct Partners<'a> {
    /// The tree with the places of its points, and what its distances prove.
    pub tree: Option<(PlacedTree<'a>, Limits)>,
    /// The ranks of those that only the function decides.
    pub others: Range<u32>,
}

/// A tree with the dimensions of its boxes.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlacedTree<'a> {
    pub first_rank: u32,
    pub points: u32,
    dims: [usize; BOX_DIMS],
    dim_count: usize,
    shape: Shape,
    dimensions: usize,
    panels: &'a [f32],
    nodes: &'a [f32],
}

impl PlacedTree<'_> {
    pub(super) fn tree(&self) -> Tree<'_> {
        Tree {
            shape: self.shape,
            dimensions: self.dimensions,
            dims: &self.dims[..self.dim_count],
            panels: self.panels,
            nodes: self.nodes,
        }
    }
}

impl VectorIndex {
    /// A bound on the bytes of an index, and of making it.
    pub(in crate::vector) fn bytes(vectors: usize, numbers: usize) -> usize {
        // Points before and in their order, panels half full at worst; boxes, a grove; orders.
        (numbers * 5 / 2) * size_of::<f32>() + vectors * 72 + numbers + 8192
    }

    /// The index of every `step`-th item.
    ///
    /// # Errors
    ///
    /// When memory is refused, or the work cancelled. The reservation is as before then.
    pub(in crate::vector) fn of(
        vectors: Arc<Vectors>,
        frame: Frame,
        order: Order,
        step: usize,
        context: PrepareContext<'_>,
    ) -> Result<Self> {
        let count = vectors.len() as usize;
        let whole = Self::bytes(count, vectors.number_count());
        context.reservation.try_grow(whole)?;
        let mut index = Self {
            vectors,
            frame,
            items: Vec::with_capacity(count),
            ranks: vec![0; count],
            groves: vec![],
            panels: vec![],
            nodes: vec![],
            most_off: 0.0,
            bytes: 0,
        };
        let made = index.make(order, step.max(1), context);
        index.bytes = index.size_in_bytes().min(whole);
        let rest = if made.is_ok() { whole - index.bytes } else { whole };
        context.reservation.shrink(rest);
        made.map(|()| index)
    }

    fn make(&mut self, order: Order, step: usize, context: PrepareContext<'_>) -> Result<()> {
        let vectors = Arc::clone(&self.vectors);
        for run in vectors.runs() {
            let is_alike = run.lens[0] == run.lens[1] && run.lens[0] > 0;
            let is_grown = is_alike && run.items.len() >= LEAST_ITEMS * step;
            match is_grown {
                true => self.plant(run, order, step, context)?,
                false => self.items.extend(run.items.clone()),
            }
            context.cancel.check()?;
        }
        self.panels.shrink_to_fit();
        self.nodes.shrink_to_fit();
        (0..).zip(&self.items).for_each(|(rank, &item)| self.ranks[item as usize] = rank);
        Ok(())
    }

    /// Adds the tree of a run.
    fn plant(
        &mut self,
        run: &Run,
        order: Order,
        step: usize,
        context: PrepareContext<'_>,
    ) -> Result<()> {
        let d = run.lens[0] as usize;
        let count = run.items.len().div_ceil(step);
        let picked = |place: usize| run.items.start + (place * step) as ItemId;
        let (coordinates, off) = self.convert(count, d, picked, context)?;
        let (mut points, mut others, mut never) = (Vec::with_capacity(count), vec![], vec![]);
        for (place, &off) in (0..).zip(&off) {
            match off {
                f64::INFINITY => others.push(picked(place as usize)),
                off if off.is_nan() => never.push(picked(place as usize)),
                off => {
                    self.most_off = self.most_off.max(off);
                    points.push(place);
                }
            }
        }
        let is_picked = |item: &ItemId| ((item - run.items.start) as usize).is_multiple_of(step);
        never.extend(run.items.clone().filter(|item| !is_picked(item)));
        drop(off);
        let dims = best_dims(&coordinates, d);
        let of_points = Points { coordinates: &coordinates, stride: d, dims: &dims };
        let mut sorted = points;
        let reach = self.frame.reach() as f32;
        order.sort(of_points, &mut sorted, reach, context.threads, context.cancel)?;
        let first = self.items.len() as u32;
        let count = sorted.len();
        let shape = Shape::of(count);
        let mut grove = Grove {
            ranks: first..first + run.items.len() as u32,
            points: count as u32,
            others: others.len() as u32,
            dimensions: d as u32,
            dim_count: dims.len() as u8,
            panels: self.panels.len(),
            nodes: self.nodes.len(),
            ..Grove::default()
        };
        grove.dims.iter_mut().zip(&dims).for_each(|(place, &dim)| *place = dim as u8);
        self.items.extend(sorted.iter().map(|&point| picked(point as usize)));
        self.items.extend(others.into_iter().chain(never));
        let panels = shape.panels as usize * d * PANEL;
        let threads = threads_for(context.threads, count * d);
        match self.panels.is_empty() {
            true => self.panels = filled(threads, panels, 0.0),
            false => {
                self.panels.reserve_exact(panels);
                self.panels.resize(grove.panels + panels, 0.0);
            }
        }
        let share = PANEL * steps_per_task(threads, shape.panels as usize, 16);
        let tasks = sorted.chunks(share).zip(self.panels[grove.panels..].chunks_mut(share * d));
        for_each(threads, tasks.collect(), |(points, panels)| {
            context.cancel.check()?;
            fill_panels(points, &coordinates, d, panels);
            Ok(())
        })?;
        drop(coordinates);
        let nodes = shape.nodes() * node_len(dims.len());
        self.nodes.reserve_exact(nodes);
        self.nodes.resize(grove.nodes + nodes, 0.0);
        let own = &self.panels[grove.panels..];
        let tree = Tree { shape, dimensions: d, dims: &dims, panels: own, nodes: &[] };
        let own = &mut self.nodes[grove.nodes..];
        fill_nodes(tree, count, own, context.threads, context.cancel)?;
        self.groves.push(grove);
        Ok(())
    }

    /// Some items as points of `d` coordinates, and what these are off: infinite for items that are
    /// compared by the function, NaN for those that match nothing.
    fn convert(
        &self,
        count: usize,
        d: usize,
        item: impl Fn(usize) -> ItemId + Sync,
        context: PrepareContext<'_>,
    ) -> Result<(Vec<f32>, Vec<f64>)> {
        let (mut coordinates, mut off) = (vec![0.0_f32; count * d], vec![f64::NAN; count]);
        let threads = threads_for(context.threads, count * d);
        let share = steps_per_task(threads, count, 1 << 8);
        let tasks = coordinates.chunks_mut(share * d).zip(off.chunks_mut(share)).enumerate();
        for_each(threads, tasks.collect(), |(task, (coordinates, off))| {
            let points = coordinates.chunks_exact_mut(d).zip(off);
            for (place, (point, off)) in (task * share..).zip(points) {
                context.cancel.check_at(place)?;
                *off = match self.frame.point(&self.vectors, item(place), point.iter_mut()) {
                    Rounded::Usual { off, .. } => off,
                    Rounded::Unusual => f64::INFINITY,
                    Rounded::Nan { matches: true } => f64::INFINITY,
                    Rounded::Never | Rounded::Nan { matches: false } => f64::NAN,
                };
            }
            Ok(())
        })?;
        Ok((coordinates, off))
    }

    fn size_in_bytes(&self) -> usize {
        (self.items.capacity() + self.ranks.capacity()) * size_of::<u32>()
            + (self.panels.capacity() + self.nodes.capacity()) * size_of::<f32>()
            + self.groves.capacity() * size_of::<Grove>()
    }

    pub(super) fn rank(&self, item: ItemId) -> u32 {
        self.ranks[item as usize]
    }

    pub(super) fn item(&self, rank: u32) -> Option<ItemId> {
        self.items.get(rank as usize).copied()
    }

    /// The partners of a vector of `run`, whose point was rounded so. `own` is its own rank where
    /// each unordered pair is decided once.
    pub(super) fn partners(&self, run: &Run, rounded: Rounded, own: Option<u32>) -> Partners<'_> {
        // Ranks of a run lie where its items do.
        let all = run.items.start..own.map_or(run.items.end, |own| own + 1);
        let place = self.groves.partition_point(|grove| grove.ranks.end <= run.items.start);
        let grove = self.groves.get(place).filter(|grove| grove.ranks.start == run.items.start);
        let (square, off) = match (rounded, grove) {
            (Rounded::Usual { square, off }, _) => (square, off),
            // It comes after those that it may match.
            (Rounded::Nan { matches: false }, Some(grove)) => {
                let first = grove.ranks.start + grove.points;
                return Partners { tree: None, others: first..first + grove.others };
            }
            _ => return Partners { tree: None, others: all },
        };
        let limits = |grove: &Grove| {
            self.frame.limits(grove.dimensions as usize, [square, off], self.most_off)
        };
        let Some((grove, limits)) = grove.and_then(|grove| Some((grove, limits(grove)?))) else {
            return Partners { tree: None, others: all };
        };
        let first = grove.ranks.start + grove.points;
        let others = match own {
            // They come after all points.
            Some(_) => first..first,
            None => first..first + grove.others,
        };
        Partners { tree: Some((self.tree(grove), limits)), others }
    }

    fn tree(&self, grove: &Grove) -> PlacedTree<'_> {
        let mut dims = [0; BOX_DIMS];
        dims.iter_mut().zip(grove.dims).for_each(|(place, dim)| *place = usize::from(dim));
        let (shape, d) = (Shape::of(grove.points as usize), grove.dimensions as usize);
        let node_len = node_len(usize::from(grove.dim_count));
        PlacedTree {
            first_rank: grove.ranks.start,
            points: grove.points,
            dims,
            dim_count: usize::from(grove.dim_count),
            shape,
            dimensions: d,
            panels: &self.panels[grove.panels..][..shape.panels as usize * d * PANEL],
            nodes: &self.nodes[grove.nodes..][..shape.nodes() * node_len],
        }
    }
}

/// The dimensions of the greatest variance, of a sample of points that are not far from most, the greatest
/// first.
pub(super) fn best_dims(coordinates: &[f32], d: usize) -> Vec<usize> {
    const SAMPLE: usize = 1 << 12;
    /// The last dimension that a grove can name.
    const LAST: usize = u8::MAX as usize;
    let points = coordinates.len().checked_div(d).unwrap_or(0);
    let some: Vec<&[f32]> = spread(0..points as u32, SAMPLE)
        .map(|point| &coordinates[point as usize * d..][..d])
        .filter(|point| !is_far(point.iter().map(|v| f64::from(v * v)).sum()))
        .collect();
    let mut variances: Vec<(f64, usize)> = (0..d.min(LAST + 1))
        .map(|dim| {
            let values = some.iter().map(|point| f64::from(point[dim]));
            let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
            for value in values {
                (count, sum, squares) = (count + 1.0, sum + value, squares + value * value);
            }
            ((squares - sum * sum / f64::max(count, 1.0)) / f64::max(count, 1.0), dim)
        })
        .collect();
    variances.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    variances.truncate(BOX_DIMS);
    variances.into_iter().filter(|(variance, _)| *variance > 0.0).map(|(_, dim)| dim).collect()
}
