//! The cost of sending candidates to a device.

use simjoin_core::set::statistics::Statistics;

use crate::engine::Cost;
use crate::runtime::Device;

/// The least cost of deciding candidates on a GPU: the CPU packs them; beside the CPU, sets and
/// candidates are copied, and the tokens of each candidate are read.
pub fn sending(statistics: &Statistics, candidates: f64) -> Cost {
    /// Bytes a nanosecond over the bus, and from the device's memory.
    const BUS: f64 = 12.0;
    const MEMORY: f64 = 500.0;
    /// Nanoseconds of a core for packing a candidate.
    const PACK: f64 = 3.0;
    let set = 4.0 * statistics.candidate_size;
    Cost {
        cpu: candidates * PACK,
        device: candidates * set / MEMORY,
        transfer: (4.0 * statistics.tokens + 8.0 * candidates) / BUS,
        // Of the device that is taken where none is named.
        setup: Device::time_to_begin(0).map_or(f64::INFINITY, |time| time.as_nanos() as f64),
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use simjoin_core::set::costs::FilterChoice;
    use simjoin_core::set::filter::SuffixTest;
    use simjoin_core::set::filter_verify::FilterVerify;
    use simjoin_core::set::join::SetJoin;
    use simjoin_core::set::measure::Measure;

    use super::*;
    use crate::engine::Pairing;
    use crate::harness::sets::shapes;
    use crate::harness::sets::{Sides, spec};

    /// A join of 300,000 sets of 88 tokens, with the shares of a small collection.
    fn figures(threads: usize) -> SetJoin {
        let shape = shapes::zipfian(&mut StdRng::seed_from_u64(37), 60);
        let sides = Sides::itself(&shape.name, &shape.build);
        let spec = spec(Measure::Jaccard, 0.7, Pairing::Unordered);
        let mut join = sides.join(&spec);
        let statistics = &mut join.statistics;
        statistics.threads = threads;
        (statistics.sets, statistics.probed) = (3e5, 3e5);
        statistics.tokens = 3e5 * 88.0;
        (statistics.indexed, statistics.lookups, statistics.postings) = (3e6, 6e6, 6e9);
        join
    }

    const STRATEGIES: [FilterVerify; 2] = [FilterVerify::AllPairs, FilterVerify::PPJoin];

    /// Many threads would give a device more candidates than it reads meanwhile: they filter first.
    #[test]
    fn the_filters_of_many_threads_stand_in_front_of_a_device() {
        let join = figures(1024);
        let sent = |strategy: FilterVerify| strategy.cheapest(&join, sending);
        assert!(sent(FilterVerify::PPJoin).words > 0);
        assert!(sent(FilterVerify::AllPairs).signed);
        // One thread is slower than the device anyway.
        let sent = FilterVerify::AllPairs.cheapest(&figures(1), sending);
        assert!(!sent.signed);
    }

    /// The device works on those candidates alone that pass.
    #[test]
    fn estimates_for_a_device_count_what_is_sent() {
        for threads in [1, 4, 16] {
            let join = figures(threads);
            let statistics = &join.statistics;
            for strategy in STRATEGIES {
                let FilterChoice { words, signed, cost } = strategy.cheapest(&join, sending);
                let width = SuffixTest::WIDTHS.iter().position(|&w| w == words).unwrap();
                let passing = match strategy {
                    FilterVerify::AllPairs => 1.0,
                    _ => join.suffix_share(width),
                };
                let signed = if signed { join.signed_share(width) } else { 1.0 };
                let sent = sending(statistics, statistics.postings * passing * signed);
                let off = (cost.device - sent.device).abs() + (cost.transfer - sent.transfer).abs();
                assert!(off <= 1e-6 * sent.device, "{strategy:?} {threads} {cost:?} {sent:?}");
                assert!(cost.cpu > sent.cpu);
            }
        }
    }
}
