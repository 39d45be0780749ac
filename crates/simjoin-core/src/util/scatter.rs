//! Numbers that several threads write, each at places of its own.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::Result;
use crate::util::parallel::{Threads, map};

/// Places of a piece.
const PIECE: usize = 1 << 16;

/// A vector of numbers in pieces, which several threads make and fill. A thread reads the numbers of other
/// threads only after the parallel loop that wrote them.
#[derive(Debug)]
pub(crate) struct Scatter(Vec<Vec<AtomicU32>>);

impl Scatter {
    /// `len` zeros.
    pub(crate) fn new(len: usize, threads: Threads) -> Result<Self> {
        Self::of(len, threads, |_| 0)
    }

    /// `value` of each of `len` places.
    pub(crate) fn of(
        len: usize,
        threads: Threads,
        value: impl Fn(usize) -> u32 + Sync,
    ) -> Result<Self> {
        let starts = (0..len).step_by(PIECE).collect();
        let number = |place| AtomicU32::new(value(place));
        let piece = |start| Ok((start..len.min(start + PIECE)).map(number).collect());
        Ok(Self(map(threads, starts, piece)?))
    }

    #[inline]
    pub(crate) fn get(&self, place: usize) -> u32 {
        self.0[place / PIECE][place % PIECE].load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set(&self, place: usize, value: u32) {
        self.0[place / PIECE][place % PIECE].store(value, Ordering::Relaxed);
    }
}

/// Numbers that several threads write in turn, each at places of its own.
pub fn shared(numbers: &mut [u32]) -> &[AtomicU32] {
    let len = numbers.len();
    let first = numbers.as_mut_ptr().cast::<AtomicU32>();
    // SAFETY: an `AtomicU32` has the size and the bits of a `u32`, whose alignment is no less here; the
    // numbers are borrowed for as long as the result is, and nothing else reaches them.
    unsafe { std::slice::from_raw_parts(first, len) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::parallel::for_each;

    #[test]
    fn every_place_keeps_its_number() {
        for len in [0, 1, PIECE - 1, PIECE, 5 * PIECE + 3] {
            let numbers = Scatter::new(len, Threads::small(3)).unwrap();
            let tasks = (0..7).collect();
            for_each(Threads::small(3), tasks, |task: usize| {
                (task..len).step_by(7).for_each(|place| numbers.set(place, place as u32 + 1));
                Ok(())
            })
            .unwrap();
            assert!((0..len).all(|place| numbers.get(place) == place as u32 + 1));
        }
    }
}
