//! Blocks of one register: its lanes meet those of the other by rotations.
//!
//! Every `unsafe` block here calls intrinsics alone: the caller of the trait has promised their
//! instruction set and, of loads, that what they read is readable.

use std::arch::x86_64::*;

use super::Blocks;
use crate::simd::Avx2;

/// The lanes of a register that have an equal among four lanes of another one, which is turned by one
/// lane after the other.
macro_rules! equal_to_any {
    ($values:expr, $others:expr, $equal:ident, $turn:ident) => {{
        // SAFETY: the caller promises the instruction set.
        unsafe {
            let one = $equal($values, $others);
            let two = $equal($values, $turn::<0x39>($others));
            let three = $equal($values, $turn::<0x4E>($others));
            let four = $equal($values, $turn::<0x93>($others));
            _mm256_or_si256(_mm256_or_si256(one, two), _mm256_or_si256(three, four))
        }
    }};
}

/// The lanes of eight values that have an equal in the same half of eight others.
#[inline(always)]
unsafe fn equal_halves_u32(values: __m256i, others: __m256i) -> __m256i {
    equal_to_any!(values, others, _mm256_cmpeq_epi32, _mm256_shuffle_epi32)
}

/// Exchanges the halves of a register.
#[inline(always)]
unsafe fn swapped(values: __m256i) -> __m256i {
    // SAFETY: the caller promises the instruction set.
    unsafe { _mm256_permute4x64_epi64::<0x4E>(values) }
}

/// The number of values among eight that are not greater than the last of eight others.
#[inline(always)]
unsafe fn not_beyond_u32<const SIGNED: bool>(values: __m256i, others: __m256i) -> usize {
    // SAFETY: the caller promises the instruction set.
    unsafe {
        let last = _mm256_permutevar8x32_epi32(others, _mm256_set1_epi32(7));
        let greatest = match SIGNED {
            true => _mm256_max_epi32(values, last),
            false => _mm256_max_epu32(values, last),
        };
        let lanes = _mm256_castsi256_ps(_mm256_cmpeq_epi32(greatest, last));
        _mm256_movemask_ps(lanes).count_ones() as usize
    }
}

impl Blocks<u32> for Avx2 {
    const WIDTH: usize = 8;
    type Count = __m256i;

    #[inline(always)]
    unsafe fn none() -> __m256i {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    unsafe fn merge<const SIGNED: bool>(
        count: __m256i,
        a: *const u32,
        b: *const u32,
    ) -> (__m256i, usize, usize) {
        // SAFETY: the caller promises the instruction set and readable values.
        unsafe {
            let (a, b) = (_mm256_loadu_si256(a.cast()), _mm256_loadu_si256(b.cast()));
            let count = _mm256_sub_epi32(count, equal_halves_u32(a, b));
            let count = _mm256_sub_epi32(count, equal_halves_u32(swapped(a), b));
            (count, not_beyond_u32::<SIGNED>(a, b), not_beyond_u32::<SIGNED>(b, a))
        }
    }

    #[inline(always)]
    unsafe fn total(count: __m256i) -> u64 {
        let mut lanes = [0_u32; 8];
        // SAFETY: the caller promises the instruction set; the array has room for all lanes.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), count) };
        lanes.into_iter().map(u64::from).sum()
    }

    #[inline(always)]
    unsafe fn common(a: *const u32, b: *const u32) -> u32 {
        // SAFETY: the caller promises the instruction set and readable values.
        unsafe {
            let (a, b) = (_mm256_loadu_si256(a.cast()), _mm256_loadu_si256(b.cast()));
            let equal = _mm256_or_si256(equal_halves_u32(a, b), equal_halves_u32(a, swapped(b)));
            _mm256_movemask_ps(_mm256_castsi256_ps(equal)) as u32
        }
    }
}

/// The lanes of four values that have an equal in four others.
#[inline(always)]
unsafe fn equal_u64(values: __m256i, four: __m256i) -> __m256i {
    equal_to_any!(values, four, _mm256_cmpeq_epi64, _mm256_permute4x64_epi64)
}

/// The number of values among four that are not greater than the last of four others.
#[inline(always)]
unsafe fn not_beyond_u64<const SIGNED: bool>(values: __m256i, others: __m256i) -> usize {
    // SAFETY: the caller promises the instruction set.
    unsafe {
        // Comparisons are signed: unsigned values are moved by half the range.
        let half = _mm256_set1_epi64x(if SIGNED { 0 } else { i64::MIN });
        let last = _mm256_permute4x64_epi64::<0xFF>(others);
        let beyond =
            _mm256_cmpgt_epi64(_mm256_xor_si256(values, half), _mm256_xor_si256(last, half));
        4 - _mm256_movemask_pd(_mm256_castsi256_pd(beyond)).count_ones() as usize
    }
}

impl Blocks<u64> for Avx2 {
    const WIDTH: usize = 4;
    type Count = __m256i;

    #[inline(always)]
    unsafe fn none() -> __m256i {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    unsafe fn merge<const SIGNED: bool>(
        count: __m256i,
        a: *const u64,
        b: *const u64,
    ) -> (__m256i, usize, usize) {
        // SAFETY: the caller promises the instruction set and readable values.
        unsafe {
            let (a, b) = (_mm256_loadu_si256(a.cast()), _mm256_loadu_si256(b.cast()));
            let count = _mm256_sub_epi64(count, equal_u64(a, b));
            (count, not_beyond_u64::<SIGNED>(a, b), not_beyond_u64::<SIGNED>(b, a))
        }
    }

    #[inline(always)]
    unsafe fn total(count: __m256i) -> u64 {
        let mut lanes = [0_u64; 4];
        // SAFETY: the caller promises the instruction set; the array has room for all lanes.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), count) };
        lanes.into_iter().sum()
    }

    #[inline(always)]
    unsafe fn common(a: *const u64, b: *const u64) -> u32 {
        // SAFETY: the caller promises the instruction set and readable values.
        unsafe {
            let (a, b) = (_mm256_loadu_si256(a.cast()), _mm256_loadu_si256(b.cast()));
            _mm256_movemask_pd(_mm256_castsi256_pd(equal_u64(a, b))) as u32
        }
    }
}
