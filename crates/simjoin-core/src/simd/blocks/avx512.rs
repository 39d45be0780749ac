//! The blocks of AVX2: comparisons of AVX-512 go to mask registers, of which a processor fills one
//! in a cycle, where it makes two or four comparisons into vectors.

use super::Blocks;
use crate::simd::{Avx2, Avx512};

macro_rules! blocks {
    ($bits:ty) => {
        impl Blocks<$bits> for Avx512 {
            const WIDTH: usize = <Avx2 as Blocks<$bits>>::WIDTH;
            type Count = <Avx2 as Blocks<$bits>>::Count;

            #[inline(always)]
            unsafe fn none() -> Self::Count {
                // SAFETY: the caller promises AVX-512, of which AVX2 is part.
                unsafe { <Avx2 as Blocks<$bits>>::none() }
            }

            #[inline(always)]
            unsafe fn merge<const SIGNED: bool>(
                count: Self::Count,
                a: *const $bits,
                b: *const $bits,
            ) -> (Self::Count, usize, usize) {
                // SAFETY: as above; the caller promises readable values.
                unsafe { <Avx2 as Blocks<$bits>>::merge::<SIGNED>(count, a, b) }
            }

            #[inline(always)]
            unsafe fn total(count: Self::Count) -> u64 {
                // SAFETY: as above.
                unsafe { <Avx2 as Blocks<$bits>>::total(count) }
            }

            #[inline(always)]
            unsafe fn common(a: *const $bits, b: *const $bits) -> u32 {
                // SAFETY: as above; the caller promises readable values.
                unsafe { <Avx2 as Blocks<$bits>>::common(a, b) }
            }
        }
    };
}

blocks!(u32);
blocks!(u64);
