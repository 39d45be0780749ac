//! The threshold of a join, and what it allows texts of two lengths.

use std::ops::Range;

use super::deletions::MAX_K;
use super::function::StringFunction;
use super::rules;
use crate::error::Result;
use crate::predicate::Predicate;

/// A function and the bound that a pair has to satisfy.
#[derive(Debug, Clone, Copy)]
pub struct Threshold {
    pub function: StringFunction,
    /// The least similar value that qualifies; NaN when none does.
    pub bound: f64,
}

/// The differences that a match of texts of two lengths allows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AllowedDifferences {
    /// The greatest distance, for a function that counts edits.
    pub most: Option<u32>,
    /// The greatest numbers of characters of the first text that the second lacks, and of the second that
    /// the first lacks, each counted as often as it occurs.
    pub surplus: [u32; 2],
    /// Whether all pairs match.
    pub is_all: bool,
}

impl Threshold {
    /// # Errors
    ///
    /// An internal error when another family has the function.
    pub(super) fn of(predicate: &Predicate) -> Result<Self> {
        Ok(Self { function: StringFunction::of(predicate.call.function)?, bound: predicate.bound })
    }

    /// Whether nothing matches.
    pub(super) fn is_void(self) -> bool {
        self.bound.is_nan() || (self.function.is_distance() && self.bound < 0.0)
    }

    /// Whether texts of all lengths meet, for the function is an error for some.
    pub(super) fn meets_every_length(self) -> bool {
        self.function == StringFunction::Hamming
    }

    /// Whether texts are the more alike, the longer their common prefix is.
    pub(super) fn by_prefix(self) -> bool {
        self.function == StringFunction::JaroWinkler
    }

    /// Whether only equal texts match.
    fn is_equality(self) -> bool {
        match self.function {
            StringFunction::Levenshtein | StringFunction::DamerauLevenshtein => {
                (0.0..1.0).contains(&self.bound)
            }
            // An error for texts of two lengths.
            StringFunction::Hamming => false,
            StringFunction::LevenshteinSimilarity
            | StringFunction::IndelSimilarity
            | StringFunction::Jaro
            | StringFunction::JaroWinkler => self.bound == 1.0,
        }
    }

    /// The greatest number of edits of a join that an index of deletions serves; `None` where it serves
    /// none of them.
    pub(super) fn deletions(self) -> Option<u32> {
        if self.is_equality() {
            return Some(0);
        }
        let is_near = self.function == StringFunction::Levenshtein
            && (0.0..=f64::from(MAX_K)).contains(&self.bound);
        is_near.then_some(self.bound as u32)
    }

    /// The threshold as the functions know it.
    pub(super) fn rule(self) -> rules::Threshold {
        // Saturates.
        let edits = self.bound as u32;
        match self.function {
            StringFunction::Levenshtein => rules::Threshold::Levenshtein(edits),
            StringFunction::DamerauLevenshtein => rules::Threshold::Damerau(edits),
            StringFunction::Hamming => rules::Threshold::Hamming(edits),
            StringFunction::LevenshteinSimilarity => {
                rules::Threshold::LevenshteinSimilarity(self.bound)
            }
            StringFunction::IndelSimilarity => rules::Threshold::IndelSimilarity(self.bound),
            StringFunction::Jaro => rules::Threshold::Jaro(self.bound),
            StringFunction::JaroWinkler => rules::Threshold::JaroWinkler(self.bound),
        }
    }

    /// The limits of a match of these lengths; `None` where there is none.
    pub fn limits(self, [a, b]: [u32; 2]) -> Option<AllowedDifferences> {
        if self.is_void() {
            return None;
        }
        let rule = self.rule();
        let surplus = rule.surplus(a, b)?;
        let most = rule.distance(a, b);
        Some(AllowedDifferences { most, surplus, is_all: rule.always(a, b) })
    }

    /// The lengths that partners of a text may have: not less for longer texts.
    pub(super) fn partner_lens(self, len: u32) -> Range<u64> {
        if self.is_void() {
            return 0..0;
        }
        if self.meets_every_length() {
            return 0..1 << 32;
        }
        let lens = self.rule().partner_lens(len);
        match lens.is_empty() {
            true => 0..0,
            false => u64::from(*lens.start())..u64::from(*lens.end()) + 1,
        }
    }
}
