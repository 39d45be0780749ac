//! The points of a build side with their trees.

use std::mem::size_of;
use std::ops::Range;
use std::sync::Arc;

use super::boxes::{BOX_DIMS, PANEL, Tree, TreeShape, fill_nodes, fill_panels, node_len};
use super::images::{Axes, MOST_PLAIN};
use super::order::{PartialPoints, sort};
use crate::engine::{ItemId, PrepareContext};
use crate::error::Result;
use crate::simd::Simd;
use crate::util::parallel::{filled, for_each, steps_per_task, threads_for};
use crate::vector::bounds::{DistanceLimits, Frame, Rounded, is_far};
use crate::vector::boxes::LANES;
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
    /// The coordinates of a point in the tree: its dimensions, or those of its image.
    width: u32,
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
    /// The axes of images, where points have some.
    axes: Option<Axes>,
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
    pub tree: Option<(PlacedTree<'a>, DistanceLimits)>,
    /// The ranks of those that only the function decides.
    pub others: Range<u32>,
}

/// A tree with the dimensions of its boxes.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlacedTree<'a> {
    pub first_rank: u32,
    pub points: u32,
    /// The axes by which its points have images.
    axes: Option<&'a Axes>,
    dims: [usize; BOX_DIMS],
    dim_count: usize,
    shape: TreeShape,
    width: usize,
    panels: &'a [f32],
    nodes: &'a [f32],
}

impl PlacedTree<'_> {
    pub(super) fn tree(&self) -> Tree<'_> {
        Tree {
            shape: self.shape,
            dimensions: self.width,
            dims: &self.dims[..self.dim_count],
            panels: self.panels,
            nodes: self.nodes,
        }
    }

    /// Whether points have images, which leave more pairs open than points do.
    pub(super) fn has_images(&self) -> bool {
        self.axes.is_some()
    }

    /// The coordinates that a visit of the tree compares: those of the point, or those of its image, which is written
    /// to `image`.
    pub(super) fn visitor<'p>(
        &self,
        simd: Simd,
        point: &'p [f32],
        image: &'p mut [f32; LANES],
    ) -> &'p [f32] {
        match self.axes {
            Some(axes) => {
                *image = axes.image(simd, point);
                &image[..axes.width()]
            }
            None => point,
        }
    }
}

impl VectorIndex {
    /// A bound on the bytes of an index, and of making it.
    pub(in crate::vector) fn bytes(vectors: usize, numbers: usize) -> usize {
        // Points before and in their order, panels half full at worst; boxes, a grove; orders.
        let coordinates = numbers.min(vectors * MOST_PLAIN);
        (coordinates * 5 / 2) * size_of::<f32>() + vectors * 72 + 2 * coordinates + 8192
    }

    /// The index of every `step`-th item.
    ///
    /// # Errors
    ///
    /// When memory is refused, or the work cancelled. The reservation is as before then.
    pub(in crate::vector) fn of(
        vectors: Arc<Vectors>,
        frame: Frame,
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
            axes: None,
            panels: vec![],
            nodes: vec![],
            most_off: 0.0,
            bytes: 0,
        };
        let found = index.find_axes(context);
        let made = found.and_then(|()| index.make(step.max(1), context));
        let of_axes = index.axes.as_ref().map_or(0, |axes| Axes::own_bytes(axes.dimensions));
        let own = index.size_in_bytes().min(whole);
        index.bytes = own + of_axes;
        let rest = if made.is_ok() { whole - own } else { whole + of_axes };
        context.reservation.shrink(rest);
        made.map(|()| index)
    }

    /// Finds the axes for points that have images, from the longest run of such points. They serve all runs of its
    /// dimensions; other runs have no tree. Where memory is short, no run of such points has one.
    fn find_axes(&mut self, context: PrepareContext<'_>) -> Result<()> {
        let runs = self.vectors.runs().iter();
        let runs = runs.filter(|run| is_alike(run) && run.lens[0] as usize > MOST_PLAIN);
        let Some(longest) = runs.max_by_key(|run| run.items.len()) else { return Ok(()) };
        let d = longest.lens[0] as usize;
        let (finding, own) = (Axes::bytes(d), Axes::own_bytes(d));
        if longest.items.len() < LEAST_ITEMS || context.reservation.try_grow(finding).is_err() {
            return Ok(());
        }
        let axes = Axes::of_run(&self.vectors, longest, &self.frame, context);
        context.reservation.shrink(if axes.is_ok() { finding - own } else { finding });
        self.axes = Some(axes?);
        Ok(())
    }

    /// Whether the points of a run have images; `None` where they had better have some, but there are no axes
    /// for them.
    fn has_images(&self, run: &Run) -> Option<bool> {
        let d = run.lens[0] as usize;
        let is_there = self.axes.as_ref().is_some_and(|axes| axes.dimensions == d);
        (d <= MOST_PLAIN || is_there).then_some(d > MOST_PLAIN)
    }

    fn make(&mut self, step: usize, context: PrepareContext<'_>) -> Result<()> {
        let vectors = Arc::clone(&self.vectors);
        for run in vectors.runs() {
            let is_grown = is_alike(run) && run.items.len() >= LEAST_ITEMS * step;
            match self.has_images(run).filter(|_| is_grown) {
                Some(_) => self.plant(run, step, context)?,
                None => self.items.extend(run.items.clone()),
            }
            context.cancel.check()?;
        }
        self.panels.shrink_to_fit();
        self.nodes.shrink_to_fit();
        (0..).zip(&self.items).for_each(|(rank, &item)| self.ranks[item as usize] = rank);
        Ok(())
    }

    /// Adds the tree of a run.
    fn plant(&mut self, run: &Run, step: usize, context: PrepareContext<'_>) -> Result<()> {
        let (d, has_images) = (run.lens[0], self.has_images(run) == Some(true));
        let axes = self.axes.as_ref().filter(|_| has_images);
        let width = axes.map_or(d as usize, Axes::width);
        let count = run.items.len().div_ceil(step);
        let picked = |place: usize| run.items.start + (place * step) as ItemId;
        let (coordinates, off) = self.convert(count, width, axes, picked, context)?;
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
        let dims = match axes {
            Some(axes) => (0..axes.width()).collect(),
            None => best_dims(&coordinates, width),
        };
        let of_points = PartialPoints { coordinates: &coordinates, stride: width, dims: &dims };
        let mut sorted = points;
        sort(of_points, &mut sorted, context.threads, context.cancel)?;
        let first = self.items.len() as u32;
        let count = sorted.len();
        let shape = TreeShape::of(count);
        let mut grove = Grove {
            ranks: first..first + run.items.len() as u32,
            points: count as u32,
            others: others.len() as u32,
            dimensions: d,
            width: width as u32,
            dim_count: dims.len() as u8,
            panels: self.panels.len(),
            nodes: self.nodes.len(),
            ..Grove::default()
        };
        grove.dims.iter_mut().zip(&dims).for_each(|(place, &dim)| *place = dim as u8);
        self.items.extend(sorted.iter().map(|&point| picked(point as usize)));
        self.items.extend(others.into_iter().chain(never));
        let panels = shape.panels as usize * width * PANEL;
        let threads = threads_for(context.threads, count * width);
        match self.panels.is_empty() {
            true => self.panels = filled(threads, panels, 0.0),
            false => {
                self.panels.reserve_exact(panels);
                self.panels.resize(grove.panels + panels, 0.0);
            }
        }
        let share = PANEL * steps_per_task(threads, shape.panels as usize, 16);
        let tasks = sorted.chunks(share).zip(self.panels[grove.panels..].chunks_mut(share * width));
        for_each(threads, tasks.collect(), |(points, panels)| {
            context.cancel.check()?;
            fill_panels(points, &coordinates, width, panels);
            Ok(())
        })?;
        drop(coordinates);
        let nodes = shape.nodes() * node_len(dims.len());
        self.nodes.reserve_exact(nodes);
        self.nodes.resize(grove.nodes + nodes, 0.0);
        let own = &self.panels[grove.panels..];
        let tree = Tree { shape, dimensions: width, dims: &dims, panels: own, nodes: &[] };
        let own = &mut self.nodes[grove.nodes..];
        fill_nodes(tree, count, own, context.threads, context.cancel)?;
        self.groves.push(grove);
        Ok(())
    }

    /// Some items as points or images of `width` coordinates, and what the points are off: infinite for items that
    /// are compared by the function, NaN for those that match nothing.
    fn convert(
        &self,
        count: usize,
        width: usize,
        axes: Option<&Axes>,
        item: impl Fn(usize) -> ItemId + Sync,
        context: PrepareContext<'_>,
    ) -> Result<(Vec<f32>, Vec<f64>)> {
        let mut coordinates = vec![0.0_f32; count * width];
        let mut off = vec![f64::NAN; count];
        let threads =
            threads_for(context.threads, count * axes.map_or(width, |axes| axes.dimensions));
        let share = steps_per_task(threads, count, 1 << 8);
        let tasks = coordinates.chunks_mut(share * width).zip(off.chunks_mut(share)).enumerate();
        let write = |place: usize, point: &mut [f32]| -> Result<f64> {
            context.cancel.check_at(place)?;
            Ok(match self.frame.point(&self.vectors, item(place), point.iter_mut()) {
                Rounded::Usual { off, .. } => off,
                Rounded::Unusual => f64::INFINITY,
                Rounded::Nan { matches: true } => f64::INFINITY,
                Rounded::Never | Rounded::Nan { matches: false } => f64::NAN,
            })
        };
        for_each(threads, tasks.collect(), |(task, (coordinates, off))| {
            let first = task * share;
            if let Some(axes) = axes {
                return axes.images(Simd::detect(), coordinates, |place, point| {
                    off[place] = write(first + place, point)?;
                    Ok(())
                });
            }
            let points = coordinates.chunks_exact_mut(width).zip(off);
            for (place, (point, off)) in (first..).zip(points) {
                *off = write(place, point)?;
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

    /// The partners within the threshold of a frame of a vector of `run`, whose point was rounded so. `own` is its own
    /// rank where each unordered pair is decided once.
    pub(super) fn partners(
        &self,
        frame: &Frame,
        run: &Run,
        rounded: Rounded,
        own: Option<u32>,
    ) -> Partners<'_> {
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
            let limits = frame.limits(grove.dimensions as usize, [square, off], self.most_off)?;
            match self.axes_of(grove) {
                Some(axes) => axes.limits(limits, square),
                None => Some(limits),
            }
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

    fn axes_of(&self, grove: &Grove) -> Option<&Axes> {
        self.axes.as_ref().filter(|_| grove.dimensions as usize > MOST_PLAIN)
    }

    fn tree(&self, grove: &Grove) -> PlacedTree<'_> {
        let mut dims = [0; BOX_DIMS];
        dims.iter_mut().zip(grove.dims).for_each(|(place, dim)| *place = usize::from(dim));
        let (shape, width) = (TreeShape::of(grove.points as usize), grove.width as usize);
        let node_len = node_len(usize::from(grove.dim_count));
        PlacedTree {
            first_rank: grove.ranks.start,
            points: grove.points,
            axes: self.axes_of(grove),
            dims,
            dim_count: usize::from(grove.dim_count),
            shape,
            width,
            panels: &self.panels[grove.panels..][..shape.panels as usize * width * PANEL],
            nodes: &self.nodes[grove.nodes..][..shape.nodes() * node_len],
        }
    }
}

/// Whether a run has vectors of one length.
fn is_alike(run: &Run) -> bool {
    run.lens[0] == run.lens[1] && run.lens[0] > 0
}

/// The dimensions of the greatest variance, eight at most, of a sample of points that are not far from most, the greatest
/// first.
pub(super) fn best_dims(coordinates: &[f32], d: usize) -> Vec<usize> {
    const SAMPLE: usize = 1 << 12;
    const MOST: usize = 8;
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
    variances.truncate(MOST);
    variances.into_iter().filter(|(variance, _)| *variance > 0.0).map(|(_, dim)| dim).collect()
}
