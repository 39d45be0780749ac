//! Blocks of two ascending runs: which values they share, and how far a merge has got behind them.
//!
//! A merge of two runs of distinct values that compares a block of each with all of the other, then
//! leaves behind what cannot meet a later block, branches on no single value. Comparing all pairs of
//! two registers after rotations is of Schlegel, Willhalm, Lehner ("Fast sorted-set intersection
//! using SIMD instructions", ADMS 2011). There, a step leaves one block behind; here, it leaves the
//! values of the other block behind too that are not beyond, nearly twice as many.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

/// Blocks of `WIDTH` values of the type `T`, which is `u32` or `u64`.
///
/// # Safety
///
/// As for [`Words`](super::Words).
pub trait Blocks<T>: Copy {
    const WIDTH: usize;
    /// Counts of each lane; no lane counts beyond `u32::MAX` steps.
    type Count: Copy;

    unsafe fn none() -> Self::Count;
    /// Adds the number of values of the block at `a` that the block at `b` has as well, and says how
    /// many values of each are not beyond the last of the other: at least one of both is `WIDTH` if
    /// both blocks ascend, and positive in any case. `SIGNED` values are compared as signed numbers.
    unsafe fn merge<const SIGNED: bool>(
        count: Self::Count,
        a: *const T,
        b: *const T,
    ) -> (Self::Count, usize, usize);
    /// The sum of all counts.
    unsafe fn total(count: Self::Count) -> u64;
    /// The lanes of the block at `a` whose values the block at `b` has as well; both may have
    /// values several times.
    unsafe fn common(a: *const T, b: *const T) -> u32;
}
