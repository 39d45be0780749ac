//! Values in any order, made a run.

use super::Key;
use crate::simd::Simd;

/// Fewer values are sorted by comparisons.
const FEW: usize = 1 << 10;
/// Bits for each value up to which a bitmap of the range is the quickest order.
const BITS_PER_VALUE: u64 = 64;
const DIGIT: usize = 256;

/// Sorts `keys` and removes repeats. `scratch` is memory for it, which keeps its size.
pub fn sort_distinct<K: Key>(simd: Simd, keys: &mut Vec<K>, scratch: &mut Vec<K>) {
    if K::ascends(simd, keys) {
        return;
    }
    if keys.len() < FEW {
        keys.sort_unstable();
        keys.dedup();
        return;
    }
    let (mut least, mut greatest) = (u64::MAX, 0);
    for key in keys.iter() {
        least = least.min(key.rank());
        greatest = greatest.max(key.rank());
    }
    if greatest - least < keys.len() as u64 * BITS_PER_VALUE {
        by_bitmap(keys, least, greatest);
    } else {
        by_digits(keys, scratch);
        keys.dedup();
    }
}

/// Marks each value in a bitmap of the range, and reads it.
fn by_bitmap<K: Key>(keys: &mut Vec<K>, least: u64, greatest: u64) {
    let mut words = vec![0_u64; ((greatest - least) / 64 + 1) as usize];
    for key in keys.iter() {
        let place = key.rank() - least;
        words[(place / 64) as usize] |= 1 << (place % 64);
    }
    let mut distinct = 0;
    for (number, word) in words.into_iter().enumerate() {
        let base = least + number as u64 * 64;
        let mut left = word;
        while left != 0 {
            keys[distinct] = K::of_rank(base + u64::from(left.trailing_zeros()));
            distinct += 1;
            left &= left - 1;
        }
    }
    keys.truncate(distinct);
}

/// Sorts by one byte after the other, the least first; bytes that all values share are left out.
fn by_digits<K: Key>(keys: &mut Vec<K>, scratch: &mut Vec<K>) {
    let mut counts = vec![[0_usize; DIGIT]; K::BYTES];
    for key in keys.iter() {
        let rank = key.rank();
        for (byte, counts) in counts.iter_mut().enumerate() {
            counts[(rank >> (8 * byte)) as usize % DIGIT] += 1;
        }
    }
    scratch.clear();
    scratch.resize(keys.len(), K::LEAST);
    for (byte, counts) in counts.iter().enumerate() {
        if counts.contains(&keys.len()) {
            continue;
        }
        let mut places = [0; DIGIT];
        let mut place = 0;
        for (count, start) in counts.iter().zip(&mut places) {
            *start = place;
            place += count;
        }
        for key in keys.iter() {
            let place = &mut places[(key.rank() >> (8 * byte)) as usize % DIGIT];
            scratch[*place] = *key;
            *place += 1;
        }
        std::mem::swap(keys, scratch);
    }
}
