//! The search for the strings near a probe.

use std::ops::Range;

use super::StringBoxes;
use super::build::{BLOCK, BoxBounds, BoxRun, GROUP};
use super::elements::{PLACE_BITS, prefix_bits};
use crate::simd::Simd;
use crate::simd::texts::{Words, lanes_kernel};
use crate::string::lanes::{Band, CodeRows, LaneStrings, MAX_K, Pattern};
use crate::string::page::Page;
use crate::string::rules::{Alike, Level, PREFIX};

/// The distance of candidates that were not verified.
pub const UNKNOWN: u32 = u32::MAX;

/// Space for probes, and what is known of the last one: it is often looked for in several runs.
#[derive(Debug, Clone, Default)]
pub struct ProbeSpace {
    codes: Vec<u8>,
    /// The index, the choice of elements, and the probe's signature by that choice.
    signature: Option<(u64, u32, u64)>,
    pattern: Pattern,
    /// Whether the pattern is of the last probe, and for wide bands.
    pattern_is: Option<bool>,
    rows: CodeRows,
    /// Whether the rows are of the last probe.
    has_rows: bool,
    blocks: Vec<u32>,
    groups: Vec<u32>,
}

impl ProbeSpace {
    /// Space for probes.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    #[inline]
    fn set(&mut self, codes: &[u8]) {
        if self.codes != codes {
            self.codes.clear();
            self.codes.extend_from_slice(codes);
            self.signature = None;
            self.pattern_is = None;
            self.has_rows = false;
        }
    }

    #[inline]
    fn signature(&mut self, boxes: &StringBoxes, choice: u32) -> u64 {
        match self.signature {
            Some((id, of, signature)) if id == boxes.id && of == choice => signature,
            _ => {
                let signature = boxes.elements.signature(choice, &self.codes);
                self.signature = Some((boxes.id, choice, signature));
                signature
            }
        }
    }
}

/// The strings that a probe looks for in a run.
#[derive(Debug, Clone)]
pub(crate) struct Wanted<'a> {
    pub run: usize,
    /// The items of the run that are looked at; others may be named and are left out.
    pub items: Range<u32>,
    /// The most elements of the probe that an item may lack, and of an item that the probe may lack.
    pub surplus: [u32; 2],
    /// The greatest distance of codes; `None` to verify none.
    pub k: Option<u32>,
    /// The needs of a match by one of Jaro's functions; `None` for other functions.
    pub alike: Option<&'a Alike>,
    /// The page of the probe.
    pub page: Page,
}

/// Counts of what a probe meets of a run: the measure of its cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Survivors {
    /// Blocks of 64 strings whose boxes are tested.
    pub tested: u64,
    /// Blocks whose boxes the probe meets.
    pub blocks: u64,
    /// Groups of 8 strings whose boxes the probe meets: they are verified.
    pub groups: u64,
    /// Groups among `groups` with a string whose signature passes, for Jaro's functions.
    pub alike: u64,
}

impl StringBoxes {
    /// Pushes every item of `items` in `run` that is within `k` of the probe, with its distance over
    /// codes. `surplus` bounds the elements of the probe that an item may lack, and those of an item
    /// that the probe may lack, as [`Threshold::surplus`](crate::string::rules::Threshold::surplus) gives them
    /// for (probe, item).
    ///
    /// By one of Jaro's functions, items that match are pushed with the distance 0, as far as codes tell;
    /// then they need not be verified.
    ///
    /// Otherwise, without `k`, or for one beyond [`MAX_K`], nothing is verified: items that pass the boxes
    /// and whose signatures pass are pushed with the distance [`UNKNOWN`].
    pub(crate) fn probe(
        &self,
        scratch: &mut ProbeSpace,
        simd: Simd,
        probe: &[u8],
        wanted: Wanted<'_>,
        out: &mut Vec<(u32, u32)>,
    ) {
        let Wanted { run, k, alike, page, .. } = wanted;
        let Some(search) = self.search(scratch, probe, wanted) else { return };
        search.find(simd, self, scratch);
        if scratch.groups.is_empty() {
            return;
        }
        let in_lanes = page != Page::NONE && CodeRows::serve(simd, probe.len(), search.run.len);
        if let Some(alike) = alike.filter(|_| in_lanes) {
            return self.search_alike(simd, scratch, &search, (alike, page), out);
        }
        match k {
            Some(k) if k <= MAX_K => {
                if search.signatures_tell() {
                    thin_out(simd, &search, self.singles(), &mut scratch.groups);
                    if scratch.groups.is_empty() {
                        return;
                    }
                }
                if scratch.pattern_is != Some(k > 7) {
                    scratch.pattern.set(simd, probe, k);
                    scratch.pattern_is = Some(k > 7);
                }
                let run = &self.runs[run];
                let Some(band) = Band::new(&scratch.pattern, run.len, k) else { return };
                let strings = LaneStrings {
                    columns: &self.columns[run.columns..],
                    first: run.first,
                    items: search.items,
                };
                band.search(simd, &scratch.pattern, strings, &mut scratch.groups, out);
            }
            _ => search.candidates(simd, self, &scratch.groups, out),
        }
    }

    /// Finds what matches by one of Jaro's functions: by lanes in groups whose codes tell symbols.
    fn search_alike(
        &self,
        simd: Simd,
        scratch: &mut ProbeSpace,
        search: &RunSearch,
        (alike, page): (&Alike, Page),
        out: &mut Vec<(u32, u32)>,
    ) {
        let run = &search.run;
        if search.can_tell() {
            thin_out(simd, search, self.singles(), &mut scratch.groups);
        }
        let is_exact = |group: u32| page.tells(self.pages[run.first_group + group as usize]);
        let ProbeSpace { codes, rows, has_rows, blocks: open, groups, .. } = scratch;
        open.clear();
        groups.retain(|&group| {
            let is_exact = is_exact(group);
            open.extend((!is_exact).then_some(group));
            is_exact
        });
        search.candidates(simd, self, open, out);
        if groups.is_empty() {
            return;
        }
        if !std::mem::replace(has_rows, true) {
            rows.set(codes);
        }
        let columns = &self.columns[run.columns..];
        let strings = LaneStrings { columns, first: run.first, items: search.items.clone() };
        rows.search(simd, run.len, alike, strings, groups, out);
    }

    /// The signatures and the prefixes of single strings.
    fn singles(&self) -> Singles<'_> {
        Singles { signatures: &self.signatures, prefixes: &self.prefixes }
    }

    /// Counts what a probe meets of a run, without verification: for the costs, over a sample.
    pub(crate) fn survivors(
        &self,
        scratch: &mut ProbeSpace,
        simd: Simd,
        probe: &[u8],
        wanted: Wanted<'_>,
    ) -> Survivors {
        let is_alike = wanted.alike.is_some();
        let Some(search) = self.search(scratch, probe, wanted) else { return Survivors::default() };
        let mut survivors = search.find(simd, self, scratch);
        if is_alike {
            if search.can_tell() {
                thin_out(simd, &search, self.singles(), &mut scratch.groups);
            }
            survivors.alike = scratch.groups.len() as u64;
        }
        survivors
    }

    fn search(
        &self,
        scratch: &mut ProbeSpace,
        probe: &[u8],
        wanted: Wanted<'_>,
    ) -> Option<RunSearch> {
        let Wanted { run, items, surplus, alike, .. } = wanted;
        let run = self.runs[run];
        let items = items.start.max(run.first)..items.end.min(run.end);
        if items.is_empty() {
            return None;
        }
        scratch.set(probe);
        let signature = scratch.signature(self, run.choice);
        let mut levels = [Level { prefix: 0, surplus }; PREFIX + 1];
        let (mut count, mut prefix) = (1, 0);
        if let Some(alike) = alike.filter(|_| self.elements.by_prefix()) {
            count = alike.levels().len();
            levels[..count].copy_from_slice(alike.levels());
            prefix = prefix_bits(probe);
        }
        Some(RunSearch { run, items, signature, prefix, levels, count })
    }
}

/// A probe in a run.
struct RunSearch {
    run: BoxRun,
    /// Items of the run; not empty.
    items: Range<u32>,
    signature: u64,
    /// The bits of its prefix.
    prefix: u64,
    /// The bounds on what an item may lack, by prefix; the first `count` are in use.
    levels: [Level; PREFIX + 1],
    count: usize,
}

impl RunSearch {
    /// Lists the groups that the probe meets, by their numbers in the run.
    #[inline]
    fn find(&self, simd: Simd, boxes: &StringBoxes, scratch: &mut ProbeSpace) -> Survivors {
        let place = |item: u32| (item - self.run.first) as usize;
        let groups = place(self.items.start) / GROUP..place(self.items.end - 1) / GROUP + 1;
        let blocks = groups.start * GROUP / BLOCK..(groups.end * GROUP).div_ceil(BLOCK);
        let (first_block, first_group) = (self.run.first_block, self.run.first_group);
        let blocks = BoxRange { boxes: &boxes.blocks, first: first_block, range: blocks };
        let groups = BoxRange { boxes: &boxes.groups, first: first_group, range: groups };
        let tested = blocks.range.len() as u64;
        find(simd, self, blocks, groups, &mut scratch.blocks, &mut scratch.groups);
        Survivors {
            tested,
            blocks: scratch.blocks.len() as u64,
            groups: scratch.groups.len() as u64,
            alike: 0,
        }
    }

    /// Whether signatures of single strings are worth a test before the strings are verified: they
    /// tell little where much of a string may be missing in the other.
    fn signatures_tell(&self) -> bool {
        let [beyond, lacking] = self.surplus().map(u64::from);
        4 * (beyond + lacking) <= 3 * self.run.len as u64
    }

    /// Whether prefixes are looked at.
    fn has_prefixes(&self) -> bool {
        self.levels[self.count - 1].prefix > 0
    }

    /// Whether a signature can tell that a string does not match.
    fn can_tell(&self) -> bool {
        let [beyond, lacking] = self.surplus();
        beyond.max(lacking) < u64::BITS
    }

    /// The greatest numbers of elements that a string and the probe may lack of each other.
    fn surplus(&self) -> [u32; 2] {
        self.levels[self.count - 1].surplus
    }

    /// The bounds for any prefix, if strings match without a common one; and the bounds of the other levels,
    /// each with the bits that a prefix has to have.
    #[inline(always)]
    fn levels(&self) -> (Option<[u32; 2]>, impl Iterator<Item = (u64, [u32; 2])>) {
        let first = &self.levels[0];
        let any = (first.prefix == 0).then_some(first.surplus);
        let others = self.levels[usize::from(any.is_some())..self.count].iter();
        let others = others.map(|&Level { prefix, surplus }| {
            (self.prefix & !(!0 << (PLACE_BITS * prefix)), surplus)
        });
        (any, others)
    }

    /// Pushes the items of some groups whose signatures pass.
    fn candidates(
        &self,
        simd: Simd,
        boxes: &StringBoxes,
        groups: &[u32],
        out: &mut Vec<(u32, u32)>,
    ) {
        candidates(simd, self, boxes.singles(), groups, out);
    }
}

/// The signatures and prefixes of single strings; these are empty where no search asks for them.
#[derive(Clone, Copy)]
struct Singles<'a> {
    signatures: &'a [u64],
    prefixes: &'a [u64],
}

/// Some boxes of a run.
struct BoxRange<'a> {
    boxes: &'a BoxBounds,
    /// The run's first box.
    first: usize,
    /// Boxes by their numbers in the run.
    range: Range<usize>,
}

impl BoxRange<'_> {
    /// Checks that eight words can be read from each of the boxes on.
    fn check(&self, has_prefixes: bool) {
        let end = self.first + self.range.end + 7;
        assert!(end <= self.boxes.union.len() && end <= self.boxes.common.len());
        assert!(!has_prefixes || end <= self.boxes.prefixes.len());
    }
}

/// Tells which of eight boxes from `at` on a probe meets. No closure: intrinsics are not inlined into one.
///
/// # Safety
///
/// The processor runs the instructions of the form, and eight words can be read from the box on.
#[inline(always)]
unsafe fn met<F: Words>(search: &RunSearch, probe: F::W, part: &BoxRange<'_>, at: usize) -> u8 {
    let (any, others) = search.levels();
    // SAFETY: as the caller promises.
    unsafe {
        let union = F::load_words(part.boxes.union.as_ptr().add(part.first + at));
        let common = F::load_words(part.boxes.common.as_ptr().add(part.first + at));
        let mut mask = 0;
        if let Some([beyond, lacking]) = any {
            mask = F::few_beyond(probe, union, beyond) & F::few_beyond(common, probe, lacking);
        }
        for (bits, [beyond, lacking]) in others {
            let prefixes = F::load_words(part.boxes.prefixes.as_ptr().add(part.first + at));
            let alike = F::none_beyond(F::splat_words(bits), prefixes);
            if alike == 0 {
                break;
            }
            mask |=
                alike & F::few_beyond(probe, union, beyond) & F::few_beyond(common, probe, lacking);
        }
        mask
    }
}

lanes_kernel! {
    /// Lists the blocks that a probe meets, then the groups of these that it meets.
    fn find[F, Z = 1 or 1](
        search: &RunSearch,
        blocks: BoxRange<'_>,
        groups: BoxRange<'_>,
        block_list: &mut Vec<u32>,
        group_list: &mut Vec<u32>,
    ) {
        blocks.check(search.has_prefixes());
        groups.check(search.has_prefixes());
        block_list.clear();
        block_list.reserve(blocks.range.len() + 8);
        group_list.clear();
        // SAFETY: the kernel runs the instructions of the form; eight words can be read from each box
        // on, and each list has space for eight numbers behind all boxes that can be in it.
        unsafe {
            let probe = F::splat_words(search.signature);
            let mut listed = 0;
            let list = block_list.as_mut_ptr();
            for at in blocks.range.clone().step_by(8) {
                let mut mask = met::<F>(search, probe, &blocks, at);
                let rest = blocks.range.end - at;
                if rest < 8 {
                    mask &= (1 << rest) - 1;
                }
                F::compress(list.add(listed), at as u32, mask);
                listed += mask.count_ones() as usize;
            }
            block_list.set_len(listed);
            group_list.reserve(8 * listed + 8);
            let list = group_list.as_mut_ptr();
            let mut listed = 0;
            for &block in block_list.iter() {
                let at = BLOCK / GROUP * block as usize;
                let mut mask = met::<F>(search, probe, &groups, at);
                // Only the first and the last block can have groups outside the range.
                mask &= 0xff << groups.range.start.saturating_sub(at);
                let rest = groups.range.end - at;
                if rest < 8 {
                    mask &= (1 << rest) - 1;
                }
                F::compress(list.add(listed), at as u32, mask);
                listed += mask.count_ones() as usize;
            }
            group_list.set_len(listed);
        }
    }
}

/// Tells which strings of a group, and of those behind it, have signatures that pass.
///
/// # Safety
///
/// The processor runs the instructions of the form.
#[inline(always)]
unsafe fn passing<F: Words>(search: &RunSearch, singles: Singles<'_>, group: u32) -> u8 {
    let (any, others) = search.levels();
    let first = search.run.first as usize + GROUP * group as usize;
    let eight = &singles.signatures[first..][..GROUP];
    // SAFETY: the slices have eight words, and the caller promises the instruction set.
    unsafe {
        let probe = F::splat_words(search.signature);
        let eight = F::load_words(eight.as_ptr());
        let mut mask = 0;
        if let Some([beyond, lacking]) = any {
            mask = F::few_beyond(probe, eight, beyond) & F::few_beyond(eight, probe, lacking);
        }
        for (bits, [beyond, lacking]) in others {
            let prefixes = F::load_words(singles.prefixes[first..][..GROUP].as_ptr());
            let alike = F::none_beyond(F::splat_words(bits), prefixes);
            if alike == 0 {
                break;
            }
            mask |=
                alike & F::few_beyond(probe, eight, beyond) & F::few_beyond(eight, probe, lacking);
        }
        mask
    }
}

lanes_kernel! {
    /// Leaves the groups in which some signature passes.
    fn thin_out[F, Z = 1 or 1](search: &RunSearch, singles: Singles<'_>, groups: &mut Vec<u32>) {
        let mut kept = 0;
        for at in 0..groups.len() {
            let group = groups[at];
            // SAFETY: the kernel runs the instructions of the form.
            let mask = unsafe { passing::<F>(search, singles, group) };
            groups[kept] = group;
            kept += usize::from(mask != 0);
        }
        groups.truncate(kept);
    }
}

lanes_kernel! {
    /// Pushes the items of some groups whose signatures pass.
    fn candidates[F, Z = 1 or 1](
        search: &RunSearch,
        singles: Singles<'_>,
        groups: &[u32],
        out: &mut Vec<(u32, u32)>,
    ) {
        for &group in groups {
            let first = search.run.first + GROUP as u32 * group;
            // SAFETY: the kernel runs the instructions of the form.
            let mut mask = unsafe { passing::<F>(search, singles, group) };
            while mask != 0 {
                let lane = mask.trailing_zeros();
                mask &= mask - 1;
                if search.items.contains(&(first + lane)) {
                    out.push((first + lane, UNKNOWN));
                }
            }
        }
    }
}
