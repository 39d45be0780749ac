//! The cost of boxes on a device, before it is known.

use simjoin_core::string::finder::counts_as_lanes;
use simjoin_core::string::join::{SampledWork, StringJoin};

use crate::engine::{Cost, Pairing};
use crate::runtime::Device;

/// The cost on the device that is taken where none is named, of a join whose work a sample has shown: as
/// reckoned for an H200, or by the device that is open.
pub(super) fn estimate(join: &StringJoin, work: &SampledWork) -> Cost {
    /// Nanoseconds of a join besides: plans, launches and answers of its first works.
    const START: f64 = 2e6;
    /// Nanoseconds of the device for a pair of lengths that may match, and for one that is compared.
    const PAIR: f64 = 5e-4;
    const COMPARED: f64 = 0.02;
    /// Nanoseconds of a core for a pair that signatures leave, where it is not counted in edits.
    const UNDECIDED: f64 = 100.0;
    /// Bytes of a text beside its codes.
    const ARRAYS: f64 = 16.0;
    /// Bytes a nanosecond over the bus; nanoseconds of a core to pack a text.
    const BUS: f64 = 8.0;
    const PACK: f64 = 20.0;
    let StringJoin { build, spec, .. } = join;
    let sides = match spec.pairing() {
        Pairing::Unordered => 1.0,
        Pairing::All => 1.0 + build.probe_ratio(spec),
    };
    let (texts, codes) = (sides * f64::from(build.len()), sides * build.codes.len() as f64);
    let undecided = match counts_as_lanes(join.threshold.function) {
        true => work.undecided,
        false => UNDECIDED * work.compared,
    };
    let device = Device::opened(0);
    let multiprocessors = device.as_ref().map_or(132, |device| device.multiprocessors());
    let slower = 132.0 / f64::from(multiprocessors.max(1));
    let begin = Device::time_to_begin(0).map_or(f64::INFINITY, |time| time.as_nanos() as f64);
    Cost {
        cpu: PACK * texts + undecided,
        device: START + slower * (PAIR * work.pairs + COMPARED * work.compared),
        transfer: (codes + ARRAYS * texts) / BUS,
        setup: if device.is_some() { 0.0 } else { begin },
    }
}
