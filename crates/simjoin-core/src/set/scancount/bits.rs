//! The sets of each frequent token, as bits.

use crate::engine::PrepareContext;
use crate::error::Result;
use crate::set::collection::SetCollection;
use crate::set::runs::SetId;
use crate::simd::{Words, kernels};
use crate::tuning::Size;
use crate::util::parallel;

/// Words of a slice: those of a block of probe sets stay in a core's first cache.
pub(super) const WIDTH: Size = Size { usual: 256, small: 1 };

/// Bitmaps of the frequent tokens of each set, in slices.
#[derive(Debug)]
pub(super) struct TokenBitmaps {
    /// Tokens from this rank on own bits.
    first: u32,
    /// Words of a slice, and the number of slices.
    width: usize,
    slices: usize,
    sets: usize,
    /// The words of slice `s` of set `t` begin at `(s * sets + t) * width`.
    words: Vec<u64>,
}

impl TokenBitmaps {
    /// Bits of the tokens from a rank on.
    pub(super) fn try_new(
        build: &SetCollection,
        first: u32,
        context: PrepareContext<'_>,
    ) -> Result<Self> {
        let words = (build.universe() - first).div_ceil(u64::BITS) as usize;
        let width = words.clamp(1, context.threads.tuning.size(WIDTH));
        let (slices, sets) = (words.div_ceil(width), build.len() as usize);
        let words = context.filled(sets * width * slices, 0_u64)?;
        let mut this = Self { first, width, slices, sets, words };
        let mut words = std::mem::take(&mut this.words);
        let of_slices = words.chunks_mut((sets * width).max(1)).enumerate().collect();
        parallel::for_each(context.threads, of_slices, |(slice, words): (usize, &mut [u64])| {
            for (set, words) in (0..build.len()).zip(words.chunks_exact_mut(width)) {
                context.cancel.check()?;
                this.mark(build.tokens(set), slice, words);
            }
            Ok(())
        })?;
        this.words = words;
        Ok(this)
    }

    /// Sets the bits of a slice of a set.
    pub(super) fn mark(&self, tokens: &[u32], slice: usize, words: &mut [u64]) {
        let bits = (self.width * u64::BITS as usize) as u64;
        let from = u64::from(self.first) + slice as u64 * bits;
        let start = tokens.partition_point(|&token| u64::from(token) < from);
        for &token in &tokens[start..] {
            let place = u64::from(token) - from;
            let Some(word) = words.get_mut((place / 64) as usize) else { break };
            *word |= 1 << (place % 64);
        }
    }

    /// Words of a slice.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn slices(&self) -> usize {
        self.slices
    }

    /// The words of a slice of a set.
    #[inline]
    pub(super) fn of(&self, slice: usize, set: SetId) -> &[u64] {
        let start = (slice * self.sets + set as usize) * self.width;
        &self.words[start..start + self.width]
    }
}

kernels! {
    /// The number of bits that each of several bitmaps has in common with another one, which is as
    /// long as each of them.
    pub(super) fn common_bits[S: Words, ](probes: &[u64], build: &[u64], counts: &mut [u32]) -> () {
        let width = build.len();
        // As many as there are bitmaps: the fours of both are the same.
        let counts = &mut counts[..probes.len() / width];
        let mut fours = probes.chunks_exact(4 * width);
        let mut places = counts.chunks_exact_mut(4);
        // A word of the one is read once for four of the others.
        for (four, counts) in (&mut fours).zip(&mut places) {
            let (a, rest) = four.split_at(width);
            let (b, rest) = rest.split_at(width);
            let (c, d) = rest.split_at(width);
            let mut sums = [0_u64; 4];
            for ((((a, b), c), d), x) in a.iter().zip(b).zip(c).zip(d).zip(build) {
                sums[0] += u64::from((a & x).count_ones());
                sums[1] += u64::from((b & x).count_ones());
                sums[2] += u64::from((c & x).count_ones());
                sums[3] += u64::from((d & x).count_ones());
            }
            for (count, sum) in counts.iter_mut().zip(sums) {
                *count = sum as u32;
            }
        }
        for (probe, count) in fours.remainder().chunks_exact(width).zip(places.into_remainder()) {
            let words = probe.iter().zip(build);
            *count = words.map(|(a, x)| u64::from((a & x).count_ones())).sum::<u64>() as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::simd::Simd;

    #[test]
    fn common_bits_of_any_number_of_bitmaps_are_counted() {
        let mut rng = StdRng::seed_from_u64(1);
        for width in [1, 3, 8, 256] {
            let mut words =
                |count: usize| -> Vec<u64> { (0..count).map(|_| rng.random()).collect() };
            let build = words(width);
            for number in 0..=16 {
                let probes = words(number * width);
                let common = |probe: &[u64]| -> u32 {
                    probe.iter().zip(&build).map(|(a, b)| (a & b).count_ones()).sum()
                };
                let expected: Vec<u32> = probes.chunks_exact(width).map(common).collect();
                for &simd in Simd::available() {
                    let mut counts = [7; 16];
                    common_bits(simd, &probes, &build, &mut counts);
                    assert_eq!(counts[..number], expected, "{simd}: {number} of {width} words");
                    assert!(counts[number..].iter().all(|&count| count == 7));
                }
            }
        }
    }
}
