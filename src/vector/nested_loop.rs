//! Every probe vector with every build vector of its key.

use std::mem::size_of;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use super::bounds::{Bounds, Frame};
use super::collection::Vectors;
use super::cursor::{BLOCK, NestedLoopCursor};
use super::device;
use super::index::{Order, Sampled, sample};
use super::metric::{Orders, Threshold};
use super::order::{BLOCK_ITEMS, Boxes, Reach};
use super::tile::{PANEL, Panels};
use crate::engine::{
    Collection, Cost, Cursor, DevicePlace, Evidence, ItemId, MatchSpec, Pairing, Placement,
    PrepareContext, PreparedJoin, Strategy,
};
use crate::spec::Side;
use crate::util::parallel::{for_each, steps_per_task, threads_for};

/// Tiles of products in `f32` reject and accept pairs; `f64` decides those between.
#[derive(Debug)]
pub(super) struct NestedLoop;

/// The figures of a join.
#[derive(Debug)]
pub(super) struct Figures {
    pub threshold: Threshold,
    pub orders: Orders,
    pub spec: MatchSpec,
    /// The time for all pairs, in nanoseconds of a core.
    pub pairs: f64,
    /// The numbers of the build side.
    pub numbers: f64,
    /// An index that takes less time.
    pub sampled: Option<Sampled>,
    /// The cost on a device.
    pub on_device: Cost,
}

impl Evidence for Figures {}

/// What a join asks of pairs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Joining {
    pub threshold: Threshold,
    pub orders: Orders,
    pub spec: MatchSpec,
}

/// The time for a pair of vectors, in nanoseconds of a core: measured on an EPYC (Zen 4) with 8 to
/// 960 dimensions.
pub(super) fn pair_cost(dimensions: u32) -> f64 {
    /// Of the comparison, and of a dimension.
    const PAIR: f64 = 0.05;
    const DIMENSION: f64 = 0.019;
    PAIR + DIMENSION * f64::from(dimensions)
}

/// The time to hold the boxes of a self-join against each other, in nanoseconds of a core.
fn passing_cost(items: u32, boxes: &Boxes) -> f64 {
    /// Of a block and the box of a panel, and of a coordinate.
    const PAIR: f64 = 1.0;
    const COORDINATE: f64 = 0.15;
    let pairs = f64::from(items / BLOCK_ITEMS) * f64::from(items) / PANEL as f64 / 2.0;
    // As many of those above the panels' as of them.
    pairs * f64::from(2.0 * boxes.share).min(1.0) * (PAIR + COORDINATE * f64::from(boxes.dims))
}

impl Figures {
    /// # Errors
    ///
    /// When the work is cancelled.
    pub(super) fn gather(
        build: &Arc<Vectors>,
        threshold: Threshold,
        first: Side,
        spec: &MatchSpec,
        indexes: &[Order],
        context: PrepareContext<'_>,
    ) -> Result<Self> {
        let on_device = device::estimate(build, threshold, spec);
        let pairs = build.runs().iter().map(|run| {
            // Of two inputs, the probe side is taken to be as large as the build side.
            pair_cost(run.lens[1]) * f64::from(run.items.len() as u32).powi(2)
        });
        let all: f64 = pairs.sum();
        let pairs = match (spec.pairing, build.boxes()) {
            (Pairing::Unordered, Some(boxes)) => {
                f64::from(boxes.share) * all / 2.0 + passing_cost(build.len(), boxes)
            }
            (Pairing::Unordered, None) => all / 2.0,
            // The boxes of two inputs do not meet.
            (Pairing::All, _) => all,
        };
        let sampled = sample(build, threshold, indexes, spec, pairs, context)?;
        let (orders, numbers) = (Orders::of(spec, first), build.number_count() as f64);
        Ok(Self { threshold, orders, spec: *spec, pairs, numbers, sampled, on_device })
    }
}

impl NestedLoop {
    /// A bound on the bytes of a prepared join.
    pub(super) fn prepared_bytes(vectors: usize, numbers: usize) -> usize {
        let panels = vectors.div_ceil(PANEL);
        // A panel is as wide as its widest vector: about twice the mean one.
        // The boxes of panels, sixteen coordinates at most.
        let reach = 9 * vectors + 4096;
        2 * numbers * size_of::<f32>()
            + reach
            + panels * (PANEL * size_of::<Bounds>() + size_of::<usize>())
            + numbers
            + 4096
    }
}

impl NestedLoop {
    /// Prepares the join on the CPU.
    ///
    /// # Errors
    ///
    /// When memory is refused, or the work cancelled.
    pub(super) fn on_cpu(
        build: Arc<Vectors>,
        join: Joining,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let Joining { threshold, orders, spec } = join;
        let side = BuildPanels::of(build, threshold, context)?;
        let probe_rows = probe_rows(&side.vectors);
        Ok(Arc::new(Prepared { side: Arc::new(side), threshold, orders, spec, probe_rows }))
    }
}

impl Strategy for NestedLoop {
    fn name(&self) -> &'static str {
        "nested-loop"
    }

    fn runs_on(&self, _: Placement) -> bool {
        true
    }

    fn estimate(&self, evidence: &dyn Evidence, placement: Placement) -> Result<Cost> {
        /// Nanoseconds to convert a number.
        const NUMBER: f64 = 2.0;
        let figures: &Figures = evidence.of()?;
        if placement == Placement::Gpu {
            return Ok(figures.on_device);
        }
        Ok(Cost::cpu(figures.pairs + NUMBER * figures.numbers))
    }

    fn prepare(
        &self,
        build: &Arc<dyn Collection>,
        evidence: &dyn Evidence,
        device: Option<&Arc<dyn DevicePlace>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let Figures { threshold, orders, spec, .. } = *evidence.of()?;
        let build = build.shared()?;
        let join = Joining { threshold, orders, spec };
        match device {
            Some(device) => device::prepare(&build, join, &device.shared()?, None, context),
            None => Self::on_cpu(build, join, context),
        }
    }
}

/// The build side's vectors in panels.
#[derive(Debug)]
pub(super) struct BuildPanels {
    pub vectors: Arc<Vectors>,
    pub frame: Frame,
    /// The place of each panel, and the end of the last.
    starts: Vec<usize>,
    numbers: Vec<f32>,
    reject: Vec<f32>,
    accept: Vec<f32>,
    /// The boxes of panels, where vectors are ordered.
    pub reach: Option<Reach>,
}

impl BuildPanels {
    fn of(
        vectors: Arc<Vectors>,
        threshold: Threshold,
        context: PrepareContext<'_>,
    ) -> Result<Self> {
        let count = vectors.len() as usize;
        let panels = count.div_ceil(PANEL);
        let items =
            |panel: usize| (panel * PANEL) as ItemId..count.min((panel + 1) * PANEL) as ItemId;
        let width = |panel: usize| items(panel).map(|item| vectors.dimensions(item)).max();
        let mut starts = Vec::new();
        context.reservation.try_grow((panels + 1) * size_of::<usize>())?;
        starts.reserve_exact(panels + 1);
        let mut end = 0;
        for panel in 0..panels {
            starts.push(end);
            end += width(panel).unwrap_or(0) as usize * PANEL;
        }
        starts.push(end);
        let widest = (0..panels).filter_map(width).max().unwrap_or(0) as usize;
        let bytes = end * size_of::<f32>()
            + panels * PANEL * size_of::<Bounds>()
            + widest * (2 * size_of::<f64>());
        context.reservation.try_grow(bytes)?;
        let frame = Frame::of(&vectors, threshold, context.cancel)?;
        let mut numbers = vec![0.0_f32; end];
        let (mut reject, mut accept) =
            (vec![f32::INFINITY; panels * PANEL], vec![f32::INFINITY; panels * PANEL]);
        let threads = threads_for(context.threads, end);
        let share = steps_per_task(threads, panels, 16);
        let mut tasks = vec![];
        let mut rest = numbers.as_mut_slice();
        let bounds = reject.chunks_mut(share * PANEL).zip(accept.chunks_mut(share * PANEL));
        for (first, bounds) in (0..panels).step_by(share).zip(bounds) {
            let last = panels.min(first + share);
            let (own, others) = rest.split_at_mut(starts[last] - starts[first]);
            tasks.push((first..last, own, bounds));
            rest = others;
        }
        for_each(threads, tasks, |(of_task, numbers, (reject, accept))| {
            let first = of_task.start;
            for panel in of_task {
                context.cancel.check()?;
                let own = &mut numbers[starts[panel] - starts[first]..];
                for (lane, item) in items(panel).enumerate() {
                    let places = own.iter_mut().skip(lane).step_by(PANEL);
                    let bounds = frame.build(&vectors, item, places);
                    let place = (panel - first) * PANEL + lane;
                    (reject[place], accept[place]) = (bounds.reject, bounds.accept);
                }
            }
            Ok(())
        })?;
        let reach = reach(&vectors, context);
        Ok(Self { vectors, frame, starts, numbers, reject, accept, reach })
    }

    /// A panel and those that follow it with the same stride, `most` at most.
    pub(super) fn panels(&self, panel: usize, most: usize) -> (Panels<'_>, usize) {
        let stride = self.starts[panel + 1] - self.starts[panel];
        let is_alike = |&next: &usize| self.starts[next + 1] - self.starts[next] == stride;
        let last = (panel..panel + most).take_while(is_alike).count();
        let numbers = &self.numbers[self.starts[panel]..self.starts[panel + last]];
        let reject = &self.reject[panel * PANEL..(panel + last) * PANEL];
        (Panels { numbers, stride, step: 1, reject }, last)
    }

    /// A panel and, where it has as many numbers, another one behind it; how many.
    pub(super) fn pair(&self, panel: usize, other: Option<usize>) -> (Panels<'_>, usize) {
        let len = |panel: usize| self.starts[panel + 1] - self.starts[panel];
        let other = other.filter(|&other| other > panel && len(other) == len(panel));
        let Some(other) = other else { return self.panels(panel, 1) };
        let numbers = &self.numbers[self.starts[panel]..self.starts[other + 1]];
        let reject = &self.reject[panel * PANEL..(other + 1) * PANEL];
        let stride = self.starts[other] - self.starts[panel];
        (Panels { numbers, stride, step: other - panel, reject }, 2)
    }

    pub(super) fn accept(&self, item: ItemId) -> f32 {
        self.accept[item as usize]
    }
}

/// The boxes of panels, where there are boxes and memory for them.
fn reach(vectors: &Vectors, context: PrepareContext<'_>) -> Option<Reach> {
    let boxes = vectors.boxes()?;
    context.reservation.try_grow(Reach::bytes(boxes, vectors.len(), PANEL as u32)).ok()?;
    Some(Reach::of(boxes, vectors.len(), PANEL as u32))
}

#[derive(Debug)]
struct Prepared {
    side: Arc<BuildPanels>,
    threshold: Threshold,
    orders: Orders,
    spec: MatchSpec,
    probe_rows: usize,
}

/// The rows of another input that take some milliseconds. Their keys are taken to be those of the
/// build side.
fn probe_rows(build: &Vectors) -> usize {
    /// Nanoseconds that the rows take about.
    const SLICE: f64 = 5e6;
    let pairs = build
        .runs()
        .iter()
        .map(|run| pair_cost(run.lens[1]) * f64::from(run.items.len() as u32).powi(2));
    let row = pairs.sum::<f64>() / f64::from(build.len()).max(1.0);
    let rows = (SLICE / row.max(1.0)) as usize;
    rows.next_multiple_of(BLOCK).max(BLOCK)
}

impl PreparedJoin for Prepared {
    fn open(&self, reservation: &MemoryReservation) -> Result<Box<dyn Cursor>> {
        let cursor = NestedLoopCursor::new(
            Arc::clone(&self.side),
            self.threshold,
            self.orders,
            self.spec,
            reservation.new_empty(),
        );
        Ok(Box::new(cursor))
    }

    fn range_unit(&self) -> u32 {
        if self.side.reach.is_some() { BLOCK_ITEMS } else { BLOCK as u32 }
    }

    fn probe_rows(&self) -> usize {
        self.probe_rows
    }
}
