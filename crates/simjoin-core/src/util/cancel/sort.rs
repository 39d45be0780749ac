//! Sorting that can be cancelled.
//!
//! The standard library's sorts of a hundred million elements take seconds and cannot be stopped.
//! These are quicksorts that look at the flag every few ten thousand elements and leave pieces of
//! that size to the standard library. They need no memory besides.

use std::cmp::Ordering;

use crate::error::Result;
use crate::util::cancel::CancelFlag;

/// Elements sorted or partitioned without a look at the flag.
const PIECE: usize = 1 << 16;

/// Sorts `items`, equal ones in any order.
///
/// # Errors
///
/// When the work is cancelled: then `items` are in any order.
pub fn sort_unstable_by<T: Copy>(
    items: &mut [T],
    cancel: &CancelFlag,
    compare: impl Fn(&T, &T) -> Ordering + Copy,
) -> Result<()> {
    let mut waiting = vec![items];
    while let Some(items) = waiting.pop() {
        cancel.check()?;
        if items.len() <= PIECE {
            items.sort_unstable_by(compare);
            continue;
        }
        let (less, equal) = partition(items, cancel, compare)?;
        let (low, rest) = items.split_at_mut(less);
        waiting.push(&mut rest[equal..]);
        waiting.push(low);
    }
    Ok(())
}

/// Like [`sort_unstable_by`], in the order of the items' keys.
pub fn sort_unstable_by_key<T: Copy, K: Ord>(
    items: &mut [T],
    cancel: &CancelFlag,
    key: impl Fn(&T) -> K + Copy,
) -> Result<()> {
    sort_unstable_by(items, cancel, |a, b| key(a).cmp(&key(b)))
}

/// Brings the element that sorting would bring to the place `nth` there, those less than it in
/// front of it and those greater behind it.
///
/// # Errors
///
/// When the work is cancelled: then `items` are in any order.
pub fn select_nth_unstable_by<T: Copy>(
    mut items: &mut [T],
    mut nth: usize,
    cancel: &CancelFlag,
    compare: impl Fn(&T, &T) -> Ordering + Copy,
) -> Result<()> {
    while items.len() > PIECE {
        let (less, equal) = partition(items, cancel, compare)?;
        if nth < less {
            items = &mut items[..less];
        } else if nth < less + equal {
            return Ok(());
        } else {
            items = &mut items[less + equal..];
            nth -= less + equal;
        }
    }
    cancel.check()?;
    if nth < items.len() {
        items.select_nth_unstable_by(nth, compare);
    }
    Ok(())
}

/// Orders `items` into those less than one of them, those equal to it, and the others: gives the
/// numbers of the first and of the second, which is at least one.
pub(in crate::util) fn partition<T: Copy>(
    items: &mut [T],
    cancel: &CancelFlag,
    compare: impl Fn(&T, &T) -> Ordering + Copy,
) -> Result<(usize, usize)> {
    let pivot = pivot(items, compare);
    let less = bring_forward(items, cancel, |item| compare(item, &pivot).is_lt())?;
    let rest = &mut items[less..];
    // Where few are less, many may be equal.
    let equal = match less < rest.len() / 8 {
        true => bring_forward(rest, cancel, |item| compare(item, &pivot).is_le())?,
        false => 0,
    };
    if equal > 0 {
        return Ok((less, equal));
    }
    // At least the pivot itself is in its place.
    let own = rest.iter().position(|item| compare(item, &pivot).is_eq()).unwrap_or(0);
    rest.swap(0, own);
    Ok((less, 1))
}

/// Brings the items for which `is_first` holds to the front; gives their number.
fn bring_forward<T: Copy>(
    items: &mut [T],
    cancel: &CancelFlag,
    is_first: impl Fn(&T) -> bool,
) -> Result<usize> {
    let mut first = 0;
    let mut from = 0;
    while from < items.len() {
        cancel.check()?;
        let to = items.len().min(from + PIECE);
        for at in from..to {
            // Whatever the outcome, the same steps: nothing to predict.
            items.swap(at, first);
            first += usize::from(is_first(&items[first]));
        }
        from = to;
    }
    Ok(first)
}

/// The median of 27 items at scattered places all over the slice.
fn pivot<T: Copy>(items: &[T], compare: impl Fn(&T, &T) -> Ordering + Copy) -> T {
    let mut state = items.len() as u64 | 1;
    let mut sample = [items[0]; 27];
    for (nth, item) in sample.iter_mut().enumerate() {
        // Xorshift, one item out of each 27th part.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let (from, to) = (nth * items.len() / 27, (nth + 1) * items.len() / 27);
        *item = items[from + (state as usize) % (to - from).max(1)];
    }
    sample.sort_unstable_by(compare);
    sample[13]
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    /// Random, sorted, reversed, equal and nearly equal values, organ pipes, and a few of a kind.
    fn inputs(rng: &mut StdRng, len: u32) -> Vec<Vec<u32>> {
        vec![
            (0..len).map(|_| rng.random()).collect(),
            (0..len).collect(),
            (0..len).rev().collect(),
            vec![7; len as usize],
            (0..len).map(|i| u32::from(i % 97 == 0)).collect(),
            (0..len / 2).chain((0..len - len / 2).rev()).collect(),
            (0..len).map(|_| rng.random_range(0..5)).collect(),
        ]
    }

    #[test]
    fn items_are_sorted_and_selected() {
        let mut rng = StdRng::seed_from_u64(1);
        let cancel = CancelFlag::default();
        for len in [0, 1, 2, 200, 5000, PIECE as u32, PIECE as u32 + 1, 5 * PIECE as u32] {
            for input in inputs(&mut rng, len) {
                let mut expected = input.clone();
                expected.sort_unstable();
                let mut found = input.clone();
                sort_unstable_by_key(&mut found, &cancel, |&item| item).unwrap();
                assert_eq!(found, expected, "{len}");
                for nth in [0, len as usize / 3, (len as usize).saturating_sub(1)] {
                    let mut found = input.clone();
                    select_nth_unstable_by(&mut found, nth, &cancel, u32::cmp).unwrap();
                    if let Some(&item) = expected.get(nth) {
                        assert_eq!(found[nth], item);
                        assert!(found[..nth].iter().all(|&other| other <= item));
                        assert!(found[nth..].iter().all(|&other| other >= item));
                    }
                }
            }
        }
    }

    #[test]
    fn work_ends_soon_after_it_is_cancelled() {
        let mut items: Vec<u32> = (0..5 * PIECE as u32).rev().collect();
        let cancel = CancelFlag::default();
        let compared = std::cell::Cell::new(0_u64);
        let compare = |a: &u32, b: &u32| {
            compared.set(compared.get() + 1);
            if compared.get() == 50_000 {
                drop(cancel.on_drop());
            }
            a.cmp(b)
        };
        assert!(sort_unstable_by(&mut items, &cancel, compare).is_err());
        // What is left of a piece, at most.
        let most = 50_000 + 27 * 27 + PIECE as u64;
        assert!(compared.get() <= most, "{}", compared.get());
    }
}
