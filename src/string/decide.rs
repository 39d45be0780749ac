//! Pairs that a filter leaves, decided on their scalars.

use super::boxes::UNKNOWN;
use super::collection::Strings;
use super::function::StringFunction;
use super::rules::{self, Cancelled, Scratch, Symbol};
use super::threshold::{Limits, Threshold};
use super::value::{PairWork, Scalars, with_symbols};
use crate::engine::{ItemId, MatchNeed};

/// Decides pairs of one probe item.
pub(super) struct Decider {
    threshold: Threshold,
    /// Whether matches need their distance.
    needs_distance: bool,
    /// The probe text, and whether codes tell its scalars.
    probe: String,
    is_exact: bool,
    /// The scalars of the probe text and of a build text.
    scalars: [Scalars; 2],
    scratch: Scratch,
    verified: u64,
}

impl Decider {
    /// Steps of deciding pairs that take a millisecond at least.
    pub(super) const SLICE: usize = 1 << 18;

    pub(super) fn new(threshold: Threshold, need: MatchNeed) -> Self {
        let function = threshold.function;
        Self {
            threshold,
            needs_distance: need == MatchNeed::Scores && function.is_distance(),
            probe: String::new(),
            is_exact: false,
            scalars: Default::default(),
            scratch: Scratch::new(),
            verified: 0,
        }
    }

    /// The number of pairs that were compared.
    pub(super) fn verified(&self) -> u64 {
        self.verified
    }

    /// Takes up a probe item.
    pub(super) fn begin(&mut self, items: &Strings, item: ItemId) {
        self.probe.clear();
        self.probe.push_str(items.text(item));
        self.is_exact = items.is_exact(item);
        self.scalars[0].begin(&self.probe);
    }

    /// The detail of a match with a build item of which the filter knows the distance of codes, or nothing;
    /// `None` where it is no match. Adds the steps taken to `work`.
    #[inline]
    pub(super) fn decide(
        &mut self,
        build: &Strings,
        (item, distance): (ItemId, u32),
        limits: Limits,
        work: &mut usize,
    ) -> Option<u32> {
        *work += 1;
        if limits.is_all && !self.needs_distance {
            return Some(0);
        }
        if distance != UNKNOWN && self.is_exact && build.is_exact(item) {
            return Some(distance);
        }
        self.verify(build.text(item), limits, work)
    }

    fn verify(&mut self, text: &str, limits: Limits, work: &mut usize) -> Option<u32> {
        self.verified += 1;
        *work += 16 + self.probe.len() * text.len().div_ceil(64);
        self.scalars[1].begin(text);
        let decide = Decide { threshold: self.threshold, limits, scratch: &mut self.scratch };
        with_symbols(&mut self.scalars, [&self.probe, text], decide)
    }
}

struct Decide<'a> {
    threshold: Threshold,
    limits: Limits,
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
                within(rules::levenshtein_within(scratch, a, b, limits.most?, never))
            }
            StringFunction::DamerauLevenshtein => {
                within(rules::damerau_within(scratch, a, b, limits.most?, never))
            }
            StringFunction::IndelSimilarity => {
                within(rules::indel_within(scratch, a, b, limits.most?, never))
            }
            StringFunction::Hamming => {
                rules::hamming(a, b).filter(|distance| Some(*distance) <= limits.most)
            }
            StringFunction::Jaro => similar(rules::jaro(scratch, a, b)),
            StringFunction::JaroWinkler => similar(rules::jaro_winkler(scratch, a, b)),
        }
    }
}
