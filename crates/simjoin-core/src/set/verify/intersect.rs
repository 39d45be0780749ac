//! The size of the intersection of two sorted runs of tokens, sixteen by sixteen.

use crate::set::intersection::{Key, cut};
use crate::simd::{Lanes, Simd, kernels};

/// Where one run is this many times as long as the other, each token of the shorter one is looked
/// up in the longer one.
const SKEWED: usize = 64;
const LANES: usize = 16;
/// From this many tokens of the shorter run on, several merges go on in turn.
const LONG: usize = 1024;
/// Tokens of two long runs between two looks at what can still be reached.
const STRETCH: usize = 2048;

/// `overlap` plus the common tokens of two strictly ascending runs, if that is at least
/// `required`. Unless `exact`, counting may stop once `required` is reached.
#[inline]
pub fn intersect(
    simd: Simd,
    a: &[u32],
    b: &[u32],
    overlap: u32,
    required: u32,
    exact: bool,
) -> Option<u32> {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    if (overlap as usize) + short.len() < required as usize {
        return None;
    }
    if !exact && overlap >= required {
        return Some(overlap);
    }
    if long.len() / SKEWED > short.len() {
        return gallop(short, long, overlap, required, exact);
    }
    if short.len() >= LONG {
        return stretches(simd, short, long, overlap, required, exact);
    }
    let overlap = blocks(simd, short, long, overlap, required, exact);
    (overlap >= required).then_some(overlap)
}

/// Merges two long runs stretch by stretch.
fn stretches(
    simd: Simd,
    mut a: &[u32],
    mut b: &[u32],
    mut overlap: u32,
    required: u32,
    exact: bool,
) -> Option<u32> {
    let simd = simd.without_masks();
    while !a.is_empty() && !b.is_empty() {
        if overlap as usize + a.len().min(b.len()) < required as usize {
            return None;
        }
        if !exact && overlap >= required {
            break;
        }
        let (from_a, from_b) = cut(a, b, STRETCH.min(a.len() + b.len()));
        overlap += u32::merge(simd, &a[..from_a], &b[..from_b]) as u32;
        (a, b) = (&a[from_a..], &b[from_b..]);
    }
    (overlap >= required).then_some(overlap)
}

/// Looks up each token of the short run in the rest of the long one (Bentley, Yao: "An almost
/// optimal algorithm for unbounded searching", IPL 1976).
fn gallop(short: &[u32], long: &[u32], overlap: u32, required: u32, exact: bool) -> Option<u32> {
    let mut overlap = overlap as usize;
    let required = required as usize;
    let mut rest = long;
    for (i, &token) in short.iter().enumerate() {
        if overlap + (short.len() - i).min(rest.len()) < required {
            return None;
        }
        let mut reach = 1;
        while reach < rest.len() && rest[reach] < token {
            reach *= 2;
        }
        let from = reach / 2;
        let end = (reach + 1).min(rest.len());
        rest = &rest[from + rest[from..end].partition_point(|&t| t < token)..];
        match rest.first() {
            Some(&t) if t == token => {
                overlap += 1;
                if !exact && overlap >= required {
                    break;
                }
            }
            Some(_) => {}
            None => break,
        }
    }
    (overlap >= required).then_some(overlap as u32)
}

kernels! {
    /// Compares each block of sixteen tokens of one run with those blocks of the other that its
    /// range of tokens meets (after Lemire, Boytsov, Kurz: "SIMD compression and the intersection
    /// of sorted integers", Software: Practice and Experience 2016): no branch depends on a single
    /// token. Less than `required` when it cannot be reached.
    fn blocks[S: Lanes, ](
        a: &[u32],
        b: &[u32],
        overlap: u32,
        required: u32,
        exact: bool,
    ) -> u32 {
        let (mut i, mut j) = (0, 0);
        let mut overlap = overlap as usize;
        let required = required as usize;
        while i < a.len() && j < b.len() {
            let (from_a, from_b) = (&a[i..(i + LANES).min(a.len())], &b[j..(j + LANES).min(b.len())]);
            // SAFETY: the caller has the instructions of `S`; `from_b` holds as many tokens as are
            // loaded, at least one and sixteen at most.
            let common = unsafe {
                let tokens = S::load_part(from_b.as_ptr(), from_b.len());
                let mut equal = 0;
                match <&[u32; LANES]>::try_from(from_a) {
                    // A whole block is compared without a branch.
                    Ok(whole) => {
                        let mut others = 0;
                        for pair in whole.chunks_exact(2) {
                            equal |= S::equal(tokens, S::splat(pair[0]));
                            others |= S::equal(tokens, S::splat(pair[1]));
                        }
                        equal |= others;
                    }
                    Err(_) => {
                        for &token in from_a {
                            equal |= S::equal(tokens, S::splat(token));
                        }
                    }
                }
                u32::from(equal) & ((1_u32 << from_b.len()) - 1)
            };
            overlap += common.count_ones() as usize;
            if !exact && overlap >= required {
                break;
            }
            let (last_a, last_b) = (from_a[from_a.len() - 1], from_b[from_b.len() - 1]);
            if last_a <= last_b {
                i += from_a.len();
            }
            if last_b <= last_a {
                j += from_b.len();
            }
            if overlap + (a.len() - i).min(b.len() - j) < required {
                break;
            }
        }
        overlap as u32
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::seq::index::sample;
    use rand::{Rng, SeedableRng};

    use super::*;

    fn run(rng: &mut StdRng, len: usize, universe: usize) -> Vec<u32> {
        let mut tokens: Vec<u32> = sample(rng, universe, len).iter().map(|t| t as u32).collect();
        tokens.sort_unstable();
        tokens
    }

    /// Every form counts what a look-up of each token counts, or gives up rightly.
    #[test]
    fn intersections_equal_look_ups_in_every_form() {
        let mut rng = StdRng::seed_from_u64(7);
        for _ in 0..2000 {
            let universe = [40, 100, 1000, 20_000][rng.random_range(0..4)];
            let lens = [0, 1, 2, 5, 15, 16, 17, 31, 32, 33, 40];
            let mut len = || match rng.random_range(0..5) {
                0 => rng.random_range(0..universe.min(4000)),
                _ => lens[rng.random_range(0..lens.len())],
            };
            let (a, b) = (len(), len());
            let (a, b) = (run(&mut rng, a, universe), run(&mut rng, b, universe));
            let common = a.iter().filter(|t| b.binary_search(t).is_ok()).count() as u32;
            let before = rng.random_range(0..3);
            let all = before + common;
            for required in [0, 1, all.saturating_sub(1), all, all + 1, all + 20] {
                for &simd in Simd::available() {
                    let exact = intersect(simd, &a, &b, before, required, true);
                    assert_eq!(exact, (all >= required).then_some(all), "{simd} {a:?} {b:?}");
                    let found = intersect(simd, &a, &b, before, required, false);
                    assert_eq!(found.is_some(), all >= required, "{simd}");
                    assert!(found.is_none_or(|o| required <= o && o <= all));
                }
            }
        }
    }
}
