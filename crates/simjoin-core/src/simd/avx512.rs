//! AVX-512 with VPOPCNTDQ and VNNI: one register holds all lanes.
//!
//! Every `unsafe` block here calls intrinsics alone: the caller of the traits has promised their
//! instruction set and, of loads, that what they read is readable.

use std::arch::x86_64::*;

use super::{Bytes, Floats, Lanes, Words};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx512;

impl Words for Avx512 {
    type Word = __m512i;
    type Count = __m512i;

    #[inline(always)]
    unsafe fn load(from: *const u64) -> __m512i {
        // SAFETY: the caller promises the instruction set and readable values.
        unsafe { _mm512_load_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn splat(word: u64) -> __m512i {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_set1_epi64(word as i64) }
    }

    #[inline(always)]
    unsafe fn zero() -> __m512i {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    unsafe fn add_common(count: __m512i, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_add_epi64(count, _mm512_popcnt_epi64(_mm512_and_si512(a, b))) }
    }

    #[inline(always)]
    unsafe fn at_least(count: __m512i, least: i64) -> u8 {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_cmpge_epi64_mask(count, _mm512_set1_epi64(least)) }
    }
}

impl Lanes for Avx512 {
    type Vector = __m512i;

    #[inline(always)]
    unsafe fn load(from: *const u32) -> __m512i {
        // SAFETY: the caller promises the instruction set and readable values.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u32, count: usize) -> __m512i {
        // SAFETY: the caller promises the instruction set and readable values.
        unsafe { _mm512_maskz_loadu_epi32(((1_u32 << count) - 1) as u16, from.cast()) }
    }

    #[inline(always)]
    unsafe fn splat(value: u32) -> __m512i {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_set1_epi32(value as i32) }
    }

    #[inline(always)]
    unsafe fn add(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_add_epi32(a, b) }
    }

    #[inline(always)]
    unsafe fn differing(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_popcnt_epi32(_mm512_xor_si512(a, b)) }
    }

    #[inline(always)]
    unsafe fn shift_left<const SHIFT: u32>(count: __m512i) -> __m512i {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_slli_epi32::<SHIFT>(count) }
    }

    #[inline(always)]
    unsafe fn high(value: __m512i) -> __m512i {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_srli_epi32::<16>(value) }
    }

    #[inline(always)]
    unsafe fn low(value: __m512i) -> __m512i {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_and_si512(value, _mm512_set1_epi32(0xFFFF)) }
    }

    #[inline(always)]
    unsafe fn sub(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_sub_epi32(a, b) }
    }

    #[inline(always)]
    unsafe fn dot(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_madd_epi16(a, b) }
    }

    #[inline(always)]
    unsafe fn look_up(table: &[u32; 32], index: __m512i) -> __m512i {
        // SAFETY: the caller promises the instruction set; the table holds every entry read.
        unsafe {
            let low = _mm512_loadu_si512(table.as_ptr().cast());
            let high = _mm512_loadu_si512(table.as_ptr().add(16).cast());
            _mm512_permutex2var_epi32(low, index, high)
        }
    }

    #[inline(always)]
    unsafe fn less_or_equal(a: __m512i, b: __m512i) -> u16 {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_cmple_epi32_mask(a, b) }
    }

    #[inline(always)]
    unsafe fn less(a: __m512i, b: __m512i) -> u16 {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_cmplt_epu32_mask(a, b) }
    }

    #[inline(always)]
    unsafe fn equal(a: __m512i, b: __m512i) -> u16 {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_cmpeq_epi32_mask(a, b) }
    }
}

impl Floats for Avx512 {
    type Vector = __m512;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> __m512 {
        // SAFETY: the caller promises the instruction set and readable values.
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store(to: *mut f32, value: __m512) {
        // SAFETY: the caller promises the instruction set and a writable place.
        unsafe { _mm512_storeu_ps(to, value) }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> __m512 {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_set1_ps(value) }
    }

    #[inline(always)]
    unsafe fn add(a: __m512, b: __m512) -> __m512 {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_add_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn sub(a: __m512, b: __m512) -> __m512 {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_sub_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn max(a: __m512, b: __m512) -> __m512 {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_max_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn add_product(sum: __m512, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_fmadd_ps(a, b, sum) }
    }

    #[inline(always)]
    unsafe fn less(a: __m512, b: __m512) -> u16 {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b) }
    }
}

impl Bytes for Avx512 {
    type Vector = __m512i;

    #[inline(always)]
    unsafe fn load(from: *const i32) -> __m512i {
        // SAFETY: the caller promises the instruction set and readable values.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(to: *mut i32, value: __m512i) {
        // SAFETY: the caller promises the instruction set and a writable place.
        unsafe { _mm512_storeu_si512(to.cast(), value) }
    }

    #[inline(always)]
    unsafe fn splat(value: i32) -> __m512i {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_set1_epi32(value) }
    }

    #[inline(always)]
    unsafe fn add(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_add_epi32(a, b) }
    }

    #[inline(always)]
    unsafe fn and(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_and_si512(a, b) }
    }

    #[inline(always)]
    unsafe fn add_products(sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_dpbusd_epi32(sum, a, b) }
    }

    #[inline(always)]
    unsafe fn negative(value: __m512i) -> u16 {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_cmplt_epi32_mask(value, _mm512_setzero_si512()) }
    }
}
