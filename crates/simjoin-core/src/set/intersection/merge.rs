//! Merges of blocks, several in turn.

use super::path::cut;
use crate::simd::{Blocks, kernels};

/// Merges that go on in turn. Each step of one waits for the values that its last step left: with
/// several, there is always one that need not wait.
const MERGES: usize = 4;
/// From this many values on, several merges pay.
const SEVERAL: usize = 256;
/// No block is wider.
const WIDEST: usize = 8;

/// The parts that two merges have left.
struct MergeRest<T> {
    a: *const T,
    b: *const T,
    a_end: *const T,
    b_end: *const T,
}

impl<T> Clone for MergeRest<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for MergeRest<T> {}

impl<T: Copy> MergeRest<T> {
    fn new(a: &[T], b: &[T]) -> Self {
        let (a, b) = (a.as_ptr_range(), b.as_ptr_range());
        Self { a: a.start, b: b.start, a_end: a.end, b_end: b.end }
    }

    /// The values that are left.
    ///
    /// # Safety
    ///
    /// Places lie within the slices that this was made of, which outlive the result.
    #[inline(always)]
    unsafe fn slices<'a>(&self) -> (&'a [T], &'a [T]) {
        // SAFETY: the caller promises it.
        unsafe {
            let a = self.a_end.offset_from_unsigned(self.a);
            let b = self.b_end.offset_from_unsigned(self.b);
            (std::slice::from_raw_parts(self.a, a), std::slice::from_raw_parts(self.b, b))
        }
    }

    /// Steps of which none leaves either slice.
    ///
    /// # Safety
    ///
    /// As for [`Self::slices`].
    #[inline(always)]
    unsafe fn steps(&self, width: usize) -> usize {
        // SAFETY: the caller promises it.
        let (a, b) = unsafe { self.slices() };
        a.len().min(b.len()) / width
    }
}

/// The number of common values of two runs. Slices that are no runs give any number.
///
/// `T` are the bits of the values of type `K`.
#[inline(always)]
unsafe fn merge<S: Blocks<T>, T: Copy, K: Copy + Ord, const SIGNED: bool>(a: &[K], b: &[K]) -> u64 {
    const { assert!(size_of::<T>() == size_of::<K>() && S::WIDTH <= WIDEST) };
    // SAFETY: the caller has the instructions of `S`.
    unsafe {
        if a.len() + b.len() < SEVERAL {
            return one::<S, T, K, SIGNED>(a, b, S::none());
        }
        let mut rests = [MergeRest::new(a, b); MERGES];
        let (mut i, mut j) = (0, 0);
        for (number, rest) in rests.iter_mut().enumerate() {
            let (mut to_a, mut to_b) = (a.len(), b.len());
            if number + 1 < MERGES {
                (to_a, to_b) = cut(a, b, (a.len() + b.len()) / MERGES * (number + 1));
            }
            // Slices that are no runs have cuts in any order.
            (to_a, to_b) = (to_a.max(i), to_b.max(j));
            *rest = MergeRest::new(&a[i..to_a], &b[j..to_b]);
            (i, j) = (to_a, to_b);
        }
        let mut counts = [S::none(); MERGES];
        loop {
            let steps = rests.iter().map(|rest| rest.steps(S::WIDTH)).min().unwrap_or(0);
            if steps == 0 {
                break;
            }
            // Places alone, which stay in registers.
            let (mut a, mut b) = (rests.map(|rest| rest.a), rests.map(|rest| rest.b));
            for _ in 0..steps {
                for number in 0..MERGES {
                    let (count, from_a, from_b) =
                        S::merge::<SIGNED>(counts[number], a[number].cast(), b[number].cast());
                    counts[number] = count;
                    a[number] = a[number].add(from_a);
                    b[number] = b[number].add(from_b);
                }
            }
            for number in 0..MERGES {
                (rests[number].a, rests[number].b) = (a[number], b[number]);
            }
        }
        let mut total = 0;
        for (rest, count) in rests.iter().zip(counts) {
            let (a, b) = rest.slices();
            total += one::<S, T, K, SIGNED>(a, b, count);
        }
        total
    }
}

/// One merge to its end.
#[inline(always)]
unsafe fn one<S: Blocks<T>, T: Copy, K: Copy + Ord, const SIGNED: bool>(
    a: &[K],
    b: &[K],
    mut count: S::Count,
) -> u64 {
    // SAFETY: the caller has the instructions of `S`, and no step goes beyond a slice.
    unsafe {
        let mut rest = MergeRest::new(a, b);
        loop {
            let steps = rest.steps(S::WIDTH);
            if steps == 0 {
                break;
            }
            for _ in 0..steps {
                let (now, from_a, from_b) = S::merge::<SIGNED>(count, rest.a.cast(), rest.b.cast());
                count = now;
                rest.a = rest.a.add(from_a);
                rest.b = rest.b.add(from_b);
            }
        }
        let (a, b) = rest.slices();
        let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
        S::total(count) + last::<S, T, K>(short, long)
    }
}

/// Counts the values of less than a block in what is left of the other run.
#[inline(always)]
unsafe fn last<S: Blocks<T>, T: Copy, K: Copy + Ord>(short: &[K], long: &[K]) -> u64 {
    let Some(&greatest) = short.last() else { return 0 };
    // A block may have a value several times where the other one has no value twice.
    let mut few = [greatest; WIDEST];
    few[..short.len()].copy_from_slice(short);
    let mut common = 0;
    for block in long.chunks(S::WIDTH) {
        let mut values = [greatest; WIDEST];
        values[..block.len()].copy_from_slice(block);
        // SAFETY: the caller has the instructions of `S`; both arrays hold a block.
        let lanes = unsafe { S::common(values.as_ptr().cast(), few.as_ptr().cast()) };
        common += u64::from((lanes & ((1 << block.len()) - 1)).count_ones());
        if block[block.len() - 1] >= greatest {
            break;
        }
    }
    common
}

/// [`merge`] for the instruction sets of the processor.
macro_rules! merges {
    ($name:ident, $key:ty, $bits:ty, $signed:expr) => {
        kernels! {
            pub(super) fn $name[S: Blocks<$bits>, ](a: &[$key], b: &[$key]) -> u64 {
                // SAFETY: `kernels!` provides the instructions.
                unsafe { merge::<S, $bits, $key, $signed>(a, b) }
            }
        }
    };
}

merges!(merge_u32, u32, u32, false);
merges!(merge_i32, i32, u32, true);
merges!(merge_u64, u64, u64, false);
merges!(merge_i64, i64, u64, true);
