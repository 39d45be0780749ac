//! The nested loop as it is prepared for cursors.

use std::mem::size_of;
use std::sync::Arc;

use super::block::BlockSize;
use super::cursor::NestedLoopWorker;
use super::panels::{BuildPanels, MAGNITUDE_BYTES};
use crate::engine::{Cursor, PrepareContext, PreparedJoin, UnitCursor};
use crate::error::Result;
use crate::memory::Memory;
use crate::vector::bounds::Frame;
use crate::vector::boxes::BLOCK_ITEMS;
use crate::vector::choice::NumberForm;
use crate::vector::collection::Vectors;
use crate::vector::cost::own_pairs;
use crate::vector::filter::{Filter, ProductBounds};
use crate::vector::metric::{Joining, Metric};
use crate::vector::tile::{Element, PANEL};

/// A bound on the bytes of a prepared join.
pub(in crate::vector) fn prepared_bytes(vectors: usize, numbers: usize) -> usize {
    let panels = vectors.div_ceil(PANEL);
    // A panel is as wide as its widest vector: about twice the mean one.
    // The boxes of panels, sixteen coordinates at most.
    let reach = 9 * vectors + 4096;
    2 * numbers * size_of::<f32>()
        + reach
        + panels
            * (PANEL * (size_of::<ProductBounds>() + size_of::<i32>())
                + size_of::<usize>()
                + MAGNITUDE_BYTES)
        + numbers
        + 4096
}

/// Prepares the join with the filter that a sample chooses.
///
/// # Errors
///
/// When memory is refused, or the work cancelled.
pub fn prepare(
    build: Arc<Vectors>,
    join: Joining,
    context: PrepareContext<'_>,
) -> Result<Arc<dyn PreparedJoin>> {
    let filter = NumberForm::of(&build, join.threshold, &join.spec, context)?;
    prepare_with(build, join, filter, context)
}

/// Prepares the join with a filter.
///
/// # Errors
///
/// When memory is refused, or the work cancelled.
pub(in crate::vector) fn prepare_with(
    build: Arc<Vectors>,
    join: Joining,
    filter: NumberForm,
    context: PrepareContext<'_>,
) -> Result<Arc<dyn PreparedJoin>> {
    let widest = build.runs().iter().map(|run| run.lens[1]).max().unwrap_or(0);
    context.reservation.try_grow(widest as usize * 4 * size_of::<f64>())?;
    let ratio = filter.ratio();
    let floats = Frame::of(&build, join.threshold, context.cancel)?;
    Ok(match filter {
        NumberForm::Bytes { frame, .. } => {
            let side = BuildPanels::of(build, frame, Some(floats), context)?;
            Arc::new(PreparedNestedLoop::new(side, join, ratio))
        }
        NumberForm::Floats => {
            // Blocks have centres of their own.
            let second = (join.threshold.metric == Metric::Euclidean).then(|| floats.clone());
            let side = BuildPanels::of(build, floats, second, context)?;
            Arc::new(PreparedNestedLoop::new(side, join, ratio))
        }
    })
}

#[derive(Debug)]
struct PreparedNestedLoop<F: Filter> {
    side: Arc<BuildPanels<F>>,
    join: Joining,
    batch: BlockSize,
    probe_rows: usize,
}

impl<F: Filter> PreparedNestedLoop<F> {
    /// Pairs take `ratio` of the time of products in `f32`.
    fn new(side: BuildPanels<F>, join: Joining, ratio: f64) -> Self {
        let batch = BlockSize::of(F::Element::layout(join.spec.simd));
        let probe_rows = probe_rows(&side.vectors, ratio, batch);
        Self { side: Arc::new(side), join, batch, probe_rows }
    }
}

/// The rows of another input that take some milliseconds, where pairs take `ratio` of the time of
/// products in `f32`. Their keys are taken to be those of the build side.
fn probe_rows(build: &Vectors, ratio: f64, batch: BlockSize) -> usize {
    /// Nanoseconds that the rows take about.
    const SLICE: f64 = 5e6;
    let row = ratio * own_pairs(build) / f64::from(build.len()).max(1.0);
    let rows = (SLICE / row.max(1.0)) as usize;
    rows.next_multiple_of(batch.rows).max(batch.rows)
}

impl<F: Filter> PreparedJoin for PreparedNestedLoop<F> {
    fn open(&self, reservation: &dyn Memory) -> Result<Box<dyn Cursor>> {
        let worker =
            NestedLoopWorker::try_new(Arc::clone(&self.side), self.join, reservation.new_empty());
        Ok(Box::new(UnitCursor::new(worker?, self.join.spec.tuning)))
    }

    fn range_unit(&self) -> u32 {
        if self.side.reach.is_some() { BLOCK_ITEMS } else { self.batch.rows as u32 }
    }

    fn probe_rows(&self) -> usize {
        self.probe_rows
    }
}
