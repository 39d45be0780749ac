//! The join on the CPU, for what devices fail to do.

use std::sync::Arc;

use simjoin_core::string::cursor::{CURSOR_BYTES, StringWorker, scratch_bytes_of};
use simjoin_core::string::finder::Finder;
use simjoin_core::string::join::StringJoin;
use simjoin_core::string::prepared::PreparedLanes;

use crate::engine::{
    Cursor, MatchNeed, MatchSpec, Orders, PrepareContext, PreparedJoin, UnitCursor,
};
use crate::error::Result;
use crate::offload::{CpuJoin, Wanted};

/// A join of texts on the CPU.
#[derive(Debug)]
pub(super) struct TextsOnCpu(pub StringJoin);

impl TextsOnCpu {
    fn join(&self, wanted: Wanted) -> StringJoin {
        let Self(join) = self;
        if wanted == Wanted::Join {
            return join.clone();
        }
        let need = match join.spec.need {
            MatchNeed::Count => MatchNeed::Pairs,
            need => need,
        };
        let spec = MatchSpec { need, orders: Orders::Given, ..join.spec };
        join.with_spec(spec)
    }
}

impl CpuJoin for TextsOnCpu {
    fn prepare(
        &self,
        wanted: Wanted,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        Ok(Arc::new(PreparedLanes::new(self.join(wanted), true, context)?))
    }

    fn unprepared(&self, wanted: Wanted) -> Box<dyn Cursor> {
        let join = self.join(wanted);
        let finder = Finder::without_index(join.threshold, join.spec.simd);
        let tuning = join.spec.tuning;
        Box::new(UnitCursor::new(StringWorker::new(Arc::new(join), finder), tuning))
    }

    fn least_bytes(&self) -> usize {
        CURSOR_BYTES + scratch_bytes_of(&self.0)
    }
}
