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
//!
//! walk.rs    the tokens of many sets, slice of ranks by slice
//! split.rs   how many sets have each token, and which tokens own bits
//! lists.rs   lists of sets, in slices of ranks    bits.rs   bitmaps, in slices of words
//! group.rs   probe sets with their counters       cursor.rs the way of a group through the slices
//! frequencies.rs  how frequent tokens are         rates.rs        what a step costs
//! estimate.rs     what a join costs
//! ```
//!
//! A group of probe sets goes through the lists slice by slice: what it has in a slice is ordered by
//! token first, so that lists are read one after the other, once for the whole group, and
//! counters stay in a cache. Without slices, each token of each set would wait for the memory of its
//! list.
//!
//! The memory for lists and bits grows with the tokens alone, whatever the universe and the number of
//! pairs: a column of bits is taken where it is no larger than the list.

mod bits;
mod cursor;
mod estimate;
mod frequencies;
mod group;
mod lists;
mod rates;
mod split;
mod walk;

use std::sync::Arc;

use self::cursor::ScanCountWorker;
pub use self::frequencies::Frequencies;
use self::group::ProbeGroup;
use self::split::Split;
use crate::engine::{
    Cost, Cursor, DevicePlace, Estimate, PrepareContext, PreparedJoin, Strategy, Terms, UnitCursor,
};
use crate::error::Result;
use crate::memory::Memory;
use crate::set::collection::SetCollection;
use crate::set::join::SetJoin;
use crate::set::join_spec::JoinSpec;
use crate::util::parallel::Threads;

/// The strategy `scancount`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ScanCount;

impl Strategy<SetJoin> for ScanCount {
    fn name(&self) -> &'static str {
        "scancount"
    }

    fn estimate(&self, join: &mut SetJoin, terms: &Terms<'_>) -> Result<Estimate> {
        let cost = cost(join, terms, false, estimate::estimate)?;
        Ok(Estimate::new(Some(cost), ()))
    }

    fn prepare(
        &self,
        join: &SetJoin,
        _: &Estimate,
        _: Option<&Arc<dyn DevicePlace>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        prepare(Arc::clone(&join.build), join.spec, context)
    }
}

/// Tokens of an average set from which on a device that is open may count them.
const LEAST_ON_DEVICE: f64 = 12.0;

/// The cost by the frequencies of tokens; infinite where these have not been counted. For a device that
/// `is_open` they are counted in short joins, too.
///
/// # Errors
///
/// When the work is cancelled.
pub fn cost(
    join: &mut SetJoin,
    terms: &Terms<'_>,
    is_open: bool,
    of: fn(&SetJoin, &Frequencies) -> Cost,
) -> Result<Cost> {
    let counts = terms.is_only || is_open && join.statistics.average_size() >= LEAST_ON_DEVICE;
    let frequencies = join.figure(|join| Frequencies::count(join, counts, terms.context))?;
    let endless = Cost::cpu(f64::INFINITY);
    Ok(Option::as_ref(&frequencies).map_or(endless, |found| of(join, found)))
}

impl ScanCount {
    /// A bound on the bytes that the counters of a cursor take, by the number of build sets.
    pub(crate) fn cursor_bytes(sets: usize) -> usize {
        ScanCountWorker::footprint(sets)
    }
}

#[derive(Debug)]
struct PreparedScanCount {
    build: Arc<SetCollection>,
    spec: JoinSpec,
    split: Arc<Split>,
    threads: Threads,
}

/// Prepares counters for sets.
///
/// # Errors
///
/// When memory is refused, or the work cancelled.
pub fn prepare(
    build: Arc<SetCollection>,
    spec: JoinSpec,
    context: PrepareContext<'_>,
) -> Result<Arc<dyn PreparedJoin>> {
    let split = Arc::new(Split::try_new(&build, &spec, context)?);
    Ok(Arc::new(PreparedScanCount { build, spec, split, threads: context.threads }))
}

impl PreparedJoin for PreparedScanCount {
    fn open(&self, reservation: &dyn Memory) -> Result<Box<dyn Cursor>> {
        let (build, split) = (Arc::clone(&self.build), Arc::clone(&self.split));
        let worker = ScanCountWorker::try_new(build, split, self.spec, reservation)?;
        Ok(Box::new(UnitCursor::new(worker, self.spec.tuning)))
    }

    /// A group of its own, where all threads get several ranges.
    fn least_range(&self) -> u32 {
        /// Ranges for each thread.
        const RANGES: usize = 8;
        let sets = self.build.len() as usize;
        let group = ProbeGroup::capacity(sets, self.threads.tuning)
            .min(sets / (RANGES * self.threads.count()));
        (group as u32).max(1)
    }
}
