//! The search for the strings near a probe.

use std::ops::Range;

use super::Boxes;
use super::build::{BLOCK, Bounds, GROUP, Run};
use crate::simd::Simd;
use crate::simd::texts::{Words, lanes_kernel};
use crate::string::lanes::{Band, MAX_K, Pattern, Strings};

/// The distance of candidates that were not verified.
pub(crate) const UNKNOWN: u32 = u32::MAX;

/// Space for probes, and what is known of the last one: it is often looked for in several runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Probe {
    codes: Vec<u8>,
    /// The index, the choice of elements, and the probe's signature by that choice.
    signature: Option<(u64, u32, u64)>,
    pattern: Pattern,
    /// Whether the pattern is of the last probe, and for wide bands.
    pattern_is: Option<bool>,
    blocks: Vec<u32>,
    groups: Vec<u32>,
}

impl Probe {
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
        }
    }

    #[inline]
    fn signature(&mut self, boxes: &Boxes, choice: u32) -> u64 {
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
pub(crate) struct Wanted {
    pub run: usize,
    /// The items of the run that are looked at; others may be named and are left out.
    pub items: Range<u32>,
    /// The most elements of the probe that an item may lack, and of an item that the probe may lack.
    pub surplus: [u32; 2],
    /// The greatest distance of codes; `None` to verify nothing.
    pub k: Option<u32>,
}

/// Counts of what a probe meets of a run: the measure of its cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Survivors {
    /// Blocks of 64 strings whose boxes are tested.
    pub tested: u64,
    /// Blocks whose boxes the probe meets.
    pub blocks: u64,
    /// Groups of 8 strings whose boxes the probe meets: what is verified.
    pub groups: u64,
}

impl Boxes {
    /// Pushes every item of `items` in `run` that is within `k` of the probe, with its distance over
    /// codes. `surplus` bounds the elements of the probe that an item may lack, and those of an item
    /// that the probe may lack, as [`Threshold::surplus`](crate::string::rules::Threshold::surplus) gives them
    /// for (probe, item).
    ///
    /// Without `k`, or for one beyond [`MAX_K`], nothing is verified: items that pass the boxes and
    /// whose signatures pass are pushed with the distance [`UNKNOWN`].
    pub(crate) fn probe(
        &self,
        scratch: &mut Probe,
        simd: Simd,
        probe: &[u8],
        wanted: Wanted,
        out: &mut Vec<(u32, u32)>,
    ) {
        let Wanted { run, k, .. } = wanted;
        let Some(search) = self.search(scratch, probe, wanted) else { return };
        search.find(simd, self, scratch);
        if scratch.groups.is_empty() {
            return;
        }
        match k {
            Some(k) if k <= MAX_K => {
                if search.signatures_tell() {
                    thin_out(simd, &search, &self.signatures, &mut scratch.groups);
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
                let strings = Strings {
                    columns: &self.columns[run.columns..],
                    first: run.first,
                    items: search.items,
                };
                band.search(simd, &scratch.pattern, strings, &mut scratch.groups, out);
            }
            _ => search.candidates(simd, self, &scratch.groups, out),
        }
    }

    /// Counts what a probe meets of a run, without verification: for the costs, over a sample.
    pub(crate) fn survivors(
        &self,
        scratch: &mut Probe,
        simd: Simd,
        probe: &[u8],
        wanted: Wanted,
    ) -> Survivors {
        match self.search(scratch, probe, wanted) {
            Some(search) => search.find(simd, self, scratch),
            None => Survivors::default(),
        }
    }

    fn search(&self, scratch: &mut Probe, probe: &[u8], wanted: Wanted) -> Option<Search> {
        let Wanted { run, items, surplus, .. } = wanted;
        let run = self.runs[run];
        let items = items.start.max(run.first)..items.end.min(run.end);
        if items.is_empty() {
            return None;
        }
        scratch.set(probe);
        let signature = scratch.signature(self, run.choice);
        Some(Search { run, items, signature, surplus })
    }
}

/// A probe in a run.
struct Search {
    run: Run,
    /// Items of the run; not empty.
    items: Range<u32>,
    signature: u64,
    surplus: [u32; 2],
}

impl Search {
    /// Lists the groups that the probe meets, by their numbers in the run.
    #[inline]
    fn find(&self, simd: Simd, boxes: &Boxes, scratch: &mut Probe) -> Survivors {
        let place = |item: u32| (item - self.run.first) as usize;
        let groups = place(self.items.start) / GROUP..place(self.items.end - 1) / GROUP + 1;
        let blocks = groups.start * GROUP / BLOCK..(groups.end * GROUP).div_ceil(BLOCK);
        let (first_block, first_group) = (self.run.first_block, self.run.first_group);
        let blocks = Part { boxes: &boxes.blocks, first: first_block, range: blocks };
        let groups = Part { boxes: &boxes.groups, first: first_group, range: groups };
        let tested = blocks.range.len() as u64;
        find(simd, self, blocks, groups, &mut scratch.blocks, &mut scratch.groups);
        Survivors {
            tested,
            blocks: scratch.blocks.len() as u64,
            groups: scratch.groups.len() as u64,
        }
    }

    /// Whether signatures of single strings are worth a test before the strings are verified: they
    /// tell little where much of a string may be missing in the other.
    fn signatures_tell(&self) -> bool {
        let [beyond, lacking] = self.surplus.map(u64::from);
        4 * (beyond + lacking) <= 3 * self.run.len as u64
    }

    /// Pushes the items of some groups whose signatures pass.
    fn candidates(&self, simd: Simd, boxes: &Boxes, groups: &[u32], out: &mut Vec<(u32, u32)>) {
        candidates(simd, self, &boxes.signatures, groups, out);
    }
}

/// Some boxes of a run.
struct Part<'a> {
    boxes: &'a Bounds,
    /// The run's first box.
    first: usize,
    /// Boxes by their numbers in the run.
    range: Range<usize>,
}

impl Part<'_> {
    /// Checks that eight words can be read from each of the boxes on.
    fn check(&self) {
        let end = self.first + self.range.end + 7;
        assert!(end <= self.boxes.union.len() && end <= self.boxes.common.len());
    }
}

/// Tells which of eight boxes from `at` on a probe meets. No closure: intrinsics are not inlined into one.
///
/// # Safety
///
/// The processor runs the instructions of the form, and eight words can be read from the box on.
#[inline(always)]
unsafe fn met<F: Words>(search: &Search, probe: F::W, part: &Part<'_>, at: usize) -> u8 {
    let [beyond, lacking] = search.surplus;
    // SAFETY: as the caller promises.
    unsafe {
        let union = F::load_words(part.boxes.union.as_ptr().add(part.first + at));
        let common = F::load_words(part.boxes.common.as_ptr().add(part.first + at));
        F::few_beyond(probe, union, beyond) & F::few_beyond(common, probe, lacking)
    }
}

lanes_kernel! {
    /// Lists the blocks that a probe meets, then the groups of these that it meets.
    fn find[F, Z = 1 or 1](
        search: &Search,
        blocks: Part<'_>,
        groups: Part<'_>,
        block_list: &mut Vec<u32>,
        group_list: &mut Vec<u32>,
    ) {
        blocks.check();
        groups.check();
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

lanes_kernel! {
    /// Leaves the groups in which some signature passes.
    fn thin_out[F, Z = 1 or 1](search: &Search, signatures: &[u64], groups: &mut Vec<u32>) {
        let [beyond, lacking] = search.surplus;
        let mut kept = 0;
        for at in 0..groups.len() {
            let group = groups[at];
            let first = search.run.first as usize + GROUP * group as usize;
            let eight = &signatures[first..][..GROUP];
            // SAFETY: the kernel runs the instructions of the form, and the slice has eight words.
            let mask = unsafe {
                let probe = F::splat_words(search.signature);
                let eight = F::load_words(eight.as_ptr());
                F::few_beyond(probe, eight, beyond) & F::few_beyond(eight, probe, lacking)
            };
            groups[kept] = group;
            kept += usize::from(mask != 0);
        }
        groups.truncate(kept);
    }
}

lanes_kernel! {
    /// Pushes the items of some groups whose signatures pass.
    fn candidates[F, Z = 1 or 1](
        search: &Search,
        signatures: &[u64],
        groups: &[u32],
        out: &mut Vec<(u32, u32)>,
    ) {
        let [beyond, lacking] = search.surplus;
        // SAFETY: the kernel runs the instructions of the form, and the slice has eight words.
        unsafe {
            let probe = F::splat_words(search.signature);
            for &group in groups {
                let first = search.run.first + GROUP as u32 * group;
                let eight = &signatures[first as usize..][..GROUP];
                let words = F::load_words(eight.as_ptr());
                let mut mask = F::few_beyond(probe, words, beyond);
                mask &= F::few_beyond(words, probe, lacking);
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
}
