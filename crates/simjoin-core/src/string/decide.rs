//! Pairs that a filter leaves, decided on their scalars.

use super::boxes::UNKNOWN;
use super::collection::Strings;
use super::function::StringFunction;
use super::page::Page;
use super::rules::{self, Cancelled, Damerau, Edits, Indel, Levenshtein, Scratch, Symbol};
use super::threshold::{AllowedDifferences, Threshold};
use super::value::{PairWork, Scalars, with_symbols};
use crate::engine::{ItemId, MatchNeed};

/// Decides pairs of one probe item.
pub struct Decider {
    threshold: Threshold,
    /// Whether matches need their distance.
    needs_distance: bool,
    /// The page of the probe text, and the bits of its scalars.
    page: Page,
    scalar_bits: Option<u64>,
    /// The scalars of the probe text and of a build text.
    scalars: [Scalars; 2],
    scratch: Scratch,
    verified: u64,
}

impl Decider {
    /// Steps of deciding pairs that take a millisecond at least.
    pub(super) const SLICE: usize = 1 << 18;

    pub fn new(threshold: Threshold, need: MatchNeed) -> Self {
        let function = threshold.function;
        Self {
            threshold,
            needs_distance: need == MatchNeed::Scores && function.is_distance(),
            page: Page::NONE,
            scalar_bits: None,
            scalars: Default::default(),
            scratch: Scratch::new(),
            verified: 0,
        }
    }

    /// The number of pairs that were compared.
    pub(super) fn verified(&self) -> u64 {
        self.verified
    }

    /// Takes up a probe text.
    pub fn begin(&mut self, probes: &Strings, probe: ItemId) {
        self.page = probes.page(probe);
        self.scalar_bits = probes.scalar_bits(probe);
        self.scalars[0].begin(probes.text(probe));
    }

    /// Decides a pair of the probe text that was taken up and a build item: the detail of the match, or `None`
    /// where the texts do not match. `distance` is that of their codes, or [`UNKNOWN`]. Adds the steps taken to
    /// `work`.
    #[inline]
    pub fn decide(
        &mut self,
        probe: &str,
        build: &Strings,
        (item, distance): (ItemId, u32),
        limits: AllowedDifferences,
        work: &mut usize,
    ) -> Option<u32> {
        *work += 1;
        if limits.is_all && !self.needs_distance {
            return Some(0);
        }
        if distance != UNKNOWN && self.page.tells(build.page(item)) {
            return Some(distance);
        }
        if self.lacks_too_many(build.scalar_bits(item), limits) {
            return None;
        }
        self.verify([probe, build.text(item)], limits, work)
    }

    /// Whether the probe text and a build text lack more scalars of each other than a match allows, by the bits of
    /// their scalars.
    #[inline]
    fn lacks_too_many(&self, build: Option<u64>, limits: AllowedDifferences) -> bool {
        let (Some(probe), Some(build)) = (self.scalar_bits, build) else { return false };
        let [beyond, lacking] = limits.surplus;
        (probe & !build).count_ones() > beyond || (build & !probe).count_ones() > lacking
    }

    fn verify(
        &mut self,
        texts: [&str; 2],
        limits: AllowedDifferences,
        work: &mut usize,
    ) -> Option<u32> {
        let [probe, build] = texts;
        self.verified += 1;
        *work += 16 + probe.len() * build.len().div_ceil(64);
        self.scalars[1].begin(build);
        let decide = Decide { threshold: self.threshold, limits, scratch: &mut self.scratch };
        with_symbols(&mut self.scalars, texts, decide)
    }
}

struct Decide<'a> {
    threshold: Threshold,
    limits: AllowedDifferences,
    scratch: &'a mut Scratch,
}

impl PairWork for Decide<'_> {
    type Output = Option<u32>;

    fn on<T: Symbol>(self, a: &[T], b: &[T]) -> Option<u32> {
        let Self { threshold: Threshold { function, bound }, limits, scratch } = self;
        let never = &mut || false;
        let within = |edits: Result<Option<u32>, Cancelled>| edits.unwrap_or(None);
        let similar = |similarity: f64| (similarity >= bound).then_some(0);
        match function {
            StringFunction::Levenshtein | StringFunction::LevenshteinSimilarity => {
                within(Levenshtein::within(scratch, a, b, limits.most?, never))
            }
            StringFunction::DamerauLevenshtein => {
                within(Damerau::within(scratch, a, b, limits.most?, never))
            }
            StringFunction::IndelSimilarity => {
                within(Indel::within(scratch, a, b, limits.most?, never))
            }
            StringFunction::Hamming => {
                rules::hamming(a, b).filter(|distance| Some(*distance) <= limits.most)
            }
            StringFunction::Jaro => similar(rules::jaro(scratch, a, b)),
            StringFunction::JaroWinkler => similar(rules::jaro_winkler(scratch, a, b)),
        }
    }
}
