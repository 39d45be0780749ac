//! How frequent tokens are, by a sample of sets.

use datafusion::common::Result;

use super::rates::heavy_from;
use super::walk::{Walk, count, pieces};
use crate::set::{JoinSpec, PrepareContext, SetCollection, SetJoin};
use crate::util::evenly::Evenly;
use crate::util::parallel;

/// Tokens of an average set from which on frequencies are counted, and in how many sets at most: a
/// count fits into a byte.
const LARGE: f64 = 24.0;
const COUNTED_SETS: u32 = 128;
/// Nanoseconds of counting a token.
const COUNT: f64 = 3.0;

/// Frequencies of tokens, from a sample of sets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frequencies {
    /// Tokens that own bits ([`heavy_from`]).
    pub heavy: f64,
    /// The share of the others among the tokens of all sets.
    pub light_share: f64,
    /// The sum over them of the pairs of different sets that have one.
    pub light_pairs: f64,
}

impl Frequencies {
    /// Counts how frequent the tokens of a join are, in a small part of its time. `None` where the sets
    /// are too small for counters of all pairs to be of use, or the join too short, unless the strategy
    /// `is_only`.
    ///
    /// # Errors
    ///
    /// When the work is cancelled, or memory refused.
    pub(super) fn count(
        join: &SetJoin,
        is_only: bool,
        context: PrepareContext<'_>,
    ) -> Result<Option<Self>> {
        /// The share of the join's time that the counts may take.
        const SHARE: f64 = 0.02;
        let average = join.statistics.average_size();
        if !is_only && (!join.is_long() || average < LARGE) {
            return Ok(None);
        }
        // Too few sets tell nothing.
        let affordable = (SHARE * join.indexed / COUNT / average.max(1.0)) as u32;
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
        let bytes = build.universe() as usize + threads * Walk::footprint(sampled().count());
        context.reservation.try_grow(bytes)?;
        let mut counts = vec![0_u8; build.universe() as usize];
        let of_each =
            parallel::map(threads, pieces(0, &mut counts, threads), |(first, counts)| {
                count(build, sampled(), first, counts, context.cancel)?;
                let mut of_each = [0_u64; 256];
                counts.iter().for_each(|&count| of_each[count as usize] += 1);
                Ok(of_each)
            })?;
        let of_each = of_each.iter().fold([0_u64; 256], |mut sum, of_each| {
            sum.iter_mut().zip(of_each).for_each(|(sum, part)| *sum += part);
            sum
        });
        drop(counts);
        context.reservation.shrink(bytes);
        Ok(Self::of_counts(&of_each, sampled().count(), build.len(), spec))
    }

    /// `of_each` tells, by number of sets, how many tokens that many of the sampled sets have.
    fn of_counts(of_each: &[u64], sampled: usize, sets: u32, spec: &JoinSpec) -> Self {
        let scale = f64::from(sets) / sampled.max(1) as f64;
        let least = heavy_from(u64::from(sets), spec.simd) as f64;
        let (mut heavy, mut light_pairs) = (0.0, 0.0);
        let (mut tokens, mut light) = (0.0, 0.0);
        for (count, &of_each) in of_each.iter().enumerate().skip(1) {
            let (count, of_each) = (count as f64, of_each as f64);
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
