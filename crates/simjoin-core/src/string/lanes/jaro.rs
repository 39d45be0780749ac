//! Jaro's similarity of a probe and strings of one length, in lanes of 16 or of 32 bits.
//!
//! A lane is the rows of the probe that a string has taken, as in [`jaro`](crate::string::rules::jaro()): a
//! first sweep over the columns takes them, a second one compares the order of the symbols taken. Both are
//! counted, and so is the common prefix; which counts match is known beforehand.

use std::array::from_fn;

use super::band::{check_groups, fill};
use super::pattern::CodeTable;
use super::{CODES, LaneStrings};
use crate::simd::texts::{Lanes, Pairs, lanes_kernel};
use crate::simd::{Form, Simd};
use crate::string::rules::{Alike, ORDERED, PREFIX};

/// The rows of a probe in which each code stands, eight to a table.
#[derive(Debug, Clone)]
pub(crate) struct CodeRows {
    tables: [CodeTable; ORDERED / 8],
    len: usize,
    /// The rows that each column may take and takes, for the second sweep.
    swept: Vec<CodeTable>,
}

impl Default for CodeRows {
    fn default() -> Self {
        Self { tables: [CodeTable([0; CODES]); ORDERED / 8], len: 0, swept: vec![] }
    }
}

/// The parameters of the kernels for two lengths.
struct Sweep {
    /// For each length of the prefix, how many more places may differ than with one symbol less.
    steps: [CodeTable; PREFIX + 1],
    /// The columns, and how far the row of a symbol taken may be from its column.
    columns: usize,
    window: usize,
}

impl CodeRows {
    /// Whether lanes decide about a probe and strings of these lengths, and sooner than one by one.
    pub(crate) fn serve(simd: Simd, probe: usize, len: usize) -> bool {
        simd.form() != Form::Portable && probe.max(len) <= ORDERED
    }

    /// Makes the tables of `probe`, which has at most [`ORDERED`] codes.
    pub(crate) fn set(&mut self, probe: &[u8]) {
        self.len = probe.len();
        self.tables = [CodeTable([0; CODES]); ORDERED / 8];
        for (row, &code) in probe.iter().enumerate() {
            self.tables[row / 8].0[usize::from(code) % CODES] |= 1 << (row % 8);
        }
    }

    /// Pushes the strings of some groups that match the probe, as [`Band::search`](super::Band::search) does,
    /// but with 0 for a distance. The strings have `len` codes, at most [`ORDERED`]; `alike` is of both lengths.
    pub(crate) fn search(
        &mut self,
        simd: Simd,
        len: usize,
        alike: &Alike,
        strings: LaneStrings<'_>,
        groups: &mut Vec<u32>,
        out: &mut Vec<(u32, u32)>,
    ) {
        assert!(self.len.max(len) <= ORDERED);
        let mut steps = [CodeTable([0; CODES]); PREFIX + 1];
        for (prefix, step) in steps.iter_mut().enumerate() {
            for (common, step) in step.0.iter_mut().enumerate() {
                let shorter = prefix.checked_sub(1).map_or(0, |p| alike.places[p][common]);
                *step = alike.places[prefix][common] - shorter;
            }
        }
        let window = (self.len.max(len) / 2).saturating_sub(1);
        let sweep = Sweep { steps, columns: len, window };
        self.swept.resize(8 * ORDERED, CodeTable([0; CODES]));
        if self.len <= 16 {
            search_16(simd, self, &sweep, strings, groups, out);
        } else {
            search_32(simd, self, &sweep, strings, groups, out);
        }
    }
}

/// Makes the kernel for probes of at most `W` codes.
macro_rules! search {
    ($name:ident, $width:literal, $registers:literal) => {
        lanes_kernel! {
            fn $name[F, Z = 1 or 1](
                rows: &mut CodeRows,
                sweep: &Sweep,
                strings: LaneStrings<'_>,
                groups: &mut Vec<u32>,
                out: &mut Vec<(u32, u32)>,
            ) {
                const W: usize = $width;
                // The registers that 64 strings take.
                const N: usize = $registers;
                check_groups(sweep.columns, &strings, groups);
                let real = fill(groups, 8);
                let tables = rows.tables.as_ptr().cast::<u8>();
                let swept = rows.swept.as_mut_ptr().cast::<u8>();
                // SAFETY: the kernel runs the instructions of the form; the columns of all groups are
                // there, and for each of the columns, which are at most `ORDERED`, eight registers.
                unsafe {
                    let (none, one) = (F::splat8(0), F::splat_lanes::<W>(1));
                    let mut first_near = one;
                    for _ in 0..sweep.window {
                        first_near = F::or(F::add::<W>(first_near, first_near), one);
                    }
                    for (at, list) in groups.chunks_exact(8).enumerate() {
                        let offsets = F::offsets(list.as_ptr(), 8 * sweep.columns);
                        let mut base = strings.columns.as_ptr();
                        let (mut taken, mut common) = ([none; N], [none; N]);
                        let mut is_prefix = [F::splat_lanes::<W>(0xff); N];
                        let mut prefix = [none; PREFIX];
                        let (mut near, mut row) = (first_near, one);
                        for column in 0..sweep.columns {
                            let codes = F::gather(base, offsets);
                            let equal = equal::<F, N>(tables, codes);
                            for n in 0..N {
                                let free = F::and(F::and(equal[n], near), F::not(taken[n]));
                                let first = F::lowest::<W>(free);
                                taken[n] = F::or(taken[n], first);
                                common[n] = F::add::<W>(common[n], F::where_any::<W>(free, one));
                                let kept = swept.add(64 * (8 * column + 2 * n));
                                F::store(kept, equal[n]);
                                F::store(kept.add(64), first);
                                if column < PREFIX {
                                    let is_equal = F::and(equal[n], row);
                                    is_prefix[n] = F::where_any::<W>(is_equal, is_prefix[n]);
                                }
                            }
                            if column < PREFIX {
                                prefix[column] = narrow::<F, N>(is_prefix);
                                row = F::add::<W>(row, row);
                            }
                            near = F::add::<W>(near, near);
                            if column < sweep.window {
                                near = F::or(near, one);
                            }
                            base = base.add(8);
                        }
                        let common = narrow::<F, N>(common);
                        let mut most = F::look_up(sweep.steps[0].0.as_ptr(), common);
                        for p in 0..PREFIX {
                            let more = F::look_up(sweep.steps[p + 1].0.as_ptr(), common);
                            most = F::add8(most, F::and(more, prefix[p]));
                        }
                        if !F::any(most) {
                            continue;
                        }
                        let mut agreeing = [none; N];
                        for column in 0..sweep.columns {
                            for n in 0..N {
                                let kept = swept.add(64 * (8 * column + 2 * n));
                                let next = F::lowest::<W>(taken[n]);
                                let next = F::where_any::<W>(F::load(kept.add(64)), next);
                                let is_equal = F::and(F::load(kept), next);
                                agreeing[n] =
                                    F::add::<W>(agreeing[n], F::where_any::<W>(is_equal, one));
                                taken[n] = F::xor(taken[n], next);
                            }
                        }
                        // Below 0 where as many places differ as may not.
                        let agreeing = narrow::<F, N>(agreeing);
                        let left = F::add8(F::add8(most, agreeing), F::not(common));
                        let sign = F::and(F::not(left), F::splat8(0x80));
                        let mut within = F::nonzero(sign);
                        if real - 8 * at < 8 {
                            within &= (1 << (8 * (real - 8 * at))) - 1;
                        }
                        push(&strings, list, within, out);
                    }
                }
            }
        }
    };
}

search!(search_16, 16, 2);
search!(search_32, 32, 4);

/// The rows of the codes of 64 strings, in `N` registers.
///
/// # Safety
///
/// The processor runs the instructions of the form, and there are `N` readable tables.
#[inline(always)]
unsafe fn equal<F: Lanes + Pairs, const N: usize>(tables: *const u8, codes: F::V) -> [F::V; N] {
    // SAFETY: as the caller promises.
    unsafe {
        let low = F::unpack(F::look_up(tables, codes), F::look_up(tables.add(64), codes));
        if N == 2 {
            return from_fn(|n| low[n]);
        }
        let third = F::look_up(tables.add(128), codes);
        let high = F::unpack(third, F::look_up(tables.add(192), codes));
        let parts = [F::unpack32(low[0], high[0]), F::unpack32(low[1], high[1])];
        from_fn(|n| parts[n / 2][n % 2])
    }
}

/// Small numbers of 64 strings, from `N` registers, as bytes.
///
/// # Safety
///
/// The processor runs the instructions of the form.
#[inline(always)]
unsafe fn narrow<F: Lanes + Pairs, const N: usize>(numbers: [F::V; N]) -> F::V {
    // SAFETY: as the caller promises.
    unsafe {
        if N == 2 {
            return F::pack([numbers[0], numbers[1]]);
        }
        F::pack([F::pack32([numbers[0], numbers[1]]), F::pack32([numbers[2 % N], numbers[3 % N]])])
    }
}

/// Pushes the items of the lanes `within` that are wanted.
#[inline(always)]
fn push(strings: &LaneStrings<'_>, groups: &[u32], mut within: u64, out: &mut Vec<(u32, u32)>) {
    while within != 0 {
        let lane = within.trailing_zeros();
        within &= within - 1;
        let item = strings.first + 8 * groups[lane as usize / 8] + lane % 8;
        if strings.items.contains(&item) {
            out.push((item, 0));
        }
    }
}
