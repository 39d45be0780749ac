//! The order of the strings of a run in which neighbours have like signatures.

use std::ops::Range;

use super::{Codes, Elements, ITEMS};
use crate::string::rules::Cancelled;

/// The least number of strings that are split: those of a group lie in one box anyway.
const GROUP: usize = 8;

/// The strings of a node on which its split is based, at most.
const SAMPLE: usize = 512;

/// The items of a run in the order of its boxes.
///
/// # Errors
///
/// When `stop` says so.
pub(crate) fn order(
    codes: Codes<'_>,
    run: usize,
    items: Range<u32>,
    elements: &Elements,
    stop: &mut impl FnMut() -> bool,
) -> Result<Vec<u32>, Cancelled> {
    if items.len() <= GROUP {
        return Ok(items.collect());
    }
    let mut keyed = Vec::with_capacity(items.len());
    for item in items {
        if (item as usize).is_multiple_of(ITEMS) && stop() {
            return Err(Cancelled);
        }
        let signature = elements.signature(elements.choice(run), codes.string(item as usize));
        keyed.push((signature, item));
    }
    if elements.by_prefix() {
        let first = |item: u32| codes.string(item as usize).first().copied();
        keyed.sort_unstable_by_key(|&(_, item)| (first(item), item));
        for alike in keyed.chunk_by_mut(|a, b| first(a.1) == first(b.1)) {
            split(alike, 0, false, stop)?;
        }
    } else {
        split(&mut keyed, 0, false, stop)?;
    }
    Ok(keyed.into_iter().map(|(_, item)| item).collect())
}

/// Splits strings by the bit that splits them most evenly, and both parts likewise. The parts
/// alternate as in a Gray code, so that strings on both sides of a border are alike.
fn split(
    strings: &mut [(u64, u32)],
    used: u64,
    flip: bool,
    stop: &mut impl FnMut() -> bool,
) -> Result<(), Cancelled> {
    if strings.len() <= GROUP {
        return Ok(());
    }
    if strings.len() >= ITEMS && stop() {
        return Err(Cancelled);
    }
    let Some(bit) = most_even_bit(strings, used) else { return Ok(()) };
    let middle = partition(strings, |signature| (signature >> bit & 1 == 1) == flip);
    let (left, right) = strings.split_at_mut(middle);
    split(left, used | 1 << bit, false, stop)?;
    split(right, used | 1 << bit, true, stop)
}

/// The unused bit that most evenly splits a sample of the strings; `None` if none splits it.
fn most_even_bit(strings: &[(u64, u32)], used: u64) -> Option<u32> {
    let step = (strings.len() / SAMPLE).max(1);
    let mut counts = [0_u32; 64];
    let mut sampled = 0;
    for &(signature, _) in strings.iter().step_by(step) {
        sampled += 1;
        let mut bits = signature & !used;
        while bits != 0 {
            counts[bits.trailing_zeros() as usize] += 1;
            bits &= bits - 1;
        }
    }
    let evenness = |bit: &u32| {
        let count = counts[*bit as usize];
        count.min(sampled - count)
    };
    let best = (0..64).filter(|bit| used >> bit & 1 == 0).max_by_key(evenness)?;
    (evenness(&best) > 0).then_some(best)
}

/// Brings the strings whose signature is `first` before the others, and says how many they are.
fn partition(strings: &mut [(u64, u32)], first: impl Fn(u64) -> bool) -> usize {
    let mut end = 0;
    for at in 0..strings.len() {
        let is_first = first(strings[at].0);
        strings.swap(at, end);
        end += usize::from(is_first);
    }
    end
}
