//! Vectors of 512 bits, and adders of many bits at a time.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use super::Portable;
#[cfg(target_arch = "x86_64")]
use super::{Avx2, Avx512};

/// The bits of a [`Line`].
pub const BITS: usize = 512;

/// 512 bits in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Line([u64; BITS / 64]);

impl Line {
    pub const EMPTY: Self = Self([0; BITS / 64]);

    /// Sets a bit.
    #[inline(always)]
    pub fn set(&mut self, bit: usize) {
        self.0[bit / 64] |= 1 << (bit % 64);
    }

    /// Whether a bit is set.
    #[inline(always)]
    pub fn has(&self, bit: usize) -> bool {
        self.0[bit / 64] >> (bit % 64) & 1 == 1
    }

    /// Changes a bit, and tells whether it was set.
    #[inline(always)]
    pub fn flip(&mut self, bit: usize) -> bool {
        let was = self.has(bit);
        self.0[bit / 64] ^= 1 << (bit % 64);
        was
    }

    /// The words of the line, the first bit in the lowest place of the first one.
    #[inline(always)]
    pub fn words(&self) -> &[u64; BITS / 64] {
        &self.0
    }
}

/// 512 lanes of one bit.
///
/// # Safety
///
/// As for [`Words`](super::Words).
pub trait Bits: Copy {
    type Vector: Copy;

    unsafe fn load(from: &Line) -> Self::Vector;
    unsafe fn store(to: &mut Line, bits: Self::Vector);
    /// Repeats a word eight times.
    unsafe fn splat(word: u64) -> Self::Vector;
    /// The sum of three bits in each lane, and what it carries.
    unsafe fn add3(
        a: Self::Vector,
        b: Self::Vector,
        c: Self::Vector,
    ) -> (Self::Vector, Self::Vector);
    /// The sum of two bits in each lane, and what it carries.
    unsafe fn add2(a: Self::Vector, b: Self::Vector) -> (Self::Vector, Self::Vector);
    /// Whether a bit is set.
    unsafe fn any(bits: Self::Vector) -> bool;
}

#[cfg(target_arch = "x86_64")]
impl Bits for Avx512 {
    type Vector = __m512i;

    #[inline(always)]
    unsafe fn load(from: &Line) -> __m512i {
        // SAFETY: the caller promises the instruction set; lines are aligned.
        unsafe { _mm512_load_si512(std::ptr::from_ref(from).cast()) }
    }

    #[inline(always)]
    unsafe fn store(to: &mut Line, bits: __m512i) {
        // SAFETY: as above.
        unsafe { _mm512_store_si512(std::ptr::from_mut(to).cast(), bits) }
    }

    #[inline(always)]
    unsafe fn splat(word: u64) -> __m512i {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_set1_epi64(word as i64) }
    }

    #[inline(always)]
    unsafe fn add3(a: __m512i, b: __m512i, c: __m512i) -> (__m512i, __m512i) {
        // SAFETY: the caller promises the instruction set.
        unsafe {
            // Odd, and two or three of the three.
            (_mm512_ternarylogic_epi64::<0x96>(a, b, c), _mm512_ternarylogic_epi64::<0xe8>(a, b, c))
        }
    }

    #[inline(always)]
    unsafe fn add2(a: __m512i, b: __m512i) -> (__m512i, __m512i) {
        // SAFETY: the caller promises the instruction set.
        unsafe { (_mm512_xor_si512(a, b), _mm512_and_si512(a, b)) }
    }

    #[inline(always)]
    unsafe fn any(bits: __m512i) -> bool {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_test_epi64_mask(bits, bits) != 0 }
    }
}

#[cfg(target_arch = "x86_64")]
impl Bits for Avx2 {
    type Vector = [__m256i; 2];

    #[inline(always)]
    unsafe fn load(from: &Line) -> [__m256i; 2] {
        let from = std::ptr::from_ref(from).cast::<__m256i>();
        // SAFETY: the caller promises the instruction set; lines are aligned.
        unsafe { [_mm256_load_si256(from), _mm256_load_si256(from.add(1))] }
    }

    #[inline(always)]
    unsafe fn store(to: &mut Line, bits: [__m256i; 2]) {
        let to = std::ptr::from_mut(to).cast::<__m256i>();
        // SAFETY: as above.
        unsafe {
            _mm256_store_si256(to, bits[0]);
            _mm256_store_si256(to.add(1), bits[1]);
        }
    }

    #[inline(always)]
    unsafe fn splat(word: u64) -> [__m256i; 2] {
        // SAFETY: the caller promises the instruction set.
        unsafe { [_mm256_set1_epi64x(word as i64); 2] }
    }

    #[inline(always)]
    unsafe fn add3(
        a: [__m256i; 2],
        b: [__m256i; 2],
        c: [__m256i; 2],
    ) -> ([__m256i; 2], [__m256i; 2]) {
        // SAFETY: the caller promises the instruction set.
        unsafe {
            let half = |a, b, c| {
                let one = _mm256_xor_si256(a, b);
                let both = _mm256_and_si256(a, b);
                let carry = _mm256_or_si256(both, _mm256_and_si256(one, c));
                (_mm256_xor_si256(one, c), carry)
            };
            let (low, high) = (half(a[0], b[0], c[0]), half(a[1], b[1], c[1]));
            ([low.0, high.0], [low.1, high.1])
        }
    }

    #[inline(always)]
    unsafe fn add2(a: [__m256i; 2], b: [__m256i; 2]) -> ([__m256i; 2], [__m256i; 2]) {
        // SAFETY: the caller promises the instruction set.
        unsafe {
            (
                [_mm256_xor_si256(a[0], b[0]), _mm256_xor_si256(a[1], b[1])],
                [_mm256_and_si256(a[0], b[0]), _mm256_and_si256(a[1], b[1])],
            )
        }
    }

    #[inline(always)]
    unsafe fn any(bits: [__m256i; 2]) -> bool {
        // SAFETY: the caller promises the instruction set.
        unsafe {
            let all = _mm256_or_si256(bits[0], bits[1]);
            _mm256_testz_si256(all, all) == 0
        }
    }
}

impl Bits for Portable {
    type Vector = [u64; 8];

    #[inline(always)]
    unsafe fn load(from: &Line) -> [u64; 8] {
        from.0
    }

    #[inline(always)]
    unsafe fn store(to: &mut Line, bits: [u64; 8]) {
        to.0 = bits;
    }

    #[inline(always)]
    unsafe fn splat(word: u64) -> [u64; 8] {
        [word; 8]
    }

    #[inline(always)]
    unsafe fn add3(a: [u64; 8], b: [u64; 8], c: [u64; 8]) -> ([u64; 8], [u64; 8]) {
        let sum = std::array::from_fn(|i| a[i] ^ b[i] ^ c[i]);
        (sum, std::array::from_fn(|i| a[i] & b[i] | (a[i] ^ b[i]) & c[i]))
    }

    #[inline(always)]
    unsafe fn add2(a: [u64; 8], b: [u64; 8]) -> ([u64; 8], [u64; 8]) {
        (std::array::from_fn(|i| a[i] ^ b[i]), std::array::from_fn(|i| a[i] & b[i]))
    }

    #[inline(always)]
    unsafe fn any(bits: [u64; 8]) -> bool {
        bits.iter().fold(0, |all, word| all | word) != 0
    }
}
