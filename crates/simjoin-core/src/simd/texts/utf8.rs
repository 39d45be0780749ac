//! UTF-8 as the low and the high bytes of its characters, for each instruction set.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use super::Portable;
#[cfg(target_arch = "x86_64")]
use super::{Avx2, Avx512};

/// The characters of 64 bytes.
///
/// # Safety
///
/// As for [`Lanes`](super::Lanes).
pub trait Utf8 {
    /// Writes the low and the high bytes of the characters that begin in the 64 bytes at `from`, of which two
    /// more are readable, to two places for 64 bytes each. Returns the bytes in which a character begins. The
    /// two bytes of a character beyond U+FFFF, and of what is no UTF-8, may be any.
    unsafe fn split(from: *const u8, to: [*mut u8; 2]) -> u64;
}

/// The places of the bits that are set, for each byte.
#[cfg(target_arch = "x86_64")]
const PLACES: [[u8; 8]; 256] = {
    let mut places = [[0; 8]; 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut bit, mut count) = (0, 0);
        while bit < 8 {
            if mask >> bit & 1 == 1 {
                places[mask][count] = bit as u8;
                count += 1;
            }
            bit += 1;
        }
        mask += 1;
    }
    places
};

/// Moves the wanted bytes of both vectors of 64 to the front, behind which any may follow.
///
/// # Safety
///
/// The processor has SSSE3, and both places are writable.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn compact(vectors: [&[u8; 64]; 2], wanted: u64, to: [*mut u8; 2]) {
    let mut count = 0;
    for i in 0..8 {
        let mask = (wanted >> (8 * i)) as u8;
        for (vector, to) in vectors.iter().zip(to) {
            // SAFETY: the caller promises the instruction set; before the last eight bytes, at most 56
            // were written.
            unsafe {
                let bytes = _mm_loadl_epi64(vector.as_ptr().add(8 * i).cast());
                let places = _mm_loadl_epi64(PLACES[usize::from(mask)].as_ptr().cast());
                _mm_storel_epi64(to.add(count).cast(), _mm_shuffle_epi8(bytes, places));
            }
        }
        count += mask.count_ones() as usize;
    }
}

#[cfg(target_arch = "x86_64")]
impl<const VBMI: bool> Utf8 for Avx512<VBMI> {
    #[inline(always)]
    unsafe fn split(from: *const u8, to: [*mut u8; 2]) -> u64 {
        // SAFETY: the caller promises the instruction set and the places.
        unsafe {
            let first = _mm512_loadu_si512(from.cast());
            let second = _mm512_loadu_si512(from.add(1).cast());
            let third = _mm512_loadu_si512(from.add(2).cast());
            // The bytes 0x80 to 0xbf go on with a character.
            let wanted = _mm512_cmpge_epi8_mask(first, _mm512_set1_epi8(0xc0_u8 as i8));
            let is_ascii = !_mm512_movepi8_mask(first);
            let has_three = _mm512_cmpge_epu8_mask(first, _mm512_set1_epi8(0xe0_u8 as i8));
            let above = _mm512_mask_mov_epi8(first, has_three, second);
            let below = _mm512_mask_mov_epi8(second, has_three, third);
            // Bits of `low` come from `below` where they are set in the constant.
            let low = _mm512_slli_epi16::<6>(above);
            let low = _mm512_ternarylogic_epi64::<0xca>(_mm512_set1_epi8(0x3f), below, low);
            let low = _mm512_mask_mov_epi8(low, is_ascii, first);
            let high = _mm512_srli_epi16::<2>(above);
            let high = _mm512_and_si512(
                high,
                _mm512_mask_mov_epi8(_mm512_set1_epi8(7), has_three, _mm512_set1_epi8(15)),
            );
            let top =
                _mm512_and_si512(_mm512_slli_epi16::<4>(first), _mm512_set1_epi8(0xf0_u8 as i8));
            let high = _mm512_or_si512(high, _mm512_maskz_mov_epi8(has_three, top));
            let high = _mm512_maskz_mov_epi8(!is_ascii, high);
            if VBMI {
                _mm512_storeu_si512(to[0].cast(), _mm512_maskz_compress_epi8(wanted, low));
                _mm512_storeu_si512(to[1].cast(), _mm512_maskz_compress_epi8(wanted, high));
                return wanted;
            }
            let mut bytes = [[0; 64]; 2];
            _mm512_storeu_si512(bytes[0].as_mut_ptr().cast(), low);
            _mm512_storeu_si512(bytes[1].as_mut_ptr().cast(), high);
            compact(bytes.each_ref(), wanted, to);
            wanted
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Utf8 for Avx2 {
    #[inline(always)]
    unsafe fn split(from: *const u8, to: [*mut u8; 2]) -> u64 {
        let mut bytes = [[0_u8; 64]; 2];
        let mut wanted = 0;
        for half in 0..2 {
            // SAFETY: the caller promises the instruction set and the places.
            unsafe {
                let from = from.add(32 * half);
                let first = _mm256_loadu_si256(from.cast());
                let second = _mm256_loadu_si256(from.add(1).cast());
                let third = _mm256_loadu_si256(from.add(2).cast());
                // The bytes 0x80 to 0xbf, which go on with a character, are the least ones.
                let begins = _mm256_cmpgt_epi8(first, _mm256_set1_epi8(0xbf_u8 as i8));
                let has_three = _mm256_set1_epi8(0xe0_u8 as i8);
                let has_three = _mm256_cmpeq_epi8(_mm256_max_epu8(first, has_three), first);
                let above = _mm256_blendv_epi8(first, second, has_three);
                let below = _mm256_blendv_epi8(second, third, has_three);
                let six = _mm256_set1_epi8(0x3f);
                let low = _mm256_andnot_si256(six, _mm256_slli_epi16::<6>(above));
                let low = _mm256_or_si256(low, _mm256_and_si256(six, below));
                let more = _mm256_and_si256(has_three, _mm256_set1_epi8(8));
                let four = _mm256_or_si256(_mm256_set1_epi8(7), more);
                let high = _mm256_and_si256(_mm256_srli_epi16::<2>(above), four);
                let top = _mm256_and_si256(has_three, _mm256_set1_epi8(0xf0_u8 as i8));
                let top = _mm256_and_si256(_mm256_slli_epi16::<4>(first), top);
                let high = _mm256_or_si256(high, top);
                let is_ascii = _mm256_cmpgt_epi8(first, _mm256_set1_epi8(-1));
                let low = _mm256_blendv_epi8(low, first, is_ascii);
                let high = _mm256_andnot_si256(is_ascii, high);
                _mm256_storeu_si256(bytes[0].as_mut_ptr().add(32 * half).cast(), low);
                _mm256_storeu_si256(bytes[1].as_mut_ptr().add(32 * half).cast(), high);
                wanted |= u64::from(_mm256_movemask_epi8(begins) as u32) << (32 * half);
            }
        }
        // SAFETY: as above.
        unsafe { compact(bytes.each_ref(), wanted, to) };
        wanted
    }
}

impl Utf8 for Portable {
    #[inline(always)]
    unsafe fn split(from: *const u8, [low, high]: [*mut u8; 2]) -> u64 {
        let (mut wanted, mut count) = (0, 0);
        for i in 0..64 {
            // SAFETY: the caller promises two bytes behind the 64.
            let [first, second, third] = unsafe { *from.add(i).cast::<[u8; 3]>() }.map(u16::from);
            let character = match first {
                0..0x80 => first,
                0x80..0xc0 => continue,
                0xc0..0xe0 => (first & 0x1f) << 6 | second & 0x3f,
                _ => first << 12 | (second & 0x3f) << 6 | third & 0x3f,
            };
            // SAFETY: at most 63 were written before.
            unsafe {
                low.add(count).write(character as u8);
                high.add(count).write((character >> 8) as u8);
            }
            wanted |= 1 << i;
            count += 1;
        }
        wanted
    }
}
