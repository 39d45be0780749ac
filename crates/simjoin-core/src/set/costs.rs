//! The costs of joins by filter and verification.

use crate::engine::Cost;
use crate::gpu::Device;
use crate::set::filter::SuffixTest;
use crate::set::filter::postings::scan_rate;
use crate::set::join::SetJoin;
use crate::set::statistics::Statistics;

/// Nanoseconds of one core, as measured on an AMD EPYC with AVX-512.
pub mod nanos {
    use crate::set::statistics::Statistics;

    /// Taking up a probe set.
    pub(super) const SET: f64 = 30.0;
    /// Looking up a posting list, and the further cost where the lists outgrow the caches.
    pub(super) const LOOKUP: f64 = 14.0;
    pub(super) const UNCACHED_LOOKUP: f64 = 45.0;
    /// Scanning a posting: always, and for each word of its signature.
    pub(super) const SCAN: f64 = 0.3;
    pub(super) const SCAN_WORD: f64 = 0.1;
    /// Reading a byte of a list from memory.
    pub(super) const UNCACHED_BYTE: f64 = 0.15;
    /// Taking up a posting that passes.
    pub(super) const CANDIDATE: f64 = 9.0;
    /// Counting a posting in AllPairs.
    pub const COUNT: f64 = 6.0;
    /// Indexing a token of a prefix: always, and for each word of its signature.
    pub(super) const INDEX: f64 = 5.0;
    pub(super) const INDEX_WORD: f64 = 1.5;
    /// Adding a token to a signature.
    pub(super) const SIGN: f64 = 0.8;
    /// Comparing the signatures of a candidate, and the further cost where they outgrow the caches.
    pub(super) const SIGNATURE: f64 = 16.0;
    pub(super) const UNCACHED_SIGNATURE: f64 = 45.0;
    /// Verifying a candidate: always, the further cost where the sets outgrow the caches, and for each
    /// token of a set of it.
    pub(super) const VERIFY: f64 = 14.0;
    pub(super) const UNCACHED_VERIFY: f64 = 30.0;
    pub(super) const VERIFY_TOKEN: f64 = 0.5;
    /// Packing a candidate for a GPU.
    pub(super) const PACK: f64 = 3.0;

    /// Taking up all probe sets, looking their prefixes up, and indexing those of the build sets.
    pub fn lookups(statistics: &Statistics) -> f64 {
        statistics.lookups * LOOKUP + statistics.indexed * INDEX + statistics.probed * SET
    }
}

/// The processor that verifies candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verification {
    Cpu,
    Device,
}

/// Bytes of postings, signatures or sets beyond which they come from memory.
const CACHE: f64 = 24e6;

/// The parts of a filter and its verifier that the estimate chooses.
#[derive(Debug, Clone, Copy)]
pub struct Parts {
    /// The width of the signatures of postings (PPJoin), in words of 32 bits.
    pub words: usize,
    /// Whether the bitmap filter stands in front of verification.
    pub signed: bool,
    /// The cost of the join.
    pub cost: Cost,
}

/// Candidates in front of the bitmap filter.
#[derive(Debug, Clone, Copy)]
pub struct Filtered {
    /// [`Parts::words`].
    pub words: usize,
    /// Nanoseconds of a core until the candidates are found, and those among them in which others wait.
    pub nanos: f64,
    pub alone: f64,
    pub candidates: f64,
    /// The share of the candidates that the bitmap filter lets pass.
    pub signed: f64,
}

impl Filtered {
    /// Candidates from postings without signatures.
    pub fn without_signatures(join: &SetJoin, nanos: f64, candidates: f64) -> Self {
        Self { words: 0, nanos, alone: 0.0, candidates, signed: join.signed_share(0) }
    }

    /// Verification of all candidates, or of those that the bitmap filter lets pass.
    fn verified(&self, join: &SetJoin, place: Verification) -> [Parts; 2] {
        let statistics = &join.statistics;
        let Self { words, nanos, alone, candidates, signed: share } = *self;
        let parts = |signed: bool, filter: f64, left: f64| {
            let behind = verification(statistics, left, place);
            let cpu = nanos - alone + filter + behind.cpu;
            let cost = Cost { cpu, setup: behind.setup + alone, ..behind };
            Parts { words, signed, cost }
        };
        let sign = statistics.signed_tokens(&join.spec) * nanos::SIGN;
        let bytes = 8.0 * statistics.sets * join.signature_words() as f64;
        let uncached = (bytes / CACHE).min(1.0);
        let compare = candidates * (nanos::SIGNATURE + uncached * nanos::UNCACHED_SIGNATURE);
        [parts(false, 0.0, candidates), parts(true, sign + compare, share * candidates)]
    }
}

/// The cost of deciding candidates.
fn verification(statistics: &Statistics, candidates: f64, place: Verification) -> Cost {
    match place {
        Verification::Cpu => {
            let uncached = (4.0 * statistics.tokens / CACHE).min(1.0);
            let verify = nanos::VERIFY
                + uncached * nanos::UNCACHED_VERIFY
                + nanos::VERIFY_TOKEN * statistics.candidate_size;
            Cost::cpu(candidates * verify)
        }
        Verification::Device => sending(statistics, candidates),
    }
}

/// The least cost of deciding candidates on a GPU: the CPU packs them; beside the CPU, sets and
/// candidates are copied, and the tokens of each candidate are read.
pub fn sending(statistics: &Statistics, candidates: f64) -> Cost {
    /// Bytes a nanosecond over the bus, and from the device's memory.
    const BUS: f64 = 12.0;
    const MEMORY: f64 = 500.0;
    let set = 4.0 * statistics.candidate_size;
    Cost {
        cpu: candidates * nanos::PACK,
        device: candidates * set / MEMORY,
        transfer: (4.0 * statistics.tokens + 8.0 * candidates) / BUS,
        // Of the device that is taken where none is named.
        setup: Device::time_to_begin(0).map_or(f64::INFINITY, |time| time.as_nanos() as f64),
    }
}

/// The parts of AllPairs that take the least time on the threads of the join.
pub fn all_pairs(join: &SetJoin, place: Verification) -> Parts {
    let Statistics { postings, .. } = join.statistics;
    // Nearly every posting is another pair.
    let nanos = 2.0 * nanos::lookups(&join.statistics) + postings * nanos::COUNT;
    cheapest(join, place, &[Filtered::without_signatures(join, nanos, postings)])
}

/// The parts of PPJoin that take the least time on the threads of the join.
pub fn positional(join: &SetJoin, place: Verification) -> Parts {
    let widths = SuffixTest::WIDTHS.into_iter().enumerate();
    let filtered: Vec<_> = widths.map(|(width, words)| postings(join, width, words)).collect();
    cheapest(join, place, &filtered)
}

/// The nanoseconds of a core that PPJoin takes on the CPU.
pub fn indexed(join: &SetJoin) -> f64 {
    let Cost { cpu, setup, .. } = positional(join, Verification::Cpu).cost;
    cpu + setup
}

/// The verification of candidates from one of several filters that takes the least time on the threads
/// of the join.
pub fn cheapest(join: &SetJoin, place: Verification, filtered: &[Filtered]) -> Parts {
    let elapsed = |parts: &Parts| parts.cost.elapsed(join.statistics.threads);
    let parts = filtered.iter().flat_map(|filtered| filtered.verified(join, place));
    let least = parts.min_by(|a, b| elapsed(a).total_cmp(&elapsed(b)));
    least.unwrap_or(Parts { words: 0, signed: false, cost: Cost::cpu(f64::INFINITY) })
}

/// PPJoin's candidates from posting lists with signatures of `words` words, those of
/// `SuffixTest::WIDTHS[width]`.
fn postings(join: &SetJoin, width: usize, words: usize) -> Filtered {
    /// The part of making the index in which threads wait for each other: 16 of a Xeon take a quarter to a
    /// third of the time of one.
    const ALONE: f64 = 0.15;
    let statistics = &join.statistics;
    let slower = scan_rate(join.spec.simd);
    let index = nanos::INDEX + nanos::INDEX_WORD * words as f64;
    let sign = if words > 0 { nanos::SIGN } else { 0.0 };
    let mut scan = slower * (nanos::SCAN + nanos::SCAN_WORD * words as f64);
    let bytes = 4.0 * (2 + words) as f64;
    let uncached = (statistics.indexed * bytes / CACHE).min(1.0);
    if uncached == 1.0 {
        scan = scan.max(bytes * nanos::UNCACHED_BYTE);
    }
    let candidates = statistics.postings * join.suffix_share(width);
    let nanos = statistics.probed * nanos::SET
        + candidates * nanos::CANDIDATE
        + statistics.indexed * index
        + (statistics.tokens + statistics.probe_tokens) * sign
        + statistics.lookups * (nanos::LOOKUP + uncached * nanos::UNCACHED_LOOKUP)
        + statistics.postings * scan;
    let alone = if statistics.threads > 1 { ALONE * statistics.indexed * index } else { 0.0 };
    Filtered { words, nanos, alone, candidates, signed: join.signed_share(width) }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;
    use crate::engine::Pairing;
    use crate::set::filter_verify::FilterVerify;
    use crate::set::measure::Measure;
    use crate::set::tests::harness::{Sides, spec};
    use crate::set::tests::shapes;

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
        let sent = |strategy: FilterVerify| strategy.cheapest(&join, Verification::Device);
        assert!(sent(FilterVerify::PPJoin).words > 0);
        assert!(sent(FilterVerify::AllPairs).signed);
        // One thread is slower than the device anyway.
        let sent = FilterVerify::AllPairs.cheapest(&figures(1), Verification::Device);
        assert!(!sent.signed);
    }

    /// The device works on those candidates alone that pass.
    #[test]
    fn estimates_for_a_device_count_what_is_sent() {
        for threads in [1, 4, 16] {
            let join = figures(threads);
            let statistics = &join.statistics;
            for strategy in STRATEGIES {
                let Parts { words, signed, cost } = strategy.cheapest(&join, Verification::Device);
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
