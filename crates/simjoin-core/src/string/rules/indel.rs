//! The distance by insertions and deletions alone: what is left of both strings besides a longest
//! common subsequence, whose length comes from bit vectors (Hyyrö, "Bit-parallel LCS-length
//! computation revisited", AWOCA 2004). Long strings are swept as in [`levenshtein`](super::levenshtein).

use std::ops::ControlFlow;

use super::band::Band;
use super::edits::Edits;
use super::masks::{Masks, Symbol};
use super::meter::{CELLS, Cancelled, Meter};
use super::scratch::Scratch;

/// The columns of a sweep over 64 rows between two questions whether to stop.
const COLUMNS: usize = CELLS / 64;

/// Insertions and deletions.
pub(crate) struct Indel;

impl Edits for Indel {
    const FIRST_BOUND: usize = 128;

    fn most(long: usize, short: usize) -> usize {
        long + short
    }

    #[inline]
    fn in_word<T: Symbol>(
        scratch: &mut Scratch,
        [long, short]: [&[T]; 2],
        k: usize,
    ) -> ControlFlow<Option<usize>> {
        if long.len() > 64 {
            return ControlFlow::Continue(());
        }
        let common = scratch.masks.with(long, |masks| one_word(masks, long.len(), short));
        let distance = long.len() + short.len() - 2 * common;
        ControlFlow::Break(Some(distance).filter(|&distance| distance <= k))
    }

    fn in_band<T: Symbol>(
        scratch: &mut Scratch,
        [long, short]: [&[T]; 2],
        k: usize,
        meter: &mut Meter<'_, impl FnMut() -> bool>,
    ) -> Result<Option<usize>, Cancelled> {
        blocked(scratch, long, short, k, meter)
    }
}

/// The length of a longest common subsequence of a pattern of `rows` (1 to 64) symbols and a text.
#[inline]
fn one_word<T: Symbol>(masks: &Masks, rows: usize, text: &[T]) -> usize {
    let mut same = !0_u64;
    for &symbol in text {
        let common = same & masks.of(symbol);
        same = same.wrapping_add(common) | (same - common);
    }
    (!same & (!0 >> (64 - rows))).count_ones() as usize
}

/// The distance between two strings of which neither is empty if it is at most `k`, which is at
/// least the difference of their lengths.
///
/// Cells outside the band count as common subsequences that grow no more: never too long, and
/// exact wherever a path within the bound goes.
fn blocked<T: Symbol>(
    scratch: &mut Scratch,
    pattern: &[T],
    text: &[T],
    k: usize,
    meter: &mut Meter<'_, impl FnMut() -> bool>,
) -> Result<Option<usize>, Cancelled> {
    let band = Band::new(pattern.len(), text.len(), k);
    let needed = (pattern.len() + text.len() - k).div_ceil(2);
    let carries = &mut scratch.carries;
    carries.clear();
    carries.resize(text.len(), 0);
    // The length at the bottom of the blocks above, before their first column that the next need.
    let mut above = 0;
    let mut common = 0;
    for (block, part) in pattern.chunks(64).enumerate() {
        let first = block * 64;
        let next = first + part.len();
        let columns = band.columns(first..next);
        let corner = band.columns(next..next).start.clamp(columns.start, columns.end);
        let last = part.len() as u32 - 1;
        // What the lengths at the bottom can still become.
        let rest = |column: usize| (pattern.len() - next).min(text.len() - column);
        common = above;
        let mut most = common + rest(columns.start);
        scratch.masks.with(part, |masks| {
            let mut same = !0_u64;
            let mut at = columns.start;
            while at < columns.end {
                let limit = if at < corner { corner } else { columns.end };
                let end = limit.min(at + COLUMNS);
                meter.add((end - at) * 64)?;
                for (j, (&symbol, carry)) in
                    text[at..end].iter().zip(&mut carries[at..end]).enumerate()
                {
                    let equal = same & masks.of(symbol);
                    let (sum, out) = add(same, equal, *carry, last);
                    same = sum | (same - equal);
                    *carry = out;
                    common += usize::from(out);
                    most = most.max(common + rest(at + j + 1));
                }
                at = end;
                if at == corner {
                    above = common;
                }
            }
            Ok(())
        })?;
        if most < needed {
            return Ok(None);
        }
    }
    Ok((common >= needed).then(|| pattern.len() + text.len() - 2 * common))
}

/// The sum of two words and a carry, and the carry out of bit `last`.
#[inline(always)]
fn add(a: u64, b: u64, carry: u8, last: u32) -> (u64, u8) {
    let (sum, first) = a.overflowing_add(b);
    let (sum, second) = sum.overflowing_add(u64::from(carry));
    let out = match last {
        63 => u8::from(first | second),
        // Below the last bit of a shorter block, a carry out of it changes the bit behind.
        _ => ((sum ^ a ^ b) >> (last + 1) & 1) as u8,
    };
    (sum, out)
}
