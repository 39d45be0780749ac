//! Bit-sliced sums: the overlaps of a probe set with 512 build sets at a time.
//!
//! A token of many sets is a column of bits, one for each set. The sum of the columns of the tokens of a probe
//! set, made bit by bit for 512 sets at once, is its overlap with each of them: full adders of whole vectors
//! (Kaser and Lemire, "Compressed bitmap indexes: beyond unions and intersections", Software: Practice and
//! Experience 2016, SSUM). It begins with what the least overlap lacks of a power of two, so that one bit of the sum
//! says whether there are enough. No pair is compared, and the sums of those that match are their overlaps.
//!
//! ```text
//! tokens by frequency:  of few sets: lists of sets         │ of many sets: columns of bits, in blocks of sets
//!                       cursor: bits of the block at hand  │ cursor: sums of columns
//!
//! planes.rs   sums of sets that are few, bit by bit    columns.rs  which tokens have columns, the columns and lists
//! sums.rs     the kernel: sums of a block
//! group.rs    probe sets that meet a block one after the other        cursor.rs  the way of a unit through the blocks
//! ```
//!
//! A pair costs as many operations as its probe set has tokens, shared by 512 pairs: low thresholds over sets of
//! up to some hundred tokens, which leave filters nothing to rule out, cost as much as high ones.

mod columns;
mod cursor;
mod group;
mod planes;
mod sums;

use std::sync::Arc;

use self::columns::TokenColumns;
use self::cursor::SlicedWorker;
use self::group::ProbeGroup;
use crate::engine::{
    Cost, Cursor, DevicePlace, Estimate, PrepareContext, PreparedJoin, Strategy, Terms, UnitCursor,
};
use crate::error::Result;
use crate::memory::Memory;
use crate::set::collection::SetCollection;
use crate::set::join::SetJoin;
use crate::set::join_spec::JoinSpec;
use crate::simd::{Form, Simd};
use crate::tuning::Tuning;
use crate::util::parallel::Threads;

/// Nanoseconds of one core, as measured on an AMD EPYC with AVX-512.
mod nanos {
    /// Counting a token, and putting it into a column or a list.
    pub(super) const TOKEN: f64 = 4.0;
    /// Taking up a probe set.
    pub(super) const PROBE: f64 = 100.0;
    /// Beginning and ending the sums of 512 sets, and adding a column to them: from the second cache, and from memory.
    pub(super) const STRIP: f64 = 4.0;
    pub(super) const COLUMN: f64 = 1.6;
    pub(super) const FAR_COLUMN: f64 = 12.0;
}

/// Build sets of a vector of bits.
const STRIP_SETS: f64 = 512.0;

/// Tokens of an average probe set from which on sums take longer than [`ScanCount`](super::scancount::ScanCount).
const LARGE: f64 = 1024.0;
/// Bytes of the columns of a block that stay in a core's caches.
const NEAR: f64 = (4 << 20) as f64;

/// The strategy `bitsliced`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BitSliced;

/// The time that sums take in a form, by their time with AVX-512.
fn slowness(simd: Simd) -> f64 {
    match simd.form() {
        Form::Avx512 => 1.0,
        Form::Avx2 => 2.0,
        Form::Portable => 4.0,
    }
}

impl Strategy<SetJoin> for BitSliced {
    fn name(&self) -> &'static str {
        "bitsliced"
    }

    fn estimate(&self, join: &mut SetJoin, terms: &Terms<'_>) -> Result<Estimate> {
        let none = Ok(Estimate::new(None, ()));
        // Columns that memory has no room for are no choice, unless they are named.
        let bytes = TokenColumns::most_bytes(&join.build, join.spec.tuning);
        let reservation = terms.context.reservation.new_empty();
        if !terms.is_only && reservation.try_grow(bytes).is_err() {
            return none;
        }
        let nanos = if terms.is_only { nanos_of(join) } else { estimated(join) };
        if nanos.is_infinite() {
            return none;
        }
        Ok(Estimate::new(Some(Cost::cpu(nanos)), ()))
    }

    fn prepare(
        &self,
        join: &SetJoin,
        _: &Estimate,
        _: Option<&Arc<dyn DevicePlace>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let (build, spec, threads) = (Arc::clone(&join.build), join.spec, context.threads);
        let columns = Arc::new(TokenColumns::try_new(&build, &spec, context)?);
        Ok(Arc::new(PreparedSliced { build, spec, columns, threads }))
    }
}

/// The nanoseconds of a core that sliced columns take; infinite where sets are too large for them.
pub(super) fn estimated(join: &SetJoin) -> f64 {
    match join.statistics.candidate_size > LARGE {
        true => f64::INFINITY,
        false => nanos_of(join),
    }
}

fn nanos_of(join: &SetJoin) -> f64 {
    let (statistics, simd) = (&join.statistics, join.spec.simd);
    // The sets of a probe set begin and end within a strip.
    let strips = statistics.admissible_pairs / STRIP_SETS + statistics.probed;
    let of_block = TokenColumns::most_bytes(&join.build, join.spec.tuning) as f64
        * STRIP_SETS
        * planes::STRIPS as f64
        / f64::from(join.build.len().max(1));
    let column = if of_block > NEAR { nanos::FAR_COLUMN } else { nanos::COLUMN };
    let strip = nanos::STRIP + statistics.candidate_size * column;
    statistics.tokens * nanos::TOKEN
        + statistics.probed * nanos::PROBE
        + strips * strip * slowness(simd)
}

impl BitSliced {
    /// A bound on the bytes that [`Strategy::prepare`] reserves, by the numbers of sets and of their tokens.
    pub(crate) fn prepared_bytes(sets: usize, tokens: usize, tuning: Tuning) -> usize {
        TokenColumns::bytes_for(sets, tokens, tokens, tuning)
    }

    /// A bound on the bytes of a cursor, where the largest set has `longest` tokens.
    pub(super) fn cursor_bytes(longest: usize) -> usize {
        SlicedWorker::most_bytes(longest)
    }
}

#[derive(Debug)]
struct PreparedSliced {
    build: Arc<SetCollection>,
    spec: JoinSpec,
    columns: Arc<TokenColumns>,
    threads: Threads,
}

impl PreparedJoin for PreparedSliced {
    fn open(&self, reservation: &dyn Memory) -> Result<Box<dyn Cursor>> {
        let (build, columns) = (Arc::clone(&self.build), Arc::clone(&self.columns));
        let worker = SlicedWorker::try_new(build, columns, self.spec, reservation)?;
        Ok(Box::new(UnitCursor::new(worker, self.spec.tuning)))
    }

    /// A group of its own, where all threads get several ranges.
    fn least_range(&self) -> u32 {
        /// Ranges for each thread.
        const RANGES: usize = 8;
        let share = self.build.len() as usize / (RANGES * self.threads.count());
        self.threads.tuning.size(ProbeGroup::PROBES).min(share).max(1) as u32
    }
}
