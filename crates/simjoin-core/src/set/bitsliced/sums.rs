//! The sums of the columns of a probe set, for the sets of a block.

use std::ops::Range;

use super::planes::STRIPS;
use crate::simd::{Bits, Line, kernels};

/// The most planes of a sum: its numbers stay below 2^32.
pub(super) const MOST_PLANES: usize = 33;

/// Planes that stay in registers.
const LOW_PLANES: usize = 5;

/// Columns that are added at a time.
const ABREAST: usize = 8;

/// The columns and numbers that are summed up in a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Summed<'a> {
    /// The strips of column `c` begin at `c * STRIPS`.
    pub columns: &'a [Line],
    /// The columns that are added: their tokens, less `first`.
    pub tokens: &'a [u32],
    pub first: u32,
    /// Numbers that are added, the strips of bit `p` from `p * STRIPS` on.
    pub others: &'a [Line],
}

/// The bits of a sum of a strip.
pub(super) type Sum = [Line; MOST_PLANES];

kernels! {
    /// Adds up strip after strip of a block, each from the number on that it begins with, into `sums`, strip `s` at
    /// place `s`. Returns the strips of which some set has the highest bit, number `planes - 1`: a bit for each.
    ///
    /// All numbers stay below `1 << planes`.
    pub(super) fn add_up[S: Bits, ](
        summed: Summed<'_>,
        strips: Range<usize>,
        begin: &[u64; STRIPS],
        planes: usize,
        sums: &mut [Sum; STRIPS],
    ) -> u32 {
        let Summed { columns, tokens, first, others } = summed;
        assert!(strips.end <= STRIPS && (1..=MOST_PLANES).contains(&planes));
        let greatest = tokens.last().map_or(0, |token| (token - first) as usize + 1);
        assert!(columns.len() >= greatest * STRIPS && others.len() % STRIPS == 0);
        assert!(tokens.is_sorted() && tokens.first().is_none_or(|token| *token >= first));
        assert!(others.len() / STRIPS <= planes);
        let mut found = 0;
        for strip in strips {
            // SAFETY: the kernel runs the instructions of the form, and the places are within the slices, as
            // checked above: tokens rise.
            unsafe {
                let constant = |plane: usize| {
                    S::splat(0_u64.wrapping_sub(begin[strip] >> plane & 1))
                };
                let mut low: [S::Vector; LOW_PLANES] = std::array::from_fn(constant);
                let sum = &mut sums[strip];
                for plane in LOW_PLANES..planes {
                    S::store(&mut sum[plane], constant(plane));
                }
                let column = |token: u32| {
                    S::load(columns.get_unchecked((token - first) as usize * STRIPS + strip))
                };
                let mut chunks = tokens.chunks_exact(ABREAST);
                for chunk in &mut chunks {
                    let (a, b) = S::add3(low[0], column(chunk[0]), column(chunk[1]));
                    let (a, c) = S::add3(a, column(chunk[2]), column(chunk[3]));
                    let (a, d) = S::add3(a, column(chunk[4]), column(chunk[5]));
                    let (a, e) = S::add3(a, column(chunk[6]), column(chunk[7]));
                    let (b, f) = S::add3(low[1], b, c);
                    let (b, g) = S::add3(b, d, e);
                    let (c, carry) = S::add3(low[2], f, g);
                    (low[0], low[1], low[2]) = (a, b, c);
                    let carry = carry_on::<S, 3>(&mut low, carry);
                    ripple::<S>(sum, carry, LOW_PLANES..planes);
                }
                for pair in chunks.remainder().chunks(2) {
                    let second = if pair.len() == 2 { column(pair[1]) } else { S::splat(0) };
                    let (a, carry) = S::add3(low[0], column(pair[0]), second);
                    low[0] = a;
                    let carry = carry_on::<S, 1>(&mut low, carry);
                    ripple::<S>(sum, carry, LOW_PLANES..planes);
                }
                for (plane, bits) in low.into_iter().enumerate() {
                    S::store(&mut sum[plane], bits);
                }
                for (plane, other) in others.chunks_exact(STRIPS).enumerate() {
                    ripple::<S>(sum, S::load(&other[strip]), plane..planes);
                }
                if S::any(S::load(&sum[planes - 1])) {
                    found |= 1 << strip;
                }
            }
        }
        found
    }
}

/// Adds bits to the low planes from one on, and returns what they carry.
///
/// # Safety
///
/// The processor runs the instructions of the form.
#[inline(always)]
unsafe fn carry_on<S: Bits, const FROM: usize>(
    low: &mut [S::Vector; LOW_PLANES],
    mut carry: S::Vector,
) -> S::Vector {
    for plane in &mut low[FROM..] {
        // SAFETY: as the caller promises.
        (*plane, carry) = unsafe { S::add2(*plane, carry) };
    }
    carry
}

/// Adds bits to some planes of a sum, from the lowest one on.
///
/// # Safety
///
/// The processor runs the instructions of the form.
#[inline(always)]
unsafe fn ripple<S: Bits>(sum: &mut Sum, mut carry: S::Vector, planes: Range<usize>) {
    for plane in planes {
        // SAFETY: as the caller promises.
        unsafe {
            let (bits, next) = S::add2(S::load(&sum[plane]), carry);
            S::store(&mut sum[plane], bits);
            carry = next;
        }
    }
}

/// The number of a set in a sum, by its place in the strip.
#[inline]
pub(super) fn number(sum: &Sum, planes: usize, set: usize) -> u64 {
    (0..planes).fold(0, |number, plane| number | u64::from(sum[plane].has(set)) << plane)
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::seq::index::sample;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::set::bitsliced::planes::planes_of;
    use crate::simd::{BITS, Simd};

    #[test]
    fn sums_are_those_of_single_sets() {
        let mut rng = StdRng::seed_from_u64(5);
        let (first, count) = (100_u32, 70_usize);
        for round in 0..60 {
            let mut columns = vec![Line::EMPTY; count * STRIPS];
            for line in &mut columns {
                let share = rng.random::<f64>();
                (0..BITS).filter(|_| rng.random_bool(share)).for_each(|bit| line.set(bit));
            }
            let taken = rng.random_range(0..=count);
            let mut tokens: Vec<u32> =
                sample(&mut rng, count, taken).iter().map(|token| first + token as u32).collect();
            tokens.sort_unstable();
            let mut others = vec![Line::EMPTY; STRIPS * (round % 3)];
            for line in &mut others {
                (0..BITS).filter(|_| rng.random_bool(0.1)).for_each(|bit| line.set(bit));
            }
            let most = taken + (1 << (round % 3)) - 1;
            let least = rng.random_range(1..=most.max(1));
            let planes = planes_of(most.max(least)) + 1;
            let begin = [(1_u64 << (planes - 1)) - least as u64; STRIPS];
            let expected = |strip: usize, set: usize| {
                let of_tokens = tokens
                    .iter()
                    .filter(|&&token| columns[(token - first) as usize * STRIPS + strip].has(set));
                let of_others = others.chunks_exact(STRIPS).enumerate();
                let of_others =
                    of_others.map(|(plane, lines)| usize::from(lines[strip].has(set)) << plane);
                of_tokens.count() + of_others.sum::<usize>()
            };
            let summed = Summed { columns: &columns, tokens: &tokens, first, others: &others };
            for &simd in Simd::available() {
                let mut sums = [[Line::EMPTY; MOST_PLANES]; STRIPS];
                let found = add_up(simd, summed, 0..STRIPS, &begin, planes, &mut sums);
                for (strip, sum) in sums.iter().enumerate() {
                    let is_found = (0..BITS).any(|set| expected(strip, set) >= least);
                    assert_eq!(found >> strip & 1 == 1, is_found);
                    for set in 0..BITS {
                        let overlap = number(sum, planes, set) - begin[strip];
                        assert_eq!(overlap, expected(strip, set) as u64, "{simd} {round}");
                        assert_eq!(sum[planes - 1].has(set), overlap >= least as u64);
                    }
                }
            }
        }
    }
}
