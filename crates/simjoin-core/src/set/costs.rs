//! The costs of joins by filter and verification.

use crate::engine::Cost;
use crate::set::filter::SuffixTest;
use crate::set::filter::postings::scan_rate;
use crate::set::join::SetJoin;
use crate::set::statistics::Statistics;

/// Nanoseconds of one core, as measured on an AMD EPYC with AVX-512.
pub mod nanos {
    use crate::set::statistics::Statistics;

    /// Taking up a probe set.
    pub(super) const SET: f64 = 30.0;
    /// Going to a posting list, or to the sets of a candidate, and the further cost of these or of signatures that
    /// outgrow the caches.
    pub(super) const VISIT: f64 = 14.0;
    pub(super) const UNCACHED: f64 = 45.0;
    /// Scanning a posting: always, and for each word of its signature.
    pub(super) const SCAN: f64 = 0.3;
    pub(super) const SCAN_WORD: f64 = 0.1;
    /// Reading a byte of a list from memory.
    pub(super) const UNCACHED_BYTE: f64 = 0.15;
    /// Taking up a posting that passes.
    pub(super) const CANDIDATE: f64 = 9.0;
    /// Counting a posting in AllPairs.
    pub const COUNT: f64 = 6.0;
    /// Indexing a token of a prefix: always, and for each further field of a posting: its shape, words of its
    /// signature.
    pub(super) const INDEX: f64 = 5.0;
    pub(super) const INDEX_FIELD: f64 = 1.5;
    /// Adding a token to a signature.
    pub(super) const SIGN: f64 = 0.8;
    /// Comparing the signatures of a candidate.
    pub(super) const SIGNATURE: f64 = 16.0;
    /// Verifying a candidate, for each token of a set of it.
    pub(super) const VERIFY_TOKEN: f64 = 0.5;

    /// Taking up all probe sets, looking their prefixes up, and indexing those of the build sets.
    pub fn lookups(statistics: &Statistics) -> f64 {
        statistics.lookups * VISIT + statistics.indexed * INDEX + statistics.probed * SET
    }
}

/// Bytes of postings, signatures or sets beyond which they come from memory.
const CACHE: f64 = 24e6;

/// The parts of a filter and its verifier that the estimate chooses.
#[derive(Debug, Clone, Copy)]
pub struct FilterChoice {
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
    /// [`FilterChoice::words`].
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
    fn verified(&self, join: &SetJoin, deciding: Deciding) -> [FilterChoice; 2] {
        let statistics = &join.statistics;
        let Self { words, nanos, alone, candidates, signed: share } = *self;
        let parts = |signed: bool, filter: f64, left: f64| {
            let behind = deciding(statistics, left);
            let cpu = nanos - alone + filter + behind.cpu;
            let cost = Cost { cpu, setup: behind.setup + alone, ..behind };
            FilterChoice { words, signed, cost }
        };
        let sign = statistics.signed_tokens(&join.spec) * nanos::SIGN;
        let bytes = 8.0 * statistics.sets * join.signature_words() as f64;
        let uncached = (bytes / CACHE).min(1.0);
        let compare = candidates * (nanos::SIGNATURE + uncached * nanos::UNCACHED);
        [parts(false, 0.0, candidates), parts(true, sign + compare, share * candidates)]
    }
}

/// A function from the figures of a join and a number of candidates to the cost of deciding them.
pub type Deciding = fn(&Statistics, f64) -> Cost;

/// The cost of deciding candidates on the CPU.
pub fn on_cpu(statistics: &Statistics, candidates: f64) -> Cost {
    let uncached = (4.0 * statistics.tokens / CACHE).min(1.0);
    let verify =
        nanos::VISIT + uncached * nanos::UNCACHED + nanos::VERIFY_TOKEN * statistics.candidate_size;
    Cost::cpu(candidates * verify)
}

/// The parts of AllPairs that take the least time on the threads of the join.
pub fn all_pairs(join: &SetJoin, deciding: Deciding) -> FilterChoice {
    let Statistics { postings, probed, indexed, threads, .. } = join.statistics;
    // Probe sets are taken up to count and to give, and nearly every posting is another pair.
    let nanos = nanos::lookups(&join.statistics) + probed * nanos::SET + postings * nanos::COUNT;
    // One thread makes the index.
    let alone = if threads > 1 { indexed * nanos::INDEX } else { 0.0 };
    let filtered = Filtered::without_signatures(join, nanos, postings);
    cheapest(join, deciding, &[Filtered { alone, ..filtered }])
}

/// The parts of PPJoin that take the least time on the threads of the join.
pub fn positional(join: &SetJoin, deciding: Deciding) -> FilterChoice {
    let widths = SuffixTest::WIDTHS.into_iter().enumerate();
    let filtered: Vec<_> = widths.map(|(width, words)| postings(join, width, words)).collect();
    cheapest(join, deciding, &filtered)
}

/// The nanoseconds of a core that PPJoin takes on the CPU.
pub fn indexed(join: &SetJoin) -> f64 {
    let Cost { cpu, setup, .. } = positional(join, on_cpu).cost;
    cpu + setup
}

/// The verification of candidates from one of several filters that takes the least time on the threads
/// of the join.
pub fn cheapest(join: &SetJoin, deciding: Deciding, filtered: &[Filtered]) -> FilterChoice {
    let elapsed = |parts: &FilterChoice| parts.cost.elapsed(join.statistics.threads);
    let parts = filtered.iter().flat_map(|filtered| filtered.verified(join, deciding));
    let least = parts.min_by(|a, b| elapsed(a).total_cmp(&elapsed(b)));
    least.unwrap_or(FilterChoice { words: 0, signed: false, cost: Cost::cpu(f64::INFINITY) })
}

/// PPJoin's candidates from posting lists with signatures of `words` words, those of
/// `SuffixTest::WIDTHS[width]`.
fn postings(join: &SetJoin, width: usize, words: usize) -> Filtered {
    /// The part of making the index in which threads wait for each other: 16 of a Xeon take a quarter to a
    /// third of the time of one.
    const ALONE: f64 = 0.15;
    let statistics = &join.statistics;
    let slower = scan_rate(join.spec.simd, join.spec.tuning);
    let index = nanos::INDEX + nanos::INDEX_FIELD * (1 + words) as f64;
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
        + statistics.lookups * (nanos::VISIT + uncached * nanos::UNCACHED)
        + statistics.postings * scan;
    let alone = if statistics.threads > 1 { ALONE * statistics.indexed * index } else { 0.0 };
    Filtered { words, nanos, alone, candidates, signed: join.signed_share(width) }
}
