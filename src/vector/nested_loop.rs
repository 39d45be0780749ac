//! Every probe vector with every build vector of its key.

use std::mem::size_of;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use super::block::BLOCK;
use super::bounds::Frame;
use super::boxes::{BLOCK_ITEMS, Boxes};
use super::choice::{Choice, LEAST_RATIO, pair_cost};
use super::collection::Vectors;
use super::cursor::NestedLoopWorker;
use super::device::{self, VectorDevices};
use super::filter::{Bounds, Filter};
use super::index::{Sampled, least_of_index, sample};
use super::metric::{ArgumentOrder, Metric, Threshold};
use super::panels::{BuildPanels, MAGNITUDE_BYTES};
use super::tile::PANEL;
use crate::engine::{
    Cost, Cursor, Estimate, Join, MatchSpec, Pairing, Placement, PrepareContext, PreparedJoin,
    Strategy, Terms, UnitCursor,
};
use crate::gpu::Device;

/// Tiles of products in `f32`, or of bytes, reject and accept pairs; `f64` decides those between.
#[derive(Debug)]
pub(super) struct NestedLoop;

/// A join whose strategies are compared, and the figures that they share.
#[derive(Debug)]
pub(crate) struct VectorJoin {
    pub build: Arc<Vectors>,
    pub joining: Joining,
    /// The cost on a device.
    pub on_device: Cost,
    /// The filter that decides pairs on the CPU, once it is chosen.
    filter: Option<Choice>,
    /// The index that takes less time than comparing all pairs, if there is one, once one has been made.
    sampled: Option<Option<Sampled>>,
}

impl Join for VectorJoin {
    type Devices = VectorDevices;
}

/// The question that a join asks of pairs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Joining {
    pub threshold: Threshold,
    pub orders: ArgumentOrder,
    pub spec: MatchSpec,
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

/// The time for the products of all pairs in `f32`, in nanoseconds of a core.
pub(super) fn all_pairs(build: &Vectors, spec: &MatchSpec) -> f64 {
    build.probe_ratio(spec) * own_pairs(build)
}

/// The time for the products of as many probe vectors as build vectors.
fn own_pairs(build: &Vectors) -> f64 {
    let of_run = |items: u32, d: u32| pair_cost(d) * f64::from(items).powi(2);
    build.runs().iter().map(|run| of_run(run.items.len() as u32, run.lens[1])).sum()
}

impl VectorJoin {
    /// A join of which no part has been chosen.
    pub(super) fn new(build: Arc<Vectors>, joining: Joining) -> Self {
        let on_device = device::estimate(&build, joining.threshold, &joining.spec);
        Self { build, joining, on_device, filter: None, sampled: None }
    }

    /// The time for all pairs by the filter that is chosen, by products in `f32` before that, in
    /// nanoseconds of a core.
    fn pairs(&self) -> f64 {
        self.pairs_of(self.filter.as_ref().map_or(1.0, Choice::ratio))
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
    /// an estimate for the CPU is not refined then. A device that is not open may turn out not to be
    /// there.
    fn loses(&self, least: f64, terms: &Terms<'_>) -> bool {
        let threads = terms.context.threads;
        let is_open = terms.has(Placement::Gpu) && Device::opened(0).is_some();
        is_open && self.on_device.elapsed(threads) < Cost::cpu(least).elapsed(threads)
    }

    /// Chooses what decides pairs on the CPU, where that is compared and may win.
    fn choose_filter(&mut self, terms: &Terms<'_>) -> Result<()> {
        let may_win = !self.loses(0.5 * self.pairs_of(LEAST_RATIO), terms);
        if self.filter.is_none() && terms.has(Placement::Cpu) && may_win {
            let Joining { threshold, ref spec, .. } = self.joining;
            self.filter = Some(Choice::of(&self.build, threshold, spec, terms.context)?);
        }
        Ok(())
    }

    /// Makes an index, where it may take less time than comparing all pairs. Of the orders, the one that
    /// suits the vectors is tried.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub(super) fn sample_index(&mut self, terms: &Terms<'_>) -> Result<()> {
        self.choose_filter(terms)?;
        let Joining { threshold, ref spec, .. } = self.joining;
        if self.sampled.is_none() && !self.loses(least_of_index(&self.build, spec), terms) {
            let found = sample(&self.build, threshold, spec, self.pairs(), terms.context)?;
            self.sampled = Some(found);
        }
        Ok(())
    }

    /// The index that takes less time, where one has been made.
    pub(super) fn sampled(&self) -> Option<&Sampled> {
        self.sampled.as_ref()?.as_ref()
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
            + panels * (PANEL * size_of::<Bounds>() + size_of::<usize>() + MAGNITUDE_BYTES)
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
        let filter = Choice::of(&build, join.threshold, &join.spec, context)?;
        Self::filtered(build, join, filter, context)
    }

    fn filtered(
        build: Arc<Vectors>,
        join: Joining,
        filter: Choice,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let rows = probe_rows(&build, filter.ratio());
        let widest = build.runs().iter().map(|run| run.lens[1]).max().unwrap_or(0);
        context.reservation.try_grow(widest as usize * 4 * size_of::<f64>())?;
        let floats = Frame::of(&build, join.threshold, context.cancel)?;
        Ok(match filter {
            Choice::Bytes { frame, .. } => {
                let side = BuildPanels::of(build, frame, Some(floats), context)?;
                Arc::new(Prepared::new(side, join, rows))
            }
            Choice::Floats => {
                // Blocks have centres of their own.
                let second = (join.threshold.metric == Metric::Euclidean).then(|| floats.clone());
                let side = BuildPanels::of(build, floats, second, context)?;
                Arc::new(Prepared::new(side, join, rows))
            }
        })
    }
}

impl Strategy<VectorJoin> for NestedLoop {
    fn name(&self) -> &'static str {
        "nested-loop"
    }

    fn runs_on(&self, _: Placement) -> bool {
        true
    }

    fn estimate(&self, join: &mut VectorJoin, terms: &Terms<'_>) -> Result<Estimate> {
        /// Nanoseconds to convert a number.
        const NUMBER: f64 = 2.0;
        join.choose_filter(terms)?;
        let nanos = join.pairs() + NUMBER * join.build.number_count() as f64;
        let cpu = terms.has(Placement::Cpu).then(|| Cost::cpu(nanos));
        let gpu = terms.has(Placement::Gpu).then_some(join.on_device);
        let of_bytes = matches!(join.filter, Some(Choice::Bytes { .. }));
        let manner = of_bytes.then_some("by products of bytes");
        Ok(Estimate::new(cpu, gpu, ()).in_manner(manner))
    }

    fn prepare(
        &self,
        join: &VectorJoin,
        _: &Estimate,
        device: Option<&Arc<VectorDevices>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let VectorJoin { build, joining, filter, .. } = join;
        if let Some(device) = device {
            return device::prepare(build, *joining, device, None, context);
        }
        match filter {
            Some(filter) => Self::filtered(Arc::clone(build), *joining, filter.clone(), context),
            None => Self::on_cpu(Arc::clone(build), *joining, context),
        }
    }
}

#[derive(Debug)]
struct Prepared<F: Filter> {
    side: Arc<BuildPanels<F>>,
    join: Joining,
    probe_rows: usize,
}

impl<F: Filter> Prepared<F> {
    fn new(side: BuildPanels<F>, join: Joining, probe_rows: usize) -> Self {
        Self { side: Arc::new(side), join, probe_rows }
    }
}

/// The rows of another input that take some milliseconds, where pairs take `ratio` of the time of
/// products in `f32`. Their keys are taken to be those of the build side.
fn probe_rows(build: &Vectors, ratio: f64) -> usize {
    /// Nanoseconds that the rows take about.
    const SLICE: f64 = 5e6;
    let row = ratio * own_pairs(build) / f64::from(build.len()).max(1.0);
    let rows = (SLICE / row.max(1.0)) as usize;
    rows.next_multiple_of(BLOCK).max(BLOCK)
}

impl<F: Filter> PreparedJoin for Prepared<F> {
    fn open(&self, reservation: &MemoryReservation) -> Result<Box<dyn Cursor>> {
        let worker =
            NestedLoopWorker::try_new(Arc::clone(&self.side), self.join, reservation.new_empty());
        Ok(Box::new(UnitCursor::new(worker?)))
    }

    fn range_unit(&self) -> u32 {
        if self.side.reach.is_some() { BLOCK_ITEMS } else { BLOCK as u32 }
    }

    fn probe_rows(&self) -> usize {
        self.probe_rows
    }
}
