//! The strategies that use an index.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use super::built::VectorIndex;
use super::cursor::IndexCursor;
use super::order::Order;
use crate::engine::{
    Collection, Cost, Cursor, DevicePlace, Evidence, MatchSpec, Placement, PrepareContext,
    PreparedJoin, Strategy,
};
use crate::vector::bounds::Frame;
use crate::vector::metric::{Orders, Threshold};
use crate::vector::nested_loop::Figures;

/// An index in an order of its own.
#[derive(Debug)]
pub(in crate::vector) struct Boxes {
    name: &'static str,
    order: Order,
}

/// Boxes around neighbours by cells as wide as the threshold, over the six dimensions of the greatest
/// variance.
pub(in crate::vector) const GRID: Boxes = Boxes { name: "grid", order: Order::Cells };

/// Boxes around neighbours by quantiles, over the eight dimensions of the greatest variance.
pub(in crate::vector) const DIRECTORY: Boxes = Boxes { name: "directory", order: Order::Quantiles };

impl Strategy for Boxes {
    fn name(&self) -> &'static str {
        self.name
    }

    fn runs_on(&self, placement: Placement) -> bool {
        placement == Placement::Cpu
    }

    fn estimate(&self, evidence: &dyn Evidence, _: Placement) -> Result<Cost> {
        estimate(evidence, self.order)
    }

    fn prepare(
        &self,
        build: &Arc<dyn Collection>,
        evidence: &dyn Evidence,
        _: Option<&Arc<dyn DevicePlace>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        prepare(build, evidence, self.order, context)
    }
}

/// Known where a sample has made the index; without one, comparing all pairs is quicker.
fn estimate(evidence: &dyn Evidence, order: Order) -> Result<Cost> {
    let figures: &Figures = evidence.of()?;
    let sampled = figures.sampled.as_ref().filter(|sampled| sampled.order == order);
    // The index is there.
    Ok(Cost::cpu(sampled.map_or(f64::INFINITY, |sampled| sampled.nanos)))
}

fn prepare(
    build: &Arc<dyn Collection>,
    evidence: &dyn Evidence,
    order: Order,
    context: PrepareContext<'_>,
) -> Result<Arc<dyn PreparedJoin>> {
    let figures: &Figures = evidence.of()?;
    let Figures { threshold, orders, spec, .. } = *figures;
    let index = match figures.sampled.as_ref().filter(|sampled| sampled.order == order) {
        Some(sampled) => Arc::clone(&sampled.index),
        None => {
            let vectors = build.shared()?;
            let frame = Frame::of(&vectors, threshold, context.cancel)?;
            Arc::new(VectorIndex::of(vectors, frame, order, 1, context)?)
        }
    };
    Ok(Arc::new(Prepared { index, threshold, orders, spec }))
}

#[derive(Debug)]
struct Prepared {
    index: Arc<VectorIndex>,
    threshold: Threshold,
    orders: Orders,
    spec: MatchSpec,
}

impl PreparedJoin for Prepared {
    fn open(&self, reservation: &MemoryReservation) -> Result<Box<dyn Cursor>> {
        let index = Arc::clone(&self.index);
        let reservation = reservation.new_empty();
        let (threshold, orders) = (self.threshold, self.orders);
        Ok(Box::new(IndexCursor::try_new(index, threshold, orders, self.spec, reservation)?))
    }

    fn probe_rows(&self) -> usize {
        // A row takes some microseconds, or tens of them.
        1 << 9
    }
}
