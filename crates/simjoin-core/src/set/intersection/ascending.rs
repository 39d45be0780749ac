//! Whether values ascend strictly: one pass without a branch for each.

use crate::simd::{Lanes, kernels};

/// Values between two looks at what was found.
const STRETCH: usize = 512;

/// Whether each value is greater than the one before.
#[inline(always)]
fn ascends<K: Ord>(keys: &[K]) -> bool {
    let Some(pairs) = keys.len().checked_sub(1) else { return true };
    let (before, after) = (&keys[..pairs], &keys[1..]);
    let stretches = before.chunks(STRETCH).zip(after.chunks(STRETCH));
    for (before, after) in stretches {
        let mut falls = false;
        for (x, y) in before.iter().zip(after) {
            falls |= x >= y;
        }
        if falls {
            return false;
        }
    }
    true
}

/// [`ascends`] for the instruction sets of the processor.
macro_rules! ascends {
    ($name:ident, $type:ty) => {
        kernels! {
            pub(super) fn $name[S: Lanes, ](keys: &[$type]) -> bool {
                ascends(keys)
            }
        }
    };
}

ascends!(ascends_u32, u32);
ascends!(ascends_i32, i32);
ascends!(ascends_u64, u64);
ascends!(ascends_i64, i64);
