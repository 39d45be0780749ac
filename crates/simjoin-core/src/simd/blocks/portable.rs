//! Blocks of one value: several runs merged in turn keep a processor busy without vectors.

use super::Blocks;
use crate::simd::Portable;

macro_rules! blocks {
    ($bits:ty, $signed:ty) => {
        impl Blocks<$bits> for Portable {
            const WIDTH: usize = 1;
            type Count = u64;

            #[inline(always)]
            unsafe fn none() -> u64 {
                0
            }

            #[inline(always)]
            unsafe fn merge<const SIGNED: bool>(
                count: u64,
                a: *const $bits,
                b: *const $bits,
            ) -> (u64, usize, usize) {
                // SAFETY: the caller promises readable values.
                let (x, y) = unsafe { (a.read(), b.read()) };
                let flip = if SIGNED { <$signed>::MIN as $bits } else { 0 };
                let (x, y) = (x ^ flip, y ^ flip);
                (count + u64::from(x == y), usize::from(x <= y), usize::from(y <= x))
            }

            #[inline(always)]
            unsafe fn total(count: u64) -> u64 {
                count
            }

            #[inline(always)]
            unsafe fn common(a: *const $bits, b: *const $bits) -> u32 {
                // SAFETY: the caller promises readable values.
                unsafe { u32::from(a.read() == b.read()) }
            }
        }
    };
}

blocks!(u32, i32);
blocks!(u64, i64);
