//! Every probe vector with every build vector of its key.

use std::mem::size_of;
use std::sync::{Arc, OnceLock};

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use super::block::BLOCK;
use super::bounds::{Bounds, Frame};
use super::choice::{Choice, LEAST_RATIO, pair_cost};
use super::collection::Vectors;
use super::cursor::NestedLoopCursor;
use super::device;
use super::filter::Filter;
use super::index::{Order, Sampled, least_of_index, sample};
use super::metric::{Metric, Orders, Threshold};
use super::order::{BLOCK_ITEMS, Boxes};
use super::panels::{BuildPanels, MAGNITUDE_BYTES};
use super::tile::PANEL;
use crate::engine::{
    Collection, Cost, Cursor, DevicePlace, Evidence, MatchSpec, Pairing, Placement, PrepareContext,
    PreparedJoin, Strategy,
};
use crate::gpu::Device;

/// Tiles of products in `f32`, or of bytes, reject and accept pairs; `f64` decides those between.
#[derive(Debug)]
pub(super) struct NestedLoop;

/// The figures of a join.
#[derive(Debug)]
pub(crate) struct Figures {
    pub threshold: Threshold,
    pub orders: Orders,
    pub spec: MatchSpec,
    /// The time for all pairs, in nanoseconds of a core.
    pub pairs: f64,
    /// The numbers of the build side.
    pub numbers: f64,
    /// What decides pairs on the CPU, once that is chosen.
    filter: OnceLock<Choice>,
    /// An index that takes less time.
    pub(super) sampled: Option<Sampled>,
    /// The cost on a device.
    pub on_device: Cost,
}

impl Evidence for Figures {}

/// What a join asks of pairs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Joining {
    pub threshold: Threshold,
    pub orders: Orders,
    pub spec: MatchSpec,
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

/// The time for the products of all pairs in `f32`, in nanoseconds of a core.
pub(super) fn all_pairs(build: &Vectors, spec: &MatchSpec) -> f64 {
    build.probe_ratio(spec) * own_pairs(build)
}

/// The same for as many probe vectors as build vectors.
fn own_pairs(build: &Vectors) -> f64 {
    let of_run = |items: u32, d: u32| pair_cost(d) * f64::from(items).powi(2);
    build.runs().iter().map(|run| of_run(run.items.len() as u32, run.lens[1])).sum()
}

impl Figures {
    /// # Errors
    ///
    /// When the work is cancelled.
    pub(super) fn gather(
        build: &Arc<Vectors>,
        join: Joining,
        indexes: &[Order],
        placements: &[Placement],
        context: PrepareContext<'_>,
    ) -> Result<Self> {
        let Joining { threshold, orders, ref spec } = join;
        let on_device = device::estimate(build, threshold, spec);
        // The time by that of products in `f32`.
        let pairs = |ratio: f64| {
            let all = ratio * all_pairs(build, spec);
            match (spec.pairing, build.boxes()) {
                (Pairing::Unordered, Some(boxes)) => {
                    f64::from(boxes.share) * all / 2.0 + passing_cost(build.len(), boxes)
                }
                (Pairing::Unordered, None) => all / 2.0,
                // The boxes of two inputs do not meet.
                (Pairing::All, _) => all,
            }
        };
        // An estimate for the CPU that an open device beats, whatever a sample says, is not refined. One
        // that is not open may turn out not to be there.
        let is_open = placements.contains(&Placement::Gpu) && Device::opened(0).is_some();
        let device = on_device.elapsed(context.threads);
        let loses = |least: f64| is_open && device < Cost::cpu(least).elapsed(context.threads);
        let is_filtered = placements.contains(&Placement::Cpu) && !loses(0.5 * pairs(LEAST_RATIO));
        let filter = match is_filtered {
            true => OnceLock::from(Choice::of(build, threshold, spec, context)?),
            false => OnceLock::new(),
        };
        let pairs = pairs(filter.get().map_or(1.0, Choice::ratio));
        let sampled = match loses(least_of_index(build, spec)) {
            true => None,
            false => sample(build, threshold, indexes, spec, pairs, context)?,
        };
        let numbers = build.number_count() as f64;
        Ok(Self { threshold, orders, spec: *spec, pairs, numbers, filter, sampled, on_device })
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

impl Strategy for NestedLoop {
    fn name(&self) -> &'static str {
        "nested-loop"
    }

    fn runs_on(&self, _: Placement) -> bool {
        true
    }

    fn manner(&self, evidence: &dyn Evidence) -> Option<&'static str> {
        let figures: &Figures = evidence.of().ok()?;
        matches!(figures.filter.get(), Some(Choice::Bytes { .. })).then_some("by products of bytes")
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
        let figures: &Figures = evidence.of()?;
        let Figures { threshold, orders, spec, .. } = *figures;
        let build = build.shared()?;
        let join = Joining { threshold, orders, spec };
        if let Some(device) = device {
            return device::prepare(&build, join, &device.shared()?, None, context);
        }
        let filter = match figures.filter.get() {
            Some(filter) => filter.clone(),
            None => {
                let filter = Choice::of(&build, threshold, &spec, context)?;
                figures.filter.get_or_init(|| filter).clone()
            }
        };
        Self::filtered(build, join, filter, context)
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
        let cursor =
            NestedLoopCursor::try_new(Arc::clone(&self.side), self.join, reservation.new_empty());
        Ok(Box::new(cursor?))
    }

    fn range_unit(&self) -> u32 {
        if self.side.reach.is_some() { BLOCK_ITEMS } else { BLOCK as u32 }
    }

    fn probe_rows(&self) -> usize {
        self.probe_rows
    }
}
