//! AVX-512: a register holds all lanes. With VBMI, one instruction looks 64 bytes up.
//!
//! Every `unsafe` block here calls intrinsics alone: the caller of the traits has promised their
//! instruction set and, of loads and stores, that their places are readable or writable.

use std::arch::x86_64::*;

use super::{Lanes, Pairs, Words};

/// AVX-512 with F, BW, VL and VPOPCNTDQ, and with VBMI if `VBMI`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx512<const VBMI: bool>;

/// Defines methods whose body is an expression of intrinsics.
macro_rules! intrinsics {
    ($(fn $name:ident($($arg:ident : $type:ty),*) -> $ret:ty = $body:expr;)*) => {$(
        #[inline(always)]
        unsafe fn $name($($arg: $type),*) -> $ret {
            // SAFETY: the caller promises the instruction set, and places to read and write.
            unsafe { $body }
        }
    )*};
}

impl<const VBMI: bool> Lanes for Avx512<VBMI> {
    type V = __m512i;
    type Offsets = [usize; 8];

    intrinsics! {
        fn splat8(value: u8) -> __m512i = _mm512_set1_epi8(value as i8);
        fn splat16(value: u16) -> __m512i = _mm512_set1_epi16(value as i16);
        fn and(a: __m512i, b: __m512i) -> __m512i = _mm512_and_si512(a, b);
        fn or(a: __m512i, b: __m512i) -> __m512i = _mm512_or_si512(a, b);
        fn xor(a: __m512i, b: __m512i) -> __m512i = _mm512_xor_si512(a, b);
        fn not(a: __m512i) -> __m512i = _mm512_xor_si512(a, _mm512_set1_epi64(-1));
        fn or_nor(a: __m512i, b: __m512i, c: __m512i) -> __m512i =
            _mm512_ternarylogic_epi64::<0xf1>(a, b, c);
        fn add8(a: __m512i, b: __m512i) -> __m512i = _mm512_add_epi8(a, b);
        fn add16(a: __m512i, b: __m512i) -> __m512i = _mm512_add_epi16(a, b);
        fn half8(a: __m512i) -> __m512i =
            _mm512_and_si512(_mm512_srli_epi16::<1>(a), _mm512_set1_epi8(0x7f));
        fn half16(a: __m512i) -> __m512i = _mm512_srli_epi16::<1>(a);
        fn set_bit7(a: __m512i, code: u8) -> __m512i =
            _mm512_mask_add_epi8(a, 1 << (code % 64), a, _mm512_set1_epi8(i8::MIN));
        fn count8(left: __m512i, seen: __m512i, bit: __m512i) -> __m512i =
            _mm512_mask_subs_epu8(left, _mm512_testn_epi8_mask(seen, bit), left, _mm512_set1_epi8(1));
        fn count16(left: __m512i, seen: __m512i, bit: __m512i) -> __m512i =
            _mm512_mask_subs_epu16(left, _mm512_testn_epi16_mask(seen, bit), left, _mm512_set1_epi16(1));
        fn unpack(low: __m512i, high: __m512i) -> [__m512i; 2] =
            [_mm512_unpacklo_epi8(low, high), _mm512_unpackhi_epi8(low, high)];
        fn pack(lanes: [__m512i; 2]) -> __m512i = _mm512_packus_epi16(lanes[0], lanes[1]);
        fn any(a: __m512i) -> bool = _mm512_test_epi64_mask(a, a) != 0;
        fn nonzero(a: __m512i) -> u64 = _mm512_test_epi8_mask(a, a);
        fn store(to: *mut u8, a: __m512i) -> () = _mm512_storeu_si512(to.cast(), a);
    }

    #[inline(always)]
    unsafe fn offsets(groups: *const u32, stride: usize) -> [usize; 8] {
        let mut offsets = [0; 8];
        for (i, offset) in offsets.iter_mut().enumerate() {
            // SAFETY: the caller promises eight readable numbers.
            *offset = unsafe { *groups.add(i) } as usize * stride;
        }
        offsets
    }

    #[inline(always)]
    unsafe fn gather(base: *const u8, o: [usize; 8]) -> __m512i {
        // SAFETY: the caller promises the instruction set and readable bytes.
        unsafe {
            let a = _mm_loadh_pd(_mm_load_sd(base.add(o[0]).cast()), base.add(o[1]).cast());
            let b = _mm_loadh_pd(_mm_load_sd(base.add(o[2]).cast()), base.add(o[3]).cast());
            let c = _mm_loadh_pd(_mm_load_sd(base.add(o[4]).cast()), base.add(o[5]).cast());
            let d = _mm_loadh_pd(_mm_load_sd(base.add(o[6]).cast()), base.add(o[7]).cast());
            let ab = _mm256_insertf128_pd::<1>(_mm256_castpd128_pd256(a), b);
            let cd = _mm256_insertf128_pd::<1>(_mm256_castpd128_pd256(c), d);
            _mm512_castpd_si512(_mm512_insertf64x4::<1>(_mm512_castpd256_pd512(ab), cd))
        }
    }

    #[inline(always)]
    unsafe fn look_up(table: *const u8, codes: __m512i) -> __m512i {
        // SAFETY: the caller promises the instruction set and a readable table.
        unsafe {
            if VBMI {
                return _mm512_permutexvar_epi8(codes, _mm512_loadu_si512(table.cast()));
            }
            let part = |i: usize| {
                let part = _mm_loadu_si128(table.add(16 * i).cast());
                _mm512_broadcast_i32x4(part)
            };
            let place = _mm512_and_si512(codes, _mm512_set1_epi8(15));
            let odd = _mm512_test_epi8_mask(codes, _mm512_set1_epi8(16));
            let upper = _mm512_test_epi8_mask(codes, _mm512_set1_epi8(32));
            let low = _mm512_shuffle_epi8(part(0), place);
            let low = _mm512_mask_shuffle_epi8(low, odd, part(1), place);
            let high = _mm512_shuffle_epi8(part(2), place);
            let high = _mm512_mask_shuffle_epi8(high, odd, part(3), place);
            _mm512_mask_mov_epi8(low, upper, high)
        }
    }
}

/// The number of the first byte of each byte's lane of `W` bytes.
const fn lane_starts<const W: usize>() -> [u8; 64] {
    let mut starts = [0; 64];
    let mut i = 0;
    while i < 64 {
        starts[i] = (i / W * W) as u8;
        i += 1;
    }
    starts
}

impl<const VBMI: bool> Pairs for Avx512<VBMI> {
    intrinsics! {
        fn load(from: *const u8) -> __m512i = _mm512_loadu_si512(from.cast());
        fn unpack32(low: __m512i, high: __m512i) -> [__m512i; 2] =
            [_mm512_unpacklo_epi16(low, high), _mm512_unpackhi_epi16(low, high)];
        fn pack32(lanes: [__m512i; 2]) -> __m512i = _mm512_packus_epi32(lanes[0], lanes[1]);
    }

    #[inline(always)]
    unsafe fn equal<const W: usize>(
        to: *mut u64,
        patterns: *const u8,
        texts: *const u8,
        column: usize,
    ) {
        // SAFETY: the caller promises the instruction set and readable bytes.
        unsafe {
            let starts = const { lane_starts::<W>() };
            let bytes = _mm512_loadu_si512(starts.as_ptr().cast());
            let bytes = _mm512_add_epi8(bytes, _mm512_set1_epi8(column as i8));
            for i in 0..8 {
                let pattern = _mm512_loadu_si512(patterns.add(64 * i).cast());
                let text = texts.add(64 * i);
                let symbol = if VBMI {
                    _mm512_permutexvar_epi8(bytes, _mm512_loadu_si512(text.cast()))
                } else if W == 16 {
                    let text = _mm512_loadu_si512(text.cast());
                    _mm512_shuffle_epi8(text, _mm512_set1_epi8(column as i8))
                } else {
                    let low = _mm256_set1_epi8(*text.add(column) as i8);
                    let high = _mm256_set1_epi8(*text.add(64 - W + column) as i8);
                    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
                };
                to.add(i).write(_mm512_cmpeq_epi8_mask(pattern, symbol));
            }
        }
    }

    #[inline(always)]
    unsafe fn add<const W: usize>(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the caller promises the instruction set.
        unsafe {
            match W {
                16 => _mm512_add_epi16(a, b),
                32 => _mm512_add_epi32(a, b),
                _ => _mm512_add_epi64(a, b),
            }
        }
    }

    #[inline(always)]
    unsafe fn lowest<const W: usize>(a: __m512i) -> __m512i {
        // SAFETY: the caller promises the instruction set.
        unsafe {
            let zero = _mm512_setzero_si512();
            let negative = match W {
                16 => _mm512_sub_epi16(zero, a),
                32 => _mm512_sub_epi32(zero, a),
                _ => _mm512_sub_epi64(zero, a),
            };
            _mm512_and_si512(a, negative)
        }
    }

    #[inline(always)]
    unsafe fn where_any<const W: usize>(seen: __m512i, a: __m512i) -> __m512i {
        // SAFETY: the caller promises the instruction set.
        unsafe {
            match W {
                16 => _mm512_maskz_mov_epi16(_mm512_test_epi16_mask(seen, seen), a),
                32 => _mm512_maskz_mov_epi32(_mm512_test_epi32_mask(seen, seen), a),
                _ => _mm512_maskz_mov_epi64(_mm512_test_epi64_mask(seen, seen), a),
            }
        }
    }

    #[inline(always)]
    unsafe fn sub<const W: usize>(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the caller promises the instruction set.
        unsafe {
            match W {
                16 => _mm512_sub_epi16(a, b),
                32 => _mm512_sub_epi32(a, b),
                _ => _mm512_sub_epi64(a, b),
            }
        }
    }

    #[inline(always)]
    unsafe fn splat_lanes<const W: usize>(value: u16) -> __m512i {
        // SAFETY: the caller promises the instruction set.
        unsafe {
            match W {
                16 => _mm512_set1_epi16(value as i16),
                32 => _mm512_set1_epi32(i32::from(value)),
                _ => _mm512_set1_epi64(i64::from(value)),
            }
        }
    }

    #[inline(always)]
    unsafe fn sign<const W: usize>(a: __m512i) -> __m512i {
        // SAFETY: the caller promises the instruction set.
        unsafe {
            match W {
                16 => _mm512_srli_epi16::<15>(a),
                32 => _mm512_srli_epi32::<31>(a),
                _ => _mm512_srli_epi64::<63>(a),
            }
        }
    }

    #[inline(always)]
    unsafe fn half<const W: usize>(a: __m512i) -> __m512i {
        // SAFETY: the caller promises the instruction set.
        unsafe {
            match W {
                16 => _mm512_srli_epi16::<1>(a),
                32 => _mm512_srli_epi32::<1>(a),
                _ => _mm512_srli_epi64::<1>(a),
            }
        }
    }
}

impl<const VBMI: bool> Words for Avx512<VBMI> {
    type W = __m512i;

    intrinsics! {
        fn splat_words(value: u64) -> __m512i = _mm512_set1_epi64(value as i64);
        fn load_words(from: *const u64) -> __m512i = _mm512_loadu_si512(from.cast());
        fn none_beyond(a: __m512i, b: __m512i) -> u8 = {
            let beyond = _mm512_andnot_si512(b, a);
            _mm512_testn_epi64_mask(beyond, beyond)
        };
        fn few_beyond(a: __m512i, b: __m512i, most: u32) -> u8 = _mm512_cmple_epu64_mask(
            _mm512_popcnt_epi64(_mm512_andnot_si512(b, a)),
            _mm512_set1_epi64(i64::from(most))
        );
    }

    #[inline(always)]
    unsafe fn compress(to: *mut u32, first: u32, mask: u8) {
        // SAFETY: the caller promises the instruction set and a writable place.
        unsafe {
            let numbers = _mm256_add_epi32(
                _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
                _mm256_set1_epi32(first as i32),
            );
            _mm256_storeu_si256(to.cast(), _mm256_maskz_compress_epi32(mask, numbers));
        }
    }
}
