//! A function with its bound: which lengths can match, and what strings of two lengths may differ in.

use std::ops::RangeInclusive;

use super::jaro::{PREFIX, boost, value};

/// The slack that bounds on common symbols leave to rounding.
const SLACK: f64 = 1e-9;

/// A condition on two strings. Similarities match from their bound on, distances up to it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Threshold {
    Levenshtein(u32),
    Damerau(u32),
    Hamming(u32),
    LevenshteinSimilarity(f64),
    IndelSimilarity(f64),
    Jaro(f64),
    JaroWinkler(f64),
}

/// The similarity `1 - distance / most` in `f64`, where `most` is the greatest distance that strings
/// of such lengths can have; 1 for two empty strings.
#[inline]
pub(crate) fn similarity(distance: u32, most: u64) -> f64 {
    if most == 0 { 1.0 } else { 1.0 - f64::from(distance) / most as f64 }
}

impl Threshold {
    /// The greatest distance with which strings of these lengths match: at most the greatest that
    /// such strings have, and at least the least. `None` if no pair of these lengths matches, and for
    /// Jaro's functions, which have no distance: ask [`Self::surplus`] there.
    pub(crate) fn distance(&self, a: u32, b: u32) -> Option<u32> {
        let most = self.greatest(a, b)?;
        let distance = match *self {
            Self::Levenshtein(k) | Self::Damerau(k) | Self::Hamming(k) => u64::from(k).min(most),
            Self::LevenshteinSimilarity(t) | Self::IndelSimilarity(t) => bound(t, most)?,
            Self::Jaro(_) | Self::JaroWinkler(_) => return None,
        };
        let distance = u32::try_from(distance).unwrap_or(u32::MAX);
        let least =
            if matches!(self, Self::Hamming(_)) && a != b { u32::MAX } else { a.abs_diff(b) };
        (distance >= least).then_some(distance)
    }

    /// The greatest distance of strings of these lengths, `None` for Jaro's functions.
    pub(crate) fn greatest(&self, a: u32, b: u32) -> Option<u64> {
        match self {
            Self::IndelSimilarity(_) => Some(u64::from(a) + u64::from(b)),
            Self::Jaro(_) | Self::JaroWinkler(_) => None,
            _ => Some(u64::from(a.max(b))),
        }
    }

    /// Whether every pair of strings of these lengths matches, so that none need be compared.
    pub(crate) fn always(&self, a: u32, b: u32) -> bool {
        match *self {
            Self::Jaro(t) | Self::JaroWinkler(t) => t <= 0.0 || (a == 0 && b == 0 && t <= 1.0),
            Self::Hamming(_) if a != b => false,
            _ => self.distance(a, b).map(u64::from) == self.greatest(a, b),
        }
    }

    /// Whether a pair of strings of these lengths can match.
    pub(crate) fn possible(&self, a: u32, b: u32) -> bool {
        match self {
            Self::Jaro(_) | Self::JaroWinkler(_) => self.common(a, b, PREFIX as u32).is_some(),
            _ => self.distance(a, b).is_some(),
        }
    }

    /// The lengths of the strings that can match one of length `len`; empty if there is none.
    pub(crate) fn partner_lens(&self, len: u32) -> RangeInclusive<u32> {
        // Lengths are the less possible the farther they are away.
        if !self.possible(len, len) {
            return RangeInclusive::new(1, 0);
        }
        let (mut least, mut below) = (len, None);
        while least > below.map_or(0, |below: u32| below + 1) {
            let middle = below.map_or(0, |below: u32| below + 1);
            let middle = middle + (least - middle) / 2;
            if self.possible(len, middle) {
                least = middle;
            } else {
                below = Some(middle);
            }
        }
        let (mut greatest, mut end) = (len, u32::MAX);
        while greatest < end {
            let middle = end - (end - greatest) / 2;
            if self.possible(len, middle) {
                greatest = middle;
            } else {
                end = middle - 1;
            }
        }
        least..=greatest
    }

    /// The numbers of elements of a string of length `a`, and of one of length `b`, that can be missing
    /// in the other if the two match, where the n-th occurrence of a symbol is an element. `None` if no pair
    /// of these lengths matches.
    pub(crate) fn surplus(&self, a: u32, b: u32) -> Option<[u32; 2]> {
        self.surplus_after(a, b, PREFIX as u32)
    }

    /// The bounds of [`Self::surplus`] for strings whose common prefix has at most `prefix` symbols.
    pub(crate) fn surplus_after(&self, a: u32, b: u32, prefix: u32) -> Option<[u32; 2]> {
        let most = a.max(b);
        match self {
            Self::Jaro(_) | Self::JaroWinkler(_) => {
                let common = self.common(a, b, prefix)?;
                Some([a - common, b - common])
            }
            Self::IndelSimilarity(_) => {
                // Each edit removes one element of a or adds one of b.
                let d = self.distance(a, b)?;
                let difference = a.abs_diff(b);
                let both = (d - difference) / 2;
                Some([both + a.saturating_sub(b), both + b.saturating_sub(a)])
            }
            _ => {
                // A substitution takes an element from each side, and the shorter side loses less by
                // the insertions that make up for its length.
                let d = self.distance(a, b)?;
                Some([d - (most - a), d - (most - b)])
            }
        }
    }

    /// The number of common symbols that a match by one of Jaro's functions needs at least.
    fn common(&self, a: u32, b: u32, prefix: u32) -> Option<u32> {
        let (Self::Jaro(t) | Self::JaroWinkler(t)) = *self else { return None };
        let shorter = a.min(b);
        let enough = |common: u32| {
            let jaro = match (a, b) {
                (0, 0) => 1.0,
                _ => value(a as usize, b as usize, common as usize, 0),
            };
            let best = match self {
                Self::Jaro(_) => jaro,
                _ => boost(jaro, prefix.min(common).min(PREFIX as u32) as usize),
            };
            best >= t - SLACK
        };
        if !enough(shorter) {
            return None;
        }
        let (mut least, mut most) = (0, shorter);
        while least < most {
            let middle = least + (most - least) / 2;
            if enough(middle) {
                most = middle;
            } else {
                least = middle + 1;
            }
        }
        Some(most)
    }
}

/// The greatest distance, at most `most`, whose similarity is at least `t`.
fn bound(t: f64, most: u64) -> Option<u64> {
    let matches = |distance: u64| match most {
        0 => 1.0 >= t,
        _ => 1.0 - distance as f64 / most as f64 >= t,
    };
    if !matches(0) {
        return None;
    }
    // A guess that rounding may have moved by one or two; similarities descend with the distance.
    let guess = ((1.0 - t) * most as f64).clamp(0.0, most as f64) as u64;
    let mut distance = guess.min(most);
    while !matches(distance) {
        distance -= 1;
    }
    while distance < most && matches(distance + 1) {
        distance += 1;
    }
    Some(distance)
}
