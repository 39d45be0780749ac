//! The needs of a match by one of Jaro's functions, by the length of the common prefix.

use super::Threshold;
use super::jaro::{PREFIX, boost, value};

/// The symbols of strings whose orders [`Alike`] knows.
pub(crate) const ORDERED: usize = 32;

/// The differences that a match allows to strings whose common prefix has at most so many symbols, where
/// [`PREFIX`] stand for any number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Level {
    pub prefix: u32,
    /// The surplus that a match allows, as [`Threshold::surplus`] gives it.
    pub surplus: [u32; 2],
}

/// The needs of a match of strings of two lengths: of Winkler's function the less, the longer their common
/// prefix is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Alike {
    levels: [Level; PREFIX + 1],
    /// The levels that are in use.
    count: usize,
    /// For each length of the common prefix and each number of common symbols, the places at which
    /// their orders may differ, and one: 0 where no order matches. For strings of up to [`ORDERED`] symbols.
    pub(in crate::string) places: [[u8; 2 * ORDERED]; PREFIX + 1],
}

impl Alike {
    /// The levels, from the shortest prefix on, each of which allows more than the one before.
    pub(crate) fn levels(&self) -> &[Level] {
        &self.levels[..self.count]
    }

    /// The greatest numbers of elements that two strings may lack of each other, whatever their prefix.
    pub(crate) fn surplus(&self) -> [u32; 2] {
        self.levels[self.count - 1].surplus
    }

    /// The same needs, but for what strings may lack of each other: that is `surplus`.
    pub(crate) fn with_surplus(mut self, surplus: [u32; 2]) -> Self {
        self.levels[0] = Level { prefix: 0, surplus };
        self.count = 1;
        self
    }
}

impl Threshold {
    /// The needs of a match of strings of these lengths by one of Jaro's functions; `None` for other
    /// functions, and if no pair of these lengths matches.
    pub(crate) fn alike(&self, a: u32, b: u32) -> Option<Alike> {
        let (bound, is_boosted) = match *self {
            Self::Jaro(bound) => (bound, false),
            Self::JaroWinkler(bound) => (bound, true),
            _ => return None,
        };
        let none = Level { prefix: 0, surplus: [0; 2] };
        let (levels, places) = ([none; PREFIX + 1], [[0; 2 * ORDERED]; PREFIX + 1]);
        let mut alike = Alike { levels, count: 0, places };
        for prefix in 0..=PREFIX {
            let Some(surplus) = self.surplus_after(a, b, prefix as u32) else { continue };
            if alike.count == 0 || alike.surplus() != surplus {
                alike.levels[alike.count] = Level { prefix: prefix as u32, surplus };
                alike.count += 1;
            }
            if a.max(b) as usize > ORDERED {
                continue;
            }
            let matches = |common: usize, transpositions: usize| {
                let jaro = value(a as usize, b as usize, common, transpositions);
                bound <= if is_boosted { boost(jaro, prefix) } else { jaro }
            };
            let least = (a - surplus[0]).max(1) as usize;
            for common in least..=a.min(b) as usize {
                // Two places make one transposition.
                let more = (0..=common / 2).take_while(|&t| matches(common, t)).count();
                alike.places[prefix][common] = (2 * more).min(common + 1) as u8;
            }
        }
        (alike.count > 0).then_some(alike)
    }
}
