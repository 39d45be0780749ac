//! The strategies that use an index.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use super::built::VectorIndex;
use super::cursor::IndexWorker;
use super::order::Order;
use super::sample::order_of;
use crate::engine::{
    Cost, Cursor, Estimate, MatchSpec, Placement, PrepareContext, PreparedJoin, Strategy, Terms,
    UnitCursor,
};
use crate::vector::bounds::Frame;
use crate::vector::device::VectorDevices;
use crate::vector::metric::{ArgumentOrder, Threshold};
use crate::vector::nested_loop::{Joining, VectorJoin};

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

impl Strategy<VectorJoin> for Boxes {
    fn name(&self) -> &'static str {
        self.name
    }

    fn runs_on(&self, placement: Placement) -> bool {
        placement == Placement::Cpu
    }

    /// Known where a sample has made the index; without one, comparing all pairs is quicker. A strategy
    /// that is named needs no estimate.
    fn estimate(&self, join: &mut VectorJoin, terms: &Terms<'_>) -> Result<Estimate> {
        let mut index = None;
        let mut cost = Cost::cpu(f64::INFINITY);
        if !terms.is_only && self.order == order_of(&join.build) {
            join.sample_index(terms)?;
            if let Some(sampled) = join.sampled() {
                index = Some(Arc::clone(&sampled.index));
                // The index is there.
                cost = Cost::cpu(sampled.nanos);
            }
        }
        Ok(Estimate::new(Some(cost), None, index))
    }

    fn prepare(
        &self,
        join: &VectorJoin,
        estimate: &Estimate,
        _: Option<&Arc<VectorDevices>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let VectorJoin { build, joining, .. } = join;
        let Joining { threshold, orders, spec } = *joining;
        let index = match estimate.parts::<Option<Arc<VectorIndex>>>()? {
            Some(index) => Arc::clone(index),
            None => {
                let frame = Frame::of(build, threshold, context.cancel)?;
                let vectors = Arc::clone(build);
                Arc::new(VectorIndex::of(vectors, frame, self.order, 1, context)?)
            }
        };
        Ok(Arc::new(Prepared { index, threshold, orders, spec }))
    }
}

#[derive(Debug)]
struct Prepared {
    index: Arc<VectorIndex>,
    threshold: Threshold,
    orders: ArgumentOrder,
    spec: MatchSpec,
}

impl PreparedJoin for Prepared {
    fn open(&self, reservation: &MemoryReservation) -> Result<Box<dyn Cursor>> {
        let index = Arc::clone(&self.index);
        let reservation = reservation.new_empty();
        let (threshold, orders) = (self.threshold, self.orders);
        let worker = IndexWorker::try_new(index, threshold, orders, self.spec, reservation)?;
        Ok(Box::new(UnitCursor::new(worker)))
    }

    fn probe_rows(&self) -> usize {
        // A row takes some microseconds, or tens of them.
        1 << 9
    }
}
