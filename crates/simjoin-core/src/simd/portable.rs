//! Arrays of lanes, for every processor.

use super::{Bytes, Floats, Lanes, Words};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Portable;

impl Words for Portable {
    type Word = [u64; 8];
    type Count = [u64; 8];

    #[inline(always)]
    unsafe fn load(from: *const u64) -> [u64; 8] {
        // SAFETY: the caller promises eight readable words.
        unsafe { from.cast::<[u64; 8]>().read() }
    }

    #[inline(always)]
    unsafe fn splat(word: u64) -> [u64; 8] {
        [word; 8]
    }

    #[inline(always)]
    unsafe fn zero() -> [u64; 8] {
        [0; 8]
    }

    #[inline(always)]
    unsafe fn add_common(count: [u64; 8], a: [u64; 8], b: [u64; 8]) -> [u64; 8] {
        std::array::from_fn(|i| count[i] + u64::from((a[i] & b[i]).count_ones()))
    }

    #[inline(always)]
    unsafe fn at_least(count: [u64; 8], least: i64) -> u8 {
        mask::<8>(|i| count[i] as i64 >= least) as u8
    }
}

#[inline(always)]
fn mask<const N: usize>(holds: impl Fn(usize) -> bool) -> u16 {
    let mut mask = 0;
    for i in 0..N {
        mask |= u16::from(holds(i)) << i;
    }
    mask
}

impl Lanes for Portable {
    type Vector = [u32; 16];

    #[inline(always)]
    unsafe fn load(from: *const u32) -> [u32; 16] {
        // SAFETY: the caller promises sixteen readable values; arrays of u32 need no more
        // alignment.
        unsafe { from.cast::<[u32; 16]>().read() }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u32, count: usize) -> [u32; 16] {
        // SAFETY: the caller promises `count` readable values, 16 at most.
        std::array::from_fn(|i| if i < count { unsafe { from.add(i).read() } } else { 0 })
    }

    #[inline(always)]
    unsafe fn splat(value: u32) -> [u32; 16] {
        [value; 16]
    }

    #[inline(always)]
    unsafe fn add(a: [u32; 16], b: [u32; 16]) -> [u32; 16] {
        std::array::from_fn(|i| a[i].wrapping_add(b[i]))
    }

    #[inline(always)]
    unsafe fn differing(a: [u32; 16], b: [u32; 16]) -> [u32; 16] {
        std::array::from_fn(|i| (a[i] ^ b[i]).count_ones())
    }

    #[inline(always)]
    unsafe fn shift_left<const SHIFT: u32>(count: [u32; 16]) -> [u32; 16] {
        count.map(|v| v << SHIFT)
    }

    #[inline(always)]
    unsafe fn high(value: [u32; 16]) -> [u32; 16] {
        value.map(|v| v >> 16)
    }

    #[inline(always)]
    unsafe fn low(value: [u32; 16]) -> [u32; 16] {
        value.map(|v| v & 0xFFFF)
    }

    #[inline(always)]
    unsafe fn sub(a: [u32; 16], b: [u32; 16]) -> [u32; 16] {
        std::array::from_fn(|i| a[i].wrapping_sub(b[i]))
    }

    #[inline(always)]
    unsafe fn dot(a: [u32; 16], b: [u32; 16]) -> [u32; 16] {
        let halves = |v: u32| (i32::from(v as i16), i32::from((v >> 16) as i16));
        std::array::from_fn(|i| {
            let ((a0, a1), (b0, b1)) = (halves(a[i]), halves(b[i]));
            (a0 * b0).wrapping_add(a1 * b1) as u32
        })
    }

    #[inline(always)]
    unsafe fn look_up(table: &[u32; 32], index: [u32; 16]) -> [u32; 16] {
        index.map(|i| table[i as usize % 32])
    }

    #[inline(always)]
    unsafe fn less_or_equal(a: [u32; 16], b: [u32; 16]) -> u16 {
        mask::<16>(|i| a[i] as i32 <= b[i] as i32)
    }

    #[inline(always)]
    unsafe fn less(a: [u32; 16], b: [u32; 16]) -> u16 {
        mask::<16>(|i| a[i] < b[i])
    }

    #[inline(always)]
    unsafe fn equal(a: [u32; 16], b: [u32; 16]) -> u16 {
        mask::<16>(|i| a[i] == b[i])
    }
}

impl Floats for Portable {
    type Vector = [f32; 16];

    #[inline(always)]
    unsafe fn load(from: *const f32) -> [f32; 16] {
        // SAFETY: the caller promises sixteen readable values.
        unsafe { from.cast::<[f32; 16]>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store(to: *mut f32, value: [f32; 16]) {
        // SAFETY: the caller promises a writable place for sixteen values.
        unsafe { to.cast::<[f32; 16]>().write_unaligned(value) }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> [f32; 16] {
        [value; 16]
    }

    #[inline(always)]
    unsafe fn add(a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
        std::array::from_fn(|i| a[i] + b[i])
    }

    #[inline(always)]
    unsafe fn sub(a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
        std::array::from_fn(|i| a[i] - b[i])
    }

    #[inline(always)]
    unsafe fn max(a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
        std::array::from_fn(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    unsafe fn add_product(sum: [f32; 16], a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
        std::array::from_fn(|i| sum[i] + a[i] * b[i])
    }

    #[inline(always)]
    unsafe fn less(a: [f32; 16], b: [f32; 16]) -> u16 {
        mask::<16>(|i| a[i] < b[i])
    }
}

impl Bytes for Portable {
    type Vector = [i32; 16];

    #[inline(always)]
    unsafe fn load(from: *const i32) -> [i32; 16] {
        // SAFETY: the caller promises sixteen readable values.
        unsafe { from.cast::<[i32; 16]>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store(to: *mut i32, value: [i32; 16]) {
        // SAFETY: the caller promises a writable place for sixteen values.
        unsafe { to.cast::<[i32; 16]>().write_unaligned(value) }
    }

    #[inline(always)]
    unsafe fn splat(value: i32) -> [i32; 16] {
        [value; 16]
    }

    #[inline(always)]
    unsafe fn add(a: [i32; 16], b: [i32; 16]) -> [i32; 16] {
        std::array::from_fn(|i| a[i].wrapping_add(b[i]))
    }

    #[inline(always)]
    unsafe fn and(a: [i32; 16], b: [i32; 16]) -> [i32; 16] {
        std::array::from_fn(|i| a[i] & b[i])
    }

    #[inline(always)]
    unsafe fn add_products(sum: [i32; 16], a: [i32; 16], b: [i32; 16]) -> [i32; 16] {
        std::array::from_fn(|i| {
            let bytes = a[i].to_ne_bytes().into_iter().zip(b[i].to_ne_bytes());
            let products = bytes.map(|(a, b)| i32::from(a) * i32::from(b as i8));
            sum[i].wrapping_add(products.sum())
        })
    }

    #[inline(always)]
    unsafe fn negative(value: [i32; 16]) -> u16 {
        mask::<16>(|i| value[i] < 0)
    }
}
