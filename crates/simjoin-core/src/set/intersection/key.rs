//! Integers of 32 and 64 bits, by their order.

use crate::simd::Simd;

use super::{ascending, merge};

/// An integer type, with the kernels compiled for it.
pub trait Key: Copy + Ord + Send + Sync {
    /// The bytes of a key.
    const BYTES: usize;
    /// The least key.
    const LEAST: Self;

    /// A number whose order is that of the keys.
    fn rank(self) -> u64;

    /// The key of a rank.
    fn of_rank(rank: u64) -> Self;

    /// The number of common keys of two ascending runs.
    fn merge(simd: Simd, a: &[Self], b: &[Self]) -> u64;

    /// Whether each key is greater than the one before.
    fn ascends(simd: Simd, keys: &[Self]) -> bool;
}

/// A signed integer type.
pub trait SignedKey: Key {
    type Unsigned: Key;

    /// The values of a run that are not negative, as unsigned numbers.
    fn not_negative(run: &[Self]) -> &[Self::Unsigned];
}

macro_rules! signed_key {
    ($type:ty, $unsigned:ty) => {
        impl SignedKey for $type {
            type Unsigned = $unsigned;

            fn not_negative(run: &[Self]) -> &[$unsigned] {
                let run = &run[run.partition_point(|&key| key < 0)..];
                // SAFETY: both types have the same size, alignment and valid values.
                unsafe { std::slice::from_raw_parts(run.as_ptr().cast(), run.len()) }
            }
        }
    };
}

signed_key!(i32, u32);
signed_key!(i64, u64);

macro_rules! key {
    ($type:ty, $bits:ty, $merge:ident, $ascends:ident) => {
        impl Key for $type {
            const BYTES: usize = size_of::<$type>();
            const LEAST: Self = <$type>::MIN;

            #[inline(always)]
            fn rank(self) -> u64 {
                // Both are moved so that the least key has rank 0.
                u64::from((self as $bits).wrapping_sub(<$type>::MIN as $bits))
            }

            #[inline(always)]
            fn of_rank(rank: u64) -> Self {
                (rank as $bits).wrapping_add(<$type>::MIN as $bits) as $type
            }

            #[inline]
            fn merge(simd: Simd, a: &[Self], b: &[Self]) -> u64 {
                merge::$merge(simd, a, b)
            }

            #[inline]
            fn ascends(simd: Simd, keys: &[Self]) -> bool {
                ascending::$ascends(simd, keys)
            }
        }
    };
}

key!(u32, u32, merge_u32, ascends_u32);
key!(i32, u32, merge_i32, ascends_i32);
key!(u64, u64, merge_u64, ascends_u64);
key!(i64, u64, merge_i64, ascends_i64);
