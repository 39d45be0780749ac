//! AVX2: two registers hold all lanes; bytes are looked up by 16 entries of a table at a time.
//!
//! Every `unsafe` block here calls intrinsics alone: the caller of the traits has promised their
//! instruction set and, of loads and stores, that their places are readable or writable.

use std::arch::x86_64::*;

use super::{Lanes, Pairs, Words};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx2;

type V = [__m256i; 2];

/// Defines methods that apply an expression of intrinsics to each half of their arguments. No closures:
/// intrinsics are not inlined into them, since they have no target features.
macro_rules! halves {
    ($(fn $name:ident($($arg:ident),*) = $body:expr;)*) => {$(
        #[inline(always)]
        unsafe fn $name($($arg: V),*) -> V {
            // SAFETY: the caller promises the instruction set.
            unsafe { both!(($($arg),*) $body) }
        }
    )*};
}

/// An expression for each half of the vectors.
macro_rules! both {
    (($($arg:ident),*) $body:expr) => {
        [
            { $(let $arg = $arg[0];)* $body },
            { $(let $arg = $arg[1];)* $body },
        ]
    };
}

impl Lanes for Avx2 {
    type V = V;
    type Offsets = [usize; 8];

    halves! {
        fn and(a, b) = _mm256_and_si256(a, b);
        fn or(a, b) = _mm256_or_si256(a, b);
        fn xor(a, b) = _mm256_xor_si256(a, b);
        fn not(a) = _mm256_xor_si256(a, _mm256_set1_epi8(-1));
        fn or_nor(a, b, c) = {
            let neither = _mm256_andnot_si256(_mm256_or_si256(b, c), _mm256_set1_epi8(-1));
            _mm256_or_si256(a, neither)
        };
        fn add8(a, b) = _mm256_add_epi8(a, b);
        fn add16(a, b) = _mm256_add_epi16(a, b);
        fn half8(a) = _mm256_and_si256(_mm256_srli_epi16::<1>(a), _mm256_set1_epi8(0x7f));
        fn half16(a) = _mm256_srli_epi16::<1>(a);
        fn count8(left, seen, bit) = {
            let missing = _mm256_cmpeq_epi8(_mm256_and_si256(seen, bit), _mm256_setzero_si256());
            _mm256_subs_epu8(left, _mm256_and_si256(missing, _mm256_set1_epi8(1)))
        };
        fn count16(left, seen, bit) = {
            let missing = _mm256_cmpeq_epi16(_mm256_and_si256(seen, bit), _mm256_setzero_si256());
            _mm256_subs_epu16(left, _mm256_and_si256(missing, _mm256_set1_epi16(1)))
        };
    }

    #[inline(always)]
    unsafe fn splat8(value: u8) -> V {
        // SAFETY: the caller promises the instruction set.
        unsafe { [_mm256_set1_epi8(value as i8); 2] }
    }

    #[inline(always)]
    unsafe fn splat16(value: u16) -> V {
        // SAFETY: the caller promises the instruction set.
        unsafe { [_mm256_set1_epi16(value as i16); 2] }
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
    unsafe fn gather(base: *const u8, offsets: [usize; 8]) -> V {
        let mut words = [0; 8];
        for (word, offset) in words.iter_mut().zip(offsets) {
            // SAFETY: the caller promises readable bytes.
            *word = unsafe { base.add(offset).cast::<i64>().read_unaligned() };
        }
        // SAFETY: the caller promises the instruction set.
        unsafe {
            [
                _mm256_setr_epi64x(words[0], words[1], words[2], words[3]),
                _mm256_setr_epi64x(words[4], words[5], words[6], words[7]),
            ]
        }
    }

    #[inline(always)]
    unsafe fn look_up(table: *const u8, codes: V) -> V {
        // SAFETY: the caller promises the instruction set and a readable table.
        unsafe {
            let first = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.cast()));
            let second = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.add(16).cast()));
            let third = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.add(32).cast()));
            let fourth = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.add(48).cast()));
            both!((codes) {
                let place = _mm256_and_si256(codes, _mm256_set1_epi8(15));
                // The bits of 16 and of 32 where a blend reads its choice.
                let odd = _mm256_slli_epi16::<3>(codes);
                let upper = _mm256_slli_epi16::<2>(codes);
                let low = _mm256_blendv_epi8(
                    _mm256_shuffle_epi8(first, place),
                    _mm256_shuffle_epi8(second, place),
                    odd,
                );
                let high = _mm256_blendv_epi8(
                    _mm256_shuffle_epi8(third, place),
                    _mm256_shuffle_epi8(fourth, place),
                    odd,
                );
                _mm256_blendv_epi8(low, high, upper)
            })
        }
    }

    #[inline(always)]
    unsafe fn set_bit7(a: V, code: u8) -> V {
        // SAFETY: the caller promises the instruction set.
        unsafe {
            let lanes = _mm256_setr_epi8(
                0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22,
                23, 24, 25, 26, 27, 28, 29, 30, 31,
            );
            let lane = (code % 64) as i8;
            let lane = [_mm256_set1_epi8(lane), _mm256_set1_epi8(lane.wrapping_sub(32))];
            both!((a, lane) {
                let here = _mm256_cmpeq_epi8(lanes, lane);
                _mm256_or_si256(a, _mm256_and_si256(here, _mm256_set1_epi8(i8::MIN)))
            })
        }
    }

    #[inline(always)]
    unsafe fn unpack(low: V, high: V) -> [V; 2] {
        // SAFETY: the caller promises the instruction set.
        unsafe {
            both!((low, high) {
                [_mm256_unpacklo_epi8(low, high), _mm256_unpackhi_epi8(low, high)]
            })
        }
    }

    #[inline(always)]
    unsafe fn pack(lanes: [V; 2]) -> V {
        // SAFETY: the caller promises the instruction set.
        unsafe { both!((lanes) _mm256_packus_epi16(lanes[0], lanes[1])) }
    }

    #[inline(always)]
    unsafe fn any(a: V) -> bool {
        // SAFETY: the caller promises the instruction set.
        unsafe {
            let both = _mm256_or_si256(a[0], a[1]);
            _mm256_testz_si256(both, both) == 0
        }
    }

    #[inline(always)]
    unsafe fn nonzero(a: V) -> u64 {
        // SAFETY: the caller promises the instruction set.
        let zero = unsafe {
            both!((a) _mm256_movemask_epi8(_mm256_cmpeq_epi8(a, _mm256_setzero_si256())))
        };
        !(u64::from(zero[0] as u32) | u64::from(zero[1] as u32) << 32)
    }

    #[inline(always)]
    unsafe fn store(to: *mut u8, a: V) {
        // SAFETY: the caller promises the instruction set and writable bytes.
        unsafe {
            _mm256_storeu_si256(to.cast(), a[0]);
            _mm256_storeu_si256(to.add(32).cast(), a[1]);
        }
    }
}

/// The bytes of 32 bytes of patterns that equal byte `column` of the text of their lane.
///
/// # Safety
///
/// The processor has AVX2, and the texts and patterns at `at` are readable.
#[inline(always)]
unsafe fn equal_half<const W: usize>(
    patterns: *const u8,
    texts: *const u8,
    at: usize,
    column: usize,
) -> u32 {
    // SAFETY: the caller promises the instruction set and readable bytes.
    unsafe {
        let pattern = _mm256_loadu_si256(patterns.add(at).cast());
        let symbol = if W == 16 {
            let text = _mm256_loadu_si256(texts.add(at).cast());
            _mm256_shuffle_epi8(text, _mm256_set1_epi8(column as i8))
        } else {
            _mm256_set1_epi8(*texts.add(at / W * W + column) as i8)
        };
        _mm256_movemask_epi8(_mm256_cmpeq_epi8(pattern, symbol)) as u32
    }
}

impl Pairs for Avx2 {
    #[inline(always)]
    unsafe fn load(from: *const u8) -> V {
        // SAFETY: the caller promises the instruction set and readable bytes.
        unsafe { [_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(32).cast())] }
    }

    #[inline(always)]
    unsafe fn equal<const W: usize>(
        to: *mut u64,
        patterns: *const u8,
        texts: *const u8,
        column: usize,
    ) {
        for i in 0..8 {
            // SAFETY: the caller promises the instruction set and readable bytes.
            unsafe {
                let low = equal_half::<W>(patterns, texts, 64 * i, column);
                let high = equal_half::<W>(patterns, texts, 64 * i + 32, column);
                to.add(i).write(u64::from(low) | u64::from(high) << 32);
            }
        }
    }

    #[inline(always)]
    unsafe fn add<const W: usize>(a: V, b: V) -> V {
        // SAFETY: the caller promises the instruction set.
        unsafe {
            match W {
                16 => both!((a, b) _mm256_add_epi16(a, b)),
                32 => both!((a, b) _mm256_add_epi32(a, b)),
                _ => both!((a, b) _mm256_add_epi64(a, b)),
            }
        }
    }

    #[inline(always)]
    unsafe fn lowest<const W: usize>(a: V) -> V {
        // SAFETY: the caller promises the instruction set.
        unsafe {
            both!((a) {
                let zero = _mm256_setzero_si256();
                let negative = match W {
                    16 => _mm256_sub_epi16(zero, a),
                    32 => _mm256_sub_epi32(zero, a),
                    _ => _mm256_sub_epi64(zero, a),
                };
                _mm256_and_si256(a, negative)
            })
        }
    }

    #[inline(always)]
    unsafe fn sub<const W: usize>(a: V, b: V) -> V {
        // SAFETY: the caller promises the instruction set.
        unsafe {
            match W {
                16 => both!((a, b) _mm256_sub_epi16(a, b)),
                32 => both!((a, b) _mm256_sub_epi32(a, b)),
                _ => both!((a, b) _mm256_sub_epi64(a, b)),
            }
        }
    }

    #[inline(always)]
    unsafe fn where_any<const W: usize>(seen: V, a: V) -> V {
        // SAFETY: the caller promises the instruction set.
        unsafe {
            both!((seen, a) {
                let zero = _mm256_setzero_si256();
                let none = match W {
                    16 => _mm256_cmpeq_epi16(seen, zero),
                    32 => _mm256_cmpeq_epi32(seen, zero),
                    _ => _mm256_cmpeq_epi64(seen, zero),
                };
                _mm256_andnot_si256(none, a)
            })
        }
    }

    #[inline(always)]
    unsafe fn unpack32(low: V, high: V) -> [V; 2] {
        // SAFETY: the caller promises the instruction set.
        unsafe {
            both!((low, high) {
                [_mm256_unpacklo_epi16(low, high), _mm256_unpackhi_epi16(low, high)]
            })
        }
    }

    #[inline(always)]
    unsafe fn pack32(lanes: [V; 2]) -> V {
        // SAFETY: the caller promises the instruction set.
        unsafe { both!((lanes) _mm256_packus_epi32(lanes[0], lanes[1])) }
    }

    #[inline(always)]
    unsafe fn splat_lanes<const W: usize>(value: u16) -> V {
        // SAFETY: the caller promises the instruction set.
        let half = unsafe {
            match W {
                16 => _mm256_set1_epi16(value as i16),
                32 => _mm256_set1_epi32(i32::from(value)),
                _ => _mm256_set1_epi64x(i64::from(value)),
            }
        };
        [half; 2]
    }

    #[inline(always)]
    unsafe fn sign<const W: usize>(a: V) -> V {
        // SAFETY: the caller promises the instruction set.
        unsafe {
            match W {
                16 => both!((a) _mm256_srli_epi16::<15>(a)),
                32 => both!((a) _mm256_srli_epi32::<31>(a)),
                _ => both!((a) _mm256_srli_epi64::<63>(a)),
            }
        }
    }

    #[inline(always)]
    unsafe fn half<const W: usize>(a: V) -> V {
        // SAFETY: the caller promises the instruction set.
        unsafe {
            match W {
                16 => both!((a) _mm256_srli_epi16::<1>(a)),
                32 => both!((a) _mm256_srli_epi32::<1>(a)),
                _ => both!((a) _mm256_srli_epi64::<1>(a)),
            }
        }
    }
}

/// The number of bits of each word (Muła, Kurz, Lemire: "Faster population counts using AVX2
/// instructions", The Computer Journal 2018).
#[inline(always)]
unsafe fn count_bits(v: __m256i) -> __m256i {
    // SAFETY: the caller promises the instruction set.
    unsafe {
        let table = _mm256_setr_epi8(
            0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2,
            3, 3, 4,
        );
        let nibble = _mm256_set1_epi8(15);
        let low = _mm256_shuffle_epi8(table, _mm256_and_si256(v, nibble));
        let high = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16::<4>(v), nibble));
        _mm256_sad_epu8(_mm256_add_epi8(low, high), _mm256_setzero_si256())
    }
}

impl Words for Avx2 {
    type W = V;

    #[inline(always)]
    unsafe fn splat_words(value: u64) -> V {
        // SAFETY: the caller promises the instruction set.
        unsafe { [_mm256_set1_epi64x(value as i64); 2] }
    }

    #[inline(always)]
    unsafe fn load_words(from: *const u64) -> V {
        // SAFETY: the caller promises the instruction set and readable words.
        unsafe { [_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(4).cast())] }
    }

    #[inline(always)]
    unsafe fn none_beyond(a: V, b: V) -> u8 {
        // SAFETY: the caller promises the instruction set.
        let none = unsafe {
            both!((a, b) {
                let none = _mm256_cmpeq_epi64(_mm256_andnot_si256(b, a), _mm256_setzero_si256());
                _mm256_movemask_pd(_mm256_castsi256_pd(none)) as u8
            })
        };
        none[0] | none[1] << 4
    }

    #[inline(always)]
    unsafe fn few_beyond(a: V, b: V, most: u32) -> u8 {
        // SAFETY: the caller promises the instruction set.
        let many = unsafe {
            both!((a, b) {
                let bits = count_bits(_mm256_andnot_si256(b, a));
                let many = _mm256_cmpgt_epi64(bits, _mm256_set1_epi64x(i64::from(most)));
                _mm256_movemask_pd(_mm256_castsi256_pd(many)) as u8
            })
        };
        !(many[0] | many[1] << 4)
    }

    #[inline(always)]
    unsafe fn compress(to: *mut u32, first: u32, mask: u8) {
        // SAFETY: the caller promises a place for eight numbers.
        unsafe { super::portable::compress(to, first, mask) }
    }
}
