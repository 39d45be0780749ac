//! The build items that a probe item may match, run by run.

use std::mem::size_of;
use std::ops::Range;
use std::sync::Arc;

use super::boxes::{ProbeSpace, StringBoxes, Survivors, UNKNOWN, Wanted};
use super::collection::Strings;
use super::function::StringFunction;
use super::lanes::MAX_K;
use super::page::Page;
use super::rules::{Alike, SCRATCH_OF_EDITS, SCRATCH_OF_JARO};
use super::threshold::{AllowedDifferences, Threshold};
use crate::engine::ItemId;
use crate::simd::Simd;

/// Finds build items for one probe item after the other.
#[derive(Debug)]
pub struct Finder {
    /// None: every item may match.
    boxes: Option<Arc<StringBoxes>>,
    /// Whether boxes rule items out. Otherwise lanes compare all.
    uses_boxes: bool,
    threshold: Threshold,
    alikes: Alikes,
    simd: Simd,
    scratch: ProbeSpace,
}

/// The codes of a probe item.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProbeCodes<'a> {
    codes: &'a [u8],
    page: Page,
}

impl<'a> ProbeCodes<'a> {
    pub(super) fn of(items: &'a Strings, item: ItemId) -> Self {
        Self { codes: items.codes(item), page: items.page(item) }
    }
}

/// Items of a run that a search looks at, and what their matches allow.
#[derive(Debug, Clone)]
pub(super) struct Sought {
    run: usize,
    pub items: Range<ItemId>,
    limits: AllowedDifferences,
}

/// The needs of matches of probe texts of one length by one of Jaro's functions, by the length of build texts.
#[derive(Debug, Default)]
struct Alikes {
    /// The length of probe texts.
    of: usize,
    /// The needs for each length of build texts, once they have been asked for.
    by_len: Vec<Option<Box<Alike>>>,
}

impl Alikes {
    /// The lengths that are remembered: longer texts hold most characters of each other anyway.
    const LENS: usize = 64;

    /// The bytes of all lengths.
    const BYTES: usize = Self::LENS * (size_of::<Alike>() + size_of::<usize>());

    /// The needs of matches of texts of two lengths; `None` for longer ones, and where nothing matches.
    fn get(&mut self, threshold: Threshold, probe: usize, build: usize) -> Option<&Alike> {
        if probe.max(build) >= Self::LENS {
            return None;
        }
        if self.of != probe {
            self.of = probe;
            self.by_len.clear();
        }
        if self.by_len.is_empty() {
            self.by_len.resize(Self::LENS, None);
        }
        let known = &mut self.by_len[build];
        if known.is_none() {
            *known = threshold.rule().alike(probe as u32, build as u32).map(Box::new);
        }
        known.as_deref()
    }
}

/// Whether the function counts edits as lanes do.
pub fn counts_as_lanes(function: StringFunction) -> bool {
    matches!(function, StringFunction::Levenshtein | StringFunction::LevenshteinSimilarity)
}

/// Whether lanes decide by the function itself, of codes.
fn is_of_lanes(function: StringFunction) -> bool {
    is_jaros(function) || counts_as_lanes(function)
}

fn is_jaros(function: StringFunction) -> bool {
    matches!(function, StringFunction::Jaro | StringFunction::JaroWinkler)
}

/// The greatest distance of Levenshtein of two texts with so many edits of a function, where edits bound it.
pub fn levenshtein_of(function: StringFunction, most: u32) -> Option<u32> {
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

/// The longest probe texts that lanes compare: their tables take 128 bytes for each scalar, and of longer
/// texts waves tell as quickly.
const LANES_LONGEST: usize = 1 << 13;

/// Bits of a signature: no text has more of them that another lacks.
const SIGNATURE_BITS: u32 = u64::BITS;

impl Finder {
    /// The most items that one search looks at.
    const MOST: u32 = 1 << 14;

    /// The bytes of the items that one search finds, in the worst case, and of what is remembered.
    pub(super) const BYTES: usize =
        Self::MOST as usize * size_of::<(ItemId, u32)>() + Alikes::BYTES;

    pub(super) fn new(
        boxes: Arc<StringBoxes>,
        uses_boxes: bool,
        threshold: Threshold,
        simd: Simd,
    ) -> Self {
        let (alikes, scratch) = (Alikes::default(), ProbeSpace::new());
        let boxes = Some(boxes);
        Self { boxes, uses_boxes, threshold, alikes, simd, scratch }
    }

    /// A finder of all items, which takes no memory for them.
    pub fn without_index(threshold: Threshold, simd: Simd) -> Self {
        let (alikes, scratch) = (Alikes::default(), ProbeSpace::new());
        Self { boxes: None, uses_boxes: false, threshold, alikes, simd, scratch }
    }

    /// The first ones of some items of a run, as many as a search looks at.
    pub(super) fn first_of(
        &self,
        run: usize,
        items: Range<ItemId>,
        limits: AllowedDifferences,
    ) -> Sought {
        let most = self.boxes.as_ref().map(|boxes| boxes.items_per_call(self.simd, run));
        let most = most.unwrap_or(Self::MOST).min(Self::MOST);
        Sought { run, items: items.start..items.end.min(items.start + most), limits }
    }

    /// Calls `work` with the boxes and what is wanted of them, if there are any.
    fn with_wanted<R>(
        &mut self,
        probe: ProbeCodes<'_>,
        sought: Sought,
        work: impl FnOnce(&StringBoxes, &mut ProbeSpace, Wanted<'_>) -> R,
    ) -> Option<R> {
        let Self { boxes, uses_boxes, threshold, alikes, scratch, .. } = self;
        let boxes = boxes.as_ref()?;
        let Sought { run, items, limits } = sought;
        let function = threshold.function;
        let surplus = if *uses_boxes { limits.surplus } else { [SIGNATURE_BITS; 2] };
        let surplus = surplus.map(|most| most.min(SIGNATURE_BITS));
        let k = limits.most.and_then(|most| levenshtein_of(function, most));
        let k = k.filter(|k| *k <= MAX_K && probe.codes.len() <= LANES_LONGEST);
        // Where all pairs match, some have no common character.
        let alike = match is_jaros(function) && !limits.is_all {
            true => alikes.get(*threshold, probe.codes.len(), boxes.string_len(run)),
            false => None,
        };
        let unfiltered;
        let alike = match alike {
            Some(alike) if !*uses_boxes => {
                unfiltered = alike.clone().with_surplus(surplus);
                Some(&unfiltered)
            }
            alike => alike,
        };
        let page = probe.page;
        Some(work(boxes, scratch, Wanted { run, items, surplus, k, alike, page }))
    }

    /// Appends the items that are sought and may match the codes of a probe item to `found`, with the
    /// distances of their codes where those are computed.
    pub(super) fn search(
        &mut self,
        probe: ProbeCodes<'_>,
        sought: Sought,
        found: &mut Vec<(ItemId, u32)>,
    ) {
        let (simd, items) = (self.simd, sought.items.clone());
        let probed = self.with_wanted(probe, sought, |boxes, scratch, wanted| {
            boxes.probe(scratch, simd, probe.codes, wanted, found);
        });
        if probed.is_none() {
            found.extend(items.map(|item| (item, UNKNOWN)));
        }
        if !is_of_lanes(self.threshold.function) {
            found.iter_mut().for_each(|(_, distance)| *distance = UNKNOWN);
        }
    }

    /// Counts what a search meets, and lists the items that boxes leave, or boxes and lanes.
    pub(super) fn sample(
        &mut self,
        probe: ProbeCodes<'_>,
        sought: Sought,
        found: &mut Vec<(ItemId, u32)>,
    ) -> SearchWork {
        let (simd, function, uses_boxes) = (self.simd, self.threshold.function, self.uses_boxes);
        found.clear();
        let met = self.with_wanted(probe, sought, |boxes, scratch, wanted| {
            let survivors = boxes.survivors(scratch, simd, probe.codes, wanted.clone());
            let (is_alike, has_lanes) = (wanted.alike.is_some(), wanted.k.is_some());
            // Without boxes, lanes would compare all, and leave none open.
            if is_jaros(function) || !has_lanes || !is_of_lanes(function) || uses_boxes {
                boxes.probe(scratch, simd, probe.codes, wanted, found);
            }
            let open = match is_of_lanes(function) {
                true => found.iter().filter(|&&(_, distance)| distance == UNKNOWN).count(),
                false => found.len(),
            };
            let Survivors { tested, blocks, groups, alike } = survivors;
            let lanes = match (is_alike, has_lanes) {
                // A column of theirs takes twice as long.
                (true, _) => 2 * alike,
                (false, true) => groups,
                (false, false) => 0,
            };
            SearchWork {
                // Signatures of the groups are tested one by one.
                boxes: tested as f64 / 8.0 + (blocks + if is_alike { groups } else { 0 }) as f64,
                groups: groups as f64,
                open: open as f64,
                lanes: lanes as f64 / 8.0,
            }
        });
        met.unwrap_or_default()
    }
}

/// The work of a search.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SearchWork {
    /// Tests of eight boxes.
    pub boxes: f64,
    /// Groups of eight items that are left, and the items of them that have to be compared one by one.
    pub groups: f64,
    pub open: f64,
    /// Registers of 64 texts that lanes compare.
    pub lanes: f64,
}

/// A bound on the bytes that the boxes and lanes of some items take. `keys` is the number of blocking
/// keys, at least 1. `by_prefix` says whether the boxes know prefixes.
pub(super) fn boxes_bytes(
    rows: usize,
    bytes: usize,
    longest: usize,
    keys: usize,
    by_prefix: bool,
) -> usize {
    // A run is filled up to eight texts.
    let padding = (keys.saturating_mul(longest).saturating_mul(longest + 1) / 2).min(bytes);
    let runs = rows.min(keys.saturating_mul(longest + 1));
    // Signatures, two words a group and a block of each run, and what is known of a run.
    let prefixes = if by_prefix { 8 + 2 } else { 0 };
    let items = rows * (8 + 2 + 1 + prefixes) + runs * 128;
    2 * (items + bytes + 7 * padding) + 4096
}

/// A bound on the bytes of a cursor that follow the longest text and the number of runs: both texts as scalars,
/// the tables of the probe text, the space of the function, and the limits of each run.
pub(super) fn scratch_bytes(threshold: Threshold, longest: usize, runs: usize) -> usize {
    /// Scalars of two texts, and codes of one, whose vector may have doubled.
    const TEXTS: usize = 2 * size_of::<u32>() + 2;
    let has_lanes = match threshold.function.is_distance() {
        true => {
            let most = levenshtein_of(threshold.function, threshold.bound as u32);
            most.is_some_and(|k| k <= MAX_K)
        }
        false => !is_jaros(threshold.function),
    };
    // Two tables of 64 bytes for each scalar and behind the last, in a vector that may have doubled.
    let lanes = if has_lanes { 256 * (longest.min(LANES_LONGEST) + MAX_K as usize + 2) } else { 0 };
    let of_function = match is_jaros(threshold.function) {
        true => SCRATCH_OF_JARO,
        false => SCRATCH_OF_EDITS,
    };
    // A run whose limits are not known yet is `None`.
    let limits = 2 * size_of::<Option<AllowedDifferences>>() * runs.min(longest + 1);
    (TEXTS + of_function) * longest + lanes + limits + (1 << 15)
}
