//! Counting what all sets share, for collections of few, large sets.
//!
//! Every token adds one to the counters of the pairs of sets that have it (ScanCount: Li, Lu, Lu:
//! "Efficient merging and filtering algorithms for approximate string searches", ICDE 2008): no pair
//! of sets is compared. A token of many sets would add to the square of their number. Such tokens
//! own a bit in a bitmap of each set instead, and population counts of pairs of bitmaps count them
//! all. Both counts are exact and add up.
//!
//! ```text
//! tokens by frequency:  of one set │ of few sets: lists of sets │ of many sets: bits of each set
//!                       left out   │ cursor: counters += 1      │ cursor: counters += popcount(and)
//! ```
//!
//! The memory for both is at most that of the tokens: a column of bits is taken where it is no
//! larger than the list.
//!
//! Placed on a device, both counts are made [there](crate::set::large).

mod cursor;
mod split;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use self::cursor::{GROUP, ScanCountCursor};
pub(super) use self::split::HEAVY;
use self::split::Split;
use crate::engine::{Cost, Cursor, Pairing, Placement, PreparedJoin};
use crate::offload::OnCpu;
use crate::set::{
    FilterVerify, JoinSpec, JoinStrategy, PrepareContext, SetCollection, Statistics, large, offload,
};

/// Nanoseconds of one core, as measured on an AMD EPYC with AVX-512.
mod nanos {
    /// Counting a token's sets, and putting it into a list or a bitmap.
    pub(super) const TOKEN: f64 = 4.0;
    /// Finding and filling the list of a token of few sets in memory, where no cache holds the lists.
    pub(super) const MISSED: f64 = 120.0;
    /// Adding to a counter.
    pub(super) const INCREMENT: f64 = 1.2;
    /// Bits of a pair counted in 64 words.
    pub(super) const WORDS: f64 = 8.0;
    /// Deciding a pair.
    pub(super) const PAIR: f64 = 2.0;
}

/// Tokens of few sets whose lists a core's caches hold.
const CACHED: f64 = 4e6;

/// The strategy `scancount`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ScanCount;

impl JoinStrategy for ScanCount {
    fn name(&self) -> &'static str {
        "scancount"
    }

    fn runs_on(&self, _: Placement) -> bool {
        true
    }

    /// Only collections of large sets have the figures for an estimate.
    fn estimate(&self, statistics: &Statistics, spec: &JoinSpec, placement: Placement) -> Cost {
        if placement == Placement::Gpu {
            return large::estimate(statistics, spec);
        }
        let Some(frequencies) = statistics.frequencies else { return Cost::cpu(f64::INFINITY) };
        let each = match spec.pairing {
            Pairing::All => 1.0,
            Pairing::Unordered => 0.5,
        };
        let light = statistics.tokens * frequencies.light_share;
        let increments = light * frequencies.light_sets * each;
        let words = frequencies.heavy / 64.0;
        let missed = if light > CACHED { light * nanos::MISSED } else { 0.0 };
        Cost::cpu(
            2.0 * (statistics.tokens * nanos::TOKEN + missed)
                + increments * nanos::INCREMENT
                + statistics.admissible_pairs * (nanos::PAIR + words / 64.0 * nanos::WORDS),
        )
    }

    fn prepare(
        &self,
        build: Arc<SetCollection>,
        spec: JoinSpec,
        statistics: &Statistics,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let Some(join) = context.device else {
            return PreparedScanCount::prepare(build, spec, context);
        };
        match large::prepare(&build, spec, join, large::Choice::Cheapest, context)? {
            Ok(prepared) => Ok(prepared),
            // The devices lack the memory for large sets. Demanded, they verify what a filter finds.
            Err(_) if join.devices.demanded && !join.devices.have_failed() => {
                JoinStrategy::prepare(&FilterVerify::PPJoin, build, spec, statistics, context)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The join on the CPU for what devices fail to do.
pub(super) fn on_cpu(
    build: &Arc<SetCollection>,
    spec: JoinSpec,
    context: PrepareContext<'_>,
) -> OnCpu {
    let sets = Arc::clone(build);
    offload::on_cpu(build, spec, context.reservation, move |spec, context| {
        PreparedScanCount::prepare(Arc::clone(&sets), spec, context)
    })
}

#[derive(Debug)]
struct PreparedScanCount {
    build: Arc<SetCollection>,
    spec: JoinSpec,
    split: Arc<Split>,
}

impl PreparedScanCount {
    fn prepare(
        build: Arc<SetCollection>,
        spec: JoinSpec,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let split = Arc::new(Split::try_new(&build, spec.pairing, context)?);
        Ok(Arc::new(Self { build, spec, split }))
    }
}

impl PreparedJoin for PreparedScanCount {
    fn open(&self, reservation: &MemoryReservation) -> Result<Box<dyn Cursor>> {
        let (build, split) = (Arc::clone(&self.build), Arc::clone(&self.split));
        Ok(Box::new(ScanCountCursor::try_new(build, split, self.spec, reservation)?))
    }

    fn range_unit(&self) -> u32 {
        GROUP as u32
    }
}
