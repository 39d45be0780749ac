//! The nested loop on the CPU, for what devices fail to do.

use std::sync::Arc;

use simjoin_core::vector::collection::Vectors;
use simjoin_core::vector::metric::Joining;
use simjoin_core::vector::nested_loop::{self, BLOCK, CURSOR_BYTES};

use crate::engine::{
    Cursor, MatchNeed, MatchSpec, Orders, PrepareContext, PreparedJoin, UnitCursor,
};
use crate::error::Result;
use crate::memory::Memory;
use crate::offload::{CpuJoin, Wanted};
use crate::vector::pairs::PairWorker;

/// Opens cursors of a join where there is memory for all that they will take: they reserve it
/// later, when nothing else can take their place.
#[derive(Debug)]
struct Admitting {
    join: Arc<dyn PreparedJoin>,
    bytes: usize,
}

impl PreparedJoin for Admitting {
    fn open(&self, reservation: &dyn Memory) -> Result<Box<dyn Cursor>> {
        reservation.new_empty().try_grow(self.bytes)?;
        self.join.open(reservation)
    }
}

/// A join of vectors on the CPU.
#[derive(Debug)]
pub(super) struct VectorsOnCpu {
    pub build: Arc<Vectors>,
    pub join: Joining,
}

impl VectorsOnCpu {
    fn join(&self, wanted: Wanted) -> Joining {
        if wanted == Wanted::Join {
            return self.join;
        }
        let spec = self.join.spec;
        let need = match spec.need {
            MatchNeed::Count => MatchNeed::Pairs,
            need => need,
        };
        Joining { spec: MatchSpec { need, orders: Orders::Given, ..spec }, ..self.join }
    }
}

impl CpuJoin for VectorsOnCpu {
    fn prepare(
        &self,
        wanted: Wanted,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let build = Arc::clone(&self.build);
        let lens = build.runs().iter().map(|run| run.lens[1] as usize);
        let block = BLOCK * lens.max().unwrap_or(0) * size_of::<f32>();
        let join = nested_loop::prepare(build, self.join(wanted), context)?;
        Ok(Arc::new(Admitting { join, bytes: CURSOR_BYTES + block }))
    }

    fn unprepared(&self, wanted: Wanted) -> Box<dyn Cursor> {
        let build = Arc::clone(&self.build);
        let join = self.join(wanted);
        Box::new(UnitCursor::new(PairWorker::new(build, join), join.spec.tuning))
    }

    fn least_bytes(&self) -> usize {
        PairWorker::BYTES
    }
}
