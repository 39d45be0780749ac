//! The cost of counting on the CPU.

use super::frequencies::Frequencies;
use super::rates::nanos;
use crate::engine::Cost;
use crate::set::bitmap::test_rate;
use crate::set::join::SetJoin;

/// The cost of a join, by the frequencies of its tokens.
pub(super) fn estimate(join: &SetJoin, frequencies: &Frequencies) -> Cost {
    let (statistics, spec) = (&join.statistics, &join.spec);
    // The entries of lists, and finding the lists again, are of both sides.
    let tokens = (statistics.tokens + statistics.probe_tokens) / 2.0;
    let light = tokens * frequencies.light_share;
    let words = frequencies.heavy / 64.0;
    let pairs = statistics.admissible_pairs;
    // By those pairs of different build sets whose tokens have been counted.
    let times = 2.0 * pairs / statistics.sets.max(1.0).powi(2);
    let nanos = statistics.tokens * nanos::COUNT
        + light * nanos::LIST
        + (tokens - light) * nanos::MARK
        + frequencies.light_pairs * times * nanos::ADD
        + pairs * (nanos::PAIR + words * nanos::WORD * test_rate(spec.simd, spec.tuning));
    Cost::cpu(nanos)
}
