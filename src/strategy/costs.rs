//! What joins by filter and verification cost.

use super::{Cost, FilterVerify, JoinSpec, Statistics};
use crate::filter::SuffixTest;

/// Nanoseconds of one core, as measured on an AMD EPYC with AVX-512.
mod nanos {
    /// Looking up a posting list.
    pub const LOOKUP: f64 = 14.0;
    /// Scanning a posting: always, and for each word of its signature.
    pub const SCAN: f64 = 0.3;
    pub const SCAN_WORD: f64 = 0.1;
    /// Counting a posting in AllPairs and GroupJoin.
    pub const COUNT: f64 = 4.0;
    /// Indexing a token of a prefix: always, and for each word of its signature.
    pub const INDEX: f64 = 5.0;
    pub const INDEX_WORD: f64 = 1.5;
    /// Adding a token behind a prefix to a signature, on both sides together.
    pub const SIGN: f64 = 1.2;
    /// Verifying a candidate: always, and for each token of an average set.
    pub const VERIFY: f64 = 12.0;
    pub const VERIFY_TOKEN: f64 = 0.7;
}

/// What verifying a candidate costs.
fn verification(statistics: &Statistics) -> f64 {
    nanos::VERIFY + nanos::VERIFY_TOKEN * statistics.average_size()
}

/// The width of the signatures of postings, and what the join costs with them.
pub(super) fn suffix_words(statistics: &Statistics, spec: &JoinSpec) -> (usize, Cost) {
    let slower = match spec.simd.to_string().as_str() {
        "avx512" => 1.0,
        "avx2" => 2.0,
        _ => 6.0,
    };
    let cost = |(width, words): (usize, usize)| {
        let index = nanos::INDEX + nanos::INDEX_WORD * words as f64;
        let sign = if words > 0 { nanos::SIGN } else { 0.0 };
        let scan = slower * (nanos::SCAN + nanos::SCAN_WORD * words as f64);
        // Without a sample: wide enough for the tokens of an average set.
        let passing = statistics.suffix_share(width).unwrap_or_else(|| {
            let bits = 32.0 * words as f64;
            (statistics.average_size() / (bits + 1.0)).min(1.0) * 0.1
        });
        statistics.indexed * index
            + statistics.tokens * sign
            + statistics.lookups * nanos::LOOKUP
            + statistics.postings * (scan + passing * verification(statistics))
    };
    let widths = SuffixTest::WIDTHS.into_iter().enumerate();
    let costs = widths.map(|(width, words)| (words, cost((width, words))));
    let (words, cost) = costs.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, f64::INFINITY));
    (words, Cost(cost))
}

/// What a join costs.
pub(super) fn estimate(strategy: FilterVerify, statistics: &Statistics, spec: &JoinSpec) -> Cost {
    let lookups = statistics.lookups * nanos::LOOKUP + statistics.indexed * nanos::INDEX;
    let counted = statistics.postings * nanos::COUNT;
    match strategy {
        FilterVerify::PPJoin => suffix_words(statistics, spec).1,
        // Nearly every posting is another pair.
        FilterVerify::AllPairs => {
            Cost(lookups + counted + statistics.postings * verification(statistics))
        }
        FilterVerify::GroupJoin => {
            let passing = statistics.suffix_share(0).unwrap_or(0.5);
            Cost(
                2.0 * lookups
                    + statistics.postings * (nanos::COUNT + passing * verification(statistics)),
            )
        }
    }
}
