//! Distances by edits, whichever edits a distance counts.

use std::ops::ControlFlow;

use super::band::widening;
use super::masks::Symbol;
use super::meter::{Cancelled, Meter};
use super::scratch::Scratch;

/// The least number of edits of some kinds that lead from one string to another.
pub(crate) trait Edits {
    /// The first bound that is tried on long strings.
    const FIRST_BOUND: usize;

    /// A bound on the distance of strings of these lengths, the longer one first.
    fn most(long: usize, short: usize) -> usize;

    /// The distance of two strings of which neither is empty, the longer one first, by one word of bits, if
    /// it is at most `k`. Continues where the strings take more than a word.
    fn in_word<T: Symbol>(
        _scratch: &mut Scratch,
        _strings: [&[T]; 2],
        _k: usize,
    ) -> ControlFlow<Option<usize>> {
        ControlFlow::Continue(())
    }

    /// [`Self::in_word`] by waves, which long strings that differ in little take.
    ///
    /// # Errors
    ///
    /// When the meter says stop.
    fn by_waves<T: Symbol>(
        _scratch: &mut Scratch,
        _strings: [&[T]; 2],
        _k: usize,
        _meter: &mut Meter<'_, impl FnMut() -> bool>,
    ) -> Result<ControlFlow<Option<usize>>, Cancelled> {
        Ok(ControlFlow::Continue(()))
    }

    /// The distance of two strings of which neither is empty, the longer one first, if it is at most `k`,
    /// which is at least the difference of their lengths, by the cells of a band.
    ///
    /// # Errors
    ///
    /// When the meter says stop.
    fn in_band<T: Symbol>(
        scratch: &mut Scratch,
        strings: [&[T]; 2],
        k: usize,
        meter: &mut Meter<'_, impl FnMut() -> bool>,
    ) -> Result<Option<usize>, Cancelled>;

    /// The distance of two strings.
    ///
    /// # Errors
    ///
    /// When `stop` says so.
    fn distance<T: Symbol>(
        scratch: &mut Scratch,
        a: &[T],
        b: &[T],
        stop: &mut impl FnMut() -> bool,
    ) -> Result<u32, Cancelled> {
        let most = Self::most(a.len().max(b.len()), a.len().min(b.len()));
        // No distance is beyond it.
        Ok(found::<Self, T>(scratch, [a, b], most, stop)?.unwrap_or(most) as u32)
    }

    /// The distance of two strings if it is at most `k`.
    ///
    /// # Errors
    ///
    /// When `stop` says so.
    fn within<T: Symbol>(
        scratch: &mut Scratch,
        a: &[T],
        b: &[T],
        k: u32,
        stop: &mut impl FnMut() -> bool,
    ) -> Result<Option<u32>, Cancelled> {
        let found = found::<Self, T>(scratch, [a, b], k as usize, stop)?;
        Ok(found.map(|distance| distance as u32))
    }
}

fn found<E: Edits + ?Sized, T: Symbol>(
    scratch: &mut Scratch,
    [a, b]: [&[T]; 2],
    k: usize,
    stop: &mut impl FnMut() -> bool,
) -> Result<Option<usize>, Cancelled> {
    let [long, short] = match open(a, b, k) {
        ControlFlow::Continue(strings) => strings,
        ControlFlow::Break(distance) => return Ok(distance),
    };
    let k = k.min(E::most(long.len(), short.len()));
    if let ControlFlow::Break(distance) = E::in_word(scratch, [long, short], k) {
        return Ok(distance);
    }
    let mut meter = Meter::new(stop);
    if let ControlFlow::Break(distance) = E::by_waves(scratch, [long, short], k, &mut meter)? {
        return Ok(distance);
    }
    widening(long.len() - short.len(), k, E::FIRST_BOUND, |bound| {
        E::in_band(scratch, [long, short], bound, &mut meter)
    })
}

/// Decides pairs that take no cell of a matrix: the distance if it is at most `k`, `None` beyond. Gives the
/// trimmed strings of the others, the longer one first, of which neither is empty.
fn open<'a, T: Symbol>(
    a: &'a [T],
    b: &'a [T],
    k: usize,
) -> ControlFlow<Option<usize>, [&'a [T]; 2]> {
    if a.len().abs_diff(b.len()) > k {
        return ControlFlow::Break(None);
    }
    let (a, b) = trim(a, b);
    let [long, short] = if a.len() <= b.len() { [b, a] } else { [a, b] };
    match k {
        _ if short.is_empty() => ControlFlow::Break(Some(long.len())),
        0 => ControlFlow::Break(None),
        _ => ControlFlow::Continue([long, short]),
    }
}

/// Both strings without their common prefix and their common suffix, which no edit distance sees.
fn trim<'a, T: Symbol>(a: &'a [T], b: &'a [T]) -> (&'a [T], &'a [T]) {
    let prefix = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[prefix..], &b[prefix..]);
    let suffix = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
    (&a[..a.len() - suffix], &b[..b.len() - suffix])
}
