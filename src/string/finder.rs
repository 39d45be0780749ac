//! The build items that a probe item may match, run by run.

use std::mem::size_of;
use std::ops::Range;
use std::sync::Arc;

use super::boxes::{Boxes, Probe, UNKNOWN, Wanted};
use super::collection::Strings;
use super::function::StringFunction;
use super::lanes::MAX_K;
use super::threshold::{Limits, Threshold};
use crate::engine::ItemId;
use crate::simd::Simd;

/// Finds build items for one probe item after the other.
#[derive(Debug)]
pub(super) struct Finder {
    /// None: every item may match.
    boxes: Option<Arc<Boxes>>,
    /// Whether boxes rule items out. Otherwise lanes compare all.
    uses_boxes: bool,
    function: StringFunction,
    simd: Simd,
    scratch: Probe,
    longest: usize,
}

/// Whether the function counts edits as lanes do.
pub(super) fn counts_as_lanes(function: StringFunction) -> bool {
    matches!(function, StringFunction::Levenshtein | StringFunction::LevenshteinSimilarity)
}

/// The greatest distance of Levenshtein of two texts with so many edits of a function, where edits bound it.
pub(super) fn levenshtein_of(function: StringFunction, most: u32) -> Option<u32> {
    match function {
        // A replacement takes two insertions and deletions.
        StringFunction::Levenshtein
        | StringFunction::LevenshteinSimilarity
        | StringFunction::IndelSimilarity
        | StringFunction::Hamming => Some(most),
        // An exchange takes two replacements.
        StringFunction::DamerauLevenshtein => most.checked_mul(2),
        StringFunction::Jaro | StringFunction::JaroWinkler => None,
    }
}

/// Bits of a signature: no text has more of them that another lacks.
const SIGNATURE_BITS: u32 = u64::BITS;

impl Finder {
    /// The most items that one search looks at.
    const MOST: u32 = 1 << 14;

    /// The bytes of the items that one search finds, in the worst case.
    pub(super) const FOUND_BYTES: usize = Self::MOST as usize * size_of::<(ItemId, u32)>();

    pub(super) fn new(
        boxes: Arc<Boxes>,
        uses_boxes: bool,
        threshold: Threshold,
        simd: Simd,
    ) -> Self {
        let longest = (0..boxes.runs()).map(|run| boxes.string_len(run)).max().unwrap_or(0);
        let function = threshold.function;
        let boxes = Some(boxes);
        Self { boxes, uses_boxes, function, simd, scratch: Probe::new(), longest }
    }

    /// A finder of all items, which takes no memory for them.
    pub(super) fn without_index(build: &Strings, threshold: Threshold, simd: Simd) -> Self {
        let (function, longest) = (threshold.function, build.longest());
        Self { boxes: None, uses_boxes: false, function, simd, scratch: Probe::new(), longest }
    }

    /// The scalars of the longest build text.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// A search for the first ones of some items of a run.
    pub(super) fn wanted(&self, run: usize, items: Range<ItemId>, limits: Limits) -> Wanted {
        let most =
            self.boxes.as_ref().map_or(Self::MOST, |boxes| boxes.items_per_call(self.simd, run));
        let most = most.min(Self::MOST);
        let items = items.start..items.end.min(items.start + most);
        let surplus = if self.uses_boxes { limits.surplus } else { [SIGNATURE_BITS; 2] };
        let surplus = surplus.map(|most| most.min(SIGNATURE_BITS));
        let k = limits.most.and_then(|most| levenshtein_of(self.function, most));
        let k = k.filter(|k| *k <= MAX_K);
        Wanted { run, items, surplus, k }
    }

    /// Appends the items that are wanted and may match the codes of a probe item to `found`, with the
    /// distances of their codes where those are computed.
    pub(super) fn search(&mut self, probe: &[u8], wanted: Wanted, found: &mut Vec<(ItemId, u32)>) {
        let Some(boxes) = &self.boxes else {
            found.extend(wanted.items.map(|item| (item, UNKNOWN)));
            return;
        };
        boxes.probe(&mut self.scratch, self.simd, probe, wanted, found);
        if !counts_as_lanes(self.function) {
            found.iter_mut().for_each(|(_, distance)| *distance = UNKNOWN);
        }
    }

    /// Counts what a search meets, and the items that it leaves.
    pub(super) fn sample(
        &mut self,
        probe: &[u8],
        wanted: Wanted,
        found: &mut Vec<(ItemId, u32)>,
    ) -> Met {
        let Self { boxes, simd, scratch, function, .. } = self;
        let Some(boxes) = boxes else { return Met::default() };
        let survivors = boxes.survivors(scratch, *simd, probe, wanted.clone());
        let has_lanes = wanted.k.is_some();
        found.clear();
        if !counts_as_lanes(*function) {
            boxes.probe(scratch, *simd, probe, wanted, found);
        }
        Met {
            boxes: survivors.tested as f64 / 8.0 + survivors.blocks as f64,
            groups: survivors.groups as f64,
            open: found.len() as f64,
            lanes: if has_lanes { survivors.groups as f64 / 8.0 } else { 0.0 },
        }
    }
}

/// The work of a search.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Met {
    /// Tests of eight boxes.
    pub boxes: f64,
    /// Groups of eight items that are left, and the items of them that have to be compared one by one.
    pub groups: f64,
    pub open: f64,
    /// Registers of 64 texts that lanes compare.
    pub lanes: f64,
}

/// A bound on the bytes that the boxes and lanes of some items take. `keys` is the number of blocking
/// keys, at least 1.
pub(super) fn boxes_bytes(rows: usize, bytes: usize, longest: usize, keys: usize) -> usize {
    // A run is filled up to eight texts.
    let padding = (keys.saturating_mul(longest).saturating_mul(longest + 1) / 2).min(bytes);
    let runs = rows.min(keys.saturating_mul(longest + 1));
    // Signatures, two words a group and a block of each run, and what is known of a run.
    let items = rows * (8 + 2 + 1) + runs * 128;
    2 * (items + bytes + 7 * padding) + 4096
}

/// A bound on the bytes of a cursor that follow the longest text: tables of the probe text, both texts as
/// scalars, rows of a matrix, and the limits of each length.
pub(super) fn scratch_bytes(longest: usize) -> usize {
    (256 + 2 * size_of::<Option<Limits>>()) * longest + (1 << 12)
}
