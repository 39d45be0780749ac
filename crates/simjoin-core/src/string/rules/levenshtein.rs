//! Levenshtein's distance by bit vectors: Myers ("A fast bit-vector algorithm for approximate string
//! matching based on dynamic programming", JACM 1999) in the form of Hyyrö ("A bit-vector algorithm
//! for computing Levenshtein and Damerau edit distances", Nordic Journal of Computing 2003).
//!
//! Long strings that differ in little are left to [waves](super::waves), others to blocks, whose bound is doubled
//! until it holds.

use std::ops::ControlFlow;

use super::band::Band;
use super::blocks::{ASCENDS, Column, DESCENDS, blocked, one_word};
use super::edits::Edits;
use super::masks::Symbol;
use super::meter::{Cancelled, Meter};
use super::scratch::Scratch;
use super::waves::WaveAnswer;
use crate::simd::Simd;

/// Insertions, deletions and substitutions.
pub(crate) struct Levenshtein;

impl Edits for Levenshtein {
    const FIRST_BOUND: usize = 64;

    fn most(long: usize, _: usize) -> usize {
        long
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
        let distance = scratch
            .masks
            .with(long, |masks| one_word::<Differences, T>(masks, long.len(), short, k));
        ControlFlow::Break(distance)
    }

    fn by_waves<T: Symbol>(
        scratch: &mut Scratch,
        strings: [&[T]; 2],
        k: usize,
        meter: &mut Meter<'_, impl FnMut() -> bool>,
    ) -> Result<ControlFlow<Option<usize>>, Cancelled> {
        Ok(match scratch.waves.meet(Simd::detect(), strings, k, meter)? {
            WaveAnswer::At(distance) => ControlFlow::Break(Some(distance)),
            WaveAnswer::Beyond => ControlFlow::Break(None),
            WaveAnswer::Unlike => ControlFlow::Continue(()),
        })
    }

    fn in_band<T: Symbol>(
        scratch: &mut Scratch,
        [long, short]: [&[T]; 2],
        k: usize,
        meter: &mut Meter<'_, impl FnMut() -> bool>,
    ) -> Result<Option<usize>, Cancelled> {
        let band = Band::new(long.len(), short.len(), k);
        blocked::<Differences, T>(scratch, long, short, (band, k), meter)
    }
}

/// Calls `found` with the number of each text within `k` of `a`, and its distance: [`Edits::within`] of
/// [`Levenshtein`] for one string against many.
pub(crate) fn levenshtein_each<'a, T: Symbol + 'a>(
    scratch: &mut Scratch,
    a: &[T],
    texts: impl Iterator<Item = (u32, &'a [T])>,
    k: u32,
    stop: &mut impl FnMut() -> bool,
    mut found: impl FnMut(u32, u32),
) -> Result<(), Cancelled> {
    if a.is_empty() || a.len() > 64 {
        for (number, text) in texts {
            if let Some(distance) = Levenshtein::within(scratch, a, text, k, stop)? {
                found(number, distance);
            }
        }
        return Ok(());
    }
    let mut meter = Meter::new(stop);
    scratch.masks.with(a, |masks| {
        for (number, text) in texts {
            if text.len().abs_diff(a.len()) > k as usize {
                continue;
            }
            meter.add(64 * text.len())?;
            if let Some(distance) = one_word::<Differences, T>(masks, a.len(), text, k as usize) {
                found(number, distance as u32);
            }
        }
        Ok(())
    })
}

/// The vertical differences of a column.
struct Differences {
    plus: u64,
    minus: u64,
    /// The number of the last row.
    last: u32,
}

impl Column for Differences {
    const OUTSIDE: u8 = ASCENDS;

    #[inline(always)]
    fn new(rows: usize) -> Self {
        Self { plus: !0, minus: 0, last: rows as u32 - 1 }
    }

    #[inline(always)]
    fn step(&mut self, equal: u64, above: u8) -> u8 {
        let (above_plus, above_minus) = (u64::from(above & ASCENDS), u64::from(above / DESCENDS));
        let vertical = equal | self.minus;
        let equal = equal | above_minus;
        let horizontal = ((equal & self.plus).wrapping_add(self.plus) ^ self.plus) | equal;
        let plus = self.minus | !(horizontal | self.plus);
        let minus = self.plus & horizontal;
        let out = (plus >> self.last & 1) | ((minus >> self.last & 1) * u64::from(DESCENDS));
        let plus = plus << 1 | above_plus;
        let minus = minus << 1 | above_minus;
        self.plus = minus | !(vertical | plus);
        self.minus = plus & vertical;
        out as u8
    }
}
