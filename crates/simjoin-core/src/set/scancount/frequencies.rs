//! The frequencies of tokens, by a sample of sets.

use std::ops::Range;

use super::rates::{heavy_from, nanos};
use super::walk::{SPAN, Walk};
use crate::engine::{PrepareContext, SAMPLE_SHARE};
use crate::error::Result;
use crate::set::collection::SetCollection;
use crate::set::join::SetJoin;
use crate::set::join_spec::JoinSpec;
use crate::util::evenly::Evenly;
use crate::util::parallel;

/// Tokens of an average set from which on frequencies are counted, and in how many sets at most: a
/// count fits into a byte.
const LARGE: f64 = 24.0;
const COUNTED_SETS: u32 = 128;
/// Spans of ranks in which tokens are counted at most, about: ranks stand in the order of frequency, so
/// that spans at even distances tell of all.
const SPANS: usize = 128;

/// Frequencies of tokens, from a sample of sets.
#[derive(Debug, Clone, Copy)]
pub struct Frequencies {
    /// Tokens that own bits ([`heavy_from`]).
    pub heavy: f64,
    /// The share of the others among the tokens of all sets.
    pub light_share: f64,
    /// The sum over them of the pairs of different sets that have one.
    pub light_pairs: f64,
}

impl Frequencies {
    /// Counts how frequent the tokens of a join are, in a small part of its time. `None` where the sets
    /// are too small for counters of all pairs to be of use, or the join too short, unless it `counts` anyway.
    ///
    /// # Errors
    ///
    /// When the work is cancelled, or memory refused.
    pub(super) fn count(
        join: &SetJoin,
        counts: bool,
        context: PrepareContext<'_>,
    ) -> Result<Option<Self>> {
        let average = join.statistics.average_size();
        if !counts && (!join.is_long() || average < LARGE) {
            return Ok(None);
        }
        // Too few sets tell nothing.
        let affordable = (SAMPLE_SHARE * join.indexed / nanos::COUNT / average.max(1.0)) as u32;
        let sets = affordable.clamp(COUNTED_SETS / 2, COUNTED_SETS);
        Self::of(&join.build, &join.spec, sets, context).map(Some)
    }

    /// Estimated from about `sets` of the build sets.
    fn of(
        build: &SetCollection,
        spec: &JoinSpec,
        sets: u32,
        context: PrepareContext<'_>,
    ) -> Result<Self> {
        let threads = parallel::threads_for(
            context.threads,
            sets.min(build.len()) as usize * build.token_count() / build.len().max(1) as usize,
        );
        let sampled = || Evenly::new(build.len(), sets).iter();
        let span = threads.tuning.size(SPAN);
        let spans: Vec<_> = spans(build.universe(), span).collect();
        let all = (build.universe() as usize).div_ceil(span);
        let bytes = threads.count() * (span + Walk::footprint(sampled().count()))
            + spans.len() * size_of::<Range<u32>>();
        context.reservation.try_grow(bytes)?;
        // Dense ranks take longer.
        let share = spans.len().div_ceil(8 * threads.count()).max(1);
        let of_each = parallel::map(threads, spans.chunks(share).collect(), |spans| {
            let mut walk = Walk::new(build, sampled(), spans.first().map_or(0, |span| span.start));
            let (mut counts, mut of_each) = (vec![0_u8; span], [0_u64; 256]);
            for span in spans {
                context.cancel.check()?;
                walk.skip_to(build, span.start);
                let counts = &mut counts[..span.len()];
                walk.count(build, span.start, counts);
                for count in counts {
                    of_each[std::mem::take(count) as usize] += 1;
                }
            }
            Ok(of_each)
        })?;
        let of_each = of_each.iter().fold([0_u64; 256], |mut sum, of_each| {
            sum.iter_mut().zip(of_each).for_each(|(sum, part)| *sum += part);
            sum
        });
        context.reservation.shrink(bytes);
        let weight = all as f64 / spans.len().max(1) as f64;
        Ok(Self::of_counts(&of_each, weight, sampled().count(), build.len(), spec))
    }

    /// `of_each` tells, by number of sets, how many tokens that many of the sampled sets have. A token
    /// there stands for `weight` tokens.
    fn of_counts(of_each: &[u64], weight: f64, sampled: usize, sets: u32, spec: &JoinSpec) -> Self {
        let scale = f64::from(sets) / sampled.max(1) as f64;
        let least = heavy_from(u64::from(sets), spec.simd, spec.tuning) as f64;
        let (mut heavy, mut light_pairs) = (0.0, 0.0);
        let (mut tokens, mut light) = (0.0, 0.0);
        for (count, &of_each) in of_each.iter().enumerate().skip(1) {
            let (count, of_each) = (count as f64, of_each as f64 * weight);
            tokens += count * of_each;
            if count * scale >= least {
                heavy += of_each;
            } else {
                light += count * of_each;
                light_pairs += count * (count - 1.0) / 2.0 * of_each;
            }
        }
        Self {
            heavy,
            light_share: light / f64::max(tokens, 1.0),
            light_pairs: light_pairs * scale * scale,
        }
    }
}

/// Spans of `span` ranks at even distances, all of them where they are few.
fn spans(universe: u32, span: usize) -> impl Iterator<Item = Range<u32>> {
    let stride = (universe as usize).div_ceil(span).div_ceil(SPANS).max(1);
    let starts = (0..universe).step_by(span).skip(stride / 2).step_by(stride);
    starts.map(move |start| start..start.saturating_add(span as u32).min(universe))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spans hold all ranks where they are few, and otherwise some from every part of the ranks.
    #[test]
    fn spans_spread_over_all_ranks() {
        let span = SPAN.small;
        let most = (span * SPANS) as u32;
        for universe in [0, 1, 16, 17, most - 1, most] {
            let ranks: Vec<u32> = spans(universe, span).flatten().collect();
            assert_eq!(ranks, (0..universe).collect::<Vec<_>>());
        }
        for universe in [most + 1, 3 * most, 10 * most + 5] {
            let spans: Vec<_> = spans(universe, span).collect();
            assert!((SPANS / 2..=SPANS).contains(&spans.len()), "{} of {universe}", spans.len());
            assert!(spans.iter().all(|span| span.start < span.end && span.end <= universe));
            assert!(spans.array_windows().all(|[a, b]| a.end <= b.start));
            let gap = universe / SPANS as u32 * 2 + span as u32;
            assert!(spans[0].start <= gap && universe - spans[spans.len() - 1].end <= gap);
        }
    }
}
