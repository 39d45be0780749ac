//! Arrays, which the compiler makes vectors of where the target has any.

use super::{Lanes, Pairs, Words};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Portable;

type V = [u8; 64];

/// A lane of 16 bits.
fn wide(a: &V, lane: usize) -> u16 {
    u16::from_le_bytes([a[2 * lane], a[2 * lane + 1]])
}

/// The vector of 32 lanes of 16 bits.
fn wide_lanes(lane: impl Fn(usize) -> u16) -> V {
    let mut result = [0; 64];
    for (i, bytes) in result.chunks_exact_mut(2).enumerate() {
        bytes.copy_from_slice(&lane(i).to_le_bytes());
    }
    result
}

/// Writes `first + i` for each bit `i` of `mask`, each over the last that was not wanted.
///
/// # Safety
///
/// Eight numbers can be written to `to`.
#[inline(always)]
pub(super) unsafe fn compress(to: *mut u32, first: u32, mask: u8) {
    let mut len = 0;
    for i in 0..8 {
        // SAFETY: at most seven numbers were written before.
        unsafe { to.add(len).write(first.wrapping_add(i)) };
        len += usize::from(mask >> i & 1);
    }
}

impl Lanes for Portable {
    type V = V;
    type Offsets = [usize; 8];

    #[inline(always)]
    unsafe fn splat8(value: u8) -> V {
        [value; 64]
    }

    #[inline(always)]
    unsafe fn splat16(value: u16) -> V {
        wide_lanes(|_| value)
    }

    #[inline(always)]
    unsafe fn offsets(groups: *const u32, stride: usize) -> [usize; 8] {
        // SAFETY: the caller promises eight readable numbers.
        std::array::from_fn(|i| unsafe { *groups.add(i) } as usize * stride)
    }

    #[inline(always)]
    unsafe fn gather(base: *const u8, offsets: [usize; 8]) -> V {
        let mut result = [0; 64];
        for (bytes, offset) in result.chunks_exact_mut(8).zip(offsets) {
            // SAFETY: the caller promises eight readable bytes.
            bytes.copy_from_slice(unsafe { &*base.add(offset).cast::<[u8; 8]>() });
        }
        result
    }

    #[inline(always)]
    unsafe fn look_up(table: *const u8, codes: V) -> V {
        // SAFETY: the caller promises a readable table.
        let table = unsafe { &*table.cast::<[u8; 64]>() };
        codes.map(|code| table[usize::from(code % 64)])
    }

    #[inline(always)]
    unsafe fn and(a: V, b: V) -> V {
        std::array::from_fn(|i| a[i] & b[i])
    }

    #[inline(always)]
    unsafe fn or(a: V, b: V) -> V {
        std::array::from_fn(|i| a[i] | b[i])
    }

    #[inline(always)]
    unsafe fn xor(a: V, b: V) -> V {
        std::array::from_fn(|i| a[i] ^ b[i])
    }

    #[inline(always)]
    unsafe fn not(a: V) -> V {
        a.map(|x| !x)
    }

    #[inline(always)]
    unsafe fn or_nor(a: V, b: V, c: V) -> V {
        std::array::from_fn(|i| a[i] | !(b[i] | c[i]))
    }

    #[inline(always)]
    unsafe fn add8(a: V, b: V) -> V {
        std::array::from_fn(|i| a[i].wrapping_add(b[i]))
    }

    #[inline(always)]
    unsafe fn add16(a: V, b: V) -> V {
        wide_lanes(|i| wide(&a, i).wrapping_add(wide(&b, i)))
    }

    #[inline(always)]
    unsafe fn half8(a: V) -> V {
        a.map(|x| x >> 1)
    }

    #[inline(always)]
    unsafe fn half16(a: V) -> V {
        wide_lanes(|i| wide(&a, i) >> 1)
    }

    #[inline(always)]
    unsafe fn set_bit7(mut a: V, code: u8) -> V {
        a[usize::from(code % 64)] |= 0x80;
        a
    }

    #[inline(always)]
    unsafe fn count8(left: V, seen: V, bit: V) -> V {
        std::array::from_fn(|i| left[i].saturating_sub(u8::from(seen[i] & bit[i] == 0)))
    }

    #[inline(always)]
    unsafe fn count16(left: V, seen: V, bit: V) -> V {
        wide_lanes(|i| {
            wide(&left, i).saturating_sub(u16::from(wide(&seen, i) & wide(&bit, i) == 0))
        })
    }

    #[inline(always)]
    unsafe fn unpack(low: V, high: V) -> [V; 2] {
        let half =
            |first: usize| wide_lanes(|i| u16::from_le_bytes([low[first + i], high[first + i]]));
        [half(0), half(32)]
    }

    #[inline(always)]
    unsafe fn pack(lanes: [V; 2]) -> V {
        std::array::from_fn(|i| lanes[i / 32][2 * (i % 32)])
    }

    #[inline(always)]
    unsafe fn any(a: V) -> bool {
        a.iter().fold(0, |any, x| any | x) != 0
    }

    #[inline(always)]
    unsafe fn nonzero(a: V) -> u64 {
        a.iter().enumerate().fold(0, |mask, (i, &x)| mask | u64::from(x != 0) << i)
    }

    #[inline(always)]
    unsafe fn store(to: *mut u8, a: V) {
        // SAFETY: the caller promises 64 writable bytes.
        unsafe { to.copy_from_nonoverlapping(a.as_ptr(), 64) }
    }
}

/// Applies a function to the lanes of `W` bits of vectors.
#[inline(always)]
fn lanes<const W: usize, const N: usize>(of: [&V; N], lane: impl Fn([u64; N]) -> u64) -> V {
    let bytes = W / 8;
    let mut result = [0; 64];
    for at in (0..64).step_by(bytes) {
        let number = |v: &V| {
            let mut wide = [0; 8];
            wide[..bytes].copy_from_slice(&v[at..at + bytes]);
            u64::from_le_bytes(wide)
        };
        result[at..at + bytes].copy_from_slice(&lane(of.map(number)).to_le_bytes()[..bytes]);
    }
    result
}

impl Pairs for Portable {
    #[inline(always)]
    unsafe fn load(from: *const u8) -> V {
        // SAFETY: the caller promises readable bytes.
        unsafe { *from.cast::<V>() }
    }

    #[inline(always)]
    unsafe fn equal<const W: usize>(
        to: *mut u64,
        patterns: *const u8,
        texts: *const u8,
        column: usize,
    ) {
        // SAFETY: the caller promises 512 readable bytes each, and eight writable words.
        let (to, patterns, texts) = unsafe {
            (
                &mut *to.cast::<[u64; 8]>(),
                &*patterns.cast::<[u8; 512]>(),
                &*texts.cast::<[u8; 512]>(),
            )
        };
        to.fill(0);
        for at in 0..512 {
            let is_equal = patterns[at] == texts[at / W * W + column];
            to[at / 64] |= u64::from(is_equal) << (at % 64);
        }
    }

    #[inline(always)]
    unsafe fn add<const W: usize>(a: V, b: V) -> V {
        lanes::<W, 2>([&a, &b], |[a, b]| a.wrapping_add(b))
    }

    #[inline(always)]
    unsafe fn lowest<const W: usize>(a: V) -> V {
        lanes::<W, 1>([&a], |[a]| a & a.wrapping_neg())
    }

    #[inline(always)]
    unsafe fn where_any<const W: usize>(seen: V, a: V) -> V {
        lanes::<W, 2>([&seen, &a], |[seen, a]| if seen == 0 { 0 } else { a })
    }

    #[inline(always)]
    unsafe fn unpack32(low: V, high: V) -> [V; 2] {
        let half = |first: usize| {
            let mut result = [0; 64];
            for (i, bytes) in result.chunks_exact_mut(4).enumerate() {
                bytes[..2].copy_from_slice(&wide(&low, first + i).to_le_bytes());
                bytes[2..].copy_from_slice(&wide(&high, first + i).to_le_bytes());
            }
            result
        };
        [half(0), half(16)]
    }

    #[inline(always)]
    unsafe fn pack32(lanes: [V; 2]) -> V {
        wide_lanes(|i| wide(&lanes[i / 16], 2 * (i % 16)))
    }

    #[inline(always)]
    unsafe fn sub<const W: usize>(a: V, b: V) -> V {
        lanes::<W, 2>([&a, &b], |[a, b]| a.wrapping_sub(b))
    }

    #[inline(always)]
    unsafe fn splat_lanes<const W: usize>(value: u16) -> V {
        lanes::<W, 0>([], |[]| value.into())
    }

    #[inline(always)]
    unsafe fn sign<const W: usize>(a: V) -> V {
        lanes::<W, 1>([&a], |[a]| a >> (W - 1))
    }

    #[inline(always)]
    unsafe fn half<const W: usize>(a: V) -> V {
        lanes::<W, 1>([&a], |[a]| a >> 1)
    }
}

impl Words for Portable {
    type W = [u64; 8];

    #[inline(always)]
    unsafe fn splat_words(value: u64) -> [u64; 8] {
        [value; 8]
    }

    #[inline(always)]
    unsafe fn load_words(from: *const u64) -> [u64; 8] {
        // SAFETY: the caller promises eight readable words.
        unsafe { *from.cast::<[u64; 8]>() }
    }

    #[inline(always)]
    unsafe fn none_beyond(a: [u64; 8], b: [u64; 8]) -> u8 {
        (0..8).fold(0, |mask, i| mask | u8::from(a[i] & !b[i] == 0) << i)
    }

    #[inline(always)]
    unsafe fn few_beyond(a: [u64; 8], b: [u64; 8], most: u32) -> u8 {
        (0..8).fold(0, |mask, i| mask | u8::from((a[i] & !b[i]).count_ones() <= most) << i)
    }

    #[inline(always)]
    unsafe fn compress(to: *mut u32, first: u32, mask: u8) {
        // SAFETY: the caller promises a place for eight numbers.
        unsafe { compress(to, first, mask) }
    }
}
