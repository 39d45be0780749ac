//! AVX2: two registers hold all lanes; bits are counted by a table of nibbles (Muła, Kurz, Lemire:
//! "Faster population counts using AVX2 instructions", The Computer Journal 2018).
//!
//! Every `unsafe` block here calls intrinsics alone: the caller of the traits has promised their
//! instruction set and, of loads, that what they read is readable.

use std::arch::x86_64::*;

use super::{Bytes, Floats, Lanes, Words};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx2;

/// The number of bits of each byte.
#[inline(always)]
unsafe fn count_bytes(v: __m256i) -> __m256i {
    // SAFETY: the caller promises the instruction set.
    unsafe {
        let table = _mm256_setr_epi8(
            0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2,
            3, 3, 4,
        );
        let nibble = _mm256_set1_epi8(15);
        let low = _mm256_shuffle_epi8(table, _mm256_and_si256(v, nibble));
        let high = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16::<4>(v), nibble));
        _mm256_add_epi8(low, high)
    }
}

impl Words for Avx2 {
    type Word = [__m256i; 2];
    /// Counts by byte: 31 times at most 8 bits fit.
    type Count = [__m256i; 2];

    #[inline(always)]
    unsafe fn load(from: *const u64) -> [__m256i; 2] {
        // SAFETY: the caller promises the instruction set and readable values.
        unsafe { [_mm256_load_si256(from.cast()), _mm256_load_si256(from.add(4).cast())] }
    }

    #[inline(always)]
    unsafe fn splat(word: u64) -> [__m256i; 2] {
        // SAFETY: the caller promises the instruction set.
        unsafe { [_mm256_set1_epi64x(word as i64); 2] }
    }

    #[inline(always)]
    unsafe fn zero() -> [__m256i; 2] {
        // SAFETY: the caller promises the instruction set.
        unsafe { [_mm256_setzero_si256(); 2] }
    }

    #[inline(always)]
    unsafe fn add_common(count: [__m256i; 2], a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: the caller promises the instruction set.
        unsafe {
            [
                _mm256_add_epi8(count[0], count_bytes(_mm256_and_si256(a[0], b[0]))),
                _mm256_add_epi8(count[1], count_bytes(_mm256_and_si256(a[1], b[1]))),
            ]
        }
    }

    #[inline(always)]
    unsafe fn at_least(count: [__m256i; 2], least: i64) -> u8 {
        // SAFETY: the caller promises the instruction set.
        unsafe {
            let below = _mm256_set1_epi64x(least.saturating_sub(1));
            let mask = |v: __m256i| {
                let sums = _mm256_sad_epu8(v, _mm256_setzero_si256());
                _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(sums, below))) as u8
            };
            mask(count[0]) | mask(count[1]) << 4
        }
    }
}

#[inline(always)]
unsafe fn mask(v: [__m256i; 2]) -> u16 {
    // SAFETY: the caller promises the instruction set.
    unsafe {
        let bits = |v| _mm256_movemask_ps(_mm256_castsi256_ps(v)) as u16;
        bits(v[0]) | bits(v[1]) << 8
    }
}

/// Applies an intrinsic to both halves.
macro_rules! halves {
    ($function:ident, $a:expr, $b:expr) => {{
        let (a, b) = ($a, $b);
        [$function(a[0], b[0]), $function(a[1], b[1])]
    }};
}

impl Lanes for Avx2 {
    type Vector = [__m256i; 2];

    #[inline(always)]
    unsafe fn load(from: *const u32) -> [__m256i; 2] {
        // SAFETY: the caller promises the instruction set and readable values.
        unsafe { [_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(8).cast())] }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u32, count: usize) -> [__m256i; 2] {
        // SAFETY: the caller promises the instruction set and readable values.
        unsafe {
            let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            let count = count as i32;
            let low = _mm256_cmpgt_epi32(_mm256_set1_epi32(count), lanes);
            let high = _mm256_cmpgt_epi32(_mm256_set1_epi32(count - 8), lanes);
            // A load under a mask touches only the lanes that the mask selects.
            [
                _mm256_maskload_epi32(from.cast(), low),
                _mm256_maskload_epi32(from.wrapping_add(8).cast(), high),
            ]
        }
    }

    #[inline(always)]
    unsafe fn splat(value: u32) -> [__m256i; 2] {
        // SAFETY: the caller promises the instruction set.
        unsafe { [_mm256_set1_epi32(value as i32); 2] }
    }

    #[inline(always)]
    unsafe fn add(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: the caller promises the instruction set.
        unsafe { halves!(_mm256_add_epi32, a, b) }
    }

    #[inline(always)]
    unsafe fn differing(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: the caller promises the instruction set.
        unsafe {
            let ones = [_mm256_set1_epi8(1); 2];
            let differing = halves!(_mm256_xor_si256, a, b);
            let bytes = [count_bytes(differing[0]), count_bytes(differing[1])];
            let pairs = halves!(_mm256_maddubs_epi16, bytes, ones);
            halves!(_mm256_madd_epi16, pairs, [_mm256_set1_epi16(1); 2])
        }
    }

    #[inline(always)]
    unsafe fn shift_left<const SHIFT: u32>(count: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: the caller promises the instruction set.
        unsafe { halves!(_mm256_sllv_epi32, count, [_mm256_set1_epi32(SHIFT as i32); 2]) }
    }

    #[inline(always)]
    unsafe fn high(value: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: the caller promises the instruction set.
        unsafe { [_mm256_srli_epi32::<16>(value[0]), _mm256_srli_epi32::<16>(value[1])] }
    }

    #[inline(always)]
    unsafe fn low(value: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: the caller promises the instruction set.
        unsafe { halves!(_mm256_and_si256, value, [_mm256_set1_epi32(0xFFFF); 2]) }
    }

    #[inline(always)]
    unsafe fn sub(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: the caller promises the instruction set.
        unsafe { halves!(_mm256_sub_epi32, a, b) }
    }

    #[inline(always)]
    unsafe fn dot(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: the caller promises the instruction set.
        unsafe { halves!(_mm256_madd_epi16, a, b) }
    }

    #[inline(always)]
    unsafe fn look_up(table: &[u32; 32], index: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: the caller promises the instruction set; the table holds every entry read.
        unsafe {
            let place = halves!(_mm256_and_si256, index, [_mm256_set1_epi32(31); 2]);
            let table = table.as_ptr().cast();
            [
                _mm256_i32gather_epi32::<4>(table, place[0]),
                _mm256_i32gather_epi32::<4>(table, place[1]),
            ]
        }
    }

    #[inline(always)]
    unsafe fn less_or_equal(a: [__m256i; 2], b: [__m256i; 2]) -> u16 {
        // SAFETY: the caller promises the instruction set.
        unsafe { !mask(halves!(_mm256_cmpgt_epi32, a, b)) }
    }

    #[inline(always)]
    unsafe fn less(a: [__m256i; 2], b: [__m256i; 2]) -> u16 {
        // SAFETY: the caller promises the instruction set.
        unsafe {
            // Comparisons are signed: both sides are moved by half the range.
            let half = [_mm256_set1_epi32(i32::MIN); 2];
            let (a, b) = (halves!(_mm256_xor_si256, a, half), halves!(_mm256_xor_si256, b, half));
            mask(halves!(_mm256_cmpgt_epi32, b, a))
        }
    }

    #[inline(always)]
    unsafe fn equal(a: [__m256i; 2], b: [__m256i; 2]) -> u16 {
        // SAFETY: the caller promises the instruction set.
        unsafe { mask(halves!(_mm256_cmpeq_epi32, a, b)) }
    }
}

impl Floats for Avx2 {
    type Vector = [__m256; 2];

    #[inline(always)]
    unsafe fn load(from: *const f32) -> [__m256; 2] {
        // SAFETY: the caller promises the instruction set and readable values.
        unsafe { [_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))] }
    }

    #[inline(always)]
    unsafe fn store(to: *mut f32, value: [__m256; 2]) {
        // SAFETY: the caller promises the instruction set and a writable place.
        unsafe {
            _mm256_storeu_ps(to, value[0]);
            _mm256_storeu_ps(to.add(8), value[1]);
        }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> [__m256; 2] {
        // SAFETY: the caller promises the instruction set.
        unsafe { [_mm256_set1_ps(value); 2] }
    }

    #[inline(always)]
    unsafe fn add(a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
        // SAFETY: the caller promises the instruction set.
        unsafe { halves!(_mm256_add_ps, a, b) }
    }

    #[inline(always)]
    unsafe fn sub(a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
        // SAFETY: the caller promises the instruction set.
        unsafe { halves!(_mm256_sub_ps, a, b) }
    }

    #[inline(always)]
    unsafe fn max(a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
        // SAFETY: the caller promises the instruction set.
        unsafe { halves!(_mm256_max_ps, a, b) }
    }

    #[inline(always)]
    unsafe fn add_product(sum: [__m256; 2], a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
        // SAFETY: the caller promises the instruction set.
        unsafe { [_mm256_fmadd_ps(a[0], b[0], sum[0]), _mm256_fmadd_ps(a[1], b[1], sum[1])] }
    }

    #[inline(always)]
    unsafe fn less(a: [__m256; 2], b: [__m256; 2]) -> u16 {
        // SAFETY: the caller promises the instruction set.
        unsafe {
            let bits = |a, b| _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LT_OQ>(a, b)) as u16;
            bits(a[0], b[0]) | bits(a[1], b[1]) << 8
        }
    }
}

impl Bytes for Avx2 {
    type Vector = [__m256i; 2];

    #[inline(always)]
    unsafe fn load(from: *const i32) -> [__m256i; 2] {
        // SAFETY: the caller promises the instruction set and readable values.
        unsafe { [_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(8).cast())] }
    }

    #[inline(always)]
    unsafe fn store(to: *mut i32, value: [__m256i; 2]) {
        // SAFETY: the caller promises the instruction set and a writable place.
        unsafe {
            _mm256_storeu_si256(to.cast(), value[0]);
            _mm256_storeu_si256(to.add(8).cast(), value[1]);
        }
    }

    #[inline(always)]
    unsafe fn splat(value: i32) -> [__m256i; 2] {
        // SAFETY: the caller promises the instruction set.
        unsafe { [_mm256_set1_epi32(value); 2] }
    }

    #[inline(always)]
    unsafe fn add(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: the caller promises the instruction set.
        unsafe { halves!(_mm256_add_epi32, a, b) }
    }

    #[inline(always)]
    unsafe fn and(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: the caller promises the instruction set.
        unsafe { halves!(_mm256_and_si256, a, b) }
    }

    /// Adds products of bytes as products of 16-bit numbers: sums of products of bytes would saturate.
    #[inline(always)]
    unsafe fn add_products(sum: [__m256i; 2], a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: the caller promises the instruction set.
        unsafe {
            let low = [_mm256_set1_epi16(0xFF); 2];
            let even = |v: __m256i| _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(v));
            let odd = |v: __m256i| _mm256_srai_epi16::<8>(v);
            let evens = halves!(_mm256_madd_epi16, halves!(_mm256_and_si256, a, low), b.map(even));
            let high = a.map(|v| _mm256_srli_epi16::<8>(v));
            let odds = halves!(_mm256_madd_epi16, high, b.map(odd));
            halves!(_mm256_add_epi32, sum, halves!(_mm256_add_epi32, evens, odds))
        }
    }

    #[inline(always)]
    unsafe fn negative(value: [__m256i; 2]) -> u16 {
        // SAFETY: the caller promises the instruction set.
        unsafe { mask(value) }
    }
}
