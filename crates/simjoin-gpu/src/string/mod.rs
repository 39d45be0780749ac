//! Boxes on devices.
//!
//! The device signs its copy of the build side ([`columns`]), and tests rows (probe texts) against columns
//! (build texts) in tiles: a row that the box around the 64 columns of a stage does not rule out meets their
//! signatures, and what passes is compared by banded bit vectors, a thread a pair. One kernel does it all
//! (`kernels/text_tiles.cuh`). Pairs that codes do not decide come back undecided, and the host decides
//! them: those with a code that several scalars share, and those of functions that are no number of
//! edits.
//!
//! ```text
//! cursor                         device (queue shared by all partitions)
//! unit ─► plan: strips, units ─► sign rows ─► boxes, signatures ─► compare ─► matches ─┐
//!           ▲                                              │                           │
//!           └── units without room for matches ◄───────────┘   match buffer ◄── inbox ◄┘
//! ```
//!
//! [`crate::offload::tiles`] has these jobs, and [`crate::offload`] their way to devices and back. A build
//! side that does not fit on the devices is left to the CPU.

mod abi;
mod columns;
mod estimate;
mod fallback;
mod filter;
mod join;
mod packed;
mod plan;
mod strategies;
#[cfg(test)]
mod tests;
mod work;

use std::sync::Arc;

use simjoin_core::string::boxes::{Codes, Elements};
use simjoin_core::string::collection::Strings;
use simjoin_core::string::gather::not_cancelled;
use simjoin_core::string::join::StringJoin;

use self::abi::STAGE;
use self::columns::{PackedColumns, SignedTexts};
use self::fallback::TextsOnCpu;
use self::filter::TilesOfTexts;
use self::join::StringDevices;
use self::packed::PackedTexts;
use self::plan::PlanLimits;
pub use self::strategies::STRATEGIES;
use crate::engine::{Collection, PrepareContext, PreparedJoin};
use crate::error::Result;
use crate::offload::tiles::TileJoin;
use crate::offload::{Offload, OnCpu, OnDevice, PreparedOffload};
use crate::util::cancel::CancelFlag;

/// Pairs of a work, which a device tests in some milliseconds.
const MOST_PAIRS: u64 = 1 << 33;

/// Prepares the build side on the devices of a join.
///
/// # Errors
///
/// Where no device has the memory, or all have failed. The devices have noted why.
fn prepare(
    join: &StringJoin,
    on: &Arc<StringDevices>,
    context: PrepareContext<'_>,
) -> Result<Arc<dyn PreparedJoin>> {
    let StringDevices { devices, settings } = &**on;
    let (build, spec) = (&join.build, join.spec);
    let bits = Arc::new(bits_of(build, context.cancel)?);
    let PrepareContext { reservation, threads, .. } = context;
    let texts = PackedTexts::new(build, 0..build.len(), settings.counts, threads, reservation)?;
    let columns = PackedColumns::new(build, texts, Arc::clone(&bits));
    let resident = devices.on_each(|_, device| {
        let multiprocessors = device.multiprocessors();
        Ok(OnDevice { resident: Some(SignedTexts::on(device, &columns)?), multiprocessors })
    })?;
    let stages = build.len().div_ceil(STAGE);
    let tiling = PlanLimits { unit_stages: (stages / 16).max(4), most_pairs: MOST_PAIRS };
    let family = TilesOfTexts { join: join.clone(), tiling, bits };
    let filter = TileJoin {
        build: Arc::clone(build),
        settings: *settings,
        resident: devices.self_join,
        devices: resident,
        family,
    };
    let offload = Offload {
        build: Arc::clone(build) as Arc<dyn Collection>,
        need: spec.need,
        pairing: spec.pairing(),
        tuning: spec.tuning,
        devices: Arc::clone(devices),
        filter,
        on_cpu: OnCpu::new(TextsOnCpu(join.clone()), context.reservation),
    };
    Ok(Arc::new(PreparedOffload::new(offload)))
}

/// By element, the bit that it has in signatures: those that tell a sample of the texts apart best. One
/// choice serves all lengths, so that a row has one signature.
fn bits_of(build: &Strings, cancel: &CancelFlag) -> Result<Vec<u8>> {
    /// Texts of the sample, about.
    const SAMPLE: u32 = 1 << 13;
    let step = (build.len() / SAMPLE).max(1);
    let (mut codes, mut starts) = (vec![], vec![0]);
    for item in (0..build.len()).step_by(step as usize) {
        codes.extend_from_slice(build.codes(item));
        starts.push(codes.len());
    }
    let (sample, count) = (Codes { codes: &codes, starts: &starts }, starts.len() as u32 - 1);
    let stop = &mut || cancel.check().is_err();
    let elements = not_cancelled(Elements::choose(sample, &[0, count], false, stop), cancel)?;
    Ok(elements.bits(0).to_vec())
}
