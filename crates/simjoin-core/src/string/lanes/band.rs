//! Banded bit vectors: Hyyrö ("A bit-vector algorithm for computing Levenshtein and Damerau edit
//! distances", Nordic Journal of Computing 2003, section 5) with a band that ends in the last cell.
//!
//! In column `j`, the highest bit of a lane is row `j + below`, where `below` diagonals below the main
//! one lie in the band. Only the diagonal that ends in the last cell is counted along: its values never
//! sink, so a string is given up as soon as its value is beyond the bound. A lane counts what is left
//! of the bound down to 0 and stays there, whatever the length.

use std::ops::Range;

use super::Pattern;
use crate::simd::texts::lanes_kernel;

/// The band of a probe and strings of one length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Band {
    /// The length of the strings.
    columns: usize,
    /// The first columns, before the counted diagonal starts.
    quiet: usize,
    /// Diagonals below the main one: table `j + below` serves column `j`.
    below: usize,
    /// The bit of the counted diagonal.
    bit: u16,
    /// The rows of the first column that lie in the matrix.
    rows: u16,
    /// The rest of the bound where the counted diagonal starts, and one: 0 means given up.
    left: u8,
    k: u32,
}

impl Band {
    /// The band for a pattern and strings of `len` codes; `None` if their lengths differ by more than
    /// `k`, which is not more than the pattern was made for.
    pub(crate) fn new(pattern: &Pattern, len: usize, k: u32) -> Option<Self> {
        let difference = pattern.len().abs_diff(len);
        let top = if pattern.is_wide() { 15 } else { 7 };
        if difference > k as usize || k > top {
            return None;
        }
        let astray = (k as usize - difference) / 2;
        let below = astray + pattern.len().saturating_sub(len);
        // The counted diagonal starts `difference` rows below or columns beside the corner.
        let beside = len.saturating_sub(pattern.len());
        Some(Self {
            columns: len,
            quiet: beside,
            below,
            bit: 1 << (top as usize - astray - beside),
            rows: if pattern.is_wide() { !0 << (15 - below) } else { 0xff << (7 - below) & 0xff },
            left: (k as usize + 1 - difference) as u8,
            k,
        })
    }

    /// Finds the strings within the bound among those of some groups.
    ///
    /// `columns` are the strings as [`interleave`](super::interleave) makes them, and string `i` is
    /// item `first + i`. `groups` are numbers of groups of eight, whose order is that of `out`; those
    /// behind the first multiple of the chains' width are repeated to fill it. Only items of `items`
    /// are pushed, with their distance.
    pub(crate) fn search(
        &self,
        simd: crate::simd::Simd,
        pattern: &Pattern,
        strings: LaneStrings<'_>,
        groups: &mut Vec<u32>,
        out: &mut Vec<(u32, u32)>,
    ) {
        let each = if pattern.is_wide() { 2 } else { 1 };
        assert!((self.columns + self.below + 1) * each <= pattern.tables().len());
        let table = pattern.tables().as_ptr().cast::<u8>();
        if pattern.is_wide() {
            search_16(simd, self, table, strings, groups, out);
        } else {
            search_8(simd, self, table, strings, groups, out);
        }
    }
}

/// Strings of one length in groups of eight, and what to push of them.
#[derive(Debug, Clone)]
pub(crate) struct LaneStrings<'a> {
    pub columns: &'a [u8],
    /// The item of the first string.
    pub first: u32,
    /// The items that are wanted.
    pub items: Range<u32>,
}

/// Checks that the columns of all groups are there.
#[inline(always)]
pub(super) fn check_groups(columns: usize, strings: &LaneStrings<'_>, groups: &[u32]) {
    let end = groups.iter().fold(0, |end, &group| end.max(group)) as usize + 1;
    assert!(groups.is_empty() || end * 8 * columns <= strings.columns.len());
}

/// Fills a list of groups up to a multiple of `width` with its last one, and says how long it was.
pub(super) fn fill(groups: &mut Vec<u32>, width: usize) -> usize {
    let real = groups.len();
    if let Some(&last) = groups.last() {
        groups.resize(real.next_multiple_of(width), last);
    }
    real
}

lanes_kernel! {
    fn search_8[F, Z = 3 or 1](
        band: &Band,
        table: *const u8,
        strings: LaneStrings<'_>,
        groups: &mut Vec<u32>,
        out: &mut Vec<(u32, u32)>,
    ) {
        check_groups(band.columns, &strings, groups);
        let real = fill(groups, 8 * Z);
        let mut left_bytes = [[0; 64]; Z];
        // SAFETY: the kernel runs the instructions of the form; the tables (by `search`) and the
        // columns of all groups are there.
        unsafe {
            let bit = F::splat8(band.bit as u8);
            'lists: for (at, list) in groups.chunks_exact(8 * Z).enumerate() {
                let mut offsets = [F::offsets(list.as_ptr(), 8 * band.columns); Z];
                for z in 1..Z {
                    offsets[z] = F::offsets(list.as_ptr().add(8 * z), 8 * band.columns);
                }
                let mut plus = [F::splat8(band.rows as u8); Z];
                let mut minus = [F::splat8(0); Z];
                let mut left = [F::splat8(band.left); Z];
                let mut base = strings.columns.as_ptr();
                let mut masks = table.add(64 * (band.below + 1));
                for column in 0..band.columns {
                    let mut any = F::splat8(0);
                    for z in 0..Z {
                        let equal = F::look_up(masks, F::gather(base, offsets[z]));
                        let sum = F::add8(F::and(equal, plus[z]), plus[z]);
                        let diagonal = F::or(F::or(F::xor(sum, plus[z]), equal), minus[z]);
                        let up = F::or(minus[z], F::not(F::or(diagonal, plus[z])));
                        let down = F::and(diagonal, plus[z]);
                        let shifted = F::half8(diagonal);
                        plus[z] = F::or(down, F::not(F::or(shifted, up)));
                        minus[z] = F::and(shifted, up);
                        if column >= band.quiet {
                            left[z] = F::count8(left[z], diagonal, bit);
                        }
                        any = F::or(any, left[z]);
                    }
                    if !F::any(any) {
                        continue 'lists;
                    }
                    base = base.add(8);
                    masks = masks.add(64);
                }
                for z in 0..Z {
                    let start = 8 * (Z * at + z);
                    if start >= real {
                        break;
                    }
                    let mut within = F::nonzero(left[z]);
                    if real - start < 8 {
                        within &= (1 << (8 * (real - start))) - 1;
                    }
                    F::store(left_bytes[z].as_mut_ptr(), left[z]);
                    push(band.k, &strings, &groups[start..], within, &left_bytes[z], out);
                }
            }
        }
    }
}

lanes_kernel! {
    fn search_16[F, Z = 2 or 1](
        band: &Band,
        table: *const u8,
        strings: LaneStrings<'_>,
        groups: &mut Vec<u32>,
        out: &mut Vec<(u32, u32)>,
    ) {
        check_groups(band.columns, &strings, groups);
        let real = fill(groups, 8 * Z);
        let mut left_bytes = [[0; 64]; Z];
        // SAFETY: as in `search_8`.
        unsafe {
            let bit = F::splat16(band.bit);
            'lists: for (at, list) in groups.chunks_exact(8 * Z).enumerate() {
                let mut offsets = [F::offsets(list.as_ptr(), 8 * band.columns); Z];
                for z in 1..Z {
                    offsets[z] = F::offsets(list.as_ptr().add(8 * z), 8 * band.columns);
                }
                let mut plus = [[F::splat16(band.rows); 2]; Z];
                let mut minus = [[F::splat16(0); 2]; Z];
                let mut left = [[F::splat16(u16::from(band.left)); 2]; Z];
                let mut base = strings.columns.as_ptr();
                let mut masks = table.add(128 * (band.below + 1));
                for column in 0..band.columns {
                    let mut any = F::splat16(0);
                    for z in 0..Z {
                        let codes = F::gather(base, offsets[z]);
                        let low = F::look_up(masks, codes);
                        let equals = F::unpack(low, F::look_up(masks.add(64), codes));
                        for half in 0..2 {
                            let (equal, plus) = (equals[half], &mut plus[z][half]);
                            let (minus, left) = (&mut minus[z][half], &mut left[z][half]);
                            let sum = F::add16(F::and(equal, *plus), *plus);
                            let diagonal = F::or(F::or(F::xor(sum, *plus), equal), *minus);
                            let up = F::or(*minus, F::not(F::or(diagonal, *plus)));
                            let down = F::and(diagonal, *plus);
                            let shifted = F::half16(diagonal);
                            *plus = F::or(down, F::not(F::or(shifted, up)));
                            *minus = F::and(shifted, up);
                            if column >= band.quiet {
                                *left = F::count16(*left, diagonal, bit);
                            }
                            any = F::or(any, *left);
                        }
                    }
                    if !F::any(any) {
                        continue 'lists;
                    }
                    base = base.add(8);
                    masks = masks.add(128);
                }
                for z in 0..Z {
                    let start = 8 * (Z * at + z);
                    if start >= real {
                        break;
                    }
                    let left = F::pack(left[z]);
                    let mut within = F::nonzero(left);
                    if real - start < 8 {
                        within &= (1 << (8 * (real - start))) - 1;
                    }
                    F::store(left_bytes[z].as_mut_ptr(), left);
                    push(band.k, &strings, &groups[start..], within, &left_bytes[z], out);
                }
            }
        }
    }
}

/// Pushes the items of the lanes `within` that are wanted, with their distances.
#[inline(always)]
fn push(
    k: u32,
    strings: &LaneStrings<'_>,
    groups: &[u32],
    mut within: u64,
    left: &[u8; 64],
    out: &mut Vec<(u32, u32)>,
) {
    if within == 0 {
        return;
    }
    out.reserve(64);
    let wanted = strings.items.len() as u32;
    let mut len = out.len();
    while within != 0 {
        let lane = within.trailing_zeros() as usize;
        within &= within - 1;
        let item = strings.first + 8 * groups[lane / 8] + lane as u32 % 8;
        // SAFETY: there is space for 64 matches, and a lane is met once.
        unsafe { out.as_mut_ptr().add(len).write((item, k + 1 - u32::from(left[lane]))) };
        len += usize::from(item.wrapping_sub(strings.items.start) < wanted);
    }
    // SAFETY: the matches up to here were written.
    unsafe { out.set_len(len) };
}
