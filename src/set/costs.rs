//! What joins by filter and verification cost.

use crate::set::JoinSpec;
use crate::set::filter::SuffixTest;
use crate::set::rates::Rates;
use crate::set::{FilterVerify, Statistics};

/// Nanoseconds of one core, as measured on an AMD EPYC with AVX-512.
mod nanos {
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
    /// Counting a posting in AllPairs and GroupJoin.
    pub(super) const COUNT: f64 = 6.0;
    /// Indexing a token of a prefix: always, and for each word of its signature.
    pub(super) const INDEX: f64 = 5.0;
    pub(super) const INDEX_WORD: f64 = 1.5;
    /// Adding a token to a signature.
    pub(super) const SIGN: f64 = 0.8;
    /// Comparing the signatures of a candidate.
    pub(super) const SIGNATURE: f64 = 16.0;
    /// Verifying a candidate: always, and for each token of an average set.
    pub(super) const VERIFY: f64 = 12.0;
    pub(super) const VERIFY_TOKEN: f64 = 0.7;
    /// Packing a candidate for a GPU.
    pub(super) const PACK: f64 = 3.0;
}

/// Where candidates are verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verification {
    Cpu,
    Device,
}

/// Bytes of postings beyond which lists come from memory.
const CACHE: f64 = 24e6;

/// The cost of verifying candidates on the CPU, or of sending them away, and whether the bitmap
/// filter pays in front of it.
fn verification(
    statistics: &Statistics,
    candidates: f64,
    signed: f64,
    place: Verification,
) -> (f64, bool) {
    if place == Verification::Device {
        // Comparing signatures takes longer.
        return (candidates * nanos::PACK, false);
    }
    let verify = nanos::VERIFY + nanos::VERIFY_TOKEN * statistics.average_size();
    let plain = candidates * verify;
    let sign = 2.0 * statistics.tokens * nanos::SIGN;
    let signed = sign + candidates * (nanos::SIGNATURE + signed * verify);
    (plain.min(signed), signed < plain)
}

/// How PPJoin's posting lists are made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Postings {
    /// The width of the signatures.
    pub words: usize,
    /// The candidates to expect, and the share of them that the bitmap filter lets pass.
    candidates: f64,
    signed: f64,
    cost: f64,
}

/// The cheapest width of the signatures of postings.
pub(crate) fn postings(statistics: &Statistics, spec: &JoinSpec, place: Verification) -> Postings {
    let slower = Rates::of(spec.simd).scan;
    let of_width = |(width, words): (usize, usize)| {
        let index = nanos::INDEX + nanos::INDEX_WORD * words as f64;
        let sign = if words > 0 { nanos::SIGN } else { 0.0 };
        let mut scan = slower * (nanos::SCAN + nanos::SCAN_WORD * words as f64);
        let bytes = 4.0 * (2 + words) as f64;
        let uncached = (statistics.indexed * bytes / CACHE).min(1.0);
        if uncached == 1.0 {
            scan = scan.max(bytes * nanos::UNCACHED_BYTE);
        }
        let passing = statistics.suffix_share(width);
        let candidates = statistics.postings * passing;
        let signed = statistics.signed_share(width);
        let cost = statistics.probed * nanos::SET
            + statistics.indexed * index
            + 2.0 * statistics.tokens * sign
            + statistics.lookups * (nanos::LOOKUP + uncached * nanos::UNCACHED_LOOKUP)
            + statistics.postings * scan
            + verification(statistics, candidates, signed, place).0;
        Postings { words, candidates, signed, cost }
    };
    let mut widths = SuffixTest::WIDTHS.into_iter().enumerate().map(of_width);
    let first = widths.next();
    let cheapest = widths.fold(first, |best, p| match best {
        Some(best) if best.cost <= p.cost => Some(best),
        _ => Some(p),
    });
    cheapest.unwrap_or(Postings { words: 0, candidates: 0.0, signed: 0.5, cost: f64::INFINITY })
}

/// Candidates in front of the bitmap filter, and the share of them that passes it.
fn candidates(
    strategy: FilterVerify,
    statistics: &Statistics,
    spec: &JoinSpec,
    place: Verification,
) -> (f64, f64) {
    let signed = statistics.signed_share(0);
    match strategy {
        FilterVerify::PPJoin => {
            let postings = postings(statistics, spec, place);
            (postings.candidates, postings.signed)
        }
        // Nearly every posting is another pair.
        FilterVerify::AllPairs => (statistics.postings, signed),
        FilterVerify::GroupJoin => (statistics.postings * statistics.suffix_share(0), signed),
    }
}

/// Whether the bitmap filter pays in front of verification.
pub(crate) fn signatures_pay(
    strategy: FilterVerify,
    statistics: &Statistics,
    spec: &JoinSpec,
    place: Verification,
) -> bool {
    let (candidates, signed) = candidates(strategy, statistics, spec, place);
    verification(statistics, candidates, signed, place).1
}

/// What a join costs the CPU.
pub(crate) fn estimate(
    strategy: FilterVerify,
    statistics: &Statistics,
    spec: &JoinSpec,
    place: Verification,
) -> f64 {
    let (candidates, signed) = candidates(strategy, statistics, spec, place);
    let verification = verification(statistics, candidates, signed, place).0;
    let lookups = statistics.lookups * nanos::LOOKUP
        + statistics.indexed * nanos::INDEX
        + statistics.probed * nanos::SET;
    let counted = statistics.postings * nanos::COUNT;
    match strategy {
        FilterVerify::PPJoin => postings(statistics, spec, place).cost,
        FilterVerify::AllPairs => 2.0 * lookups + counted + verification,
        FilterVerify::GroupJoin => 2.5 * lookups + counted + verification,
    }
}

/// Nanoseconds that a GPU takes beside the CPU, at least: to read the candidates' tokens, and to
/// copy candidates and sets to it.
pub(crate) fn device_nanos(
    strategy: FilterVerify,
    statistics: &Statistics,
    spec: &JoinSpec,
) -> (f64, f64) {
    let (candidates, _) = candidates(strategy, statistics, spec, Verification::Device);
    /// Bytes a nanosecond over the bus, and from the device's memory.
    const BUS: f64 = 12.0;
    const MEMORY: f64 = 500.0;
    let set = 4.0 * statistics.average_size();
    (candidates * set / MEMORY, (4.0 * statistics.tokens + 8.0 * candidates) / BUS)
}
